"""``imagegate verify``."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from imagegate.cli.common import complete_recipe, find_workspace, reporter, workspace_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_recipe)
@click.option(
    "--image",
    metavar="REF",
    help="The image to judge instead of build/NAME: oci:FOLDER, docker-archive:FILE.",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option(
    "--details", is_flag=True, help="List every single comparison (text only; JSON always does)."
)
@click.option(
    "--only", multiple=True, metavar="CHECK", help="Run this check alone; may be given often."
)
@click.option(
    "--skip", multiple=True, metavar="CHECK", help="Leave this check out; may be given often."
)
@workspace_option
def command(
    names: tuple[str, ...],
    image: str | None,
    form: str,
    details: bool,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    workspace: Path | None,
) -> int:
    """Judge the images of the named recipes, or of all, from their bytes.

    Reads the manifest, the config, the lock and the added layers; the base is not read.
    A verdict with checks left out says so and cannot be promoted.
    """
    from imagegate.errors import UsageError
    from imagegate.report.document import render_json
    from imagegate.report.text import render_text
    from imagegate.usecases.verify import verify_recipe

    found = find_workspace(workspace)
    chosen = names or found.recipe_names()
    if not chosen:
        raise UsageError("the workspace has no recipe", hint="write `images/NAME/image.toml`")
    if image is not None and len(chosen) != 1:
        raise UsageError(
            "`--image` needs exactly one recipe", hint="name the recipe it was built from"
        )
    left_out = _left_out(only, skip)
    sound = True
    for name in chosen:
        verdict = verify_recipe(
            found,
            name,
            image=image,
            today=datetime.now(UTC).date(),
            reporter=reporter(),
            skip=left_out,
        )
        sound = sound and verdict.sound
        report = (
            render_json(verdict).decode()
            if form == "json"
            else render_text(verdict, details=details)
        )
        click.echo(report, nl=False)
    return 0 if sound else 1


def _left_out(only: tuple[str, ...], skip: tuple[str, ...]) -> frozenset[str]:
    """Turn the two options into the checks that are left out.

    Raises:
        UsageError: no check has such a name, or nothing would be left to run.
    """
    from imagegate.checks import CHECKS
    from imagegate.errors import UsageError

    known = [check.id for check in CHECKS]
    for name in (*only, *skip):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise UsageError(
                f"no check is named `{name}`",
                hint=f"did you mean `{near[0]}`?" if near else "run `imagegate explain`",
            )
    left_out = frozenset(skip) | (frozenset(known) - frozenset(only) if only else frozenset())
    if len(left_out) == len(known):
        raise UsageError("`--only` and `--skip` leave no check to run")
    return left_out
