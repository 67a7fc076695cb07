"""``imagegate inspect``."""

from __future__ import annotations

import click

from imagegate.cli.common import end_on_sigterm, reporter
from imagegate.cli.manual import Command


@click.command(cls=Command)
@click.argument("reference", metavar="REF")
@click.option("--platform", help="Which platform of an index, for instance linux/arm64.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def command(reference: str, platform: str | None, form: str) -> int:
    """Read the image REF from its bytes and print its facts.

    REF is oci:FOLDER, docker-archive:FILE, or another place that images are read from.
    """
    from imagegate.oci.platform import Platform
    from imagegate.report.inspection import render_inspection, render_inspection_json
    from imagegate.usecases.inspect import inspect_image

    end_on_sigterm()
    chosen = Platform.parse(platform) if platform else None
    found = inspect_image(reference, platform=chosen, reporter=reporter())
    report = render_inspection_json(found).decode() if form == "json" else render_inspection(found)
    click.echo(report, nl=False)
    return 0
