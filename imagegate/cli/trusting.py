"""The options that say whose published base locks count."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imagegate.signing.identity import Trusted

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--trust``, ``--trust-identity`` and ``--trust-config``."""
    for option in (
        trust_config_option,
        click.option(
            "--trust-identity",
            "identities",
            metavar="IDENTITY ISSUER",
            nargs=2,
            multiple=True,
            help="Accept a published base lock signed by this identity of this issuer, through "
            "Sigstore; needs `imagegate[keyless]`; repeatable.",
        ),
        click.option(
            "--trust",
            "keys",
            metavar="KEYFILE",
            multiple=True,
            type=_FILE,
            help="Accept a published base lock signed by this public key; repeatable. Keys and "
            "identities of locks/trust.toml are always accepted.",
        ),
    ):
        command = option(command)
    return command


trust_config_option = click.option(
    "--trust-config",
    metavar="FILE",
    type=_FILE,
    help="The Sigstore instance, as ClientTrustConfig; the public one by default.",
)


def read_trusted(
    keys: Sequence[Path], identities: Sequence[tuple[str, str]], config: Path | None
) -> tuple[Trusted, ...]:
    """Read the keys and identities that the options name.

    Raises:
        UsageError: one cannot be used, or an instance is named for no identity.
        AttestationError: a file holds no public key.
    """
    from imagegate.errors import UsageError
    from imagegate.signing.identity import read_identity
    from imagegate.signing.keys import read_verifier

    if config is not None and not identities:
        raise UsageError("`--trust-config` is for `--trust-identity`: give both")
    return (
        *map(read_verifier, keys),
        *(read_identity(identity, issuer, config) for identity, issuer in identities),
    )
