"""``imagegate overview``: every recipe and every profile of a workspace."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from imagegate.errors import ImagegateError, ProfileError
from imagegate.localfiles import read_regular
from imagegate.profile import ProfileStore
from imagegate.report.document import parse_json_report
from imagegate.report.overview import Live, Overview, Row, State
from imagegate.usecases.drift import Answer, find_drift
from imagegate.usecases.verify import verify_static

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.lock import Lock
    from imagegate.profile import PublishedState
    from imagegate.usecases.invocation import Invocation
    from imagegate.workspace import Workspace

# each column's component and how it is read; a distribution's version where the bytes say nothing
_READINGS = {
    "nccl": ("nccl", "version string"),
    "flashinfer": ("flashinfer-python", "_build_meta.py"),
    "torch": ("torch", "version.py"),
    "cuda": ("torch cuda", "version.py"),
    "vllm": ("vllm", "_version.py"),
}
_DISTRIBUTIONS = {"flashinfer": "flashinfer-python", "torch": "torch", "vllm": "vllm"}


def overview(call: Invocation, *, ask_registries: bool = False) -> Overview:
    """Look at every recipe and profile; one that cannot be read hides no other.

    Args:
        call: the workspace, the moment, and how registries are spoken to.
        ask_registries: ask whether each base's tag still leads to the pinned digest.
    """
    workspace = call.workspace
    store = ProfileStore(workspace.profiles())
    recipes = workspace.recipe_names()
    published = {path.stem for path in workspace.profiles().glob("*.env")}
    rows = [_of_recipe(call, store, name, ask_registries=ask_registries) for name in recipes]
    rows += [_of_profile(workspace, store, name) for name in published - set(recipes)]
    return Overview(rows=tuple(sorted(rows, key=lambda row: row.name)), at=call.now)


def _of_recipe(call: Invocation, store: ProfileStore, name: str, *, ask_registries: bool) -> Row:
    workspace = call.workspace
    live, trouble = _live(workspace, store, name)
    try:
        recipe = workspace.recipe(name)
        lock = workspace.lock(name)
    except ImagegateError as error:
        return Row(name=name, state=State.BROKEN, problem=error.message, pins={}, live=live)
    state, problem = State.LIVE, trouble
    try:
        verify_static(workspace, name)
    except ImagegateError as error:
        state, problem = State.STALE, error.message
    else:
        if trouble:
            state = State.BROKEN
        elif live is None:
            state = State.UNPUBLISHED
        elif live.lock != str(lock.digest):
            state = State.BEHIND
    return Row(
        name=name,
        state=state,
        problem=problem,
        base=recipe.base.digest if recipe.base is not None else None,
        platform=str(recipe.platform),
        pins=_pins(lock),
        live=live,
        drift=_drift(call, name) if ask_registries else "",
    )


def _of_profile(workspace: Workspace, store: ProfileStore, name: str) -> Row:
    live, problem = _live(workspace, store, name)
    state = State.BROKEN if problem else State.ORPHANED
    return Row(name=name, state=state, problem=problem, pins={}, live=live)


def _live(workspace: Workspace, store: ProfileStore, name: str) -> tuple[Live | None, str]:
    """Read what a profile has published, or say why that cannot be read."""
    if not (workspace.profiles() / f"{name}.env").exists():
        return None, ""
    try:
        state = store.current(name)
        result, added = _verdict(workspace, state)
        published = datetime.fromisoformat(state.promoted_at).astimezone(UTC)
    except (ProfileError, ValueError) as error:
        return None, error.message if isinstance(error, ProfileError) else str(error)
    return (
        Live(
            image=state.env.get("IMAGE") or state.env.get("IMAGE_DIGEST", ""),
            lock=state.env.get("LOCK_DIGEST", ""),
            result=result,
            published_at=published,
            added=added,
        ),
        "",
    )


def _verdict(workspace: Workspace, state: PublishedState) -> tuple[str, int | None]:
    path = workspace.profiles() / "verdicts" / f"{state.verdict.replace(':', '-')}.json"
    try:
        verdict = parse_json_report(read_regular(path))
    except (OSError, ImagegateError):
        return "", None
    return verdict.word, verdict.cost.added


def _pins(lock: Lock) -> Mapping[str, str]:
    """Say what the locked bytes are; the layer's own version where it brings the distribution."""
    facts = lock.base.facts
    read = {
        column: sorted(
            {one.value for one in facts.native if (one.component, one.source) == reading}
        )
        for column, reading in _READINGS.items()
    }
    installed: dict[str, str] = {
        canonicalize_name(one.name): one.version for one in facts.distributions
    }
    installed |= {wheel.name: wheel.version for wheel in lock.wheels}
    added = {wheel.name for wheel in lock.wheels}
    pins = {}
    for column, values in read.items():
        name = _DISTRIBUTIONS.get(column, "")
        if name in added or not values:
            values = [installed[name]] if name in installed else []
        pins[column] = ", ".join(values)
    return pins


def _drift(call: Invocation, name: str) -> str:
    """Say in few words what became of the base's tag and digest."""
    found = find_drift(call.workspace, name, call.connection)
    told = {answer: [q for q in found.questions if q.answer is answer] for answer in Answer}
    for answer in (Answer.DRIFTED, Answer.UNKNOWN):
        if told[answer]:
            return f"{told[answer][0].asks}: {answer.value}"
    return "holds" if told[Answer.HOLDS] else "not asked"
