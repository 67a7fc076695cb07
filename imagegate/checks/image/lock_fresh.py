"""``lock.fresh``: does the workspace fit the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings

if TYPE_CHECKING:
    from imagegate.checks.image.evidence import Evidence
    from imagegate.verdict import CheckReport


def _judge(evidence: Evidence) -> CheckReport:
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


CHECK = Check(
    id="lock.fresh",
    question="are recipe, requirements and assets the ones that the lock was made from",
    why="a lock of yesterday's recipe says nothing about today's",
    fix="run `imagegate lock`",
    judge=_judge,
    revision=1,
)
