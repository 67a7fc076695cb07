"""``imagegate verify``: the gate alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.errors import UsageError
from imagegate.sources import open_image
from imagegate.usecases.gate import judge

if TYPE_CHECKING:
    from imagegate.checks.evidence import Evidence
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
