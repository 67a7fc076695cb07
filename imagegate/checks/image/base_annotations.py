"""``base.annotations``: do the image's annotations and labels tell the truth about its base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.errors import UsageError
from imagegate.oci.documents import BASE_DIGEST, BASE_NAME
from imagegate.oci.reference import Reference

if TYPE_CHECKING:
    from imagegate.checks.image.evidence import Evidence
    from imagegate.verdict import CheckReport


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("base.annotations")
    manifest = evidence.image.manifest
    labels = (evidence.image.config.config.labels if evidence.image.config.config else None) or {}
    claims = [
        ("annotation", (manifest.annotations if manifest else None) or {}),
        ("label", labels),
    ]
    compared: list[str] = []
    for kind, values in claims:
        if BASE_DIGEST in values:
            _compare_digest(evidence, findings, kind, values[BASE_DIGEST])
            compared.append(f"{kind} {BASE_DIGEST}: found={values[BASE_DIGEST]}")
        if BASE_NAME in values:
            _compare_name(evidence, findings, kind, values[BASE_NAME])
            compared.append(f"{kind} {BASE_NAME}: found={values[BASE_NAME]}")
    if compared:
        return findings.report(compared)
    if evidence.lock.base.digest is not None:
        findings.note("absent", "annotations", "the image does not say what its base is")
    return findings.report((), nothing_because="the image carries no base annotations")


def _compare_digest(evidence: Evidence, findings: Findings, kind: str, found: str) -> None:
    base = evidence.lock.base
    truths = {str(digest) for digest in (base.digest, base.index) if digest is not None}
    if found not in truths:
        findings.fail(
            "digest-lies",
            BASE_DIGEST,
            f"the {kind} names another base than the locked one",
            locked=base.digest or "scratch",
            found=found,
        )


def _compare_name(evidence: Evidence, findings: Findings, kind: str, found: str) -> None:
    expected = evidence.recipe.base.name if evidence.recipe.base is not None else "scratch"
    try:
        name = Reference.parse(found).name
    except UsageError:
        name = found
    if name != expected:
        findings.fail(
            "name-lies",
            BASE_NAME,
            f"the {kind} names another base than the recipe",
            locked=expected,
            found=found,
        )


CHECK = Check(
    id="base.annotations",
    question="do `org.opencontainers.image.base.*` tell the truth",
    why="tools that rebase or scan believe them",
    fix="let the build write them from the locked reference",
    judge=_judge,
    revision=1,
)
