"""``imagegate coverage``: where does every asset end, on every builder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imagegate.cli.common import tell, write_summary
from imagegate.cli.manual import Command
from imagegate.errors import UsageError
from imagegate.foreign import shown
from imagegate.foreign.credentials import redact_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.usecases.covering.wanted import Refused, Wanted

_FORMATS = ("text", "json", "markdown", "sarif", "junit", "github", "html")


@click.command(name="coverage", cls=Command)
@click.argument("names", nargs=-1, metavar="[BUILD]...")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The coverage.toml that lists what to judge; without options it is searched for from the "
    "current folder upwards, as is [tool.imagegate.coverage] in pyproject.toml.",
)
@click.option(
    "--discover",
    is_flag=True,
    help="Write a first coverage.toml from what the current folder holds.",
)
@click.option("--schema", is_flag=True, help="Print the JSON schema of coverage.toml.")
@click.option(
    "--dockerfile",
    "-f",
    "dockerfiles",
    multiple=True,
    metavar="FILE",
    help="Dockerfile to judge (repeatable); `-` is standard input. Without it, the one in the "
    "context.",
)
@click.option("--context", metavar="DIR", help="The build context.  [default: .]")
@click.option(
    "--recipes",
    "--assets",
    multiple=True,
    metavar="PATTERN",
    help="What must be in the image, relative to the context (repeatable): files, folders and "
    "globs, e.g. 'recipes/*', 'examples/*.jinja', models.json, 'conf/{a,b}.yaml', 'recipes/**', "
    "`.` for everything. See below.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="What to leave out of it (repeatable).",
)
@click.option(
    "--expect",
    "expects",
    multiple=True,
    metavar="SRC=DST",
    help="Where an asset must be in the image (repeatable); SRC is a pattern in which {model} "
    "stands for part of a path, also in DST. Without it, assets that are covered show where the "
    "others of the same pattern belong.",
)
@click.option("--target", metavar="STAGE", help="The stage that becomes the image.")
@click.option(
    "--build-arg",
    "build_args",
    multiple=True,
    metavar="K[=V]",
    help="A build argument (repeatable); without a value it is taken from the environment.",
)
@click.option(
    "--no-build-args",
    is_flag=True,
    help="The real build is given no build arguments but those given here, so that defaults hold.",
)
@click.option(
    "--build-context",
    "build_contexts",
    multiple=True,
    metavar="NAME=DIR",
    help="A named context (repeatable): a folder, or docker-image://, oci-layout://, a git or web "
    "address, whose content is not looked at.",
)
@click.option(
    "--builder",
    "builders",
    multiple=True,
    metavar="NAME",
    help="Builder to judge for (repeatable): buildkit, classic, buildah, one of their other "
    "versions, or all.  [default: buildkit]",
)
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    metavar="OS/ARCH",
    help="What is built for (repeatable), e.g. linux/arm64: sets TARGETARCH and the like.",
)
@click.option(
    "--run-keeps",
    multiple=True,
    metavar="PATH",
    help="A path in the image that no RUN changes (repeatable); you vouch for it.",
)
@click.option(
    "--strict", is_flag=True, help="Also fail on notes, where only the image itself is a proof."
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(_FORMATS),
    default="text",
    show_default=True,
    help="Report format.",
)
@click.option("--fix", is_flag=True, help="Write the proposed edits.")
@click.option(
    "--list-context", is_flag=True, help="Print what is sent, and what is dropped by which line."
)
@click.pass_context
def command(ctx: click.Context, /, **options: object) -> None:
    """Prove, without building, that every asset ends up in the image.

    Each file has to pass the ignore file, be copied by the Dockerfile, survive later instructions
    and lie at its path with its own content. Without options, `coverage.toml` says what to judge;
    BUILD then picks some of its builds by name or Dockerfile.
    """
    given = _Given(ctx, options)
    if given.flag("schema"):
        _print_schema()
    elif given.flag("discover"):
        ctx.exit(_discover(given))
    elif given.flag("list_context"):
        _print_context(given.direct(), given.text("format_") or "text")
    else:
        ctx.exit(_judge(given))


class _Given:
    """The options of one call."""

    def __init__(self, ctx: click.Context, options: dict[str, object]) -> None:
        self._options = options
        default = click.core.ParameterSource.DEFAULT
        self._said = {name for name in options if ctx.get_parameter_source(name) is not default}

    def flag(self, name: str) -> bool:
        return bool(self._options[name])

    def text(self, name: str) -> str | None:
        value = self._options[name]
        assert value is None or isinstance(value, str)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._options[name]
        assert isinstance(value, tuple)
        return value

    @property
    def describes_a_build(self) -> bool:
        """An option says what to judge, so that no file is looked for."""
        return bool(
            self._said
            & {
                "dockerfiles", "context", "recipes", "exclude", "expects", "target", "build_args",
                "build_contexts", "run_keeps",
            }
        )  # fmt: skip

    def wanted(self) -> Sequence[Wanted | Refused]:
        """Return what to judge: what the options say, or what the file lists.

        Raises:
            UsageError: nothing says what to judge, or both do.
        """
        config = self._options["config"]
        assert config is None or isinstance(config, Path)
        if self.describes_a_build:
            if config is not None or self.texts("names"):
                raise UsageError(
                    "options describe a build, and so does the file",
                    hint="give either `--config` and BUILD or `--dockerfile`, `--context`, …",
                )
            if not self.texts("recipes"):
                raise UsageError("no `--recipes` given", hint="e.g. --recipes 'recipes/*'")
            return self.direct()
        return self._listed(config)

    def _listed(self, config: Path | None) -> Sequence[Wanted | Refused]:
        from imagegate.usecases.covering.entries import (
            Overrides,
            builds_of,
            find_file,
            read_file,
            select,
        )

        place = config or find_file(Path.cwd())
        if place is None:
            raise UsageError(
                "no `--recipes` given, and there is no coverage.toml here or in a folder above",
                hint="give --recipes 'recipes/*', or let `imagegate coverage --discover` write one",
            )
        listed = builds_of(
            read_file(place),
            place.absolute(),
            os.environ,
            Overrides(
                builders=_builders(self.texts("builders")) if self.texts("builders") else (),
                platforms=_platforms(self.texts("platforms")),
                strict=self.flag("strict"),
                args_complete=self.flag("no_build_args"),
            ),
        )
        return select(listed, self.texts("names"))

    def direct(self) -> list[Wanted]:
        """Return the builds that the options describe."""
        from imagegate.usecases.covering.wanted import (
            STANDARD_INPUT,
            Wanted,
            local_context,
            split_contexts,
        )

        context = local_context(self.text("context") or ".", Path())
        contexts = dict(_pair(item, "--build-context") for item in self.texts("build_contexts"))
        folders, foreign = split_contexts(contexts, Path())
        for item in self.texts("expects"):
            _pair(item, "--expect")
        files = [Path(name) for name in self.texts("dockerfiles")] or [_default(context)]
        read: bytes | None = None
        if any(str(file) == STANDARD_INPUT for file in files):
            read = sys.stdin.buffer.read()
        return [
            Wanted(
                dockerfile=None if str(file) == STANDARD_INPUT else file,
                text=read if str(file) == STANDARD_INPUT else None,
                label=STANDARD_INPUT,
                context=context,
                assets=self.texts("recipes"),
                exclude=self.texts("exclude"),
                expects=self.texts("expects"),
                target=self.text("target"),
                build_args=_build_args(self.texts("build_args")),
                args_complete=self.flag("no_build_args"),
                build_contexts=folders,
                foreign=foreign,
                builders=_builders(self.texts("builders") or ("buildkit",)),
                platform=platform,
                run_keeps=self.texts("run_keeps"),
                strict=self.flag("strict"),
                variant=platform or "",
            )
            for file in files
            for platform in _platforms(self.texts("platforms")) or (None,)
        ]


def _default(context: Path) -> Path:
    """Return the Dockerfile that a builder takes when it is given none."""
    for place in (
        context / "Dockerfile",
        Path("Dockerfile"),
        context / "Containerfile",
        context / "dockerfile",
    ):
        if place.is_file():
            return place
    return context / "Dockerfile"


def _judge(given: _Given) -> int:
    import gc

    from imagegate.usecases.coverage import check_coverage

    # trees of files hold no cycles; looking for them in 100,000 nodes is a third of the time
    gc.disable()
    wanted = given.wanted()
    answers = check_coverage(wanted, fix=given.flag("fix"))
    if len(answers) == 1 and answers[0].error is not None:
        raise answers[0].error
    from imagegate.usecases.covering.told import render

    click.echo(render(answers, given.text("format_") or "text"), nl=False)
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        write_summary(render(answers, "markdown"))
    remarks = [f"note: {note}" for answer in answers for note in answer.notes]
    reports = [answer.report for answer in answers if answer.report is not None]
    if not given.flag("fix") and any(report.edits for report in reports):
        remarks.append("hint: `--fix` writes the proposed lines")
    if any(report.unknown for report in reports):
        remarks.append(
            "hint: copy behind the line that leaves it open, or vouch with `--run-keeps PATH` "
            "for a path that no RUN changes"
        )
    if any(answer.exit_code and answer.report and answer.report.covered for answer in answers):
        remarks.append("hint: `--strict` fails on assets that are covered with a note")
    for remark in dict.fromkeys(remarks):
        tell(remark, err=True)
    return max(answer.exit_code for answer in answers)


def _discover(given: _Given) -> int:
    from imagegate.usecases.covering.discover import discover

    if given.describes_a_build or given.texts("names"):
        raise UsageError(
            "`--discover` looks by itself", hint="run it alone, in the repository's root folder"
        )
    found = discover(Path.cwd())
    tell(f"wrote {found.place.name}: {found.summary}", err=True)
    click.echo("hint: read it, then run `imagegate coverage`", err=True)
    return 0


def _print_schema() -> None:
    from imagegate.asking.schema import schema_text

    click.echo(schema_text(), nl=False)


def _print_context(wanted: list[Wanted], format_: str) -> None:
    import json

    from imagegate.usecases.coverage import list_context

    listed = list_context(wanted)
    if format_ == "json":
        rows = [
            {"builder": builder, "path": sent.path, "state": sent.state, "by": sent.by}
            for builder, sent in listed
        ]
        click.echo(json.dumps(redact_document(rows), indent=2))
        return
    several = len({name for one in wanted for name in one.builders}) > 1
    for builder, sent in listed:
        head = f"{builder}\t" if several else ""
        # the tabs are ours, whatever a path has
        fields = "\t".join(map(shown, (sent.state, sent.path, sent.by)))
        click.echo(f"{head}{fields}".rstrip())


def _pair(item: str, option: str) -> tuple[str, str]:
    left, equals, right = item.partition("=")
    if not (left and equals and right):
        raise UsageError(f"`{option} {item}` has no form `A=B`")
    return left, right


def _builders(names: tuple[str, ...]) -> tuple[str, ...]:
    from imagegate.coverage.building.profiles import PROFILES, find_profile

    if "all" in names:
        return tuple(PROFILES)
    return tuple(find_profile(name).name for name in dict.fromkeys(names))


def _platforms(names: tuple[str, ...]) -> tuple[str, ...]:
    from imagegate.asking.document import check_platform

    several = (name for item in names for name in item.split(","))
    return tuple(check_platform(name) for name in dict.fromkeys(several))


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
