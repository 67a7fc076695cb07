"""Coverage reports as text, JSON and GitHub workflow commands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from imagegate.coverage.outcome import AssetVerdict, Combined, Outcome, Place
from imagegate.coverage.verdict import combine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from imagegate.coverage.repair import Edit
    from imagegate.coverage.verdict import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """One Dockerfile with every builder that was asked for.

    Attributes:
        dockerfile: its path.
        judgements: one per builder.
        edits: lines that would cover what is not covered.
        written: the edits are in the files already.
        left_out: git-ignored files of recipe folders that are not copied and so no assets.
    """

    dockerfile: str
    judgements: tuple[Judgement, ...]
    edits: tuple[Edit, ...] = ()
    written: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def assets(self) -> tuple[Combined, ...]:
        """The verdicts by asset."""
        return combine(self.judgements)

    @property
    def covered(self) -> bool:
        """Every asset is covered with every builder; no assets are no coverage."""
        return bool(self.judgements) and all(judgement.covered for judgement in self.judgements)

    @property
    def unknown(self) -> bool:
        """Of some asset it is not known where it ends."""
        return any(
            verdict.outcome is Outcome.UNKNOWN
            for judgement in self.judgements
            for verdict in judgement.verdicts
        )


def explain(verdict: AssetVerdict) -> str:
    """Return one clause: outcome, reason, line, and what would be next."""
    parts = [verdict.outcome.value]
    if verdict.reason:
        parts.append(verdict.reason)
    text = ": ".join(parts)
    if verdict.place is not None:
        text += f" ({_place(verdict.place)})"
    if verdict.behind is not None and not verdict.behind.covered:
        text += f"; and if it were sent: {explain(verdict.behind)}"
    return text


def _place(place: Place) -> str:
    return f"{place} `{place.text.strip()}`" if place.text else str(place)


def to_text(reports: Sequence[FileReport]) -> str:
    """Return the report for people: one line per recipe where its files fare alike."""
    return "\n".join(line for report in reports for line in _text_lines(report)) + "\n"


def _text_lines(report: FileReport) -> Iterator[str]:
    builders = ", ".join(judgement.build.builder.name for judgement in report.judgements)
    assets = report.assets
    good = sum(asset.covered for asset in assets)
    yield f"{report.dockerfile} ({builders}): {good} of {len(assets)} assets covered"
    for judgement in report.judgements:
        for failure in judgement.evaluation.failures:
            yield (
                f"  {judgement.build.builder.name}: build fails at "
                f"{report.dockerfile}:{failure.line}: {failure.message}"
            )
    bad = [asset for asset in assets if not asset.covered]
    for (model, _), group in groupby(bad, key=lambda one: (one.asset.model, _summary(one))):
        members = list(group)
        first = members[0]
        names = ", ".join(member.asset.inner for member in members)
        yield f"  {model} ({names}):"
        for line in _verdict_lines(first):
            yield f"    {line}"
    if report.edits:
        yield "  written:" if report.written else "  proposed:"
        for edit in report.edits:
            yield f"    {edit.path}: after line {edit.after}: {edit.text}"


def _summary(combined: Combined) -> tuple[tuple[str, ...], ...]:
    """What has to be equal for assets of a recipe to share one entry."""
    return tuple(
        (verdict.outcome.value, str(verdict.place), _behind(verdict))
        for verdict in combined.verdicts
    )


def _behind(verdict: AssetVerdict) -> str:
    return verdict.behind.outcome.value if verdict.behind else ""


def _verdict_lines(combined: Combined) -> Iterator[str]:
    if not combined.builders_disagree:
        yield explain(combined.verdicts[0])
        return
    yield "builders disagree:"
    for text, builders in _alike(combined):
        yield f"  {', '.join(builders)}: {text}"


def to_github(reports: Sequence[FileReport]) -> str:
    """Return one ``::error`` workflow command per asset that is not covered."""
    lines: list[str] = []
    for report in reports:
        for combined in report.assets:
            if combined.covered:
                continue
            bad = next(verdict for verdict in combined.verdicts if not verdict.covered)
            place = bad.place or Place(path=report.dockerfile, line=1)
            said = "; ".join(
                f"{', '.join(builders)}: {text}" for text, builders in _alike(combined)
            )
            message = f"{combined.asset.path}: {said}"
            lines.append(
                f"::error file={_property(place.path)},line={place.line},"
                f"title=COPY coverage::{_message(message)}"
            )
    return "".join(f"{line}\n" for line in lines)


def _alike(combined: Combined) -> list[tuple[str, list[str]]]:
    """Group the builders that say the same of an asset."""
    grouped: dict[str, list[str]] = {}
    for verdict in combined.verdicts:
        grouped.setdefault(explain(verdict), []).append(verdict.builder)
    return list(grouped.items())


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def to_json(reports: Sequence[FileReport]) -> str:
    """Return the report as JSON: everything, covered assets included."""
    document = {
        "covered": all(report.covered for report in reports),
        "dockerfiles": [
            {
                "path": report.dockerfile,
                "builders": [
                    {
                        "name": judgement.build.builder.name,
                        "ignore_file": judgement.build.main.ignore.path,
                        "failures": [
                            {"line": failure.line, "message": failure.message}
                            for failure in judgement.evaluation.failures
                        ],
                        "assets": [_json_verdict(verdict) for verdict in judgement.verdicts],
                    }
                    for judgement in report.judgements
                ],
                "builders_disagree": [
                    combined.asset.path for combined in report.assets if combined.builders_disagree
                ],
                "edits": [
                    {"path": edit.path, "after": edit.after, "text": edit.text}
                    for edit in report.edits
                ],
                "written": report.written,
                "left_out": list(report.left_out),
            }
            for report in reports
        ],
    }
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=True) + "\n"


def _json_verdict(verdict: AssetVerdict) -> dict[str, object]:
    place = verdict.place
    return {
        "model": verdict.asset.model,
        "path": verdict.asset.path,
        "expected": verdict.asset.expected,
        "outcome": verdict.outcome.value,
        "covered": verdict.outcome is Outcome.COVERED,
        "reason": verdict.reason,
        "file": place.path if place else None,
        "line": place.line if place else None,
        "found": list(verdict.found),
        "behind": _json_verdict(verdict.behind) if verdict.behind else None,
    }
