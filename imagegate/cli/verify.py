"""``imagegate verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from imagegate.cli.common import (
    complete_recipe,
    find_workspace,
    insecure_option,
    reporter,
    workspace_option,
)

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.engines.container.tools import EngineName


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_recipe)
@click.option(
    "--image",
    metavar="REF",
    help="The image to judge instead of build/NAME: oci:FOLDER, docker-archive:FILE, "
    "registry/repository@sha256:…, docker-daemon:NAME, podman:NAME.",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option(
    "--details", is_flag=True, help="List every single comparison (text only; JSON always does)."
)
@click.option("--probe", is_flag=True, help="Run the image too and compare what it says of itself.")
@click.option(
    "--engine",
    type=click.Choice(["docker", "podman"]),
    default="docker",
    show_default=True,
    help="What runs the image for --probe.",
)
@insecure_option
@workspace_option
def command(
    names: tuple[str, ...],
    image: str | None,
    form: str,
    details: bool,
    probe: bool,
    engine: EngineName,
    insecure: bool,
    workspace: Path | None,
) -> int:
    """Judge the images of the named recipes, or of all, from their bytes.

    Reads the manifest, the config, the lock and the added layers; the base is not read.
    """
    from imagegate.errors import UsageError
    from imagegate.report.document import render_json
    from imagegate.report.text import render_text
    from imagegate.usecases.verify import verify_recipe

    found = find_workspace(workspace)
    chosen = names or found.recipe_names()
    if not chosen:
        raise UsageError("the workspace has no recipe", hint="write `images/NAME/image.toml`")
    if image is not None and len(chosen) != 1:
        raise UsageError(
            "`--image` needs exactly one recipe", hint="name the recipe it was built from"
        )
    passed = True
    for name in chosen:
        verdict = verify_recipe(
            found,
            name,
            image=image,
            reporter=reporter(),
            insecure=insecure,
            probe_with=engine if probe else None,
        )
        passed = passed and verdict.passed
        report = (
            render_json(verdict).decode()
            if form == "json"
            else render_text(verdict, details=details)
        )
        click.echo(report, nl=False)
    return 0 if passed else 1
