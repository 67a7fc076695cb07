"""``imagegate build``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from imagegate.cli.common import (
    complete_recipe,
    end_on_sigterm,
    insecure_option,
    invocation,
    workspace_option,
)
from imagegate.cli.manual import Command

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.engines.container.secrets import Secret
    from imagegate.engines.container.tools import Network


@click.command(cls=Command)
@click.argument("name", shell_complete=complete_recipe)
@click.option(
    "--full",
    "full_from",
    metavar="REF",
    help="Copy the base's layers out of this image into the layout too.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=None,
    help="Number of threads that compress; the digest is the same for any number.",
)
@click.option(
    "--engine",
    type=click.Choice(["compose", "docker", "podman"]),
    default="compose",
    show_default=True,
    help="compose needs no daemon; docker and podman build the recipe's Dockerfile.",
)
@click.option(
    "--builder",
    metavar="NAME",
    default="auto",
    show_default=True,
    help="One of docker's builders: auto, buildx, buildkit, classic, or the name of any builder "
    "that `docker buildx ls` lists, remote ones included.",
)
@click.option(
    "--network",
    type=click.Choice(["none", "default", "host"]),
    default="none",
    show_default=True,
    help="The network that the build's steps may use.",
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="ID=FILE",
    help="A secret file that steps can mount and that must not end up in the image.",
)
@insecure_option
@click.option("--details", is_flag=True, help="List every comparison, and where each note is.")
@workspace_option
def command(
    name: str,
    full_from: str | None,
    threads: int | None,
    engine: Literal["compose", "docker", "podman"],
    builder: str,
    network: Network,
    secrets: tuple[str, ...],
    insecure: bool,
    details: bool,
    workspace: Path | None,
) -> int:
    """Build NAME from its lock into build/NAME, judge it, and print the report."""
    from imagegate.errors import UsageError
    from imagegate.report.text import render_text
    from imagegate.usecases.build import build_recipe

    end_on_sigterm()
    call = invocation(workspace, insecure=insecure, threads=threads)
    if engine != "compose":
        from imagegate.usecases.engine_build import EngineChoice, build_with_engine

        if full_from is not None:
            raise UsageError("`--full` is for `--engine compose`")
        built = build_with_engine(
            call,
            name,
            choice=EngineChoice(
                name=engine,
                builder=builder,
                network=network,
                secrets=tuple(_secret(text) for text in secrets),
                insecure=insecure,
            ),
        )
        click.echo(render_text(built.verdict, details=details), nl=False)
        click.echo(f"digest    {built.digest}")
        return 0 if built.verdict.passed else 1
    if builder != "auto" or network != "none" or secrets:
        raise UsageError(
            "`--builder`, `--network` and `--secret` are for `--engine docker` and `podman`",
            hint="compose runs no step that could use them",
        )
    outcome = build_recipe(call, name, full_from=full_from)
    click.echo(render_text(outcome.verdict, details=details), nl=False)
    click.echo(f"digest    {outcome.composition.digest}")
    return 0 if outcome.verdict.passed else 1


def _secret(text: str) -> Secret:
    from pathlib import Path

    from imagegate.engines.container.secrets import Secret
    from imagegate.errors import UsageError

    name, equals, path = text.partition("=")
    if not equals or not path:
        raise UsageError(f"`--secret {text}`: write `ID=FILE`")
    return Secret.read(name, Path(path).resolve())
