"""The Markdown report, for a pull request or a job's summary."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from imagegate.verdict import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from imagegate.verdict import CheckReport, Finding, Verdict

# what GitHub Flavored Markdown gives a meaning to inside a line or a table's cell
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#!|~@&]")
_BLANKS = re.compile(r"\s+")


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
    yield "| check | result | compared |"
    yield "|---|---|---|"
    for report in verdict.reports:
        yield f"| {_code(report.check)} | {_result(report)} | {_compared(report)} |"
    yield ""
    if verdict.findings:
        yield "| finding | subject | locked | found | where |"
        yield "|---|---|---|---|---|"
        for finding in verdict.findings:
            yield _row(finding)
        yield ""


def _result(report: CheckReport) -> str:
    if not report.passed:
        return "**FAIL**"
    return "ok, with notes" if report.findings else "ok"


def _compared(report: CheckReport) -> str:
    if report.compared:
        return str(len(report.compared))
    return plain(report.nothing_because or "nothing was compared")


def _row(finding: Finding) -> str:
    word = "**FAIL** " if finding.severity is Severity.FAIL else f"{finding.severity.value} "
    place = finding.place
    where = [plain(f"/{place.path}")] if place.path else []
    if place.layer:
        where.append(plain(f"layer {place.layer} {place.step}".rstrip()))
    hint = f"<br>hint: {plain(finding.hint)}" if finding.hint else ""
    if finding.accepted is not None:
        left = f"until {finding.accepted.expires}, {finding.accepted.days_left} days left"
        hint = f"<br>waived {left}: {plain(finding.accepted.reason)}{hint}"
    cells = (
        f"{word}{_code(finding.code)}<br>{plain(finding.message)}{hint}",
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
