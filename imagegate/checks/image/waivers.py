"""``waivers.match``: is each waiver still about something, in time, and about this base."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.verdict import NOT_WAIVABLE

if TYPE_CHECKING:
    from collections.abc import Collection

    from imagegate.checks.image.evidence import Evidence
    from imagegate.verdict import CheckReport, Waiver

_ID = "waivers.match"


def _judge(evidence: Evidence) -> CheckReport:
    """Judge what can be told without the other checks: date, base, and what may be waived."""
    findings = Findings(_ID)
    waivers = evidence.recipe.waivers
    base = str(evidence.lock.base.digest or "scratch")
    for waiver in waivers:
        if waiver.expires < evidence.today:
            findings.fail(
                "expired",
                waiver.subject,
                f"the waiver of `{waiver.code}` has expired: {waiver.reason}",
                locked=waiver.expires,
                found=evidence.today,
                hint="mend what it waives, or renew it with a reason of today",
            )
        if waiver.base != base:
            findings.fail(
                "other-base",
                waiver.subject,
                f"the waiver of `{waiver.code}` was given for another base: {waiver.reason}",
                locked=base,
                found=waiver.base,
                hint="look at the finding again on this base before it is waived",
            )
        if waiver.code.partition("/")[0] in NOT_WAIVABLE:
            findings.fail(
                "not-waivable",
                waiver.subject,
                f"`{waiver.code}` cannot be waived: every other check rests on it",
            )
    return findings.report(
        [
            f"{waiver.code} of {waiver.subject}: until {waiver.expires}, {waiver.reason}"
            for waiver in waivers
        ],
        nothing_because="" if waivers else "the recipe has no waiver",
    )


def with_unused(
    report: CheckReport,
    evidence: Evidence,
    used: Collection[Waiver],
    skipped: Collection[str] = (),
) -> CheckReport:
    """Add a finding for each valid waiver that matched nothing.

    Args:
        report: what this check said.
        evidence: what was judged.
        used: the waivers that accepted a finding.
        skipped: checks that were left out, so that nothing is known of their waivers.
    """
    findings = Findings(_ID)
    base = str(evidence.lock.base.digest or "scratch")
    for waiver in evidence.recipe.waivers:
        valid = waiver.base == base and waiver.expires >= evidence.today
        check = waiver.code.partition("/")[0]
        if valid and waiver not in used and check not in NOT_WAIVABLE and check not in skipped:
            findings.fail(
                "matches-nothing",
                waiver.subject,
                f"the waiver of `{waiver.code}` matches no finding: {waiver.reason}",
                locked=waiver.about,
                found="no such finding",
                hint="take it out; a waiver is exact, and what it accepted is not there",
            )
    return replace(report, findings=(*report.findings, *findings.report(()).findings))


CHECK = Check(
    id=_ID,
    question="is each waiver in time, given for this base, and about a finding that is there",
    why="a waiver that outlives its reason accepts what nobody looked at",
    fix="take it out of image.toml, or give it again with the reason of today",
    judge=_judge,
    revision=1,
)
