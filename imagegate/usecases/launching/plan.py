"""What a published profile starts: section, variant and overrides, judged by the image's options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.errors import LockError, ProfileError, UsageError
from imagegate.launch.arguments import judge_environment, judge_section
from imagegate.oci.digest import Digest
from imagegate.profile import ProfileStore, PublishedState
from imagegate.recipe.serve import merge_arguments
from imagegate.serving.table import Program, ServingOptions, decode_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.recipe.serve import ServeSection
    from imagegate.serving.judge import Parsed, Problem
    from imagegate.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is started.

    Attributes:
        profile: its name.
        state: as it was published.
        section: variant and overrides in it.
        variant: the variant's name, ``""`` for none.
        problems: what the image's options say of it; ``None`` where they are not known.
        parsed: what the arguments say; ``None`` likewise.
        program: the table of the program that serves; ``None`` likewise.
    """

    profile: str
    state: PublishedState
    section: ServeSection
    variant: str
    problems: tuple[Problem, ...] | None
    parsed: Parsed | None
    program: Program | None = None


def profile_names(workspace: Workspace) -> list[str]:
    """Return the published profiles."""
    return sorted(path.stem for path in workspace.profiles().glob("*.env"))


def make_plan(
    workspace: Workspace, profile: str | None, variant: str | None, overrides: Sequence[str]
) -> Plan:
    """Read a profile and judge what it would start.

    Raises:
        UsageError: no profile is named, there is none of that name, it has no `[serve]`, or no
            such variant.
    """
    names = profile_names(workspace)
    if not profile or profile not in names:
        said = f"there is no profile `{profile}`" if profile else "no profile is named"
        raise UsageError(said, hint=f"published are: {', '.join(names)}" if names else
                         "none is published; `imagegate promote` publishes one")  # fmt: skip
    try:
        state = ProfileStore(workspace.profiles()).current(profile)
    except ProfileError as error:
        raise UsageError(error.message, hint=error.hint) from error
    if state.serve is None:
        raise UsageError(
            f"the profile `{profile}` does not say what is started",
            hint="write `[serve]` in its image.toml and promote again",
        )
    if variant is not None and variant not in state.serve.variants:
        known = ", ".join(state.serve.variants) or "none"
        raise UsageError(
            f"the profile `{profile}` has no variant `{variant}`", hint=f"known: {known}"
        )
    section = state.serve.chosen(variant)
    if overrides:
        arguments = merge_arguments(section.arguments, tuple(overrides))
        section = section.model_copy(update={"arguments": arguments})
    options = published_options(workspace, profile, state)
    problems, parsed = None, None
    if options is not None:
        parsed, found = judge_section(section, options)
        problems = (*found, *judge_environment(section, options, declared(state)))
    return Plan(
        profile=profile,
        state=state,
        section=section,
        variant=variant or "",
        problems=problems,
        parsed=parsed,
        program=options.program(section.program) if options is not None else None,
    )


def declared(state: PublishedState) -> dict[str, str]:
    """Return the profile's own variables, those that the gate measures left out."""
    measured = {"IMAGE", "IMAGE_ID", "IMAGE_DIGEST", "IMAGE_PLATFORM", "BASE_DIGEST", "LOCK_DIGEST",
                "VERDICT"}  # fmt: skip
    return {
        name: value
        for name, value in state.env.items()
        if name not in measured
        and not name.startswith("IMAGEGATE_")
        and not name.endswith("_VERSION")
    }


def published_options(
    workspace: Workspace, profile: str, state: PublishedState
) -> ServingOptions | None:
    """Return the options of the image that was published, ``None`` where no lock has them.

    A lock that was written since is another image's: it says nothing about this one.
    """
    try:
        lock = workspace.lock(profile)
    except LockError:
        return None
    if str(lock.digest) != state.env.get("LOCK_DIGEST"):
        return None
    return merged_options(lock.base_options, lock.options)


def merged_options(base: bytes, layer: bytes) -> ServingOptions | None:
    """Put the layer's programs before the base's."""
    found: dict[str, Program] = {}
    for content in (base, layer):
        if content:
            found |= {one.name: one for one in decode_options(content, "options.json").programs}
    return ServingOptions(programs=tuple(found.values())) if found else None


__all__ = ["Digest", "Plan", "declared", "make_plan", "merged_options", "profile_names"]
