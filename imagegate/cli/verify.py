"""``imagegate verify``."""

from __future__ import annotations

import difflib
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imagegate.cli.common import (
    attested_options,
    complete_check,
    complete_recipe,
    insecure_option,
    invocation,
    tell,
    workspace_option,
    write_summary,
)
from imagegate.cli.manual import Command
from imagegate.report.formats import Format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.engines.container.tools import EngineName
    from imagegate.usecases.invocation import Invocation
    from imagegate.verdict import ImageVerdict
    from imagegate.workspace import Workspace


@click.command(cls=Command)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_recipe)
@click.option(
    "--image",
    metavar="REF",
    help="The image to judge instead of build/NAME: oci:FOLDER, docker-archive:FILE, "
    "registry/repository@sha256:…, docker-daemon:NAME, podman:NAME.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in Format]),
    default=Format.TEXT.value,
    show_default=True,
    help="How standard output tells it; SARIF and JUnit hold all recipes in one document.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report as one HTML file too, which needs no network to be read.",
)
@attested_options
@click.option(
    "--static",
    is_flag=True,
    help="Need no image: are the locks whole, and made from the recipes as they are now.",
)
@click.option(
    "--details",
    is_flag=True,
    help="List every comparison, and where each note is (JSON always does).",
)
@click.option(
    "--only",
    multiple=True,
    metavar="CHECK",
    shell_complete=complete_check,
    help="Run this check alone; may be given often.",
)
@click.option(
    "--skip",
    multiple=True,
    metavar="CHECK",
    shell_complete=complete_check,
    help="Leave this check out; may be given often.",
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
    html: Path | None,
    key: Path | None,
    max_age: float,
    static: bool,
    details: bool,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    probe: bool,
    engine: EngineName,
    insecure: bool,
    workspace: Path | None,
) -> int:
    """Judge the images of the named recipes, or of all, from their bytes.

    Reads the manifest, the config, the lock and the added layers; the base is not read.
    A verdict with checks left out says so and cannot be promoted.
    Inside GitHub Actions the job's summary gets the report too.
    """
    from imagegate import __version__
    from imagegate.errors import UsageError
    from imagegate.report.formats import render

    call = invocation(workspace, insecure=insecure)
    found = call.workspace
    chosen = names or found.recipe_names()
    if not chosen:
        raise UsageError("the workspace has no recipe", hint="write `images/NAME/image.toml`")
    if image is not None and len(chosen) != 1:
        raise UsageError(
            "`--image` needs exactly one recipe", hint="name the recipe it was built from"
        )
    left_out = left_out_checks(only, skip)
    if static:
        if image is not None or key is not None or html is not None:
            raise UsageError("`--static` needs no image; leave out what is about one")
        return _static(found, chosen)
    if key is not None and html is not None:
        raise UsageError(
            "`--html` shows what an image holds, a stored verdict does not",
            hint="leave `--attested` out: the image is judged from its bytes",
        )
    if key is not None and probe:
        raise UsageError("a stored verdict is not asked by running: leave `--probe` out")
    if key is not None and left_out:
        raise UsageError("a stored verdict is one of all checks: leave `--only` and `--skip` out")
    if key is not None:
        verdicts = _attested(call, chosen, image, key, max_age)
    else:
        verdicts = _judged(
            call,
            chosen,
            image,
            html,
            left_out,
            probe_with=engine if probe else None,
        )
    write_job_summary(verdicts)
    click.echo(render(verdicts, Format(form), version=__version__, details=details), nl=False)
    return 0 if all(verdict.sound for verdict in verdicts) else 1


def left_out_checks(only: tuple[str, ...], skip: tuple[str, ...]) -> frozenset[str]:
    """Turn the two options into the checks that are left out.

    Raises:
        UsageError: no check has such a name, or nothing would be left to run.
    """
    from imagegate.checks.image import CHECKS
    from imagegate.errors import UsageError

    known = [check.id for check in CHECKS]
    for name in (*only, *skip):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise UsageError(
                f"no check is named `{name}`",
                hint=f"did you mean `{near[0]}`?" if near else "run `imagegate explain`",
            )
    left_out = frozenset(skip) | (frozenset(known) - frozenset(only) if only else frozenset())
    if len(left_out) == len(known):
        raise UsageError("`--only` and `--skip` leave no check to run")
    return left_out


def _judged(
    call: Invocation,
    names: Sequence[str],
    image: str | None,
    html: Path | None,
    left_out: frozenset[str],
    *,
    probe_with: EngineName | None,
) -> list[ImageVerdict]:
    from imagegate import __version__
    from imagegate.usecases.verify import verify_recipe

    judged = [
        verify_recipe(call, name, image=image, skip=left_out, probe_with=probe_with)
        for name in names
    ]
    if html is not None:
        from imagegate.report.html import render_html
        from imagegate.workspace.atomic import write_file

        write_file(html, render_html(judged, version=__version__).encode())
    return [verdict for verdict, _ in judged]


def _static(workspace: Workspace, names: Sequence[str]) -> int:
    from imagegate.errors import ImagegateError
    from imagegate.usecases.verify import verify_static

    code = 0
    for name in names:
        try:
            tell(f"ok     {name}: {verify_static(workspace, name)}")
        except ImagegateError as error:
            # every recipe is looked at: a commit that breaks two locks hears of both
            tell(f"FAIL   {name}: {error.message}")
            tell(f"       hint: {error.hint or 'see the message'}")
            code = max(code, error.exit_code)
    return code


def _attested(
    call: Invocation, names: Sequence[str], image: str | None, key: Path, max_age: float
) -> list[ImageVerdict]:
    from imagegate.signing.keys import read_verifier
    from imagegate.usecases.attested import verify_attested

    verifier = read_verifier(key)
    return [
        verify_attested(
            call, name, image=image, verifier=verifier, max_age=timedelta(hours=max_age)
        )
        for name in names
    ]


def write_job_summary(verdicts: Sequence[ImageVerdict]) -> None:
    """Add the report to the job's summary, where GitHub Actions asks for one."""
    from imagegate import __version__
    from imagegate.report.formats import render

    write_summary(render(verdicts, Format.MARKDOWN, version=__version__, details=False))
