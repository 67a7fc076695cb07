"""``imagegate launch``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from imagegate.cli.common import find_workspace, tell, workspace_option
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
        help="A further argument, e.g. --override=--max-model-len=65536; repeatable.",
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
        help="The time limit for each node.",
    )  # fmt: skip
    return files(commands(here(seconds(function))))


@click.group(name="launch", cls=Group)
def command() -> None:
    """Start what was judged, and check it against every node."""


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
    "--ray", metavar="COMMAND", help="A command that probes Ray, e.g. 'ssh head docker exec glm'."
)
@click.option("--running", is_flag=True, help="Require that the containers are already running.")
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


@command.command()
@_profile
@_nodes
@click.option(
    "--what",
    type=click.Choice(["serve", "ray-head", "ray-worker", "env", "container"]),
    default="serve",
    show_default=True,
    help="Which command, or the variables of one node.",
)
@click.option("--json", "as_json", is_flag=True, help="Words or variables as JSON.")
def args(
    profile: str | None,
    variant: str | None,
    overrides: tuple[str, ...],
    files: tuple[Path, ...],
    commands: tuple[str, ...],
    here: bool,
    seconds: float | None,
    what: str,
    as_json: bool,
    workspace: Path | None,
) -> int:
    """Write what a launcher starts for PROFILE, quoted for sh.

    Variant and overrides are judged by the image's own options first; what its parser refuses is
    refused here. For what differs from node to node give exactly one node.
    """
    import json

    from imagegate.errors import UsageError
    from imagegate.usecases.launch_args import launch_words
    from imagegate.usecases.launch_check import gather
    from imagegate.usecases.launching.plan import make_plan

    plan = make_plan(find_workspace(workspace), profile, variant, overrides)
    node = None
    if files or commands or here:
        gathered = gather(plan.section, _sources(files, commands, seconds, here=here))
        if gathered.silent:
            where, why = gathered.silent[0]
            tell(f"imagegate: {where}: {why}", err=True)
            return EXIT_NOT_JUDGED
        if len(gathered.nodes) != 1:
            raise UsageError("give exactly one node: its variables are not another's")
        node = gathered.nodes[0]
    words = launch_words(plan, what, node)  # type: ignore[arg-type]
    if as_json:
        document = words.variables if words.variables is not None else words.command
        click.echo(json.dumps(document))
    else:
        click.echo(words.shell(), nl=False)
    return 0


@command.command()
@_profile
@_nodes
@click.option(
    "--engine",
    type=click.Choice(["docker", "podman"]),
    default="docker",
    show_default=True,
    help="The engine on the nodes.",
)
def precompile(
    profile: str | None,
    variant: str | None,
    overrides: tuple[str, ...],
    files: tuple[Path, ...],
    commands: tuple[str, ...],
    here: bool,
    seconds: float | None,
    engine: str,
    workspace: Path | None,
) -> int:
    """Compile the kernels of PROFILE on every node, while no model is resident.

    In a throw-away container of exactly the published image, its cache mounted by digest, with as
    many jobs as fit. Refuses while a model is resident; proves afterwards that the kernels are
    there.
    """
    from imagegate.cli.common import reporter
    from imagegate.errors import UsageError
    from imagegate.usecases.launch_precompile import precompile as build
    from imagegate.usecases.launching.plan import make_plan

    if files:
        raise UsageError("recorded facts cannot compile: name the nodes by `--on` or `--here`")
    found = find_workspace(workspace)
    plan = make_plan(found, profile, variant, overrides)
    sources = _sources((), commands, seconds, here=here)
    complete = True
    for one in build(found, plan, sources, reporter(), engine=engine):
        complete = complete and not one.missing
        missing = f"; missing: {', '.join(one.missing)}" if one.missing else ""
        tell(f"{one.node}: {one.libraries} libraries by {one.jobs} jobs{missing}")
    return 0 if complete else 1


@command.command()
@_profile
@_nodes
def down(
    profile: str | None,
    variant: str | None,
    overrides: tuple[str, ...],
    files: tuple[Path, ...],
    commands: tuple[str, ...],
    here: bool,
    seconds: float | None,
    workspace: Path | None,
) -> int:
    """Stop what PROFILE started on every node, and list what is left.

    Exit code 1 where something of it, or another user of the GPU, is left; 3 where a node could not be reached.
    """
    from imagegate.errors import UsageError
    from imagegate.usecases.launch_down import end_launch
    from imagegate.usecases.launching.plan import make_plan

    if files or not (commands or here):
        raise UsageError("name the nodes by `--on` or `--here`")
    found = find_workspace(workspace)
    plan = make_plan(found, profile, variant, overrides)
    code = 0
    for one in end_launch(found, plan, _sources((), commands, seconds, here=here)):
        if one.error:
            tell(f"{one.node}: {one.error}", err=True)
            code = EXIT_NOT_JUDGED
            continue
        tell(f"{one.node}: ended {', '.join(one.ended) or 'nothing'}")
        if one.left:
            tell(f"{one.node}: left {', '.join(one.left)}")
            code = code or 1
    return code


@command.command()
@_profile
@_nodes
@click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="The server.")
@click.option("--key-env", metavar="NAME", help="The variable that holds the API's key.")
@click.option(
    "--before",
    multiple=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Facts of a node before the start; with the nodes now, what it took is stored.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice([f.value for f in Format]),
    default="text",
    show_default=True,
    help="Report format.",
)
def probe(
    profile: str | None,
    variant: str | None,
    overrides: tuple[str, ...],
    files: tuple[Path, ...],
    commands: tuple[str, ...],
    here: bool,
    seconds: float | None,
    url: str,
    key_env: str | None,
    before: tuple[Path, ...],
    form: str,
    workspace: Path | None,
) -> int:
    """Query the served model of PROFILE, and store the result with the image's digest.

    Health, a first question timed apart, thought and content, a tool call, tokens a second as a
    median. The next `launch check` calculates from what was stored.
    """
    import os
    from datetime import UTC, datetime

    from imagegate import __version__
    from imagegate.errors import UsageError
    from imagegate.report.formats import render
    from imagegate.usecases.launch_probe import probe_launch
    from imagegate.usecases.launching.plan import make_plan

    key = None
    if key_env is not None:
        key = os.environ.get(key_env)
        if key is None:
            raise UsageError(f"the variable `{key_env}` is not set")
    found = find_workspace(workspace)
    plan = make_plan(found, profile, variant, overrides)
    now = _sources(files, commands, None, here=here) if files or commands or here else None
    earlier = _sources(before, (), None, here=False) if before else None
    if (now is None) != (earlier is None):
        raise UsageError("facts before and after the start are needed, or neither")
    around = (earlier, now) if earlier is not None and now is not None else None
    verdict, stored = probe_launch(
        found, plan, url, now=datetime.now(UTC), key=key, seconds=seconds or 600.0,
        around=around,
    )  # fmt: skip
    click.echo(render([verdict], Format(form), version=__version__, details=False), nl=False)
    click.echo(f"stored in {stored}", err=True)
    return 0 if verdict.sound else 1
