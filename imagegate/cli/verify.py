"""``imagegate verify``."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imagegate.cli.common import complete_recipe, find_workspace, reporter, workspace_option
from imagegate.report.formats import Format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.verdict import Verdict
    from imagegate.workspace import Workspace


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_recipe)
@click.option(
    "--image",
    metavar="REF",
    help="The image to judge instead of build/NAME: oci:FOLDER, docker-archive:FILE.",
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
@click.option(
    "--attested",
    "key",
    metavar="KEYFILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take a stored verdict that this public key signed, if it counts; judge otherwise.",
)
@click.option(
    "--max-age",
    metavar="HOURS",
    type=click.FloatRange(min=0),
    default=168.0,
    show_default=True,
    help="How old a stored verdict may be.",
)
@click.option(
    "--static",
    is_flag=True,
    help="Need no image: are the locks whole, and made from the recipes as they are now.",
)
@click.option(
    "--details", is_flag=True, help="List every single comparison (text only; JSON always does)."
)
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
    workspace: Path | None,
) -> int:
    """Judge the images of the named recipes, or of all, from their bytes.

    Reads the manifest, the config, the lock and the added layers; the base is not read.
    Inside GitHub Actions the job's summary gets the report too.
    """
    from imagegate import __version__
    from imagegate.errors import UsageError
    from imagegate.report.formats import render

    found = find_workspace(workspace)
    chosen = names or found.recipe_names()
    if not chosen:
        raise UsageError("the workspace has no recipe", hint="write `images/NAME/image.toml`")
    if image is not None and len(chosen) != 1:
        raise UsageError(
            "`--image` needs exactly one recipe", hint="name the recipe it was built from"
        )
    if static:
        if image is not None or key is not None or html is not None:
            raise UsageError("`--static` needs no image; leave out what is about one")
        return _static(found, chosen)
    if key is not None and html is not None:
        raise UsageError(
            "`--html` shows what an image holds, a stored verdict does not",
            hint="leave `--attested` out: the image is judged from its bytes",
        )
    if key is not None:
        verdicts = _attested(found, chosen, image, key, max_age)
    else:
        verdicts = _judged(found, chosen, image, html)
    write_job_summary(verdicts)
    click.echo(render(verdicts, Format(form), version=__version__, details=details), nl=False)
    return 0 if all(verdict.passed for verdict in verdicts) else 1


def _judged(
    workspace: Workspace, names: Sequence[str], image: str | None, html: Path | None
) -> list[Verdict]:
    from imagegate import __version__
    from imagegate.usecases.verify import verify_recipe

    judged = [verify_recipe(workspace, name, image=image, reporter=reporter()) for name in names]
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
            click.echo(f"ok     {name}: {verify_static(workspace, name)}")
        except ImagegateError as error:
            # every recipe is looked at: a commit that breaks two locks hears of both
            click.echo(f"FAIL   {name}: {error.message}")
            click.echo(f"       hint: {error.hint or 'see the message'}")
            code = max(code, error.exit_code)
    return code


def _attested(
    workspace: Workspace, names: Sequence[str], image: str | None, key: Path, max_age: float
) -> list[Verdict]:
    from imagegate.signing.keys import read_verifier
    from imagegate.usecases.attested import verify_attested

    verifier = read_verifier(key)
    return [
        verify_attested(
            workspace,
            name,
            image=image,
            verifier=verifier,
            now=datetime.now(UTC),
            max_age=timedelta(hours=max_age),
            reporter=reporter(),
        )
        for name in names
    ]


def write_job_summary(verdicts: Sequence[Verdict]) -> None:
    """Add the report to the job's summary, where GitHub Actions asks for one."""
    from imagegate import __version__
    from imagegate.report.formats import render

    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as stream:
            stream.write(render(verdicts, Format.MARKDOWN, version=__version__, details=False))
