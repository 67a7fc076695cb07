"""``imagegate profile``: what is published, whether it still holds, and whether a node has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from imagegate.errors import AttestationError, LockError, ProfileError
from imagegate.localfiles import read_regular
from imagegate.oci.digest import Digest
from imagegate.oci.documents import OWN_LIMIT
from imagegate.oci.platform import Platform
from imagegate.profile import ProfileStore, PublishedState
from imagegate.report.document import parse_json_report

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """

    holds: bool
    what: str
    expected: str
    found: str
    hint: str = ""


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
    findings = [*_verdict(workspace, state), _lock(workspace, name, state)]
    if engine is not None:
        findings += _node(state, engine)
    return tuple(findings)


def _verdict(workspace: Workspace, state: PublishedState) -> Iterator[ProfileFinding]:
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
    )
    try:
        verdict = parse_json_report(content)
    except AttestationError as error:
        raise ProfileError(
            f"`{workspace.relative(path)}` is no verdict: {error.message}", hint="promote again"
        ) from error
    yield ProfileFinding(
        holds=verdict.passed,
        what="verdict",
        expected="PASSED",
        found="PASSED" if verdict.passed else "FAILED",
    )
    for what, variable, found in (
        ("image of the verdict", "IMAGE_DIGEST", verdict.image),
        ("lock of the verdict", "LOCK_DIGEST", verdict.lock),
    ):
        expected = state.env.get(variable, "nothing")
        yield ProfileFinding(
            holds=expected == str(found), what=what, expected=expected, found=str(found)
        )


def _lock(workspace: Workspace, name: str, state: PublishedState) -> ProfileFinding:
    expected = state.env.get("LOCK_DIGEST", "nothing")
    try:
        found = str(workspace.lock(name).digest)
    except LockError as error:
        found = error.message
    return ProfileFinding(
        holds=found == expected,
        what="lock of the workspace",
        expected=expected,
        found=found,
        hint=f"the lock changed after the promotion: `imagegate build {name}` and promote",
    )


def _node(state: PublishedState, engine: Engine) -> Iterator[ProfileFinding]:
    """Ask the engine for exactly what launchers name: repository and digest."""
    from imagegate.sources.daemon import describe_docker_image, describe_podman_image

    name, digest = state.env["IMAGE"], Digest.parse(state.env["IMAGE_DIGEST"])
    describe = describe_docker_image if engine == "docker" else describe_podman_image
    image = describe(name)
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
        holds=digest in image.digests,
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
