"""``base.digest`` and ``base.annotations``: is this the base that was locked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.evidence import BaseLayer, Check, Evidence, Findings, Proof
from imagegate.errors import UsageError
from imagegate.oci.documents import BASE_DIGEST, BASE_NAME
from imagegate.oci.reference import Reference

if TYPE_CHECKING:
    from imagegate.verdict import CheckReport


def _judge_digest(evidence: Evidence) -> CheckReport:
    findings = Findings("base.digest")
    lock, recipe = evidence.lock, evidence.recipe
    compared = [_compare_platform(evidence, findings)]
    if lock.base.digest is None:
        if recipe.base is not None:
            findings.fail(
                "recipe-differs",
                recipe.name,
                "the recipe has a base and the lock was made from scratch",
                locked="scratch",
                found=recipe.base,
                hint=f"run `imagegate lock {recipe.name}`",
            )
        compared.append("base: recipe=scratch locked=scratch")
        return findings.report(compared)
    pinned = recipe.base.digest if recipe.base is not None else None
    if pinned not in (lock.base.digest, lock.base.index):
        findings.fail(
            "recipe-differs",
            recipe.name,
            "recipe and lock name different bases",
            locked=lock.base.digest,
            found=pinned or "scratch",
            hint=f"run `imagegate lock {recipe.name}`",
        )
    compared.append(f"base: recipe={pinned} locked={lock.base.digest}")
    for layer in evidence.base_layers:
        _judge_layer(layer, evidence, findings)
        compared.append(
            f"base layer {layer.number} of {len(evidence.base_layers)}: "
            f"locked={layer.locked} proven by {layer.proof.value}"
        )
    if not evidence.added:
        findings.fail(
            "nothing-added",
            recipe.name,
            "the image has no layer on top of the base",
            hint="this is the base itself, or an image of another build",
        )
    return findings.report(compared)


def _compare_platform(evidence: Evidence, findings: Findings) -> str:
    image, recipe = evidence.image.config.platform, evidence.recipe.platform
    if image != recipe:
        findings.fail(
            "platform",
            str(recipe),
            "the image is for another platform than the recipe",
            locked=recipe,
            found=image,
        )
    return f"platform: recipe={recipe} image={image}"


def _judge_layer(layer: BaseLayer, evidence: Evidence, findings: Findings) -> None:
    subject = f"base layer {layer.number}"
    place = evidence.place("", layer.number)
    if layer.proof is Proof.ABSENT:
        findings.fail(
            "layer-absent",
            subject,
            "the image has fewer layers than the base",
            locked=layer.locked,
            found="nothing",
            hint="it was squashed, or built from another base",
        )
        return
    if layer.proof is Proof.DIFFERENT:
        findings.fail(
            "not-a-prefix",
            subject,
            "the image's layer is not the base's: its bytes give another diff id",
            locked=layer.locked_diff_id,
            found=layer.computed_diff_id,
            place=place,
            hint="build from the locked digest; a moved tag or a squash replaces layers",
        )
    actual = layer.computed_diff_id or layer.locked_diff_id
    if layer.claimed_diff_id != actual:
        findings.fail(
            "config-lies",
            subject,
            "the image's config claims another diff id than the layer has",
            locked=actual,
            found=layer.claimed_diff_id,
            place=place,
        )
    if layer.proof is Proof.DIFF_ID and layer.found is not None:
        findings.note(
            "recompressed",
            subject,
            "the layer was compressed anew; it was read, and its content is the base's",
            locked=layer.locked,
            found=layer.found,
            place=place,
        )


def _judge_annotations(evidence: Evidence) -> CheckReport:
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


DIGEST = Check(
    id="base.digest",
    question="do recipe, lock and image agree on the base, and are its layers the image's first",
    why="a base that is another than the tested one carries other pins, whatever its name says",
    fix="build from the locked digest, or lock the new base on purpose",
    judge=_judge_digest,
)
ANNOTATIONS = Check(
    id="base.annotations",
    question="do `org.opencontainers.image.base.*` tell the truth",
    why="tools that rebase or scan believe them",
    fix="let the build write them from the locked reference",
    judge=_judge_annotations,
)
