"""``imagegate profile``."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import click

from imagegate.cli.common import find_workspace, workspace_option
from imagegate.usecases.profile import Engine

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.profile import PublishedState


def _complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a published profile's name in the shell."""
    from imagegate.errors import ImagegateError

    try:
        folder = find_workspace(ctx.params.get("workspace")).profiles()
    except ImagegateError:
        return []
    return sorted(path.stem for path in folder.glob(f"{incomplete}*.env"))


@click.group(name="profile")
def command() -> None:
    """Show what is published for launchers, and check whether it holds."""


@command.command()
@click.argument("name", shell_complete=_complete)
@click.option("--json", "as_json", is_flag=True, help="Everything, who, when and why included.")
@click.option(
    "--history", is_flag=True, help="List what was published under this name, newest first."
)
@workspace_option
def show(name: str, as_json: bool, history: bool, workspace: Path | None) -> int:
    """Write the published variables of profile NAME, as launchers read them.

    Who published them, when and why is told on standard error.
    """
    from imagegate.oci.documents import canonical_json
    from imagegate.profile import encode_env
    from imagegate.usecases.profile import profile_history

    states = profile_history(find_workspace(workspace), name)
    if as_json:
        documents = [state.model_dump(mode="json") for state in states]
        click.echo(canonical_json(documents if history else documents[0]).decode(), nl=False)
    elif history:
        for state in states:
            click.echo(_told(state))
    else:
        click.echo(_told(states[0]), err=True)
        click.echo(encode_env(states[0].env).decode(), nl=False)
    return 0


def _told(state: PublishedState) -> str:
    """Say in one line what was published, when, by whom and why."""
    what = "rolled back to" if state.rollback else "promoted"
    return (
        f"{state.promoted_at} {what} {state.env['IMAGE']} by {state.promoted_by}: "
        f"{state.why or 'no reason given'}"
    )


@command.command()
@click.argument("name", shell_complete=_complete)
@click.option(
    "--node", is_flag=True, help="Compare with the image that this machine's engine holds too."
)
@click.option(
    "--engine",
    type=click.Choice(get_args(Engine)),
    default="docker",
    show_default=True,
    help="The engine that `--node` asks.",
)
@workspace_option
def check(name: str, node: bool, engine: Engine, workspace: Path | None) -> int:
    """Check profile NAME against its verdict, the lock and, with --node, this machine.

    On each node before a launch: `imagegate profile check NAME --node && …`.
    """
    from imagegate.usecases.profile import check_profile

    found = check_profile(find_workspace(workspace), name, engine=engine if node else None)
    for finding in found:
        click.echo(f"{'ok' if finding.holds else 'FAIL':<5}  {finding.what}: {finding.expected}")
        if not finding.holds:
            click.echo(f"       expected={finding.expected} found={finding.found}")
            if finding.hint:
                click.echo(f"       hint: {finding.hint}")
    return 0 if all(finding.holds for finding in found) else 1
