"""Published profiles: the file that launchers read, and its history.

``<name>.env`` is what counts; it is replaced in one step. ``<name>.json`` beside it holds every
published state, newest first, with who, when and why; the state whose text is the ``.env``'s is
the current one. A state that was written to the ``.json`` and never reached the ``.env`` is no
published state: it is passed over, and the next publication removes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imagegate.errors import ProfileError
from imagegate.localfiles import read_regular
from imagegate.oci.documents import canonical_json
from imagegate.recipe import ENV_NAME, PLAIN_VALUE
from imagegate.recipe.serve import ServeSection
from imagegate.workspace.atomic import write_file
from imagegate.workspace.exclusive import exclusive

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

# how many states the history keeps
_HISTORY = 50
# seconds to wait for others who publish; each takes a few milliseconds
_PATIENCE = 60.0


class PublishedState(BaseModel):
    """What one promotion or one rollback published.

    Attributes:
        env: the variables of the ``.env`` file.
        settings: what cannot be written there.
        repository: the registry and repository that the image was published in.
        serve: what is started and with what, where the recipe says so.
        verdict: digest of the verdict's JSON, which lies under ``verdicts/``.
        promoted_at: when it was published, RFC 3339 in UTC.
        promoted_by: who published it.
        why: their reason in one line, ``""`` where none was given.
        rollback: whether an earlier state was published again.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    env: dict[str, str]
    settings: dict[str, str | int | float | bool | list[str]]
    repository: str = ""
    serve: ServeSection | None = None
    verdict: str
    promoted_at: str
    promoted_by: str
    why: str = ""
    rollback: bool = False


class Retirement(BaseModel):
    """When a profile ended, by whom and why."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    retired_at: str
    retired_by: str
    why: str = ""


_SERVE_HEAD = "# read by `vllm serve --config FILE`; `--config=FILE` is silently ignored\n"


class _History(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_name: str = Field(default="imagegate-profile-1", alias="schema")
    profile: str
    states: tuple[PublishedState, ...] = ()
    retired: Retirement | None = None


def encode_serve(section: ServeSection) -> bytes:
    """Write the arguments of a section as YAML; the separate form ``--config FILE`` reads it."""
    import yaml

    text = yaml.safe_dump(section.document(), sort_keys=False, default_style=None, width=1 << 20)
    return (_SERVE_HEAD + text).encode()


class ProfileStore:
    """The profiles of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def current(self, name: str) -> PublishedState:
        """Return the published state.

        Raises:
            ProfileError: there is no such profile, or it was not written by a promotion.
        """
        return self._published(name)[0]

    def history(self, name: str) -> tuple[PublishedState, ...]:
        """Return the published state and what was published before it, newest first.

        Raises:
            ProfileError: there is no such profile, or it was not written by a promotion.
        """
        return self._published(name)

    def publish(self, name: str, state: PublishedState, verdict: bytes) -> Path:
        """Publish a state; a crash at any moment leaves the old or the new one.

        Returns:
            The ``.env`` file.

        Raises:
            ProfileError: a value cannot be written, or the folder cannot be written to.
        """
        env = self._env(name)
        _require_writable(state)
        try:
            verdicts = self._folder / "verdicts"
            verdicts.mkdir(parents=True, exist_ok=True)
            with self._alone():
                write_file(verdicts / f"{state.verdict.replace(':', '-')}.json", verdict)
                self._replace(name, state)
        except OSError as error:
            raise ProfileError(f"cannot publish `{env}`: {error.strerror}") from error
        return env

    def rollback(self, name: str, *, at: str, by: str, why: str = "") -> PublishedState:
        """Publish the state before the current one again; once more goes one further back.

        Args:
            name: the profile.
            at: when, RFC 3339 in UTC.
            by: who.
            why: their reason in one line.

        Returns:
            The state as it was published before.

        Raises:
            ProfileError: there is no such profile, no state before, or it cannot be written.
        """
        self._published(name)
        with self._alone():
            before = _before(self._published(name))
            if before is None:
                raise ProfileError(f"the profile `{name}` has no earlier state to go back to")
            again = {"promoted_at": at, "promoted_by": by, "why": why, "rollback": True}
            self._replace(name, before.model_copy(update=again))
        return before

    def _alone(self) -> AbstractContextManager[None]:
        """Hold the folder: history and file are read, and written after what was read."""
        return exclusive(self._folder, "a profile of this folder", patience=_PATIENCE)

    def retire(self, name: str, *, at: str, by: str, why: str = "") -> Path:
        """End a profile: its ``.env`` is taken away, its history stays.

        Args:
            name: the profile.
            at: when, RFC 3339 in UTC.
            by: who.
            why: their reason in one line.

        Returns:
            The file that is gone.

        Raises:
            ProfileError: there is no such profile, or it cannot be written.
        """
        self._published(name)
        _require_one_line(why, by)
        self._require_own_serve(name)
        env = self._env(name)
        retired = Retirement(retired_at=at, retired_by=by, why=why)
        try:
            with self._alone():
                changes = {"states": self._published(name), "retired": retired}
                # the history first: a crash in between leaves a profile that still holds
                self._write_history(name, self._history(name).model_copy(update=changes))
                self._write_serve(name, None)
                env.unlink()
        except OSError as error:
            raise ProfileError(f"cannot retire `{env}`: {error.strerror}") from error
        return env

    def names(self) -> tuple[str, ...]:
        """Name every published profile, in order."""
        return tuple(sorted(path.stem for path in self._folder.glob("*.env")))

    def _replace(self, name: str, state: PublishedState) -> None:
        """Write the history, then the file that counts."""
        _require_writable(state)
        env = self._env(name)
        history = self._history(name)
        self._require_own(name, history)
        before = history.states if history.retired else self._reached(name, history.states)
        states = (state, *before)[:_HISTORY]
        try:
            changes = {"states": states, "retired": None}
            self._write_history(name, history.model_copy(update=changes))
            self._write_serve(name, state.serve)
            write_file(env, encode_env(state.env))
        except OSError as error:
            raise ProfileError(f"cannot publish `{env}`: {error.strerror}") from error

    def _require_own(self, name: str, history: _History) -> None:
        """Require that nothing of what is replaced is somebody's own work.

        A file without a history beside it was not published by a promotion.
        """
        env = self._env(name)
        if not history.states and env.exists() and read_regular(env).strip():
            raise ProfileError(
                f"`{env}` is not replaced: imagegate did not write it",
                hint="move it away, then promote again",
            )
        self._require_own_serve(name)

    def _require_own_serve(self, name: str) -> None:
        path = self._folder / f"{name}.serve.yaml"
        if path.exists() and not read_regular(path).startswith(_SERVE_HEAD.encode()[:24]):
            raise ProfileError(
                f"`{path}` is not replaced: imagegate did not write it",
                hint="move it away, then run the command again",
            )

    def _write_serve(self, name: str, section: ServeSection | None) -> None:
        """Write what ``vllm serve --config FILE`` reads, or take it away."""
        path = self._folder / f"{name}.serve.yaml"
        if section is None:
            path.unlink(missing_ok=True)
        else:
            write_file(path, encode_serve(section))

    def _reached(self, name: str, states: tuple[PublishedState, ...]) -> tuple[PublishedState, ...]:
        """Leave out the newest states if they never reached the file: nobody has seen them."""
        try:
            text = read_regular(self._env(name))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ProfileError(f"cannot read `{self._env(name)}`: {error.strerror}") from error
        for position, state in enumerate(states):
            if encode_env(state.env) == text:
                return states[position:]
        # edited by hand: what was published before the edit is still what was published
        return states

    def _published(self, name: str) -> tuple[PublishedState, ...]:
        """Return the current state and those before it."""
        env = self._env(name)
        try:
            text = read_regular(env)
        except FileNotFoundError as error:
            retired = self._history(name).retired
            if retired is not None:
                raise ProfileError(
                    f"the profile `{name}` was retired at {retired.retired_at} by "
                    f"{retired.retired_by}: {retired.why or 'no reason given'}",
                    hint=f"to publish it again, run `imagegate promote {name}`",
                ) from error
            raise ProfileError(
                f"there is no profile `{name}`: `{env}` does not exist",
                hint=f"run `imagegate promote {name}`",
            ) from error
        except OSError as error:
            raise ProfileError(f"cannot read `{env}`: {error.strerror}") from error
        states = self._history(name).states
        for position, state in enumerate(states):
            if encode_env(state.env) == text:
                return states[position:]
        raise ProfileError(
            f"`{env}` is not a state that a promotion published",
            hint="it was edited by hand; promote again, or restore it from version control",
        )

    def _history(self, name: str) -> _History:
        path = self._folder / f"{name}.json"
        try:
            return _History.model_validate_json(read_regular(path))
        except FileNotFoundError:
            return _History.model_validate({"schema": "imagegate-profile-1", "profile": name})
        except (OSError, ValidationError) as error:
            raise ProfileError(
                f"`{path}` cannot be read: {error}", hint="restore it from version control"
            ) from error

    def _write_history(self, name: str, history: _History) -> None:
        content = canonical_json(history.model_dump(mode="json", by_alias=True, exclude_none=True))
        write_file(self._folder / f"{name}.json", content)

    def _env(self, name: str) -> Path:
        return self._folder / f"{name}.env"


