"""The JSON report: the same finding model, with stable names."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from imagegate.oci.documents import canonical_json

if TYPE_CHECKING:
    from imagegate.verdict import Acceptance, CheckReport, Finding, Verdict

SCHEMA = "imagegate-verdict-1"


def render_json(verdict: Verdict) -> bytes:
    """Write a verdict as canonical JSON; the same verdict gives the same bytes."""
    return canonical_json(
        {
            "schema": SCHEMA,
            "verdict": verdict.word,
            "recipe": verdict.recipe,
            "image": {
                "digest": None if verdict.image is None else str(verdict.image),
                "location": verdict.location,
                "platform": verdict.platform,
            },
            "base": None if verdict.base is None else str(verdict.base),
            "lock": str(verdict.lock),
            "cost": asdict(verdict.cost),
            "skipped": list(verdict.skipped),
            "checks": [_check(report) for report in verdict.reports],
        }
    )


def _check(report: CheckReport) -> dict[str, object]:
    return {
        "id": report.check,
        "passed": report.passed,
        "compared": list(report.compared),
        "nothing_because": report.nothing_because,
        "findings": [_finding(finding) for finding in report.findings],
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "subject": finding.subject,
        "message": finding.message,
        "locked": finding.locked,
        "found": finding.found,
        "place": asdict(finding.place),
        "hint": finding.hint,
        "accepted": _acceptance(finding.accepted),
    }


def _acceptance(accepted: Acceptance | None) -> dict[str, object] | None:
    if accepted is None:
        return None
    return {
        "reason": accepted.reason,
        "expires": accepted.expires.isoformat(),
        "days_left": accepted.days_left,
    }
