"""``imagegate build``."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from imagegate.cli.common import (
    cache_folder,
    complete_recipe,
    end_on_sigterm,
    find_workspace,
    reporter,
    workspace_option,
)

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("name", shell_complete=complete_recipe)
@click.option(
    "--full",
    "full_from",
    metavar="REF",
    help="Copy the base's layers out of this image into the layout too.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=None,
    help="How many threads compress; the digest does not depend on it.",
)
@click.option("--details", is_flag=True, help="List every single comparison.")
@workspace_option
def command(
    name: str, full_from: str | None, threads: int | None, details: bool, workspace: Path | None
) -> int:
    """Compose NAME from its lock into build/NAME, judge it, and print the report."""
    from imagegate.report.text import render_text
    from imagegate.usecases.build import build_recipe

    end_on_sigterm()
    outcome = build_recipe(
        find_workspace(workspace),
        name,
        cache=cache_folder(),
        threads=threads or os.cpu_count() or 1,
        full_from=full_from,
        today=datetime.now(UTC).date(),
        reporter=reporter(),
    )
    click.echo(render_text(outcome.verdict, details=details), nl=False)
    click.echo(f"digest    {outcome.composition.digest}")
    return 0 if outcome.verdict.passed else 1
