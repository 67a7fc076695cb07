"""What a build with the recipe's Dockerfile does to the assets, from the workspace alone."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from imagegate.coverage.copying import Copying, KnownBuilder
from imagegate.coverage.outcome import Outcome
from imagegate.engines.container.context import TEMPLATE
from imagegate.errors import LockError
from imagegate.localfiles import read_regular_text

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.lock import Lock
    from imagegate.oci.digest import Digest
    from imagegate.workspace import RecipeState, Workspace


def copying_of(
    workspace: Workspace, state: RecipeState, lock: Lock, image: Digest | None
) -> Copying:
    """Judge the assets' way into an image that is there.

    Args:
        workspace: where the recipe is.
        state: the recipe.
        lock: its lock.
        image: the digest of the image's manifest, if it has one.

    Returns:
        With the builder that built the image, where its build is recorded; otherwise, with current
        BuildKit, where the recipe has a Dockerfile of its own.

    Raises:
        RecipeError: the Dockerfile cannot be rendered.
        CoverageError: the Dockerfile or the ignore file is broken.
        LockError: the record of the build cannot be read.
    """
    name = state.recipe.name
    known = _recorded(workspace.layout(name).with_name(f"{name}.build.json"), image)
    if known is None and not _own_template(workspace, name).is_file():
        return Copying(
            nothing_because="no Dockerfile takes part: the recipe brings none, and no engine is "
            "recorded as the builder"
        )
    return _foreseen(workspace, state, lock, known)


def copying_of_workspace(workspace: Workspace, state: RecipeState, lock: Lock) -> Copying:
    """Judge the assets' way into an image that may not be there yet; raises as `copying_of`."""
    if not _own_template(workspace, state.recipe.name).is_file():
        return Copying(nothing_because=f"no Dockerfile takes part: the recipe has no `{TEMPLATE}`")
    return _foreseen(workspace, state, lock, None)


def _foreseen(
    workspace: Workspace, state: RecipeState, lock: Lock, known: KnownBuilder | None
) -> Copying:
    # most images are judged without the engine of COPY coverage, which takes a while to load
    from imagegate.usecases.foreseen import copying_with

    return copying_with(workspace, state, lock, known)


def _own_template(workspace: Workspace, name: str) -> Path:
    return workspace.recipe_path(name).parent / TEMPLATE


def _recorded(record: Path, image: Digest | None) -> KnownBuilder | None:
    """Return the engine that the record names for this very image."""
    if image is None or not record.is_file():
        return None
    try:
        written = json.loads(read_regular_text(record))
        if written["digest"] != str(image) or "engine" not in written:
            return None
        engine = written["engine"]
        return KnownBuilder(builder=str(engine["builder"]), version=str(engine["version"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LockError(
            f"`{record.name}` does not say what built the image: {type(error).__name__}",
            hint="build again, or remove it if the image was built elsewhere",
        ) from error


def advice(copying: Copying) -> str:
    """Return what a person can do so that every asset arrives."""
    return "; ".join(f"add `{edit.text}` to `{edit.path}`" for edit in copying.edits) or (
        "let COPY lines and ignore file reach every model's folder, behind what may change it"
    )


def unfit(copying: Copying) -> list[str]:
    """Return a line for each asset of which it is certain that it does not arrive."""
    return _lines(copying, unknown=False)


def unproven(copying: Copying) -> list[str]:
    """Return a line for each asset of which the text does not prove that it arrives."""
    return _lines(copying, unknown=True)


def _lines(copying: Copying, *, unknown: bool) -> list[str]:
    from imagegate.checks.image.copying import judge_context, judge_coverage

    reports = (judge_context(copying), judge_coverage(copying, ()))
    return [
        f"{finding.code} {finding.subject}: {re.sub('^the builder does not get ', '', finding.message)}"
        for report in reports
        for finding in report.findings
        if unknown or not finding.code.endswith(f"/{Outcome.UNKNOWN.name.lower()}")
    ]
