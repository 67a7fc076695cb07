"""Coverage reports as text, JSON and GitHub workflow commands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from imagegate.coverage.outcome import AssetVerdict, Combined, Outcome, Place
from imagegate.coverage.verdict import Judgement, combine
from imagegate.foreign import shown
from imagegate.foreign.credentials import redact_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from imagegate.coverage.repair import Edit
    from imagegate.coverage.verdict import Refusal


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
    judgements: tuple[Judgement | Refusal, ...]
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
        return self.passes(strict=False)

    def passes(self, *, strict: bool) -> bool:
        """Say whether every asset is good enough; `strict` takes no notes."""
        found = self.judgements
        return bool(found) and all(judgement.passes(strict=strict) for judgement in found)

    @property
    def unknown(self) -> bool:
        """Of some asset it is not known where it ends."""
        return any(
            verdict.outcome is Outcome.UNKNOWN
            for judgement in self.judgements
            for verdict in judgement.verdicts
        )

    @property
    def judged(self) -> tuple[Judgement, ...]:
        """The judgements of builders that read the files."""
        return tuple(found for found in self.judgements if isinstance(found, Judgement))


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
    return "; ".join((text, *verdict.notes))


def _place(place: Place) -> str:
    return f"{place} `{place.text.strip()}`" if place.text else str(place)


_NAMED = 6
"""So many of a long list are named; of the others their number."""
_GROUPS = 25
"""So many recipes of one Dockerfile are told one by one."""


def folded(names: Sequence[str]) -> str:
    """Return the first of `names` and how many more there are."""
    named = ", ".join(names[:_NAMED])
    return named if len(names) <= _NAMED else f"{named} and {len(names) - _NAMED} more"


def to_text(reports: Sequence[FileReport]) -> str:
    """Return the report for people: one entry per recipe where its files fare alike."""
    return "".join(f"{shown(line)}\n" for report in reports for line in _text_lines(report))


def _text_lines(report: FileReport) -> Iterator[str]:
    builders = ", ".join(judgement.builder for judgement in report.judgements)
    assets = report.assets
    good = sum(asset.covered for asset in assets)
    noted = sum(asset.covered and not asset.certain for asset in assets)
    more = f", {noted} of them with a note" if noted else ""
    yield f"{report.dockerfile} ({builders}): {good} of {len(assets)} assets covered{more}"
    yield from _failures(report)
    bad = [asset for asset in assets if not asset.covered]
    refused = {found.builder for found in report.judgements if found.refused}
    if refused:
        # what every asset shares is said once
        bad = [asset for asset in bad if not asset.fails_only_with(refused)]
    groups = [
        list(group) for _, group in groupby(bad, key=lambda one: (one.asset.model, _summary(one)))
    ]
    for members in groups[:_GROUPS]:
        first = members[0]
        names = folded([member.asset.inner or member.asset.path for member in members])
        yield f"  {first.asset.model} ({names}):"
        for line in _verdict_lines(first):
            yield f"    {line}"
    if len(groups) > _GROUPS:
        rest = sum(len(members) for members in groups[_GROUPS:])
        yield f"  … and {rest} more assets that are not covered; `--format json` lists them all"
    yield from _notes(assets)
    if report.edits:
        yield "  written:" if report.written else "  proposed:"
        for edit in report.edits[:_GROUPS]:
            yield f"    {edit.path}: after line {edit.after}: {edit.text}"
        if len(report.edits) > _GROUPS:
            rest = len(report.edits) - _GROUPS
            yield f"    … and {rest} more lines; `--format json` lists them all"


def _failures(report: FileReport) -> Iterator[str]:
    for found in report.judgements:
        if not isinstance(found, Judgement):
            yield f"  {found.builder}: refuses to build: {found.refused}"
            continue
        for failure in found.evaluation.failures:
            yield (
                f"  {found.builder}: build fails at "
                f"{report.dockerfile}:{failure.line}: {failure.message}"
            )


def _notes(assets: Sequence[Combined]) -> Iterator[str]:
    """Yield each note once, with the assets that it is about."""
    grouped: dict[str, list[str]] = {}
    for combined in assets:
        if not combined.covered:
            continue
        for note in dict.fromkeys(
            note for verdict in combined.verdicts for note in _notes_of(verdict)
        ):
            grouped.setdefault(note, []).append(combined.asset.path)
    for note, paths in grouped.items():
        yield f"  note: {note} ({folded(paths)})"


def _notes_of(verdict: AssetVerdict) -> tuple[str, ...]:
    if verdict.outcome is Outcome.COVERED:
        return verdict.notes
    said = f"{verdict.outcome.value}: {verdict.reason}; the image's bytes have to prove it"
    return (said, *verdict.notes)


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
    """Escape a command's message (actions/toolkit, command.ts, ``escapeData``), in one line."""
    return shown(text).replace("%", "%25")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def to_json(reports: Sequence[FileReport]) -> str:
    """Return the report as JSON: everything, covered assets included."""
    document = {
        "covered": all(report.covered for report in reports),
        "certain": all(report.passes(strict=True) for report in reports),
        "dockerfiles": [
            {
                "path": report.dockerfile,
                "builders": [_json_builder(found) for found in report.judgements],
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
    hidden = redact_document(document)
    return json.dumps(hidden, indent=2, sort_keys=True, ensure_ascii=True) + "\n"


def _json_builder(found: Judgement | Refusal) -> dict[str, object]:
    failures: list[dict[str, object]] = []
    ignore = None
    if isinstance(found, Judgement):
        ignore = found.build.main.ignore.path
        failures = [
            {"line": failure.line, "message": failure.message}
            for failure in found.evaluation.failures
        ]
    return {
        "name": found.builder,
        "ignore_file": ignore,
        "refused": found.refused or None,
        "failures": failures,
        "assets": [_json_verdict(verdict) for verdict in found.verdicts],
    }


def _json_verdict(verdict: AssetVerdict) -> dict[str, object]:
    place = verdict.place
    return {
        "model": verdict.asset.model,
        "path": verdict.asset.path,
        "expected": verdict.asset.expected,
        "outcome": verdict.outcome.value,
        "covered": verdict.covered,
        "standing": verdict.standing.value,
        "notes": list(verdict.notes),
        "reason": verdict.reason,
        "file": place.path if place else None,
        "line": place.line if place else None,
        "found": list(verdict.found),
        "behind": _json_verdict(verdict.behind) if verdict.behind else None,
    }
