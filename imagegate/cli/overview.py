"""``imagegate overview``."""

from __future__ import annotations

from pathlib import Path

import click

from imagegate.cli.common import insecure_option, invocation, workspace_option
from imagegate.cli.manual import Command


@click.command(cls=Command)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Report format.",
)
@click.option("--details", is_flag=True, help="Write a line for each image.")
@click.option("--drift", is_flag=True, help="Ask the registries whether the bases' tags moved.")
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the overview as one HTML page.",
)
@insecure_option
@workspace_option
def command(
    form: str,
    details: bool,
    drift: bool,
    html: Path | None,
    insecure: bool,
    workspace: Path | None,
) -> int:
    """Show all images at a glance: what is live, on which base, with which pins.

    Images that share a base and its pins are shown together; a pin that differs from most images'
    is marked. Nothing is judged: `imagegate verify` does that.
    """
    from imagegate import __version__
    from imagegate.report.overview import render_json, render_page, render_text
    from imagegate.usecases.overview import overview
    from imagegate.workspace.atomic import write_file

    found = overview(invocation(workspace, insecure=insecure), ask_registries=drift)
    if html is not None:
        write_file(html, render_page(found, version=__version__).encode())
    click.echo(
        render_json(found) if form == "json" else render_text(found, details=details), nl=False
    )
    return 0
