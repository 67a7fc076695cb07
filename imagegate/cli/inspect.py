"""``imagegate inspect``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from imagegate.cli.common import (
    end_on_sigterm,
    reporter,
    workspace_if_any,
    workspace_option,
)
from imagegate.cli.manual import Command

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=Command)
@click.argument("reference", metavar="REF")
@click.option("--platform", help="Which platform of an index, for example linux/arm64.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@workspace_option
def command(reference: str, platform: str | None, form: str, workspace: Path | None) -> int:
    """Read the image REF from its bytes and print its facts.

    REF is a recipe (its build is read), oci:FOLDER, docker-archive:FILE, or another place that
    images are read from. What a locked base holds is taken from the lock.
    """
    from imagegate.oci.platform import Platform
    from imagegate.report.inspection import render_inspection, render_inspection_json
    from imagegate.usecases.inspect import inspect_image

    end_on_sigterm()
    chosen = Platform.parse(platform) if platform else None
    found = inspect_image(
        reference, platform=chosen, reporter=reporter(), workspace=workspace_if_any(workspace)
    )
    report = render_inspection_json(found).decode() if form == "json" else render_inspection(found)
    click.echo(report, nl=False)
    return 0
