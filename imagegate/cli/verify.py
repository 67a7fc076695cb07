"""``imagegate verify``."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imagegate.cli.common import (
    Named,
    attested_options,
    complete_check,
    complete_recipe,
    find_workspace,
    insecure_option,
    invocation,
    jobs_option,
    tell,
    workspace_option,
    write_summary,
)
from imagegate.cli.manual import Command
from imagegate.report.formats import Format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.checks.image.evidence import Evidence
    from imagegate.engines.container.tools import EngineName
    from imagegate.errors import ImagegateError
    from imagegate.report.several import Unjudged
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
    help="Report format; SARIF and JUnit hold all recipes in one document.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the report as one self-contained HTML file.",
)
@attested_options
@click.option(
    "--static",
    is_flag=True,
    help="Check only the locks, without an image: intact, and up to date with the recipes.",
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
    help="Run only this check; repeatable.",
)
@click.option(
    "--skip",
    multiple=True,
    metavar="CHECK",
    shell_complete=complete_check,
    help="Leave this check out; repeatable.",
)
@click.option(
    "--probe", is_flag=True, help="Also run the image and compare what it reports about itself."
)
@click.option(
    "--engine",
    type=click.Choice(["docker", "podman"]),
    default="docker",
    show_default=True,
    help="The engine that runs the image for --probe.",
)
@click.option(
    "--published",
    is_flag=True,
    help="Judge what the profiles name, from its registry, instead of the builds.",
)
@jobs_option
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
    published: bool,
    jobs: int,
    insecure: bool,
    workspace: Path | None,
) -> int:
    """Judge the images of the named recipes, or of all, from their bytes.

    NAME may be a pattern such as 'glm*'. Every image is judged: one that cannot be hides no other,
    and the exit code is the worst.

    Reads the manifest, the config, the lock and the added layers; the base is not read.
    A verdict with checks left out says so and cannot be promoted.
    Inside GitHub Actions the job's summary gets the report too.
    """
    from imagegate import __version__
    from imagegate.errors import UsageError
    from imagegate.report.formats import render
    from imagegate.report.several import Unjudged, exit_code
    from imagegate.usecases.several import choose, each

    found = find_workspace(workspace)
    known = _published_names(found) if published else found.recipe_names()
    chosen = choose(names, known, "profile" if published else "recipe")
    if image is not None and len(names or chosen) != 1:
        raise UsageError(
            "`--image` needs exactly one recipe", hint="name the recipe it was built from"
        )
    if published and (image is not None or static):
        raise UsageError("`--published` says what is judged: leave `--image` and `--static` out")
    left_out = left_out_checks(only, skip)
    if static:
        if image is not None or key is not None or html is not None:
            raise UsageError("`--static` needs no image; leave out what is about one")
        return _static(found, chosen)
    if key is not None:
        _require_stored(html, left_out, probe=probe)
    task = _Task(
        workspace=found.root,
        insecure=insecure,
        image=image,
        published=published,
        left_out=left_out,
        probe_with=engine if probe else None,
        key=key,
        max_age=max_age,
        several=len(chosen) > 1,
    )
    if html is not None:
        results = _with_page(task, chosen, html)
    else:
        results = each(chosen, partial(_verdict, task), file_of=_file_of, jobs=jobs)
    if len(results) == 1 and isinstance(results[0], Unjudged) and form == "text":
        raise _as_error(results[0])
    write_job_summary(results)
    click.echo(render(results, Format(form), version=__version__, details=details), nl=False)
    return exit_code(results)


def _require_stored(html: Path | None, left_out: frozenset[str], *, probe: bool) -> None:
    """Refuse what a stored verdict cannot answer."""
    from imagegate.errors import UsageError

    if html is not None:
        raise UsageError(
            "`--html` shows what an image holds, a stored verdict does not",
            hint="leave `--attested` out: the image is judged from its bytes",
        )
    if probe:
        raise UsageError("a stored verdict is not asked by running: leave `--probe` out")
    if left_out:
        raise UsageError("a stored verdict is one of all checks: leave `--only` and `--skip` out")


def _with_page(task: _Task, names: Sequence[str], html: Path) -> list[ImageVerdict | Unjudged]:
    """Judge in this process, which holds what the images hold, and write the page.

    A page of some of the images would look like one of all: there is none then.
    """
    from imagegate import __version__
    from imagegate.report.html import render_html
    from imagegate.report.several import Unjudged
    from imagegate.usecases.several import each
    from imagegate.workspace.atomic import write_file

    judged = each(names, partial(_with_evidence, task), file_of=_file_of)
    pairs = [one for one in judged if not isinstance(one, Unjudged)]
    if len(pairs) == len(judged):
        write_file(html, render_html(pairs, version=__version__).encode())
    else:
        missing = len(judged) - len(pairs)
        tell(
            f"`{html}` is not written: {missing} of {len(judged)} images were not judged", err=True
        )
    return [one if isinstance(one, Unjudged) else one[0] for one in judged]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What judging one image needs; it goes to another process as it is."""

    workspace: Path
    insecure: bool
    image: str | None
    published: bool
    left_out: frozenset[str]
    probe_with: EngineName | None
    key: Path | None
    max_age: float
    several: bool

    def call(self, name: str) -> Invocation:
        """Return what one of several has; its remarks say which one they are about."""
        call = invocation(self.workspace, insecure=self.insecure)
        return replace(call, reporter=Named(name)) if self.several else call

    def location(self, call: Invocation, name: str) -> str | None:
        """Return where the image is, ``None`` for the build."""
        if not self.published:
            return self.image
        from imagegate.usecases.verify import published_image

        return published_image(call, name)


def _verdict(task: _Task, name: str) -> ImageVerdict:
    if task.key is None:
        return _with_evidence(task, name)[0]
    from imagegate.signing.keys import read_verifier
    from imagegate.usecases.attested import verify_attested

    call = task.call(name)
    return verify_attested(
        call,
        name,
        image=task.location(call, name),
        verifier=read_verifier(task.key),
        max_age=timedelta(hours=task.max_age),
    )


def _with_evidence(task: _Task, name: str) -> tuple[ImageVerdict, Evidence]:
    from imagegate.usecases.verify import verify_recipe

    call = task.call(name)
    return verify_recipe(
        call,
        name,
        image=task.location(call, name),
        skip=task.left_out,
        probe_with=task.probe_with,
    )


def _published_names(workspace: Workspace) -> Sequence[str]:
    from imagegate.usecases.profile import published_names

    return published_names(workspace)


def _file_of(name: str) -> str:
    return f"images/{name}/image.toml"


def _as_error(one: Unjudged) -> ImagegateError:
    """Let the only image's error be told as every command tells one."""
    from imagegate.errors import ImagegateError, UsageError

    kind = UsageError if one.exit_code == UsageError.exit_code else ImagegateError
    return kind(one.message, hint=one.hint or None)


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


def write_job_summary(verdicts: Sequence[ImageVerdict | Unjudged]) -> None:
    """Add the report to the job's summary, where GitHub Actions asks for one."""
    from imagegate import __version__
    from imagegate.report.formats import render

    write_summary(render(verdicts, Format.MARKDOWN, version=__version__, details=False))