def _before(states: tuple[PublishedState, ...]) -> PublishedState | None:
    """Return what was published before the current state, ``None`` for nothing.

    A rollback stands for the promotion whose variables it published, so that a second rollback
    goes one further back and not forward again.
    """
    current = states[0]
    older = states[1:]
    if current.rollback:
        own = [
            number
            for number, state in enumerate(older)
            if not state.rollback and state.env == current.env
        ]
        older = older[own[0] + 1 :] if own else ()
    return next((state for state in older if state.env != current.env), None)


def _require_writable(state: PublishedState) -> None:
    """Refuse what launchers would read otherwise, or what would not stay in its printed line.

    Raises:
        ProfileError: a value, the person or the reason is such.
    """
    encode_env(state.env)
    _require_one_line(state.why, state.promoted_by)


def _require_one_line(why: str, by: str) -> None:
    for what, text in (("reason", why), ("person", by)):
        if not text.isprintable():
            raise ProfileError(
                f"the {what} {text!r} is not one printable line", hint="write one line of text"
            )


def encode_env(values: Mapping[str, str]) -> bytes:
    """Write variables so that make, docker compose, systemd and sh read the same.

    Raises:
        ProfileError: a name or a value is not read alike by all of them.
    """
    for name, value in values.items():
        if not ENV_NAME.fullmatch(name) or not PLAIN_VALUE.fullmatch(value):
            raise ProfileError(
                f"`{name}={value}` is not read alike by make, compose, systemd and sh",
                hint="put it under `[profile] settings`",
            )
    return "".join(f"{name}={values[name]}\n" for name in sorted(values)).encode()
