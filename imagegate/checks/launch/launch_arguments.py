"""``launch.arguments``: what is started, against the image's own options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.launch.evidence import UNSEEN, LaunchEvidence
from imagegate.verdict import Severity

if TYPE_CHECKING:
    from imagegate.verdict import CheckReport


def _judge(evidence: LaunchEvidence) -> CheckReport:
    findings = Findings(CHECK.id)
    if evidence.problems is None:
        findings.fail(UNSEEN, evidence.section.program,
                      "no table of the image's options is there, so its arguments are not judged",
                      locked="options.json of the lock that was published", found="none",
                      hint="lock the recipe again and promote")  # fmt: skip
        return findings.report(())
    for one in evidence.problems:
        add = findings.fail if one.severity is Severity.FAIL else findings.note
        add(one.what, one.option or evidence.section.program, one.message,
            locked=one.needed, found=one.found, hint=one.hint)  # fmt: skip
    return findings.report(
        [f"{len(evidence.section.arguments)} words behind {evidence.section.program}"]
    )


CHECK = Check(
    id="launch.arguments",
    question="does the image's own parser take exactly these arguments, overrides included",
    why="an option that works by abbreviation or is silently ignored is found after the loading",
    fix="write what the finding needs",
    judge=_judge,
    revision=1,
)
