"""``imagegate explain``."""

from __future__ import annotations

import difflib

import click

from imagegate.cli.common import complete_check
from imagegate.cli.manual import Command

_WAIVER = """\
A finding is accepted, exactly as it is, by a waiver in image.toml. `verify --details` prints the one
of each finding, with its digest; fill in the reason and the last day:

[[waivers]]
check = "{code}"
subject = "…"
about = "sha256:…"
reason = ""
expires = 2026-12-31
base = "sha256:…\""""


@click.command(cls=Command)
@click.argument("check", required=False, shell_complete=complete_check)
def command(check: str | None) -> int:
    """Explain what CHECK asks, why it matters and what to do; without CHECK, list them all."""
    from imagegate.checks.index import EVERY, find
    from imagegate.errors import UsageError
    from imagegate.verdict import NOT_WAIVABLE

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
    if found.id not in NOT_WAIVABLE:
        code = check if "/" in check else f"{found.id}/…"
        click.echo(f"\n{_WAIVER.format(code=code)}")
    else:
        click.echo("\nIts findings cannot be waived: every other check rests on them.")
    return 0
