"""The text report: what was compared, what moved, by which layer and step, at what cost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from imagegate.report.waiver import waiver_of
from imagegate.verdict import Severity, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.verdict import CheckReport, Finding, Verdict

__all__ = ["finding_lines", "format_bytes", "render_text"]

_WIDTH = 20
_ORDER = (Severity.FAIL, Severity.WAIVED, Severity.NOTE)
# one distribution that was installed again makes thousands
_NOTES_SHOWN = 20
_WORDS = {Severity.FAIL: "FAIL", Severity.WAIVED: "waived", Severity.NOTE: "note"}


def render_text(verdict: Verdict, *, details: bool = False) -> str:
    """Write a report for a person.

    Args:
        verdict: what to report.
        details: whether to list every single comparison.
    """
    return "".join(f"{line}\n" for line in _lines(verdict, details=details))


def _lines(verdict: Verdict, *, details: bool) -> Iterator[str]:
    yield from (f"{label:<9} {value}" for label, value in verdict.heading)
    yield ""
    for report in verdict.reports:
        yield _check_line(report)
        if details:
            yield from (f"       {line}" for line in report.compared)
        yield from _finding_lines(report, verdict.waivable_on, details=details)
    yield ""
    yield from (f"{label:<9} {value}" for label, value in verdict.footing)
    if verdict.skipped:
        yield f"skipped   {', '.join(verdict.skipped)}; this verdict cannot be promoted"
    severities = [finding.severity for finding in verdict.findings]
    said = f"{_count(severities.count(Severity.FAIL), 'failure')}, "
    if Severity.WAIVED in severities:
        said += f"{severities.count(Severity.WAIVED)} waived, "
    notes = severities.count(Severity.NOTE)
    said += _count(notes, "note")
    if notes and not details:
        said += " (`--details` says where)"
    yield f"{verdict.word:<8}  {verdict.subject}: {said}"


def _check_line(report: CheckReport) -> str:
    word = "ok" if report.passed else "FAIL"
    if report.compared:
        looked = f"{len(report.compared)} compared"
    else:
        looked = report.nothing_because or "nothing was compared"
    return f"{word:<5}  {report.check:<{_WIDTH}} {looked}"


def _finding_lines(report: CheckReport, base: str, *, details: bool) -> Iterator[str]:
    """Write what forbids the image first; of very many notes of one kind some, and how many."""
    seen: Counter[str] = Counter()
    for finding in sorted(report.findings, key=lambda one: _ORDER.index(one.severity)):
        if details or finding.severity is not Severity.NOTE:
            yield from finding_lines(finding)
            if details:
                yield from (f"             {line}" for line in waiver_of(finding, base))
            continue
        seen[finding.code] += 1
        if seen[finding.code] <= _NOTES_SHOWN:
            yield _note_line(finding)
    for code, count in seen.items():
        if count > _NOTES_SHOWN:
            yield f"       note  {code}: {_count(count - _NOTES_SHOWN, 'more note')}"


def _note_line(finding: Finding) -> str:
    """Write a note, which forbids nothing, in one line."""
    about = "" if finding.subject in finding.message else f"{finding.subject}: "
    return f"       note  {finding.code}: {about}{finding.message}"


def finding_lines(finding: Finding) -> Iterator[str]:
    """Write one finding, a line each for what it says, where it is and what to do."""
    yield f"       {_WORDS[finding.severity]}  {finding.code}: {finding.message}"
    if finding.subject:
        yield f"             subject  {finding.subject}"
    if finding.locked or finding.found:
        yield f"             locked={finding.locked or 'nothing'}"
        yield f"             found={finding.found or 'nothing'}"
    if finding.place.path:
        yield f"             path     {finding.place.path}"
    if finding.place.layer:
        step = f": {finding.place.step}" if finding.place.step else ""
        yield f"             layer    {finding.place.layer} {finding.place.layer_digest}{step}"
    if finding.accepted is not None:
        left = _count(finding.accepted.days_left, "day")
        yield f"             waived until {finding.accepted.expires} ({left} left): {finding.accepted.reason}"
    if finding.hint:
        yield f"             hint: {finding.hint}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
