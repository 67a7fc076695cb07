"""The Markdown report, for a pull request or a job's summary."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from imagegate.foreign import visible
from imagegate.foreign.credentials import redact
from imagegate.report.told import ToldVerdict
from imagegate.verdict import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from imagegate.foreign import Foreign
    from imagegate.report.told import ToldFinding, ToldFold, ToldReport
    from imagegate.verdict import Verdict

# what GitHub Flavored Markdown gives a meaning to inside a line or a table's cell: `:` makes
# addresses and emoji, `$` formulas, `@` mentions and mail addresses
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#!|~@&$]|(?<!sha256):|(?i:www)\.")
_BLANKS = re.compile(r"\s+")
_NOTES_SHOWN = 20


def render_markdown(verdicts: Sequence[Verdict]) -> str:
    """Write verdicts as GitHub Flavored Markdown; text out of images stays text."""
    return "\n".join(line for verdict in verdicts for line in _lines(ToldVerdict(verdict)))


def _lines(verdict: ToldVerdict) -> Iterator[str]:
    yield f"## {verdict.subject.written(escaped)}: {'PASSED' if verdict.passed else 'FAILED'}"
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield from (f"| {label} | {_plain(value)} |" for label, value in verdict.heading)
    yield from (f"| {label} | {_plain(value)} |" for label, value in verdict.footing)
    yield ""
    folds = verdict.folds
    if folds:
        yield "| what fails | subject | locked | found | where |"
        yield "|---|---|---|---|---|"
        yield from map(_fold_row, folds)
        yield ""
    waivable = [one.lead for one in folds if one.lead.about is not None][:_NOTES_SHOWN]
    if waivable and verdict.waivable_on:
        yield from _folded_away("waivers, to paste with a reason", _waivers(verdict, waivable))
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


def _check_rows(verdict: ToldVerdict) -> Iterator[str]:
    yield "| check | result | compared |"
    yield "|---|---|---|"
    for report in verdict.reports:
        yield f"| {_code(report.check)} | {_result(report)} | {_compared(report)} |"


def _other_rows(findings: list[ToldFinding]) -> Iterator[str]:
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


def _waivers(verdict: ToldVerdict, findings: list[ToldFinding]) -> Iterator[str]:
    """Write a waiver for each cause; a line of TOML's strings never begins with the fence."""
    yield "```toml"
    for finding in findings:
        yield from finding.waiver(verdict.waivable_on)
    yield "```"


def _fold_row(one: ToldFold) -> str:
    return _row(one.lead, one.hanging)


def _result(report: ToldReport) -> str:
    if report.left_out:
        return "not asked"
    if not report.passed:
        return "**FAIL**"
    return "ok, with notes" if report.findings else "ok"


def _compared(report: ToldReport) -> str:
    if report.looked_at:
        return _said(report.summary) or str(report.looked_at)
    return _said(report.left_out or report.nothing_because) or "nothing was compared"


def _row(finding: ToldFinding, more: Sequence[Foreign] = ()) -> str:
    word = "**FAIL** " if finding.severity is Severity.FAIL else f"{finding.severity.value} "
    place = finding.place
    where = [place.path.written(lambda path: plain(f"/{path}"), lines=True)] if place.path else []
    if place.layer:
        number = place.layer
        where.append(
            place.step.written(lambda step: plain(f"layer {number} {step}".rstrip()), lines=True)
        )
    hint = f"<br>hint: {_said(finding.hint)}" if finding.hint else ""
    accepted = finding.accepted
    if accepted is not None:
        left = f"until {accepted.expires}, {accepted.days_left} days left"
        hint = f"<br>waived {left}: {_plain(accepted.reason)}{hint}"
    hanging_on = "".join(f"<br>{_plain(line)}" for line in more)
    cells = (
        f"{word}{_code(finding.code)}<br>{_said(finding.message)}{hanging_on}{hint}",
        _plain(finding.subject),
        _plain(finding.locked),
        _plain(finding.found),
        "<br>".join(where),
    )
    return f"| {' | '.join(cells)} |"


def _plain(foreign: Foreign) -> str:
    return foreign.written(plain, lines=True)


def _said(message: Foreign) -> str:
    return message.written(said, lines=True)


def plain(text: str) -> str:
    """Write text that may come out of an image so that it is shown as it is.

    The text stands in `code`, where nothing is made of addresses, mentions, emoji and formulas
    after the Markdown was read; inside, every character with a meaning is a reference.
    """
    one_line = _BLANKS.sub(" ", visible(redact(text), "\n"))
    return f"<code>{_SPECIAL.sub(_reference, one_line)}</code>" if one_line.strip() else ""


def escaped(text: str) -> str:
    """Write a word of ours, or a name that was checked, so that none of it is Markdown."""
    return _SPECIAL.sub(_reference, _BLANKS.sub(" ", visible(redact(text), "\n")))


def said(message: str) -> str:
    """Write a sentence of ours; what stands between backticks may come out of an image."""
    parts = _BLANKS.sub(" ", visible(redact(message), "\n")).split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick is no mark of ours
        return plain(message)
    return "".join(
        plain(part) if number % 2 else _SPECIAL.sub(_reference, part)
        for number, part in enumerate(parts)
    )


def _reference(match: re.Match[str]) -> str:
    return "".join(f"&#{ord(character)};" for character in match[0])


def _code(text: str) -> str:
    """Write one of our own words; it holds no backtick and no bar."""
    return f"`{text}`"
