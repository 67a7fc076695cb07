"""``imagegate mv``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from imagegate.cli.common import complete_recipe, find_workspace, tell, workspace_option
from imagegate.cli.manual import Command

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=Command)
@click.argument("old", shell_complete=complete_recipe)
@click.argument("new")
@workspace_option
def command(old: str, new: str, workspace: Path | None) -> int:
    """Rename the recipe OLD to NEW with its lock; the base is not read.

    What was built and published under the old name stays as it is.
    """
    from imagegate.usecases.rename import rename_recipe

    for line in rename_recipe(find_workspace(workspace), old, new):
        tell(line)
    return 0
