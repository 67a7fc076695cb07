"""``imagegate base``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from imagegate.cli.common import (
    end_on_sigterm,
    insecure_option,
    invocation,
    passphrase_option,
    read_key,
    tell,
    workspace_option,
)
from imagegate.cli.manual import Group
from imagegate.cli.trusting import read_trusted, trust_config_option, trust_options

if TYPE_CHECKING:
    from imagegate.oci.digest import Digest
    from imagegate.workspace import Workspace


@click.group(cls=Group)
def command() -> None:
    """List, read, publish and fetch base locks."""


@command.command("list")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@workspace_option
def list_command(form: str, workspace: Path | None) -> int:
    """List every base lock: digest, image, platform, size, and who uses it."""
    from imagegate.report.text import format_bytes
    from imagegate.usecases.base_locks import list_as_json, list_bases
    from imagegate.usecases.signed_base import named_signer

    listed = list_bases(invocation(workspace).workspace)
    if form == "json":
        click.echo(list_as_json(listed))
    else:
        for one in listed:
            click.echo(f"{one.digest}")
            tell(f"  image     {', '.join(one.images) or 'no recipe names it'}")
            tell(f"  platform  {one.platform or 'unknown'}")
            click.echo(
                f"  size      {format_bytes(one.size)} for a base of {format_bytes(one.compressed)}"
            )
            tell(f"  used by   {', '.join(one.used_by) or 'no recipe'}")
            tell(f"  from      {named_signer(one.signer) if one.signer else 'its bytes'}")
            if one.problem:
                tell(f"  problem   {one.problem}")
    return 3 if any(one.problem for one in listed) else 0


@command.command("read")
@click.argument("reference", metavar="REF")
@click.option("--platform", help="Which platform of an index, for example linux/arm64.")
@click.option("--again", is_flag=True, help="Read it even if its lock is there.")
@insecure_option
@workspace_option
def read_command(
    reference: str, platform: str | None, again: bool, insecure: bool, workspace: Path | None
) -> int:
    """Read the base REF from its bytes and write its lock."""
    from imagegate.oci.platform import Platform
    from imagegate.usecases.base_locks import learn_base

    end_on_sigterm()
    call = invocation(workspace, insecure=insecure)
    chosen = Platform.parse(platform) if platform else None
    lock, read = learn_base(call, reference, platform=chosen, again=again)
    click.echo(f"{'read' if read else 'unchanged'} {lock.base}")
    click.echo(f"lock {lock.digest} in {_where(call.workspace, lock.base)}")
    return 0


@command.command("push")
@click.argument("digest", metavar="DIGEST|NAME")
@click.option(
    "--to", metavar="REPO", help="The repository; by default the one that the base is in."
)
@click.option(
    "--sign", "key", metavar="KEYFILE", type=click.Path(dir_okay=False, path_type=Path),
    help="Sign with this private key.",
)  # fmt: skip
@passphrase_option
@click.option("--keyless", is_flag=True, help="Sign with the CI job's identity.")
@trust_config_option
@insecure_option
@workspace_option
def push_command(
    digest: str,
    to: str | None,
    key: Path | None,
    passphrase_file: Path | None,
    keyless: bool,
    trust_config: Path | None,
    insecure: bool,
    workspace: Path | None,
) -> int:
    """Publish a base lock beside its base, signed, as an artifact that refers to it."""
    from imagegate.errors import UsageError
    from imagegate.report.text import format_bytes
    from imagegate.signing.keyless import KeylessSigner
    from imagegate.usecases.published import push_base
    from imagegate.usecases.transfer import Destination

    end_on_sigterm()
    call = invocation(workspace, insecure=insecure)
    if keyless == (key is not None):
        raise UsageError(
            "a base lock is published signed: give either `--sign KEYFILE` or `--keyless`"
        )
    if trust_config is not None and not keyless:
        raise UsageError("`--trust-config` is for `--keyless`: give both")
    base, home = _base_named(call.workspace, digest)
    if to is None and home is None:
        raise UsageError("say with `--to REPO` where the base is published")
    signer = KeylessSigner(trust_config) if key is None else read_key(key, passphrase_file)
    pushed = push_base(call, base, to=Destination.parse(to or home or "").repository, signer=signer)
    tell(f"pushed {pushed.reference}")
    click.echo(f"{format_bytes(pushed.size)}, refers to {base}")
    return 0


@command.command("pull")
@click.argument("reference", metavar="REF|NAME")
@click.option("--platform", help="The platform that the base must be for, for example linux/arm64.")
@trust_options
@insecure_option
@workspace_option
def pull_command(
    reference: str,
    platform: str | None,
    keys: tuple[Path, ...],
    identities: tuple[tuple[str, str], ...],
    trust_config: Path | None,
    insecure: bool,
    workspace: Path | None,
) -> int:
    """Take the published lock of the base REF, `registry/repository@sha256:…`, if it is still valid.

    It is accepted if a trusted key or identity signed it and every digest in it, the base's
    included, matches. Nothing of the base itself is moved.
    """
    from imagegate.oci.platform import Platform
    from imagegate.oci.reference import Reference
    from imagegate.report.text import format_bytes
    from imagegate.usecases.base_locks import pull_base
    from imagegate.usecases.published import trusted_signers
    from imagegate.usecases.signed_base import named_signer

    end_on_sigterm()
    call = invocation(workspace, insecure=insecure)
    chosen = Platform.parse(platform) if platform else None
    if reference in call.workspace.recipe_names():
        recipe = call.workspace.recipe(reference)
        at, chosen = recipe.base, chosen or recipe.platform
    else:
        at = Reference.parse(reference.removeprefix("docker://"))
    if at is None:
        from imagegate.errors import UsageError

        raise UsageError(f"the recipe `{reference}` starts from scratch; it has no base")
    given = read_trusted(keys, identities, trust_config)
    trusted = (*given, *trusted_signers(call.workspace))
    taken = pull_base(call, at, platform=chosen, trusted=trusted)
    click.echo(f"pulled {taken.lock.base}")
    click.echo(f"lock {taken.lock.digest} in {_where(call.workspace, taken.lock.base)}")
    tell(f"signed by {named_signer(taken.signer)}; {format_bytes(taken.received)} received")
    return 0


@command.command("prune")
@click.option("--dry-run", is_flag=True, help="Show what would be removed.")
@workspace_option
def prune_command(dry_run: bool, workspace: Path | None) -> int:
    """Remove the base locks that no recipe uses."""
    from imagegate.usecases.base_locks import prune_bases

    for digest in prune_bases(invocation(workspace).workspace, dry_run=dry_run):
        click.echo(f"{'would remove' if dry_run else 'removed'} {digest}")
    return 0


def _base_named(workspace: Workspace, text: str) -> tuple[Digest, str | None]:
    """Return the base that a digest or a recipe names, and the repository that it is in."""
    from imagegate.errors import UsageError
    from imagegate.oci.digest import Digest
    from imagegate.oci.reference import Reference

    if text in workspace.recipe_names():
        named = workspace.lock(text).base
        if named.digest is None or named.image is None:
            raise UsageError(f"the recipe `{text}` starts from scratch; it has no base")
        return named.digest, Reference.parse(named.image).name
    digest = Digest.parse(text)
    images = [b.image for b in workspace.named_bases().values() if b and b.digest == digest]
    return digest, Reference.parse(images[0]).name if images else None


def _where(workspace: Workspace, base: Digest) -> str:
    return workspace.relative(workspace.base_folder(base))
