"""``imagegate diff``."""

from __future__ import annotations

from dataclasses import asdict
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
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@click.option("--platform", help="Which platform of an index, for example linux/arm64.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option("--all", "everything", is_flag=True, help="List every difference of a long group.")
@workspace_option
def command(
    old: str, new: str, platform: str | None, form: str, everything: bool, workspace: Path | None
) -> int:
    """Show how A and B differ: images or locks, in groups; exit 0 where they do not, else 1.

    A lock is named by its recipe or by its folder.
    """
    from imagegate.oci.documents import canonical_json
    from imagegate.oci.platform import Platform
    from imagegate.report.lockdiff import render_differences
    from imagegate.usecases.inspect import difference

    end_on_sigterm()
    found = difference(
        old,
        new,
        workspace=workspace_if_any(workspace),
        platform=Platform.parse(platform) if platform else None,
        reporter=reporter(),
    )
    if form == "json":
        listed = [asdict(one) for one in found]
        report = canonical_json({"schema": "imagegate-diff-1", "differences": listed}).decode()
    else:
        report = render_differences(found, limit=len(found) if everything else 20)
    click.echo(report, nl=False)
    return 1 if found else 0
