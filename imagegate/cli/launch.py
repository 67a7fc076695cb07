"""``imagegate launch``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from imagegate.cli.common import find_workspace, workspace_option
from imagegate.cli.manual import Group
from imagegate.report.formats import Format

if TYPE_CHECKING:
    from collections.abc import Callable

    from imagegate.usecases.launch_check import Sources

EXIT_NOT_JUDGED = 3


def _complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a published profile's name in the shell."""
    from imagegate.errors import ImagegateError
    from imagegate.usecases.launching.plan import profile_names

    try:
        names = profile_names(find_workspace(ctx.params.get("workspace")))
    except ImagegateError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def _profile(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the profile, the variant, overrides and the workspace."""
    argument = click.argument("profile", required=False, shell_complete=_complete)
    variant = click.option("--variant", metavar="NAME", help="The variant `[serve.NAME]`.")
    override = click.option(
        "--override",
        "overrides",
        multiple=True,
        metavar="WORD",
        help="A word behind the arguments, e.g. --override=--max-model-len=65536; repeatable.",
    )
    return argument(variant(override(workspace_option(function))))


def _nodes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the ways to reach the nodes."""
    files = click.option(
        "--facts",
        "files",
        multiple=True,
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="A document of `imagegate node facts --json`; one for each node.",
    )
    commands = click.option(
        "--on",
        "commands",
        multiple=True,
        metavar="COMMAND",
        help="A command that reaches a host, e.g. 'ssh spark-1'; one for each node.",
    )
    here = click.option("--here", is_flag=True, help="This host is a node, the first one.")
    seconds = click.option(
        "--timeout", "seconds", type=click.FloatRange(min=1), metavar="SECONDS",
        help="How long each node may take.",
    )  # fmt: skip
    return files(commands(here(seconds(function))))


@click.group(name="launch", cls=Group)
def command() -> None:
    """Start what was judged, and check it against what every node has."""


def _sources(
    files: tuple[Path, ...],
    commands: tuple[str, ...],
    seconds: float | None,
    *,
    here: bool,
    ray: str | None = None,
    full: bool = False,
) -> Sources:
    from imagegate.usecases.launch_check import Sources

    return Sources(files=files, commands=commands, here=here, ray=ray, full=full, seconds=seconds)


@command.command()
@_profile
@_nodes
@click.option(
    "--ray", metavar="COMMAND", help="Probe Ray by this, e.g. 'ssh head docker exec glm'."
)
@click.option("--running", is_flag=True, help="The containers have to run already.")
@click.option("--full", is_flag=True, help="Hash the content of the weights too.")
@click.option(
    "--format",
    "form",
    type=click.Choice([f.value for f in Format]),
    default="text",
    show_default=True,
    help="Report format.",
)
@click.option("--details", is_flag=True, help="List every comparison.")
def check(
    profile: str | None,
    variant: str | None,
    overrides: tuple[str, ...],
    files: tuple[Path, ...],
    commands: tuple[str, ...],
    here: bool,
    seconds: float | None,
    ray: str | None,
    running: bool,
    full: bool,
    form: str,
    details: bool,
    workspace: Path | None,
) -> int:
    """Compare PROFILE with the facts of all nodes, before a model is loaded.

    Exit code 3 where a node gave no facts or something needed could not be seen; never a pass.
    """
    from imagegate import __version__
    from imagegate.report.formats import render
    from imagegate.usecases.launch_check import check_launch
    from imagegate.usecases.launching.plan import make_plan

    found = find_workspace(workspace)
    plan = make_plan(found, profile, variant, overrides)
    sources = _sources(files, commands, seconds, here=here, ray=ray, full=full)
    verdict = check_launch(found, plan, sources, running=running)
    click.echo(render([verdict], Format(form), version=__version__, details=details), nl=False)
    if verdict.unjudged or not verdict.reports:
        return EXIT_NOT_JUDGED
    return 0 if verdict.sound else 1
