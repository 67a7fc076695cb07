"""``imagegate verify``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imagegate.cli.common import complete_recipe, find_workspace, reporter, workspace_option
from imagegate.report.formats import Format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.verdict import Verdict


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_recipe)
@click.option(
    "--image",
    metavar="REF",
    help="The image to judge instead of build/NAME: oci:FOLDER, docker-archive:FILE.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in Format]),
    default=Format.TEXT.value,
    show_default=True,
    help="How standard output tells it; SARIF and JUnit hold all recipes in one document.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report as one HTML file too, which needs no network to be read.",
)
@click.option(
    "--details", is_flag=True, help="List every single comparison (text only; JSON always does)."
)
@workspace_option
def command(
    names: tuple[str, ...],
    image: str | None,
    form: str,
    html: Path | None,
    details: bool,
    workspace: Path | None,
) -> int:
    """Judge the images of the named recipes, or of all, from their bytes.

    Reads the manifest, the config, the lock and the added layers; the base is not read.
    Inside GitHub Actions the job's summary gets the report too.
    """
    from imagegate import __version__
    from imagegate.errors import UsageError
    from imagegate.report.formats import render
    from imagegate.usecases.verify import verify_recipe

    found = find_workspace(workspace)
    chosen = names or found.recipe_names()
    if not chosen:
        raise UsageError("the workspace has no recipe", hint="write `images/NAME/image.toml`")
    if image is not None and len(chosen) != 1:
        raise UsageError(
            "`--image` needs exactly one recipe", hint="name the recipe it was built from"
        )
    judged = [verify_recipe(found, name, image=image, reporter=reporter()) for name in chosen]
    verdicts = [verdict for verdict, _ in judged]
    if html is not None:
        from imagegate.report.html import render_html
        from imagegate.workspace.atomic import write_file

        write_file(html, render_html(judged, version=__version__).encode())
    write_job_summary(verdicts)
    click.echo(render(verdicts, Format(form), version=__version__, details=details), nl=False)
    return 0 if all(verdict.passed for verdict in verdicts) else 1


def write_job_summary(verdicts: Sequence[Verdict]) -> None:
    """Add the report to the job's summary, where GitHub Actions asks for one."""
    from imagegate import __version__
    from imagegate.report.formats import render

    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as stream:
            stream.write(render(verdicts, Format.MARKDOWN, version=__version__, details=False))
