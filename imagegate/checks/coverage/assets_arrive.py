"""``assets.arrive``: every asset passes the ignore file, is copied, and lies where it belongs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.coverage.outcome import Standing
from imagegate.coverage.render import explain
from imagegate.verdict import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from imagegate.checks.coverage.covering import Covering
    from imagegate.coverage.outcome import AssetVerdict, Combined
    from imagegate.verdict import CheckReport


def _judge(covering: Covering) -> CheckReport:
    findings = Findings(CHECK.id)
    report = covering.report
    if report is None:
        findings.fail("not-judged", "", covering.refused, hint=covering.hint)
        return findings.report(["whether the build can be judged"])
    for note in covering.notes:
        findings.note("not-looked-at", "", note)
    for combined in report.assets:
        if not combined.covered or (covering.strict and not combined.certain):
            _say(findings.fail, combined)
        elif not combined.certain:
            _say(findings.note, combined)
    for edit in report.edits:
        if not report.written:
            findings.note("proposal", edit.path, f"after line {edit.after}: {edit.text}")
    builders = ", ".join(judgement.builder for judgement in report.judgements)
    compared = [f"{combined.asset.path} ({builders})" for combined in report.assets]
    return findings.report(compared)


def _say(say: Callable[..., None], combined: Combined) -> None:
    grouped: dict[str, list[AssetVerdict]] = {}
    for verdict in combined.verdicts:
        grouped.setdefault(explain(verdict), []).append(verdict)
    if len(grouped) == 1:
        message = next(iter(grouped))
    else:
        message = "; ".join(
            f"{', '.join(verdict.builder for verdict in same)}: {text}"
            for text, same in grouped.items()
        )
    first = min(combined.verdicts, key=lambda verdict: verdict.standing is Standing.COVERED)
    first = next((verdict for verdict in combined.verdicts if not verdict.covered), first)
    place = first.place
    expected = combined.asset.expected or ""
    elsewhere = expected not in first.found
    say(
        re.sub(r"[^a-z]+", "-", first.outcome.value.lower()).strip("-"),
        combined.asset.path,
        message,
        locked=expected if elsewhere else "",
        found=", ".join(first.found) if elsewhere else "",
        place=Place(file=place.path, line=place.line) if place is not None else Place(),
        cause=str(place) if place is not None else "",
    )


CHECK: Check[Covering] = Check(
    id="assets.arrive",
    question="Does every asset pass the ignore file, is it copied, and does it lie at its place",
    why="A template or configuration that is in the repository and not in the image is missed by "
    "nobody until the model is served: the build succeeds without it.",
    fix="Add the proposed lines (`imagegate coverage --fix` writes them), or take out of "
    "coverage.toml what does not belong into the image.",
    judge=_judge,
    revision=1,
)
