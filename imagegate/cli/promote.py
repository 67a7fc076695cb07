"""``imagegate promote``."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from pathlib import Path

import click

from imagegate.cli.common import (
    complete_recipe,
    end_on_sigterm,
    find_workspace,
    passphrase_option,
    read_key,
    reporter,
    workspace_option,
)


@click.command()
@click.argument("name", shell_complete=complete_recipe)
@click.option("--image", metavar="REF", help="The image to promote instead of build/NAME.")
@click.option("--rollback", is_flag=True, help="Publish the state before the current one again.")
@click.option(
    "--sign",
    "key",
    metavar="KEYFILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Sign the image and its statements with this private key, beside the image.",
)
@passphrase_option
@workspace_option
def command(
    name: str,
    image: str | None,
    rollback: bool,
    key: Path | None,
    passphrase_file: Path | None,
    workspace: Path | None,
) -> int:
    """Judge NAME again from its bytes and publish profiles/NAME.env; refuse unless PASSED."""
    from imagegate.errors import RefusedError, UsageError
    from imagegate.profile import ProfileStore
    from imagegate.report.text import render_text
    from imagegate.usecases.promote import promote_recipe

    end_on_sigterm()
    found = find_workspace(workspace)
    found.recipe_path(name)
    if rollback:
        if key is not None:
            raise UsageError("`--rollback` publishes what was promoted before; nothing is signed")
        if image is not None:
            raise UsageError("`--rollback` takes the state that was published before, not an image")
        state = ProfileStore(found.profiles()).rollback(name)
        click.echo(f"published {state.env['IMAGE']} again, promoted at {state.promoted_at}")
        return 0
    outcome = promote_recipe(
        found,
        name,
        image=image,
        promoted_at=datetime.now(UTC),
        promoted_by=getpass.getuser(),
        reporter=reporter(),
        signer=read_key(key, passphrase_file) if key is not None else None,
    )
    click.echo(render_text(outcome.verdict), nl=False)
    if outcome.profile is None:
        raise RefusedError(f"`{name}` did not pass: the profile is left as it was")
    click.echo(f"published {found.relative(outcome.profile)}")
    return 0
