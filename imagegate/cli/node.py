"""``imagegate node``."""

from __future__ import annotations

import click

from imagegate.cli.common import tell
from imagegate.cli.manual import Group


@click.group(name="node", cls=Group)
def command() -> None:
    """Show what a host has that a launch depends on."""


@command.command()
@click.option("--weights", multiple=True, metavar="DIR", help="Check this checkpoint; repeatable.")
@click.option(
    "--cache", "caches", multiple=True, metavar="DIR", help="List compiled kernels; repeatable."
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    type=click.Choice(["docker", "podman"]),
    help="Ask only this engine; repeatable.",
)
@click.option("--full", is_flag=True, help="Hash the weights' content too.")
@click.option(
    "--on", "prefix", metavar="COMMAND", help="A command that reaches the host, e.g. 'ssh node'."
)
@click.option("--json", "as_json", is_flag=True, help="The whole document.")
def facts(
    weights: tuple[str, ...],
    caches: tuple[str, ...],
    engines: tuple[str, ...],
    full: bool,
    prefix: str | None,
    as_json: bool,
) -> int:
    """Show what this host has: memory, killers, driver, engines, weights, caches, links.

    Prints a summary without --json; what could not be seen is always listed. The module behind this runs
    alone too: `ssh node python3 - --weights DIR < imagegate/nodes/facts.py`.
    """
    from imagegate.launch.facts import read_node_facts
    from imagegate.nodes.collecting import Wanted, collect_behind, collect_here

    wanted = Wanted(weights=weights, caches=caches, engines=engines, full=full)
    said = collect_behind(prefix, wanted) if prefix else collect_here(wanted)
    node = read_node_facts(said, prefix or "this host")
    if as_json:
        click.echo(said.decode(), nl=False)
        return 0
    from imagegate.usecases.launching.summary import summarise

    for line in summarise(node):
        tell(line)
    return 0
