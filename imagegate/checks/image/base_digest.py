"""``base.digest``: is this the base that was locked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import BaseLayer, Evidence, Proof
from imagegate.oci.documents import layer_compression

if TYPE_CHECKING:
    from imagegate.verdict import CheckReport


_LAZY = re.compile(r"stargz|zstd-chunked|tarsplit|overlaybd|nydus|soci|remote/|lazy", re.IGNORECASE)
# layers of one base are missing or others for one reason
_CAUSE = "the base's layers"


def _judge(evidence: Evidence) -> CheckReport:
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
    how = "published, and is the one that was signed" if lock.base.published else "read from bytes"
    compared.append(f"the base's lock was {how}")
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
            cause=_CAUSE,
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
            cause=_CAUSE,
        )
    if layer.proof is Proof.DESCRIPTOR:
        _judge_descriptor(layer, evidence, findings)
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


def _judge_descriptor(layer: BaseLayer, evidence: Evidence, findings: Findings) -> None:
    """Compare all of a base layer's descriptor: its digest alone does not say what is pulled."""
    image, lock = evidence.image.manifest, evidence.lock.manifest
    if image is None or lock is None:
        return
    locked, found = lock.layers[layer.number - 1], image.layers[layer.number - 1]
    sides = {
        "size": (locked.size, found.size),
        # Docker's and OCI's words for one compression are one
        "compression": (layer_compression(locked.media_type), layer_compression(found.media_type)),
        # where a runtime may fetch the bytes instead
        "urls": (" ".join(locked.urls or ()) or "none", " ".join(found.urls or ()) or "none"),
    }
    for name, (before, after) in sides.items():
        if before != after:
            findings.fail(
                f"descriptor-{name}",
                f"base layer {layer.number}",
                f"the image's descriptor of a base layer has another {name} than the base's",
                locked=before,
                found=after,
                place=evidence.place("", layer.number),
                cause=_CAUSE,
            )
    for name in sorted({*(locked.annotations or {}), *(found.annotations or {})}):
        before = (locked.annotations or {}).get(name, "none")
        after = (found.annotations or {}).get(name, "none")
        if before == after:
            continue
        # stargz-snapshotter, zstd:chunked and overlaybd mount a layer by what these lead to
        lazy = _LAZY.search(name) is not None and after != "none"
        findings.weigh(
            "descriptor-annotation",
            f"base layer {layer.number}: {name}",
            "a base layer has another annotation than the base's"
            + (", which lazy pullers obey instead of the layer's own bytes" if lazy else ""),
            locked=before,
            found=after,
            place=evidence.place("", layer.number),
            because="" if lazy else "no runtime obeys it",
        )


CHECK = Check(
    id="base.digest",
    question="do recipe, lock and image agree on the base, and are its layers the image's first",
    why="a base that is another than the tested one carries other pins, whatever its name says",
    fix="build from the locked digest, or lock the new base on purpose",
    judge=_judge,
    revision=2,
)
