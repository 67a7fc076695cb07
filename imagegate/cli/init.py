"""``imagegate init``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from imagegate.cli.common import end_on_sigterm, insecure_option, invocation_in, tell
from imagegate.cli.manual import Command


@click.command(cls=Command)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option("--name", default="served", show_default=True, help="The recipe's name.")
@click.option(
    "--base",
    metavar="REF",
    help="The base: its platform, Python, site directory and glibc fill in the recipe.",
)
@click.option(
    "--base-name",
    metavar="NAME",
    help="Where that base is published, if REF is a layout, an archive or an engine's image.",
)
@insecure_option
def command(
    folder: Path, name: str, base: str | None, base_name: str | None, insecure: bool
) -> int:
    """Write a workspace with one commented recipe into FOLDER; the current folder by default.

    Where FOLDER is a workspace, the recipe is added to it. With --base, the base is read once and
    its lock is written; without, the recipe is for this machine's platform.
    """
    from imagegate.errors import UsageError
    from imagegate.usecases.init import begin, begin_over
    from imagegate.workspace import Workspace

    if base is None:
        if base_name is not None:
            raise UsageError("`--base-name` says where `--base` is published: give both")
        begun = begin(folder, name, os.uname().machine)
    else:
        end_on_sigterm()
        begun = begin_over(
            invocation_in(Workspace(folder.resolve()), insecure=insecure),
            name,
            base,
            name_as=base_name,
        )
    for path in begun.files:
        tell(str(path))
    if begun.base is not None:
        tell(f"base: {begun.base}", err=True)
    if begun.others:
        tell(
            f"the base also has {', '.join(begun.others)}; "
            "`[python] interpreter` in image.toml chooses",
            err=True,
        )
    if begun.remark:
        tell(f"note: {begun.remark}", err=True)
    option = "" if begun.base is not None else " --base REF"
    tell(f"next: `imagegate lock {name}{option}` in `{folder}`", err=True)
    return 0
