"""The text report: what was compared, what moved, by which layer and step, at what cost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from imagegate.foreign import shown
from imagegate.report.told import ToldVerdict
from imagegate.verdict import Severity, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.foreign import Foreign
    from imagegate.report.told import ToldFinding, ToldFold, ToldReport
    from imagegate.verdict import Verdict

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
    # a line is escaped as a whole: no field of it can begin another one
    lines = _lines(ToldVerdict(verdict), details=details)
    return "".join(f"{shown(line)}\n" for line in lines)


def _text(foreign: Foreign, otherwise: str = "") -> str:
    """Write a field of a line; nothing in the middle of a line of plain text has a meaning."""
    return foreign.written(str) if foreign else otherwise


def _lines(verdict: ToldVerdict, *, details: bool) -> Iterator[str]:
    yield from (f"{label:<9} {_text(value)}" for label, value in verdict.heading)
    yield ""
    if verdict.passed or details:
        yield from _full(verdict, details=details)
    else:
        yield from _short(verdict)
    yield ""
    yield from (f"{label:<9} {_text(value)}" for label, value in verdict.footing)
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
    yield f"{verdict.word:<8}  {_text(verdict.subject)}: {said}"


def _full(verdict: ToldVerdict, *, details: bool) -> Iterator[str]:
    """Write every check, and with details every comparison, finding and waiver."""
    for report in verdict.reports:
        yield _check_line(report)
        if not details:
            yield from _notes(report)
            continue
        yield from (f"       {_text(line)}" for line in report.compared)
        for finding in sorted(report.findings, key=lambda one: _ORDER.index(one.severity)):
            yield from finding_lines(finding)
            waiver = finding.waiver(verdict.waivable_on)
            yield from (f"             {line}" for line in waiver)
            if finding.severity is Severity.FAIL and verdict.waivable_on and not waiver:
                yield "             cannot be waived: mend it"


def _short(verdict: ToldVerdict) -> Iterator[str]:
    """Write what forbids the image, each cause once, and what was not asked because of it."""
    for report in verdict.reports:
        if report.passed:
            continue
        yield _check_line(report)
        led = verdict.led_by(report)
        for finding, cause in led:
            if cause is not None:
                yield from fold_lines(cause)
            elif finding.severity is Severity.WAIVED:
                yield from finding_lines(finding)
        elsewhere = sum(finding.severity is Severity.FAIL for finding, _ in led)
        if elsewhere and all(cause is None for _, cause in led):
            yield f"       {_count(elsewhere, 'finding')}, told with the cause"
    passed = sum(report.passed for report in verdict.reports)
    if passed:
        yield f"ok     {_count(passed, 'check')} passed"


def _check_line(report: ToldReport) -> str:
    word = "ok" if report.passed else "FAIL"
    looked = _text(report.summary, f"{report.looked_at} compared")
    if report.left_out:
        word, looked = "-", f"not asked: {_text(report.left_out)}"
    elif not report.looked_at:
        looked = _text(report.nothing_because, "nothing was compared")
    return f"{word:<5}  {report.check:<{_WIDTH}} {looked}"


def _notes(report: ToldReport) -> Iterator[str]:
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


def fold_lines(one: ToldFold) -> Iterator[str]:
    """Write findings of one cause: the cause in full, then what else it makes."""
    *lines, last = finding_lines(one.lead)
    yield from lines
    if not one.lead.hint:
        yield last
    yield from (f"             {_text(line)}" for line in one.hanging)
    if one.lead.hint:
        yield last


def _note_line(finding: ToldFinding) -> str:
    """Write a note, which forbids nothing, in one line."""
    about = "" if finding.names_its_subject else f"{_text(finding.subject)}: "
    return f"       note  {finding.code}: {about}{_text(finding.message)}"


def finding_lines(finding: ToldFinding) -> Iterator[str]:
    """Write one finding, a line each for what it says, where it is and what to do."""
    place, accepted = finding.place, finding.accepted
    yield f"       {_WORDS[finding.severity]}  {finding.code}: {_text(finding.message)}"
    if finding.subject:
        yield f"             subject  {_text(finding.subject)}"
    if finding.locked or finding.found:
        yield f"             locked={_text(finding.locked, 'nothing')}"
        yield f"             found={_text(finding.found, 'nothing')}"
    if place.path:
        yield f"             path     {_text(place.path)}"
    if place.layer:
        step = f": {_text(place.step)}" if place.step else ""
        yield f"             layer    {place.layer} {_text(place.layer_digest)}{step}"
    if accepted is not None:
        left = f"{accepted.expires} ({_count(accepted.days_left, 'day')} left)"
        yield f"             waived until {left}: {_text(accepted.reason)}"
    if finding.hint:
        yield f"             hint: {_text(finding.hint)}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
