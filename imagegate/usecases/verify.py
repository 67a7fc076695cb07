"""``imagegate verify``: the gate alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.errors import UsageError
from imagegate.sources import open_image
from imagegate.usecases.gate import judge

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date

    from imagegate.usecases.ports import Reporter
    from imagegate.verdict import Verdict
    from imagegate.workspace import Workspace


def verify_recipe(
    workspace: Workspace,
    name: str,
    *,
    image: str | None,
    today: date,
    reporter: Reporter,
    skip: Collection[str] = (),
) -> Verdict:
    """Judge a recipe's image from its bytes.

    Args:
        workspace: where the recipe and its lock are.
        name: the recipe.
        image: where the image is, its build if ``None``.
        today: the day that waivers are compared with.
        reporter: where progress goes.
        skip: ids of checks that are left out; such a verdict never passes.

    Raises:
        UsageError: there is no image to judge.
        LockError: the lock cannot be used.
        ImageError: the image cannot be read.
    """
    state = workspace.state(name)
    lock = workspace.lock(name)
    location = image or built_location(workspace, name)
    source = open_image(location, platform=state.recipe.platform)
    verdict, _ = judge(state, lock, source, reporter, today=today, skip=skip)
    return verdict


def built_location(workspace: Workspace, name: str) -> str:
    """Return where a recipe's build is.

    Raises:
        UsageError: it is not built.
    """
    layout = workspace.layout(name)
    if not layout.is_dir():
        raise UsageError(
            f"`{name}` is not built here: `{workspace.relative(layout)}` does not exist",
            hint=f"run `imagegate build {name}`, or name an image with `--image`",
        )
    return f"oci:{layout}"
