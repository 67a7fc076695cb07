"""``imagegate verify``: the gate alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.errors import LockError, UsageError
from imagegate.sources import open_image
from imagegate.usecases.gate import judge

if TYPE_CHECKING:
    from imagegate.checks.evidence import Evidence
    from imagegate.lock import Lock
    from imagegate.oci.image import ImageSource
    from imagegate.usecases.ports import Reporter
    from imagegate.verdict import Verdict
    from imagegate.workspace import RecipeState, Workspace


def verify_recipe(
    workspace: Workspace, name: str, *, image: str | None, reporter: Reporter
) -> tuple[Verdict, Evidence]:
    """Judge a recipe's image from its bytes; returns the verdict and what it rests on.

    Args:
        workspace: where the recipe and its lock are.
        name: the recipe.
        image: where the image is, its build if ``None``.
        reporter: where progress goes.

    Raises:
        UsageError: there is no image to judge.
        LockError: the lock cannot be used.
        ImageError: the image cannot be read.
    """
    state = workspace.state(name)
    lock = workspace.lock(name)
    return judge(state, lock, open_judged(workspace, state, image), reporter)


def verify_static(workspace: Workspace, name: str) -> str:
    """Compare a lock with the recipe, the requirements and the assets as they are; no image is read.

    Returns:
        What was compared.

    Raises:
        UsageError: there is no such recipe, or it cannot be used.
        LockError: the lock is missing, damaged, edited or stale.
    """
    state = workspace.state(name)
    lock = workspace.lock(name)
    require_fresh(state, lock)
    return (
        f"lock {lock.digest} fits image.toml, {len(state.requirements)} requirements "
        f"and {len(state.assets)} assets"
    )


def require_fresh(state: RecipeState, lock: Lock) -> None:
    """Refuse to work from a lock that is not the workspace's.

    Raises:
        LockError: recipe, requirements or assets changed after locking.
    """
    name = state.recipe.name
    stale = [
        what
        for what, same in (
            ("image.toml", lock.contents.recipe == state.recipe.digest),
            ("requirements.in", lock.contents.requirements == state.requirements_digest),
            ("the assets", lock.assets == state.assets),
        )
        if not same
    ]
    if stale:
        raise LockError(
            f"the lock of `{name}` is stale: {', '.join(stale)} changed after it was made",
            hint=f"run `imagegate lock {name}`",
        )


def open_judged(workspace: Workspace, state: RecipeState, image: str | None) -> ImageSource:
    """Open the image that is to be judged: the named one, or the recipe's build.

    Raises:
        UsageError: there is no such image.
        ImageError: it cannot be read.
    """
    platform = state.recipe.platform
    if image is not None:
        return open_image(image, platform=platform)
    name = state.recipe.name
    layout = workspace.layout(name)
    # relative, so that a verdict says the same wherever the workspace lies
    relative = workspace.relative(layout)
    if not layout.is_dir():
        raise UsageError(
            f"`{name}` is not built here: `{relative}` does not exist",
            hint=f"run `imagegate build {name}`, or name an image with `--image`",
        )
    return open_image(f"oci:{relative}", platform=platform, folder=workspace.root)
