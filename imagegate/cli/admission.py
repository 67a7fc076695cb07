"""``imagegate admission``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from imagegate.cli.common import find_workspace, workspace_option
from imagegate.cli.manual import Command

_ENGINES = ("kyverno", "policy-controller", "cosign")


@click.command(cls=Command)
@click.argument("engine", type=click.Choice(_ENGINES), metavar="ENGINE")
@click.argument("names", nargs=-1, required=True, metavar="PROFILE...")
@click.option(
    "--key",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The public key that signs your verdicts.",
)
@click.option(
    "--not-before",
    metavar="TIME",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"]),
    help="Refuse images whose verdict was given earlier (UTC).",
)
@workspace_option
def command(
    engine: str,
    names: tuple[str, ...],
    key: Path,
    not_before: datetime | None,
    workspace: Path | None,
) -> int:
    """Print a policy that lets only images run which imagegate judged and you signed.

    ENGINE is `kyverno` (an ImageValidatingPolicy), `policy-controller` (a ClusterImagePolicy), or
    `cosign` (a CUE policy for `cosign verify-attestation --policy`, for clusters without either).
    The policy wants a verification summary that says PASSED, was signed with the key, names the
    lock of the published state and every check of this version. Print it anew after a promotion
    from another lock. With `cosign`, give one PROFILE; the printed policy begins with the command
    that uses it, with `--insecure-ignore-tlog`, since a verdict signed with a key is in no public log.
    """
    from imagegate.admission import Engine
    from imagegate.errors import UsageError
    from imagegate.usecases.admission import admission_policy

    if engine == Engine.COSIGN and len(names) > 1:
        raise UsageError("one CUE policy is for one profile", hint="write one file a profile")
    text = admission_policy(
        find_workspace(workspace),
        names,
        Engine(engine),
        key=key,
        not_before=not_before.replace(tzinfo=UTC) if not_before is not None else None,
    )
    click.echo(text, nl=False)
    return 0
