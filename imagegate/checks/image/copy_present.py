"""``copy.present``: is every asset in the image, at its path, with its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings

if TYPE_CHECKING:
    from imagegate.checks.image.evidence import Evidence
    from imagegate.lock import LockedAsset
    from imagegate.rootfs import Node
    from imagegate.verdict import CheckReport


def asset_node(evidence: Evidence, asset: LockedAsset) -> Node | None:
    """Return what the image has where an asset belongs, links on the way followed."""
    resolved = evidence.tree.resolve(asset.target)
    return evidence.tree.get(resolved) if resolved else None


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("copy.present")
    for asset in evidence.lock.assets:
        node = asset_node(evidence, asset)
        if node is None:
            findings.fail(
                "absent",
                asset.source,
                f"the asset of `{asset.model}` is not in the image",
                locked=asset.sha256,
                found="nothing",
                place=evidence.place(asset.target, 0),
                hint="the build's COPY lines or its ignore file leave it out",
            )
        elif node.sha256 != asset.sha256:
            findings.fail(
                "other-content",
                asset.source,
                f"the asset of `{asset.model}` has other bytes in the image",
                locked=asset.sha256,
                found=node.sha256 or node.kind.name.lower(),
                place=evidence.place(asset.target, node.layer),
            )
    if not evidence.lock.assets:
        return findings.report((), nothing_because="the recipe has no assets")
    return findings.report(
        f"{asset.source} at `{asset.target}`: sha256 {asset.sha256}"
        for asset in evidence.lock.assets
    )


CHECK = Check(
    id="copy.present",
    question="is each model's every asset in the image, at its path, with its bytes",
    why="a build passes without a chat template; serving fails",
    fix="let the COPY lines and the ignore file reach every model's folder",
    judge=_judge,
    revision=1,
)
