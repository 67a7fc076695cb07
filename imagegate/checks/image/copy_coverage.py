"""``copy.coverage``: does a COPY bring each asset to its path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.image.copy_present import asset_node
from imagegate.checks.image.copying import judge_coverage

if TYPE_CHECKING:
    from imagegate.checks.image.evidence import Evidence
    from imagegate.verdict import CheckReport


def _judge(evidence: Evidence) -> CheckReport:
    if not evidence.lock.assets:
        return Findings("copy.coverage").report((), nothing_because="the recipe has no assets")
    present = {
        asset.source
        for asset in evidence.lock.assets
        if (node := asset_node(evidence, asset)) is not None and node.sha256 == asset.sha256
    }
    return judge_coverage(evidence.copying, present)


CHECK = Check(
    id="copy.coverage",
    question="where a Dockerfile builds the image: does a COPY bring every asset to its path, and "
    "does it survive the instructions behind it",
    why="a COPY line that is missing, flattens folders or stands in another stage gives an image "
    "without the template, and the build passes",
    fix="add the line that the message proposes; what a RUN may change is copied behind it",
    judge=_judge,
    revision=1,
)
