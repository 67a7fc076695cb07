"""``imagegate coverage``: where does every recipe asset end, on every builder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imagegate.cli.manual import Command
from imagegate.errors import UsageError

if TYPE_CHECKING:
    from imagegate.usecases.coverage import Request


@click.command(name="coverage", cls=Command)
@click.option(
    "--dockerfile",
    "dockerfiles",
    multiple=True,
    default=("Dockerfile",),
    show_default=True,
    metavar="FILE",
    help="Dockerfile to judge; may be given several times.",
)
@click.option("--context", default=".", show_default=True, metavar="DIR", help="The build context.")
@click.option(
    "--recipes",
    multiple=True,
    metavar="GLOB",
    help="Recipe folders, relative to the context, e.g. 'recipes/*'.",
)
@click.option(
    "--expect",
    "expects",
    multiple=True,
    metavar="SRC=DST",
    help="Where a recipe has to lie in the image, with {model} on both sides. "
    "Without it the recipes that are covered say where the others belong.",
)
@click.option("--target", metavar="STAGE", help="The stage that becomes the image.")
@click.option(
    "--build-arg",
    "build_args",
    multiple=True,
    metavar="K[=V]",
    help="A build argument; without a value it is taken from the environment.",
)
@click.option(
    "--build-context",
    "build_contexts",
    multiple=True,
    metavar="NAME=DIR",
    help="A named context.",
)
@click.option(
    "--builder",
    "builders",
    multiple=True,
    default=("buildkit",),
    show_default=True,
    metavar="NAME",
    help="Builder to judge for: buildkit, classic, buildah, one of their older versions "
    "(buildkit-20.10, classic-20.10, buildah-1.28), or all.",
)
@click.option(
    "--run-keeps",
    multiple=True,
    metavar="PATH",
    help="A path in the image that no RUN touches; you vouch for it.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="How to report.",
)
@click.option("--fix", is_flag=True, help="Write the proposed edits.")
@click.option(
    "--list-context", is_flag=True, help="Print what is sent, and what is dropped by which line."
)
@click.pass_context
def command(
    ctx: click.Context,
    *,
    dockerfiles: tuple[str, ...],
    context: str,
    recipes: tuple[str, ...],
    expects: tuple[str, ...],
    target: str | None,
    build_args: tuple[str, ...],
    build_contexts: tuple[str, ...],
    builders: tuple[str, ...],
    run_keeps: tuple[str, ...],
    format_: str,
    fix: bool,
    list_context: bool,
) -> None:
    """Prove, without building, that every recipe asset ends in the image.

    Each file of each recipe has to pass the ignore file, be copied by the Dockerfile, survive
    later instructions and lie at its path with its own content.
    """
    from imagegate.coverage.building.profiles import PROFILES
    from imagegate.usecases.coverage import Request

    request = Request(
        dockerfiles=tuple(Path(name) for name in dockerfiles),
        context=Path(context),
        recipes=recipes,
        expects=tuple(_pair(item, "--expect") for item in expects),
        target=target,
        build_args=_build_args(build_args),
        build_contexts={
            name: Path(folder)
            for name, folder in (_pair(item, "--build-context") for item in build_contexts)
        },
        builders=tuple(PROFILES) if "all" in builders else builders,
        run_keeps=run_keeps,
    )
    if list_context:
        _print_context(request, format_)
        return
    if not recipes:
        raise UsageError("no `--recipes` given", hint="e.g. --recipes 'recipes/*'")
    ctx.exit(_judge(request, format_, fix=fix))


def _judge(request: Request, format_: str, *, fix: bool) -> int:
    from imagegate.coverage.render import to_github, to_json, to_text
    from imagegate.usecases.coverage import check_coverage

    reports = check_coverage(request, fix=fix)
    render = {"text": to_text, "json": to_json, "github": to_github}[format_]
    click.echo(render(reports), nl=False)
    for report in reports:
        if report.left_out:
            left = ", ".join(report.left_out)
            click.echo(f"note: git-ignored and not copied, so no assets: {left}", err=True)
        if report.edits and not fix:
            click.echo("hint: `--fix` writes the proposed lines", err=True)
        if report.unknown:
            click.echo(
                "hint: copy behind the line that leaves it open, or vouch with `--run-keeps PATH` "
                "for a path that no RUN changes",
                err=True,
            )
    return 0 if all(report.covered for report in reports) else 1


def _print_context(request: Request, format_: str) -> None:
    import json

    from imagegate.usecases.coverage import list_context

    listed = list_context(request)
    if format_ == "json":
        rows = [
            {"builder": builder, "path": sent.path, "state": sent.state, "by": sent.by}
            for builder, sent in listed
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    several = len(request.builders) > 1
    for builder, sent in listed:
        head = f"{builder}\t" if several else ""
        click.echo(f"{head}{sent.state}\t{sent.path}\t{sent.by}".rstrip())


def _pair(item: str, option: str) -> tuple[str, str]:
    left, equals, right = item.partition("=")
    if not (left and equals and right):
        raise UsageError(f"`{option} {item}` has no form `A=B`")
    return left, right


def _build_args(items: tuple[str, ...]) -> dict[str, str]:
    values: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            if name not in os.environ:
                continue
            value = os.environ[name]
        values[name] = value
    return values
