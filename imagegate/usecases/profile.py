"""``imagegate profile``: what is published, whether it still holds, and whether a node has it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from imagegate.errors import AttestationError, LockError, ProfileError, UsageError
from imagegate.localfiles import read_regular
from imagegate.oci.digest import Digest
from imagegate.oci.documents import OWN_LIMIT
from imagegate.oci.platform import Platform
from imagegate.profile import ProfileStore, PublishedState
from imagegate.recipe.variables import SECRETS, Measured, refusal
from imagegate.report.document import parse_json_report
from imagegate.usecases.attest import timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from imagegate.verdict import ImageVerdict
    from imagegate.workspace import Workspace

Engine = Literal["docker", "podman"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFinding:
    """One question about a profile and its answer.

    Attributes:
        holds: whether the answer is the right one.
        what: what was compared.
        expected: what the profile says.
        found: what is there.
        hint: what a person can do.
        noted: it does not hold and does not have to.
    """

    holds: bool
    what: str
    expected: str
    found: str
    hint: str = ""
    noted: bool = False


def show_profile(workspace: Workspace, name: str) -> PublishedState:
    """Return the published state.

    Raises:
        ProfileError: there is no such profile, or it was not written by a promotion.
    """
    return ProfileStore(workspace.profiles()).current(name)


def profile_history(workspace: Workspace, name: str) -> tuple[PublishedState, ...]:
    """Return what was published under a name, newest first; the first is the current state.

    Raises:
        ProfileError: there is no such profile, or it was not written by a promotion.
    """
    return ProfileStore(workspace.profiles()).history(name)


def published_names(workspace: Workspace) -> tuple[str, ...]:
    """Name every published profile.

    Raises:
        ProfileError: there is none: a check of nothing says nothing.
    """
    names = ProfileStore(workspace.profiles()).names()
    if not names:
        raise ProfileError(
            f"`{workspace.relative(workspace.profiles())}` holds no profile",
            hint="run `imagegate promote`",
        )
    return names


def retire_profile(workspace: Workspace, name: str, *, at: datetime, by: str, why: str = "") -> str:
    """End a profile; its history stays.

    Raises:
        ProfileError: there is no such profile, or it cannot be written.
    """
    store = ProfileStore(workspace.profiles())
    return workspace.relative(store.retire(name, at=timestamp(at), by=by, why=why))


def foreign_variables(workspace: Workspace, name: str) -> dict[str, str]:
    """Name the variables of the workspace's other profiles, each empty.

    So that nothing of one profile is left where another is read after it in the same shell. Names
    that the launcher sets itself (`[profile] secrets`) are not emptied.

    Args:
        workspace: where the profiles and recipes are.
        name: the profile that they are for.
    """
    found: set[str] = set()
    store = ProfileStore(workspace.profiles())
    for other in store.names():
        if other != name:
            # a profile that was edited by hand is told by `profile check`
            with suppress(ProfileError):
                found |= {key for key, value in store.current(other).env.items() if value}
    for other in workspace.recipe_names():
        if other != name:
            with suppress(UsageError):
                found |= workspace.recipe(other).document.profile.env.keys()
    return dict.fromkeys(sorted(found), "")


def check_profile(
    workspace: Workspace, name: str, *, engine: Engine | None
) -> tuple[ProfileFinding, ...]:
    """Compare a profile with its verdict, with the lock, and with what this machine would start.

    Args:
        workspace: where the profile is.
        name: the profile.
        engine: whose image is compared; ``None`` leaves the machine out.

    Raises:
        ProfileError: there is no such profile, it was edited, or its verdict cannot be read.
        EngineError: the engine is absent or fails.
    """
    state = show_profile(workspace, name)
    findings = [*_verdict(workspace, name, state), *_lock(workspace, name, state)]
    findings += _others(workspace, name, state)
    if engine is not None:
        findings += _node(state, engine)
    return tuple(findings)


def measured_by(verdict: ImageVerdict, *, profile: str, repository: str, report: str) -> Measured:
    """Say what a verdict measured, as a profile states it.

    Args:
        verdict: the verdict.
        profile: the profile's name.
        repository: where the image is.
        report: digest of the verdict's JSON.

    Raises:
        ProfileError: the verdict is on an image that has no digest.
    """
    if verdict.image is None or verdict.image_id is None:
        raise ProfileError("the verdict names no image by digest", hint="promote again")
    return Measured(
        profile=profile,
        repository=repository,
        image=verdict.image,
        image_id=verdict.image_id,
        platform=verdict.platform,
        base=str(verdict.base or "scratch"),
        lock=verdict.lock,
        verdict=Digest.parse(report),
        pins=verdict.pins,
    )


def _verdict(workspace: Workspace, name: str, state: PublishedState) -> Iterator[ProfileFinding]:
    """Derive every measured line again from the verdict that the profile names."""
    path = workspace.profiles() / "verdicts" / f"{state.verdict.replace(':', '-')}.json"
    try:
        content = read_regular(path, limit=OWN_LIMIT)
    except OSError as error:
        raise ProfileError(
            f"the verdict `{workspace.relative(path)}` cannot be read: {error.strerror}",
            hint="restore it from version control, or promote again",
        ) from error
    digest = str(Digest.of(content))
    yield ProfileFinding(
        holds=digest == state.env.get("VERDICT"),
        what="verdict file",
        expected=state.env.get("VERDICT", "nothing"),
        found=digest,
        hint="restore the file from version control, or promote again",
    )
    try:
        verdict = parse_json_report(content)
        # a state of an older imagegate does not say the repository: then only the digest is held
        repository = state.repository or state.env.get("IMAGE", "").partition("@")[0]
        measured = measured_by(verdict, profile=name, repository=repository, report=digest)
    except AttestationError as error:
        raise ProfileError(
            f"`{workspace.relative(path)}` is not a verdict: {error.message}", hint="promote again"
        ) from error
    yield ProfileFinding(
        holds=verdict.passed, what="verdict", expected="PASSED", found=verdict.word
    )
    yield from _measured(measured, state)


def _measured(measured: Measured, state: PublishedState) -> Iterator[ProfileFinding]:
    """Compare each measured line, and look for lines that claim to be measured."""
    lines = measured.variables()
    again = "promote again: what is measured is written by nobody else"
    for variable, value in sorted(lines.items()):
        if variable == "VERDICT":
            continue
        found = state.env.get(variable, "nothing")
        yield ProfileFinding(
            holds=found == value, what=variable, expected=value, found=found, hint=again
        )
    for variable in sorted(state.env.keys() - lines.keys()):
        reason = refusal(variable)
        # an empty line takes away what another profile set
        if reason is not None and variable != SECRETS and state.env[variable]:
            yield ProfileFinding(
                holds=False,
                what=variable,
                expected="not in the profile",
                found=reason,
                hint=again,
            )


def _others(workspace: Workspace, name: str, state: PublishedState) -> Iterator[ProfileFinding]:
    """Say which variables of other profiles this one would leave as they are."""
    left = sorted(foreign_variables(workspace, name).keys() - state.env.keys())
    if left:
        yield ProfileFinding(
            holds=False,
            noted=True,
            what="variables of other profiles",
            expected="each named here, empty",
            found=f"not named: {', '.join(left)}",
            hint=f"read in one shell after another profile, these stay; `imagegate promote {name}` "
            "names them",
        )


def _lock(workspace: Workspace, name: str, state: PublishedState) -> Iterator[ProfileFinding]:
    """Say it where the workspace has gone on: what runs is what was published."""
    expected = state.env.get("LOCK_DIGEST", "nothing")
    if name not in workspace.recipe_names():
        return
    try:
        found = str(workspace.lock(name).digest)
    except LockError as error:
        found = error.message
    if found != expected:
        yield ProfileFinding(
            holds=False,
            noted=True,
            what="lock of the workspace",
            expected=expected,
            found=found,
            hint="the profile stands for what was published; to publish the newer state, run "
            f"`imagegate build {name}` and `imagegate promote {name}`",
        )


def _node(state: PublishedState, engine: Engine) -> Iterator[ProfileFinding]:
    """Ask the engine for exactly what launchers name: repository and digest."""
    from imagegate.sources.daemon import describe_docker_image, describe_podman_image

    name, digest = state.env["IMAGE"], Digest.parse(state.env["IMAGE_DIGEST"])
    describe = describe_docker_image if engine == "docker" else describe_podman_image
    # an image that came without a registry has its id and no name
    image = describe(name) or (describe(state.env["IMAGE_ID"]) if "IMAGE_ID" in state.env else None)
    known = {digest, *(Digest.parse(i) for i in [state.env.get("IMAGE_ID", "")] if i)}
    pull = f"run `{engine} pull {name}`"
    if image is None:
        yield ProfileFinding(
            holds=False,
            what=f"image in {engine}",
            expected=name,
            found="no such image",
            hint=pull,
        )
        return
    yield ProfileFinding(
        holds=bool(known & image.digests),
        what=f"image in {engine}",
        expected=str(digest),
        found=", ".join(map(str, sorted(image.digests))) or "no digest",
        hint=pull,
    )
    expected = Platform.parse(state.env["IMAGE_PLATFORM"])
    yield ProfileFinding(
        holds=image.platform == expected,
        what=f"platform in {engine}",
        expected=str(expected),
        found=str(image.platform),
        hint=f"{pull} with `--platform {expected}`",
    )
