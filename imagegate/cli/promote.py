"""``imagegate promote``."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from imagegate.cli.common import (
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
@click.option("--image", metavar="REF", help="The image to promote instead of build/NAME.")
@click.option("--rollback", is_flag=True, help="Publish the state before the current one again.")
@workspace_option
def command(name: str, image: str | None, rollback: bool, workspace: Path | None) -> int:
    """Judge NAME again from its bytes and publish profiles/NAME.env; refuse unless PASSED."""
    from imagegate.errors import RefusedError, UsageError
    from imagegate.profile import ProfileStore
    from imagegate.report.text import render_text
    from imagegate.usecases.promote import promote_recipe

    end_on_sigterm()
    found = find_workspace(workspace)
    found.recipe_path(name)
    if rollback:
        if image is not None:
            raise UsageError("`--rollback` takes the state that was published before, not an image")
        state = ProfileStore(found.profiles()).rollback(name)
        click.echo(f"published {state.env['IMAGE']} again, promoted at {state.promoted_at}")
        return 0
    now = datetime.now(UTC)
    outcome = promote_recipe(
        found,
        name,
        image=image,
        promoted_at=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        promoted_by=getpass.getuser(),
        today=now.date(),
        reporter=reporter(),
    )
    click.echo(render_text(outcome.verdict), nl=False)
    if outcome.profile is None:
        raise RefusedError(f"`{name}` did not pass: the profile is left as it was")
    click.echo(f"published {found.relative(outcome.profile)}")
    return 0
