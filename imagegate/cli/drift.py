"""``imagegate drift``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import click

from imagegate.cli.common import (
    complete_recipe,
    find_workspace,
    insecure_option,
    tell,
    workspace_option,
    write_summary,
)
from imagegate.cli.manual import Command
from imagegate.foreign.credentials import redact_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from imagegate.usecases.drift import Drift


@click.command(cls=Command)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_recipe)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="Report format; `github` annotates the recipes.",
)
@insecure_option
@workspace_option
def command(names: tuple[str, ...], form: str, insecure: bool, workspace: Path | None) -> int:
    """Ask the registries whether each base's tag has moved and its digest is still served.

    Exit code 1: something drifted; 3: a registry could not be asked and nothing else drifted.
    Inside GitHub Actions the job's summary gets a table too.
    """
    from imagegate.errors import UsageError
    from imagegate.sources.connection import Connection
    from imagegate.usecases.drift import Answer, find_drift

    found = find_workspace(workspace)
    chosen = names or found.recipe_names()
    if not chosen:
        raise UsageError("the workspace has no recipe", hint="write `images/NAME/image.toml`")
    drifts = [find_drift(found, name, Connection(insecure=insecure)) for name in chosen]
    write_summary(_table(drifts))
    if form == "json":
        click.echo(json.dumps(redact_document([_document(drift) for drift in drifts]), indent=2))
    elif form == "github":
        for line in _annotations(drifts):
            click.echo(line)
    else:
        for drift in drifts:
            tell(f"{drift.recipe}  {drift.base or 'scratch'}")
            for question in drift.questions:
                tell(f"  {question.asks:<7} {question.answer.value:<10} {question.detail}")
            if drift.adopt:
                tell(f"  next    {drift.adopt}")
    if any(drift.has(Answer.DRIFTED) for drift in drifts):
        return 1
    return 3 if any(drift.has(Answer.UNKNOWN) for drift in drifts) else 0


def _annotations(drifts: Sequence[Drift]) -> Iterator[str]:
    from imagegate.report.github import annotation
    from imagegate.usecases.drift import Answer

    for drift in drifts:
        for question in drift.questions:
            text = f"{drift.base or 'scratch'}: {question.answer.value}: {question.detail}"
            level: Literal["error", "warning", "notice"] = "notice"
            if question.answer is Answer.DRIFTED:
                level = "error"
            elif question.answer is Answer.UNKNOWN:
                level = "warning"
            file = f"images/{drift.recipe}/image.toml"
            yield annotation(level, file, f"drift: {question.asks}", text)


def _table(drifts: Sequence[Drift]) -> str:
    from imagegate.report.markdown import escaped, plain

    lines = [
        "## drift",
        "",
        "| recipe | base | asked | answer | found |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        "| "
        + " | ".join(
            (
                escaped(drift.recipe),
                plain(drift.base or "scratch"),
                escaped(question.asks),
                escaped(question.answer.value),
                plain(question.detail),
            )
        )
        + " |"
        for drift in drifts
        for question in drift.questions
    ]
    return "\n".join(lines) + "\n\n"


def _document(drift: Drift) -> dict[str, object]:
    return {
        "recipe": drift.recipe,
        "base": drift.base,
        "adopt": drift.adopt,
        "questions": [
            {"asks": question.asks, "answer": question.answer.value, "detail": question.detail}
            for question in drift.questions
        ],
    }
