"""``imagegate explain``."""

from __future__ import annotations

import difflib

import click

from imagegate.cli.common import complete_check
from imagegate.cli.manual import Command


@click.command(cls=Command)
@click.argument("check", required=False, shell_complete=complete_check)
def command(check: str | None) -> int:
    """Say what CHECK asks, why it matters and what to do; without CHECK, list them all."""
    from imagegate.checks.index import EVERY, find
    from imagegate.errors import UsageError

    if check is None:
        for known in EVERY:
            click.echo(f"{known.id:<18} {known.question}?")
        return 0
    wanted = check.partition("/")[0]
    found = find(wanted)
    if found is None:
        near = difflib.get_close_matches(wanted, [known.id for known in EVERY], n=1)
        raise UsageError(
            f"no check is named `{wanted}`",
            hint=f"did you mean `{near[0]}`?" if near else "run `imagegate explain`",
        )
    click.echo(f"{found.id}\n\nasks   {found.question}?\nwhy    {found.why}\nfix    {found.fix}")
    return 0
