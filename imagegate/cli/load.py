"""``imagegate load``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from imagegate.cli.common import (
    complete_recipe,
    end_on_sigterm,
    insecure_option,
    invocation_in,
    tell,
    workspace_option,
)
from imagegate.cli.manual import Command
from imagegate.cli.profile import find_profiles

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.usecases.load import Loaded


@click.command(cls=Command)
@click.argument("name", shell_complete=complete_recipe)
@click.option(
    "--engine",
    type=click.Choice(["docker", "podman"]),
    default="docker",
    show_default=True,
    help="Whose store takes the image.",
)
@click.option(
    "--host",
    metavar="URL",
    help="The engine's host, as `ssh://user@host`; this machine's engine by default.",
)
@click.option("--image", metavar="REF", help="The image to load instead of the published one.")
@click.option("--base", metavar="REF", help="Where the base's layers are.")
@insecure_option
@workspace_option
def command(
    name: str,
    engine: Literal["docker", "podman"],
    host: str | None,
    image: str | None,
    base: str | None,
    insecure: bool,
    workspace: Path | None,
) -> int:
    """Load the image of NAME into docker or podman without a registry, and read it back.

    Without --image it is the image that profiles/NAME.env names, from build/NAME or its registry;
    where nothing is published, it is build/NAME. Layers that docker's classic store already holds
    are not sent; docker's containerd store and podman take the whole image.
    """
    from imagegate.usecases.load import LoadChoice, load_image

    end_on_sigterm()
    call = invocation_in(find_profiles(workspace), insecure=insecure)
    loaded = load_image(call, name, LoadChoice(engine=engine, host=host, image=image, base=base))
    for line in _lines(name, loaded):
        tell(line)
    return 0


def _lines(name: str, loaded: Loaded) -> list[str]:
    if loaded.sent:
        moved = f"{loaded.size} bytes in {loaded.sent} layers; {loaded.held} were there"
    else:
        moved = f"nothing: all {loaded.held} layers were there"
    published = {
        True: f"profiles/{name}.env names this image",
        False: f"profiles/{name}.env names another image",
        None: f"`{name}` has no profile: this image is not published",
    }[loaded.published]
    lines = [
        f"loaded    {loaded.identity}",
        f"into      {loaded.where}",
        f"as        {loaded.name}",
        f"from      {loaded.location}",
        f"sent      {moved}",
        "compared  id, diff ids, platform and configuration, as the engine has them",
        f"profile   {published}",
    ]
    return lines + ([f"note      {loaded.remark}"] if loaded.remark else [])
