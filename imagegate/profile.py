"""Published profiles: the file that launchers read, and its history.

``<name>.env`` is what counts; it is replaced in one step. ``<name>.json`` beside it holds every
published state, newest first; the state whose text is the ``.env``'s is the current one. A state
that was written to the ``.json`` and never reached the ``.env`` is no published state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imagegate.errors import ProfileError
from imagegate.oci.documents import canonical_json
from imagegate.recipe import ENV_NAME, PLAIN_VALUE
from imagegate.workspace.atomic import write_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# how many states the history keeps
_HISTORY = 50


class PublishedState(BaseModel):
    """One promotion.

    Attributes:
        env: the variables of the ``.env`` file.
        settings: what cannot be written there.
        verdict: digest of the verdict's JSON, which lies under ``verdicts/``.
        promoted_at: when, ISO 8601 in UTC.
        promoted_by: who.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    env: dict[str, str]
    settings: dict[str, str | int | float | bool | list[str]]
    verdict: str
    promoted_at: str
    promoted_by: str


class _History(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_name: str = Field(default="imagegate-profile-1", alias="schema")
    profile: str
    states: tuple[PublishedState, ...] = ()


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

    def publish(self, name: str, state: PublishedState, verdict: bytes) -> Path:
        """Publish a state; a crash at any moment leaves the old or the new one.

        Returns:
            The ``.env`` file.

        Raises:
            ProfileError: a value cannot be written, or the folder cannot be written to.
        """
        text = encode_env(state.env)
        history = self._history(name)
        states = (state, *history.states)[:_HISTORY]
        env = self._env(name)
        try:
            verdicts = self._folder / "verdicts"
            verdicts.mkdir(parents=True, exist_ok=True)
            write_file(verdicts / f"{state.verdict.replace(':', '-')}.json", verdict)
            self._write_history(name, history.model_copy(update={"states": states}))
            write_file(env, text)
        except OSError as error:
            raise ProfileError(f"cannot publish `{env}`: {error.strerror}") from error
        return env

    def rollback(self, name: str) -> PublishedState:
        """Publish the state before the current one again.

        Raises:
            ProfileError: there is no such profile, or no state before.
        """
        older = self._published(name)[1:]
        if not older:
            raise ProfileError(f"the profile `{name}` has no earlier state to go back to")
        try:
            write_file(self._env(name), encode_env(older[0].env))
        except OSError as error:
            raise ProfileError(f"cannot publish `{self._env(name)}`: {error.strerror}") from error
        return older[0]

    def _published(self, name: str) -> tuple[PublishedState, ...]:
        """Return the current state and those before it."""
        env = self._env(name)
        try:
            text = env.read_bytes()
        except FileNotFoundError as error:
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
            f"`{env}` is no state that a promotion published",
            hint="it was edited by hand; promote again, or restore it from version control",
        )

    def _history(self, name: str) -> _History:
        path = self._folder / f"{name}.json"
        try:
            return _History.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return _History.model_validate({"schema": "imagegate-profile-1", "profile": name})
        except (OSError, ValidationError) as error:
            raise ProfileError(
                f"`{path}` cannot be read: {error}", hint="restore it from version control"
            ) from error

    def _write_history(self, name: str, history: _History) -> None:
        content = canonical_json(history.model_dump(mode="json", by_alias=True))
        write_file(self._folder / f"{name}.json", content)

    def _env(self, name: str) -> Path:
        return self._folder / f"{name}.env"


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
