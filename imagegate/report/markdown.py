"""The Markdown report, for a pull request or a job's summary."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from imagegate.report.folding import fold
from imagegate.report.text import hanging
from imagegate.verdict import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from imagegate.report.folding import Fold
    from imagegate.verdict import CheckReport, Finding, Verdict

# what GitHub Flavored Markdown gives a meaning to inside a line or a table's cell
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#!|~@&]")
_BLANKS = re.compile(r"\s+")
_NOTES_SHOWN = 20


def render_markdown(verdicts: Sequence[Verdict]) -> str:
    """Write verdicts as GitHub Flavored Markdown; text out of images stays text."""
    return "\n".join(line for verdict in verdicts for line in _lines(verdict))


def _lines(verdict: Verdict) -> Iterator[str]:
    yield f"## {plain(verdict.subject)}: {'PASSED' if verdict.passed else 'FAILED'}"
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield from (f"| {plain(label)} | {plain(value)} |" for label, value in verdict.heading)
    yield from (f"| {plain(label)} | {plain(value)} |" for label, value in verdict.footing)
    yield ""
    folds = fold(verdict.findings)
    if folds:
        yield "| what fails | subject | locked | found | where |"
        yield "|---|---|---|---|---|"
        yield from map(_fold_row, folds)
        yield ""
    others = [f for f in verdict.findings if f.severity is not Severity.FAIL]
    yield from _folded_away(f"{len(verdict.reports)} checks", _check_rows(verdict))
    if others:
        yield from _folded_away(f"{len(others)} notes and accepted findings", _other_rows(others))


def _folded_away(title: str, rows: Iterator[str]) -> Iterator[str]:
    """Write a table that is opened on request, so that what fails fits a screen."""
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from rows
    yield ""
    yield "</details>"
    yield ""


def _check_rows(verdict: Verdict) -> Iterator[str]:
    yield "| check | result | compared |"
    yield "|---|---|---|"
    for report in verdict.reports:
        yield f"| {_code(report.check)} | {_result(report)} | {_compared(report)} |"


def _other_rows(findings: list[Finding]) -> Iterator[str]:
    """Write notes; of very many of one kind some, and how many."""
    yield "| finding | subject | locked | found | where |"
    yield "|---|---|---|---|---|"
    seen: Counter[str] = Counter()
    for finding in findings:
        seen[finding.code] += 1
        if seen[finding.code] <= _NOTES_SHOWN:
            yield _row(finding)
    for code, count in seen.items():
        if count > _NOTES_SHOWN:
            yield f"| {count - _NOTES_SHOWN} more {_code(code)} | | | | |"


def _fold_row(one: Fold) -> str:
    return _row(one.lead, tuple(hanging(one)))


def _result(report: CheckReport) -> str:
    if report.left_out:
        return "not asked"
    if not report.passed:
        return "**FAIL**"
    return "ok, with notes" if report.findings else "ok"


def _compared(report: CheckReport) -> str:
    if report.compared:
        return plain(report.summary) or str(len(report.compared))
    return plain(report.left_out or report.nothing_because or "nothing was compared")


def _row(finding: Finding, more: Sequence[str] = ()) -> str:
    word = "**FAIL** " if finding.severity is Severity.FAIL else f"{finding.severity.value} "
    place = finding.place
    where = [plain(f"/{place.path}")] if place.path else []
    if place.layer:
        where.append(plain(f"layer {place.layer} {place.step}".rstrip()))
    hint = f"<br>hint: {plain(finding.hint)}" if finding.hint else ""
    if finding.accepted is not None:
        left = f"until {finding.accepted.expires}, {finding.accepted.days_left} days left"
        hint = f"<br>waived {left}: {plain(finding.accepted.reason)}{hint}"
    hanging_on = "".join(f"<br>{plain(line)}" for line in more)
    cells = (
        f"{word}{_code(finding.code)}<br>{plain(finding.message)}{hanging_on}{hint}",
        plain(finding.subject),
        plain(finding.locked),
        plain(finding.found),
        "<br>".join(where),
    )
    return f"| {' | '.join(cells)} |"


def plain(text: str) -> str:
    """Write text that may come out of an image so that it is shown as it is."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", _BLANKS.sub(" ", text))


def _code(text: str) -> str:
    """Write one of our own words; it holds no backtick and no bar."""
    return f"`{text}`"
