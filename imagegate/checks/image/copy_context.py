"""``copy.context``: does the builder get each asset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.image.copying import judge_context

if TYPE_CHECKING:
    from imagegate.checks.image.evidence import Evidence
    from imagegate.verdict import CheckReport


def _judge(evidence: Evidence) -> CheckReport:
    if not evidence.lock.assets:
        return Findings("copy.context").report((), nothing_because="the recipe has no assets")
    return judge_context(evidence.copying)


CHECK = Check(
    id="copy.context",
    question="where a Dockerfile builds the image: does every asset pass the ignore file, with its "
    "content",
    why="one line of an ignore file keeps a chat template from the builder, and some builders say "
    "nothing or send it empty",
    fix="let the ignore file through what the message names; `imagegate coverage --list-context` "
    "prints what is sent and what is dropped by which line",
    judge=_judge,
    revision=1,
)
