"""``lock.fresh`` and ``copy.present``: does the workspace fit the lock, and the lock the image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.evidence import Check, Evidence, Findings

if TYPE_CHECKING:
    from imagegate.lock import LockedAsset
    from imagegate.rootfs import Node
    from imagegate.verdict import CheckReport


def _judge_fresh(evidence: Evidence) -> CheckReport:
    findings = Findings("lock.fresh")
    lock, recipe = evidence.lock, evidence.recipe
    hint = f"run `imagegate lock {recipe.name}`"
    if lock.contents.recipe != recipe.digest:
        findings.fail(
            "recipe-changed",
            "image.toml",
            "the recipe is not the one that was locked",
            locked=lock.contents.recipe,
            found=recipe.digest,
            hint=hint,
        )
    if lock.contents.requirements != evidence.requirements:
        findings.fail(
            "requirements-changed",
            "requirements.in",
            "the requirements are not the ones that were locked",
            locked=lock.contents.requirements,
            found=evidence.requirements,
            hint=hint,
        )
    locked = {asset.source: asset for asset in lock.assets}
    found = {asset.source: asset for asset in evidence.assets}
    for source in sorted(locked.keys() | found.keys()):
        before, now = locked.get(source), found.get(source)
        if before != now:
            findings.fail(
                "asset-changed",
                source,
                "an asset is not the one that was locked",
                locked=before.sha256 if before else "nothing",
                found=now.sha256 if now else "nothing",
                hint=hint,
            )
    return findings.report(
        [
            f"recipe: locked={lock.contents.recipe} found={recipe.digest}",
            f"requirements: locked={lock.contents.requirements} found={evidence.requirements}",
            f"assets: locked={len(locked)} found={len(found)}",
        ]
    )


def asset_node(evidence: Evidence, asset: LockedAsset) -> Node | None:
    """Return what the image has where an asset belongs, links on the way followed."""
    resolved = evidence.tree.resolve(asset.target)
    return evidence.tree.get(resolved) if resolved else None


def _judge_present(evidence: Evidence) -> CheckReport:
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


FRESH = Check(
    id="lock.fresh",
    question="are recipe, requirements and assets the ones that the lock was made from",
    why="a lock of yesterday's recipe says nothing about today's",
    fix="run `imagegate lock`",
    judge=_judge_fresh,
)
PRESENT = Check(
    id="copy.present",
    question="is each model's every asset in the image, at its path, with its bytes",
    why="a build passes without a chat template; serving fails",
    fix="let the COPY lines and the ignore file reach every model's folder",
    judge=_judge_present,
)
