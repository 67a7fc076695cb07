"""``imagegate promote``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imagegate.cli.common import (
    attested_options,
    complete_recipe,
    describe_moved,
    end_on_sigterm,
    insecure_option,
    invocation,
    passphrase_option,
    person,
    read_key,
    tell,
    workspace_option,
)
from imagegate.cli.manual import Command

if TYPE_CHECKING:
    from imagegate.signing.keys import BundleSigner, Signer
    from imagegate.usecases.promote import Trust
    from imagegate.workspace import Workspace


@click.command(cls=Command)
@click.argument("name", shell_complete=complete_recipe)
@click.option("--image", metavar="REF", help="The image to promote instead of build/NAME.")
@click.option(
    "--to",
    metavar="REPO[:TAG]",
    help="Push the image there first; the profile then names that repository.",
)
@click.option(
    "--base", metavar="REF", help="Where the base's layers are, for a registry without them."
)
@click.option("--rollback", is_flag=True, help="Publish the previous state again.")
@click.option("--why", metavar="TEXT", default="", help="The reason, in one line, for the history.")
@click.option(
    "--sign",
    "signing_key",
    metavar="KEYFILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Sign the image and its statements with this private key, beside the image.",
)
@passphrase_option
@click.option(
    "--keyless",
    is_flag=True,
    help="Sign with the CI job's identity, through Sigstore; needs `imagegate[keyless]`.",
)
@click.option(
    "--trust-config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The Sigstore instance for --keyless, as ClientTrustConfig; the public one by default.",
)
@attested_options
@insecure_option
@workspace_option
def command(
    name: str,
    image: str | None,
    to: str | None,
    base: str | None,
    rollback: bool,
    why: str,
    signing_key: Path | None,
    passphrase_file: Path | None,
    keyless: bool,
    trust_config: Path | None,
    key: Path | None,
    max_age: float,
    insecure: bool,
    workspace: Path | None,
) -> int:
    """Judge NAME again from its bytes and publish profiles/NAME.env; refuse unless PASSED.

    With --to, the added layers are pushed, the base's are mounted or copied, and the manifest is
    read back and compared before a tag is set and the profile names it by digest. With --sign or
    --keyless, image and statements are signed where the image lies before the profile names it.
    With --attested, a stored, signed verdict is accepted if it is still valid.
    """
    from imagegate.errors import RefusedError, UsageError
    from imagegate.report.text import render_text
    from imagegate.usecases.promote import Push, promote_recipe
    from imagegate.usecases.transfer import Destination

    end_on_sigterm()
    call = invocation(workspace, insecure=insecure)
    found = call.workspace
    found.recipe_path(name)
    if not why.isprintable():
        raise UsageError("`--why` takes one line of text")
    if rollback:
        if signing_key is not None or keyless or key is not None:
            raise UsageError("`--rollback` publishes what was promoted before; nothing is signed")
        if image is not None or to is not None:
            raise UsageError("`--rollback` takes the state that was published before, not an image")
        return _roll_back(found, name, why)
    if base is not None and to is None:
        raise UsageError("`--base` says what to push; it needs `--to`")
    push = Push(to=Destination.parse(to), base=base) if to is not None else None
    outcome = promote_recipe(
        call,
        name,
        image=image,
        promoted_by=person(),
        why=why,
        trust=_trust(key, max_age),
        signer=_signer(signing_key, passphrase_file, trust_config, keyless=keyless),
        push=push,
    )
    click.echo(render_text(outcome.verdict), nl=False)
    if outcome.profile is None:
        raise RefusedError(f"`{name}` did not pass: the profile is left as it was")
    if outcome.pushed is not None and outcome.moved is not None:
        tell(f"pushed    {outcome.pushed}")
        tell(f"moved     {describe_moved(outcome.moved)}")
    tell(f"published {found.relative(outcome.profile)}")
    return 0


def _roll_back(workspace: Workspace, name: str, why: str) -> int:
    from imagegate.profile import ProfileStore
    from imagegate.usecases.attest import timestamp

    at = timestamp(datetime.now(UTC))
    state = ProfileStore(workspace.profiles()).rollback(name, at=at, by=person(), why=why)
    tell(f"published {state.env['IMAGE']} again, promoted at {state.promoted_at}")
    return 0


def _trust(key: Path | None, max_age: float) -> Trust | None:
    if key is None:
        return None
    from imagegate.signing.keys import read_verifier
    from imagegate.usecases.promote import Trust

    return Trust(verifier=read_verifier(key), max_age=timedelta(hours=max_age))


def _signer(
    key: Path | None, passphrase_file: Path | None, trust_config: Path | None, *, keyless: bool
) -> Signer | BundleSigner | None:
    from imagegate.errors import UsageError

    if keyless and key is not None:
        raise UsageError("`--sign` and `--keyless` are two ways to sign: give one")
    if trust_config is not None and not keyless:
        raise UsageError("`--trust-config` is about `--keyless`: give both")
    if keyless:
        from imagegate.signing.keyless import KeylessSigner

        return KeylessSigner(trust_config)
    return read_key(key, passphrase_file) if key is not None else None
