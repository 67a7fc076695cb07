"""The text report: what was compared, what moved, by which layer and step, at what cost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from imagegate.foreign import shown
from imagegate.report.folding import fold
from imagegate.report.waiver import waiver_of
from imagegate.verdict import Severity, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.report.folding import Fold
    from imagegate.verdict import CheckReport, Finding, Verdict

__all__ = ["finding_lines", "format_bytes", "render_text"]

_WIDTH = 20
_ORDER = (Severity.FAIL, Severity.WAIVED, Severity.NOTE)
# one distribution that was installed again makes thousands
_NOTES_SHOWN = 20
_LIKEWISE_SHOWN = 20
_WORDS = {Severity.FAIL: "FAIL", Severity.WAIVED: "waived", Severity.NOTE: "note"}


def render_text(verdict: Verdict, *, details: bool = False) -> str:
    """Write a report for a person.

    Args:
        verdict: what to report.
        details: whether to list every single comparison.
    """
    # a line is escaped as a whole: no field of it can begin another one
    return "".join(f"{shown(line)}\n" for line in _lines(verdict, details=details))


def _lines(verdict: Verdict, *, details: bool) -> Iterator[str]:
    yield from (f"{label:<9} {value}" for label, value in verdict.heading)
    yield ""
    if verdict.passed or details:
        yield from _full(verdict, details=details)
    else:
        yield from _short(verdict)
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
    if not details and not verdict.passed:
        said += " (`--details` has all of it)"
    elif not details and notes:
        said += " (`--details` says where)"
    yield f"{verdict.word:<8}  {verdict.subject}: {said}"


def _full(verdict: Verdict, *, details: bool) -> Iterator[str]:
    """Write every check, and with details every comparison, finding and waiver."""
    for report in verdict.reports:
        yield _check_line(report)
        if not details:
            yield from _notes(report)
            continue
        yield from (f"       {line}" for line in report.compared)
        for finding in sorted(report.findings, key=lambda one: _ORDER.index(one.severity)):
            yield from finding_lines(finding)
            yield from (f"             {line}" for line in waiver_of(finding, verdict.waivable_on))


def _short(verdict: Verdict) -> Iterator[str]:
    """Write what forbids the image, each cause once, and what was not asked because of it."""
    folds = {id(one.lead): one for one in fold(verdict.findings)}
    for report in verdict.reports:
        if report.passed:
            continue
        yield _check_line(report)
        for finding in report.findings:
            if id(finding) in folds:
                yield from fold_lines(folds[id(finding)])
            elif finding.severity is Severity.WAIVED:
                yield from finding_lines(finding)
        elsewhere = sum(f.severity is Severity.FAIL for f in report.findings)
        if elsewhere and not any(id(finding) in folds for finding in report.findings):
            yield f"       {_count(elsewhere, 'finding')}, told with the cause"
    passed = sum(report.passed for report in verdict.reports)
    if passed:
        yield f"ok     {_count(passed, 'check')} passed"


def _check_line(report: CheckReport) -> str:
    word = "ok" if report.passed else "FAIL"
    looked = report.summary or f"{len(report.compared)} compared"
    if report.left_out:
        word, looked = "-", f"not asked: {report.left_out}"
    elif not report.compared:
        looked = report.nothing_because or "nothing was compared"
    return f"{word:<5}  {report.check:<{_WIDTH}} {looked}"


def _notes(report: CheckReport) -> Iterator[str]:
    """Write what was accepted and, of very many notes of one kind, some and how many."""
    seen: Counter[str] = Counter()
    for finding in sorted(report.findings, key=lambda one: _ORDER.index(one.severity)):
        if finding.severity is not Severity.NOTE:
            yield from finding_lines(finding)
            continue
        seen[finding.code] += 1
        if seen[finding.code] <= _NOTES_SHOWN:
            yield _note_line(finding)
    for code, count in seen.items():
        if count > _NOTES_SHOWN:
            yield f"       note  {code}: {_count(count - _NOTES_SHOWN, 'more note')}"


def fold_lines(one: Fold) -> Iterator[str]:
    """Write findings of one cause: the cause in full, then what else it makes."""
    *lines, last = finding_lines(one.lead)
    yield from lines
    if not one.lead.hint:
        yield last
    yield from (f"             {line}" for line in hanging(one))
    if one.lead.hint:
        yield last


def hanging(one: Fold) -> Iterator[str]:
    """Write what else a cause makes: further subjects of the same step, and a count by code."""
    if one.likewise:
        named = [f"{f.subject} ({f.found or 'nothing'})" for f in one.likewise[:_LIKEWISE_SHOWN]]
        more = len(one.likewise) - len(named)
        yield f"likewise {', '.join(named)}{f' and {more} more' if more else ''}"
    if one.others:
        codes = ", ".join(f"{code} ({count})" for code, count in one.codes)
        yield f"and {_count(len(one.others), 'more finding')} of the same cause: {codes}"


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
