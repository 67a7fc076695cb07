"""``conda.pins``: are the packages of conda environments what they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.catalog.system import CONDA
from imagegate.checks.check import Check
from imagegate.checks.image.packages import judge_packages

if TYPE_CHECKING:
    from imagegate.checks.image.evidence import Evidence
    from imagegate.verdict import CheckReport


def _judge(evidence: Evidence) -> CheckReport:
    return judge_packages(CONDA, "conda.pins", evidence)


CHECK = Check(
    id="conda.pins",
    question="is each package of the base's conda environments there with its version and build",
    why="an environment that solves again moves packages that nobody asked for",
    fix="install with `--freeze-installed`, or keep the layer out of the environment",
    judge=_judge,
    revision=1,
)
