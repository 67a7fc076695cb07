"""Annotations for GitHub Actions (workflow commands ``error`` and ``notice``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from imagegate.foreign import quiet, shown, visible
from imagegate.report.told import ToldVerdict
from imagegate.verdict import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from imagegate.report.told import ToldFinding
    from imagegate.verdict import Verdict


def render_github(verdicts: Sequence[Verdict]) -> str:
    """Write one workflow command a finding, and one a verdict."""
    return "".join(f"{line}\n" for verdict in verdicts for line in _lines(ToldVerdict(verdict)))


def _lines(verdict: ToldVerdict) -> Iterator[str]:
    file = verdict.file.written(str)
    # GitHub shows ten errors and ten notices of a step: each cause is one
    for one in verdict.folds:
        text = "\n".join([_message(one.lead), *(line.written(quiet) for line in one.hanging)])
        yield _command(Severity.FAIL, file, one.lead.code, text)
    for finding in verdict.findings:
        if finding.severity is not Severity.FAIL:
            yield _command(finding.severity, file, finding.code, _message(finding))
    said = f"{verdict.subject.written(str)}: {verdict.failures} failures in {len(verdict.reports)} checks"
    said += "".join(f", {label} {value.written(str)}" for label, value in verdict.heading[:1])
    if verdict.sound:
        yield _command(Severity.NOTE, file, verdict.word, said)
    else:
        yield _command(Severity.FAIL, file, "FAILED", said)


def _message(finding: ToldFinding) -> str:
    """Write a finding in lines; :func:`_data` escapes them for the command."""
    subject, message = finding.subject.written(str), finding.message.written(str)
    lines = [f"{subject}: {message}" if subject else message]
    locked, found = finding.locked.written(str), finding.found.written(str)
    if locked or found:
        lines.append(f"locked={locked or 'nothing'} found={found or 'nothing'}")
    place, accepted = finding.place, finding.accepted
    if place.path:
        lines.append(f"path /{place.path.written(str)}")
    if place.layer:
        named = f"{place.layer_digest.written(str)} {place.step.written(str)}"
        lines.append(f"layer {place.layer} {named}".rstrip())
    if accepted is not None:
        left = f"{accepted.expires}, {accepted.days_left} days left"
        lines.append(f"waived until {left}: {accepted.reason.written(str)}")
    if finding.hint:
        lines.append(f"hint: {finding.hint.written(str)}")
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
