"""``imagegate keygen``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from imagegate.cli.manual import Command
from imagegate.signing.keys import Algorithm

if TYPE_CHECKING:
    from collections.abc import Sequence

_ALGORITHMS: Sequence[Algorithm] = get_args(Algorithm)


@click.command(cls=Command)
@click.argument("prefix", type=click.Path(path_type=Path), default=Path("imagegate"))
@click.option(
    "--algorithm", type=click.Choice(_ALGORITHMS), default=_ALGORITHMS[0], show_default=True
)
def command(prefix: Path, algorithm: Algorithm) -> int:
    """Write a new key pair: PREFIX.key, which only you can read, and PREFIX.pub.

    cosign verifies with the public half: `cosign verify --key PREFIX.pub …`.
    """
    from imagegate.signing.keys import generate, write_pair

    signer = generate(algorithm)
    private, public = prefix.with_name(f"{prefix.name}.key"), prefix.with_name(f"{prefix.name}.pub")
    write_pair(signer, private, public)
    click.echo(f"{public} {signer.verifier.fingerprint}")
    return 0
