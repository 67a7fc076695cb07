"""``imagegate promote``."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from pathlib import Path

import click

from imagegate.cli.common import (
    complete_recipe,
    describe_moved,
    end_on_sigterm,
    find_workspace,
    insecure_option,
    passphrase_option,
    read_key,
    reporter,
    workspace_option,
)


@click.command()
@click.argument("name", shell_complete=complete_recipe)
@click.option("--image", metavar="REF", help="The image to promote instead of build/NAME.")
@click.option(
    "--to",
    metavar="REPO[:TAG]",
    help="Push the image there first; the profile then names it there.",
)
@click.option(
    "--base", metavar="REF", help="Where the base's layers are, for a registry without them."
)
@click.option("--rollback", is_flag=True, help="Publish the state before the current one again.")
@click.option(
    "--sign",
    "key",
    metavar="KEYFILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Sign the image and its statements with this private key, beside the image.",
)
@passphrase_option
@insecure_option
@workspace_option
def command(
    name: str,
    image: str | None,
    to: str | None,
    base: str | None,
    rollback: bool,
    key: Path | None,
    passphrase_file: Path | None,
    insecure: bool,
    workspace: Path | None,
) -> int:
    """Judge NAME again from its bytes and publish profiles/NAME.env; refuse unless PASSED.

    With --to, the added layers are pushed, the base's are mounted or copied, and the manifest is
    read back and compared before a tag is set and the profile names it by digest. With --sign,
    image and statements are signed where the image lies before the profile names it.
    """
    from imagegate.errors import RefusedError, UsageError
    from imagegate.profile import ProfileStore
    from imagegate.report.text import render_text
    from imagegate.usecases.promote import Push, promote_recipe
    from imagegate.usecases.transfer import Destination

    end_on_sigterm()
    found = find_workspace(workspace)
    found.recipe_path(name)
    if rollback:
        if key is not None:
            raise UsageError("`--rollback` publishes what was promoted before; nothing is signed")
        if image is not None or to is not None:
            raise UsageError("`--rollback` takes the state that was published before, not an image")
        state = ProfileStore(found.profiles()).rollback(name)
        click.echo(f"published {state.env['IMAGE']} again, promoted at {state.promoted_at}")
        return 0
    if base is not None and to is None:
        raise UsageError("`--base` says what to push; it needs `--to`")
    push = Push(to=Destination.parse(to), base=base, insecure=insecure) if to is not None else None
    outcome = promote_recipe(
        found,
        name,
        image=image,
        promoted_at=datetime.now(UTC),
        promoted_by=getpass.getuser(),
        reporter=reporter(),
        signer=read_key(key, passphrase_file) if key is not None else None,
        push=push,
        insecure=insecure,
    )
    click.echo(render_text(outcome.verdict), nl=False)
    if outcome.profile is None:
        raise RefusedError(f"`{name}` did not pass: the profile is left as it was")
    if outcome.pushed is not None and outcome.moved is not None:
        click.echo(f"pushed    {outcome.pushed}")
        click.echo(f"moved     {describe_moved(outcome.moved)}")
    click.echo(f"published {found.relative(outcome.profile)}")
    return 0
