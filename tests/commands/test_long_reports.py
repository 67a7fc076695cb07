"""The text report of an image in which one distribution was installed again."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from imagegate.report.formats import Format, render
from imagegate.report.text import render_text
from imagegate.usecases.gate import judge
from imagegate.usecases.ports import Silent
from imagegate.usecases.verify import open_judged
from imagegate.verdict import CheckReport, Finding, ImageVerdict, Severity
from imagegate.workspace import Workspace
from tests.calls import calling
from tests.judging import COMPOSED
from tests.world import World


def with_findings(world: World, *findings: Finding) -> ImageVerdict:
    workspace = Workspace(world.root)
    state = workspace.state("demo")
    source = open_judged(calling(workspace), state, None)
    verdict, _ = judge(
        state,
        workspace.lock("demo"),
        source,
        Silent(),
        copying=COMPOSED,
        today=date(2026, 11, 29),
    )
    report = CheckReport(check="python.content", compared=("one",), findings=findings)
    return replace(verdict, reports=(report,))


def note(number: int) -> Finding:
    return Finding(
        code="python.content/rewritten",
        severity=Severity.NOTE,
        subject=f"file-{number}",
        message="written again with the same bytes",
    )


def failure(number: int) -> Finding:
    return replace(note(number), code="python.content/overwritten", severity=Severity.FAIL)


def test_what_forbids_an_image_is_not_hidden_by_thousands_of_notes(built_once: World) -> None:
    findings = [*map(note, range(3000)), failure(0), *map(note, range(3000, 5000)), failure(1)]

    lines = render_text(with_findings(built_once, *findings)).splitlines()

    assert sum("FAIL  python.content/" in line for line in lines) == 2
    assert not any("note  " in line for line in lines)
    assert len(lines) < 50
    assert lines[-1] == "FAILED    demo: 2 failures, 5000 notes (`--details` has all of it)"


def test_of_very_many_notes_of_one_kind_some_are_written_and_how_many(built_once: World) -> None:
    lines = render_text(with_findings(built_once, *map(note, range(5000)))).splitlines()

    assert "       note  python.content/rewritten: 4980 more notes" in lines
    assert len(lines) < 50


@pytest.mark.parametrize("cause", ["numpy==2.2.0", ""])
def test_one_cause_is_told_once_and_counted(built_once: World, cause: str) -> None:
    """Three thousand files of one distribution are one thing to a reader, in every short form."""
    moved = replace(failure(0), code="python.content/version-moved", cause="numpy")
    files = [replace(failure(number), cause=cause) for number in range(3000)]
    verdict = with_findings(built_once, *files, moved)

    for form in (Format.TEXT, Format.MARKDOWN, Format.GITHUB):
        said = render([verdict], form, version="1", details=False)
        assert "python.content/version-moved" in said
        assert said.count("\n") < 100
        assert "more findings of the same cause" in said
        # the cause comes first where both have one
        if cause:
            assert said.index("version-moved") < said.index("python.content/overwritten (3000)")
    assert render([verdict], Format.JSON, version="1", details=False).count('"about"') == 3001
    details = render_text(verdict, details=True)
    assert details.count("FAIL  python.content/overwritten") == 3000


def test_details_list_every_note(built_once: World) -> None:
    verdict = with_findings(built_once, *map(note, range(500)))

    assert render_text(verdict, details=True).count("note  python.content/rewritten") == 500
