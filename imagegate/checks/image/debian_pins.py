"""``debian.pins``: are the system's Debian packages what they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.catalog.system import DPKG
from imagegate.checks.check import Check
from imagegate.checks.image.packages import judge_packages

if TYPE_CHECKING:
    from imagegate.checks.image.evidence import Evidence
    from imagegate.verdict import CheckReport


def _judge(evidence: Evidence) -> CheckReport:
    return judge_packages(DPKG, "debian.pins", evidence)


CHECK = Check(
    id="debian.pins",
    question="is each Debian package of the base there with its version, architecture and state",
    why="an upgrade on the way replaces libraries that the base was tested with, held ones too",
    fix="find the step in the message; install by exact version and do not upgrade",
    judge=_judge,
    revision=1,
)
