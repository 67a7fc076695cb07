"""Annotations for GitHub Actions (workflow commands ``error`` and ``notice``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from imagegate.foreign import quiet, shown, visible
from imagegate.report.folding import fold
from imagegate.report.text import hanging
from imagegate.verdict import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from imagegate.verdict import Finding, Verdict


def render_github(verdicts: Sequence[Verdict]) -> str:
    """Write one workflow command a finding, and one a verdict."""
    return "".join(f"{line}\n" for verdict in verdicts for line in _lines(verdict))


def _lines(verdict: Verdict) -> Iterator[str]:
    file = verdict.file
    # GitHub shows ten errors and ten notices of a step: each cause is one
    for one in fold(verdict.findings):
        text = "\n".join([_message(one.lead), *map(shown, hanging(one))])
        yield _command(Severity.FAIL, file, one.lead.code, text)
    for finding in verdict.findings:
        if finding.severity is not Severity.FAIL:
            yield _command(finding.severity, file, finding.code, _message(finding))
    said = f"{verdict.subject}: {len(verdict.failures)} failures in {len(verdict.reports)} checks"
    said += "".join(f", {label} {value}" for label, value in verdict.heading[:1])
    if verdict.sound:
        yield _command(Severity.NOTE, file, verdict.word, said)
    else:
        yield _command(Severity.FAIL, file, "FAILED", said)


def _message(finding: Finding) -> str:
    lines = [f"{finding.subject}: {finding.message}" if finding.subject else finding.message]
    if finding.locked or finding.found:
        lines.append(f"locked={finding.locked or 'nothing'} found={finding.found or 'nothing'}")
    place = finding.place
    if place.path:
        lines.append(f"path /{place.path}")
    if place.layer:
        lines.append(f"layer {place.layer} {place.layer_digest} {place.step}".rstrip())
    if finding.accepted is not None:
        left = f"{finding.accepted.days_left} days left"
        lines.append(f"waived until {finding.accepted.expires}, {left}: {finding.accepted.reason}")
    if finding.hint:
        lines.append(f"hint: {finding.hint}")
    return "\n".join(map(shown, lines))


def _command(severity: Severity, file: str, title: str, message: str) -> str:
    return annotation("error" if severity is Severity.FAIL else "notice", file, title, message)


def annotation(
    level: Literal["error", "warning", "notice"], file: str, title: str, text: str
) -> str:
    """Write one workflow command that annotates the first line of a file.

    Args:
        level: how GitHub shows it.
        file: path in the repository.
        title: what it is about.
        text: what it says; may have several lines.
    """
    return f"::{level} file={_property(file)},line=1,title={_property(title)}::{_data(text)}"


def _data(text: str) -> str:
    """Escape a command's message (actions/toolkit, command.ts, ``escapeData``)."""
    lines = (quiet(visible(line)) for line in text.split("\n"))
    return "\n".join(lines).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a command's property (actions/toolkit, command.ts, ``escapeProperty``)."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
