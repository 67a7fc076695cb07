"""The text report of an image in which one distribution was installed again."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

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


def test_what_forbids_an_image_stands_before_thousands_of_notes(built_once: World) -> None:
    findings = [*map(note, range(3000)), failure(0), *map(note, range(3000, 5000)), failure(1)]

    lines = render_text(with_findings(built_once, *findings)).splitlines()

    first = next(n for n, line in enumerate(lines) if "note  " in line)
    failures = [n for n, line in enumerate(lines) if "FAIL  python.content/" in line]
    assert len(failures) == 2
    assert max(failures) < first
    assert len(lines) < 100
    assert "       note  python.content/rewritten: 4980 more notes" in lines
    assert lines[-1] == "FAILED    demo: 2 failures, 5000 notes (`--details` says where)"


def test_no_failure_is_left_out_however_many_there_are(built_once: World) -> None:
    verdict = with_findings(built_once, *map(failure, range(500)))

    assert render_text(verdict).count("FAIL  python.content/overwritten") == 500


def test_details_list_every_note(built_once: World) -> None:
    verdict = with_findings(built_once, *map(note, range(500)))

    assert render_text(verdict, details=True).count("note  python.content/rewritten") == 500
