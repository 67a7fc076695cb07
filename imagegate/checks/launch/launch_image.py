"""``launch.image``: does every node have the image that was judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.launch.evidence import UNSEEN, LaunchEvidence

if TYPE_CHECKING:
    from imagegate.verdict import CheckReport


def _judge(evidence: LaunchEvidence) -> CheckReport:
    findings = Findings(CHECK.id)
    compared = []
    for node in evidence.nodes:
        if not node.engines:
            findings.fail(UNSEEN, node.name, "no container engine could be asked for its images",
                          locked="docker or podman that answers", found="none")  # fmt: skip
            continue
        held = [one for one in node.images if evidence.is_image(one.id, None, node)]
        if held:
            compared.append(f"{node.name}: {evidence.digest} as {held[0].id}")
            continue
        name = evidence.env.get("IMAGE", "").partition("@")[0]
        others = [
            digest.rpartition("@")[2]
            for one in node.images
            for digest in one.digests
            if digest.startswith(f"{name}@")
        ]
        findings.fail(
            "absent",
            node.name,
            "the node does not have the judged image",
            locked=evidence.digest or evidence.env.get("IMAGE_ID", ""),
            found=f"another digest of {name}: {', '.join(others)}" if others else "not there",
            hint=f"pull {evidence.env.get('IMAGE', '')} on {node.name}, or `imagegate load`",
        )
    return findings.report(compared, nothing_because="no node has it" if not compared else "")


CHECK = Check(
    id="launch.image",
    question="does every node hold the image whose verdict is published, by digest or config id",
    why="two nodes with two images of one name fail late, or answer differently without a word",
    fix="pull the image by its digest on every node",
    judge=_judge,
    revision=1,
)
