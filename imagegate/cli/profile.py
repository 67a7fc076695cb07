"""``imagegate profile``."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import click

from imagegate.cli.common import find_workspace, tell, workspace_option
from imagegate.cli.manual import Group
from imagegate.foreign import shown
from imagegate.usecases.profile import Engine

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.profile import PublishedState
    from imagegate.usecases.profile import ProfileFinding
    from imagegate.workspace import Workspace


def _complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a published profile's name in the shell."""
    from imagegate.errors import ImagegateError

    try:
        folder = find_profiles(ctx.params.get("workspace")).profiles()
    except ImagegateError:
        return []
    return sorted(path.stem for path in folder.glob(f"{incomplete}*.env"))


@click.group(name="profile", cls=Group)
def command() -> None:
    """Show what is published for launchers, and check that it is still right."""


@command.command()
@click.argument("name", shell_complete=_complete)
@click.option("--json", "as_json", is_flag=True, help="Everything, including who, when and why.")
@click.option(
    "--history", is_flag=True, help="List what was published under this name, newest first."
)
@workspace_option
def show(name: str, as_json: bool, history: bool, workspace: Path | None) -> int:
    """Write the published variables of profile NAME, as launchers read them.

    Standard error says who published them, when and why.
    """
    from imagegate.oci.documents import canonical_json
    from imagegate.profile import encode_env
    from imagegate.usecases.profile import profile_history

    states = profile_history(find_profiles(workspace), name)
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
    return shown(
        f"{state.promoted_at} {what} {state.env['IMAGE']} by {state.promoted_by}: "
        f"{state.why or 'no reason given'}"
    )


@command.command()
@click.argument("names", nargs=-1, shell_complete=_complete)
@click.option("--all", "every", is_flag=True, help="Check every published profile.")
@click.option("--node", is_flag=True, help="Also compare with the image in this machine's engine.")
@click.option(
    "--engine",
    type=click.Choice(get_args(Engine)),
    default="docker",
    show_default=True,
    help="The engine that --node checks.",
)
@workspace_option
def check(
    names: tuple[str, ...], every: bool, node: bool, engine: Engine, workspace: Path | None
) -> int:
    """Check profiles NAMES against what was published and, with --node, this machine.

    Each measured line is derived again from the stored verdict. A newer lock in the workspace is
    a note. The folder `profiles` alone is enough.

    On each node before a launch: `imagegate profile check NAME --node && …`.
    """
    from imagegate.errors import ImagegateError, UsageError
    from imagegate.usecases.profile import check_profile, published_names

    found = find_profiles(workspace)
    if every == bool(names):
        raise UsageError("name the profiles to check, or give `--all`")
    code = 0
    for name in published_names(found) if every else names:
        if len(names) != 1:
            click.echo(name)
        try:
            answers = check_profile(found, name, engine=engine if node else None)
        except ImagegateError as error:
            # one profile that cannot be judged hides no other
            if len(names) == 1:
                raise
            click.echo(f"{'ERROR':<5}  {shown(error.message)}")
            code = max(code, error.exit_code)
            continue
        for answer in answers:
            _tell(answer)
        if not all(answer.holds or answer.noted for answer in answers):
            code = max(code, 1)
    return code


def _tell(answer: ProfileFinding) -> None:
    word = "ok" if answer.holds else "note" if answer.noted else "FAIL"
    tell(f"{word:<5}  {answer.what}: {answer.expected}")
    if not answer.holds:
        click.echo(f"       expected={shown(answer.expected)} found={shown(answer.found)}")
        if answer.hint:
            click.echo(f"       hint: {shown(answer.hint)}")


@command.command()
@click.argument("name", shell_complete=_complete)
@click.option("--why", default="", help="The reason, in one line.")
@workspace_option
def retire(name: str, why: str, workspace: Path | None) -> int:
    """End profile NAME: launchers no longer find it; its history stays.

    `imagegate promote` brings it back.
    """
    from datetime import UTC, datetime

    from imagegate.cli.common import person
    from imagegate.usecases.profile import retire_profile

    path = retire_profile(
        find_profiles(workspace), name, at=datetime.now(UTC), by=person(), why=why
    )
    tell(f"retired {path}")
    return 0


def find_profiles(chosen: Path | None) -> Workspace:
    """Return the workspace, or the folder above that has `profiles` and nothing else of one."""
    from pathlib import Path

    from imagegate.errors import UsageError
    from imagegate.workspace import Workspace

    try:
        return find_workspace(chosen)
    except UsageError:
        start = (chosen or Path.cwd()).resolve()
        for folder in (start, *start.parents):
            if (folder / "profiles").is_dir():
                return Workspace(folder)
        raise
