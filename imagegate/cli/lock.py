"""``imagegate lock``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from imagegate.cli.common import (
    complete_recipe,
    end_on_sigterm,
    insecure_option,
    invocation,
    workspace_option,
)
from imagegate.cli.manual import Command

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=Command)
@click.argument("name", shell_complete=complete_recipe)
@click.option(
    "--base",
    metavar="REF",
    help="Where the base's bytes are: oci:FOLDER, docker-archive:FILE, registry/repository@sha256:…",
)
@insecure_option
@workspace_option
def command(name: str, base: str | None, insecure: bool, workspace: Path | None) -> int:
    """Read the base of NAME once, resolve its layer against it, and write locks/NAME.

    The difference to the lock that was there is printed; the files are replaced in one step.
    A base with another digest than the recipe's is taken over into image.toml.
    """
    from imagegate.report.lockdiff import render_differences
    from imagegate.usecases.lock import lock_recipe

    end_on_sigterm()
    outcome = lock_recipe(invocation(workspace, insecure=insecure), name, base=base)
    click.echo(render_differences(outcome.differences), nl=False)
    if outcome.rewritten_base is not None:
        click.echo(f"image.toml now pins {outcome.rewritten_base}")
    click.echo(f"{'locked' if outcome.replaced else 'unchanged'} {name} {outcome.lock.digest}")
    return 0
