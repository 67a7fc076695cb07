"""``imagegate mirror``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from imagegate.cli.common import (
    complete_recipe,
    describe_moved,
    end_on_sigterm,
    insecure_option,
    invocation,
    tell,
    workspace_option,
)
from imagegate.cli.manual import Command

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=Command)
@click.argument("name", shell_complete=complete_recipe)
@click.option("--to", required=True, metavar="REPO[:TAG]", help="The repository to copy to.")
@click.option("--base", metavar="REF", help="Where the base's bytes are, if not where NAME says.")
@insecure_option
@workspace_option
def command(name: str, to: str, base: str | None, insecure: bool, workspace: Path | None) -> int:
    """Copy the base of NAME by digest to your own registry.

    The digest stays the same; `imagegate lock NAME --base REPO@sha256:…` then works from there.
    """
    from imagegate.usecases.mirror import mirror_base
    from imagegate.usecases.transfer import Destination

    end_on_sigterm()
    outcome = mirror_base(
        invocation(workspace, insecure=insecure), name, to=Destination.parse(to), base=base
    )
    tell(f"mirrored  {outcome.reference}")
    click.echo(f"moved     {describe_moved(outcome.moved)}")
    return 0
