"""``imagegate profile``."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import click

from imagegate.cli.common import find_workspace, workspace_option
from imagegate.usecases.profile import Engine

if TYPE_CHECKING:
    from pathlib import Path


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
@click.option("--json", "as_json", is_flag=True, help="Everything, who and when included.")
@workspace_option
def show(name: str, as_json: bool, workspace: Path | None) -> int:
    """Write the published variables of profile NAME, as launchers read them."""
    from imagegate.oci.documents import canonical_json
    from imagegate.profile import encode_env
    from imagegate.usecases.profile import show_profile

    state = show_profile(find_workspace(workspace), name)
    content = canonical_json(state.model_dump(mode="json")) if as_json else encode_env(state.env)
    click.echo(content.decode(), nl=False)
    return 0


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
