"""``imagegate init``."""

from __future__ import annotations

from pathlib import Path

import click

from imagegate.cli.manual import Command


@click.command(cls=Command)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option("--name", default="served", show_default=True, help="The recipe's name.")
def command(folder: Path, name: str) -> int:
    """Write a workspace with one commented recipe into FOLDER; the current folder by default.

    Where FOLDER is a workspace, the recipe is added to it.
    """
    from imagegate.workspace.template import new_workspace

    for path in new_workspace(folder, name):
        click.echo(path)
    click.echo(f"next: `imagegate lock {name} --base REF` in `{folder}`", err=True)
    return 0
