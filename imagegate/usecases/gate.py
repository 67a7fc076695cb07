"""Judging one image: prove the base, read the added layers, run every check."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from imagegate.catalog import ldcache, new_collector, programs, python, secrets, system
from imagegate.checks.image import CHECKS, waivers
from imagegate.checks.image.evidence import BaseLayer, Evidence, Proof
from imagegate.errors import LockError
from imagegate.foreign.credentials import redact
from imagegate.oci.digest import Digest
from imagegate.oci.layer import read_layer
from imagegate.reading.layers import LayerOrder
from imagegate.reading.stacked import read_stacked
from imagegate.recipe.variables import pins_in
from imagegate.verdict import CheckReport, Cost, ImageVerdict, accept

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date

    from imagegate.catalog.collect import Collector
    from imagegate.checks.check import Check
    from imagegate.coverage.copying import Copying
    from imagegate.lock import Lock
    from imagegate.oci.image import ImageSource
    from imagegate.reading.stacked import StackedImage
    from imagegate.usecases.ports import Reporter
    from imagegate.workspace import RecipeState


@dataclass(slots=True)
class _Meter:
    """Counts what is read."""

    read: int = 0
    base_layers: int = 0


def judge(
    state: RecipeState,
    lock: Lock,
    source: ImageSource,
    reporter: Reporter,
    *,
    copying: Copying,
    today: date,
    skip: Collection[str] = (),
) -> tuple[ImageVerdict, Evidence]:
    """Judge an image by a recipe and its lock.

    Reads the manifest, the config and the added layers. A layer of the base is read only where
    its descriptor's digest is not the locked one.

    Args:
        state: the recipe and what stands beside it.
        lock: its lock.
        source: the image.
        reporter: where progress goes.
        copying: what a build with the recipe's Dockerfile does to the assets.
        today: the day that waivers are compared with.
        skip: ids of checks that are left out; such a verdict never passes.

    Raises:
        ImageError: a blob that has to be read is missing, damaged or not what it must be.
    """
    image = source.image
    meter = _Meter()
    proofs = [
        _prove(number, lock, source, meter, reporter)
        for number in range(1, _base_layer_count(lock) + 1)
    ]
    is_prefix = all(proof.proof in (Proof.DESCRIPTOR, Proof.DIFF_ID) for proof in proofs)
    stacked = _read(lock, source, len(proofs), reporter, is_prefix=is_prefix)
    meter.read += stacked.compressed
    evidence = Evidence(
        recipe=state.recipe,
        requirements=state.requirements_digest,
        requested=state.requirements,
        assets=state.assets,
        lock=lock,
        image=image,
        base_layers=tuple(proofs),
        added=image.layers[len(proofs) :],
        tree=stacked.tree,
        changes=stacked.changes,
        added_facts=stacked.added_facts,
        facts=stacked.facts,
        collector=stacked.collector,
        today=today,
        copying=copying,
    )
    cost = Cost(
        read=meter.read,
        added=sum(layer.descriptor.size for layer in evidence.added if layer.descriptor),
        total=sum(layer.descriptor.size for layer in image.layers if layer.descriptor),
        base_layers_read=meter.base_layers,
    )
    verdict = ImageVerdict(
        subject=state.recipe.name,
        image=image.digest,
        location=redact(image.location),
        platform=str(image.config.platform),
        base=lock.base.digest,
        lock=lock.digest,
        reports=_run_checks(evidence, skip),
        cost=cost,
        policy=state.recipe.policy,
        image_id=Digest.of(image.config_bytes),
        pins=pins_in(evidence.facts),
        skipped=tuple(check.id for check in CHECKS if check.id in skip),
    )
    return verdict, evidence


def _read(
    lock: Lock, source: ImageSource, base: int, reporter: Reporter, *, is_prefix: bool
) -> StackedImage:
    """Read what stands on the base; without the base below, every layer, to say what differs.

    Args:
        lock: the recipe's lock.
        source: the image.
        base: number of the base's layers.
        reporter: where progress goes.
        is_prefix: whether the base's layers are the image's first.
    """
    layers = source.image.layers
    added = layers[base:] if is_prefix else layers

    def searching() -> Collector:
        # text that may hold credentials is kept of the added layers alone, and not of files that
        # are compared with a locked wheel's by hash
        known = lock.layer.get
        return new_collector(
            secrets.interest(known),
            programs.INTEREST,
            ldcache.INTEREST,
            *system.content_interests(known),
            *python.CONTENTS,
        )

    # a base layer that is not the base's was computed above; its claim is judged there
    orders = [
        LayerOrder(layer=layer, blob=replace(layer.blob, diff_id=None))
        if layer.number <= base
        else LayerOrder(layer=layer, collector=searching)
        for layer in added
    ]
    total = sum(layer.descriptor.size for layer in added if layer.descriptor)
    with reporter.task("reading added layers", total or None) as task:
        return read_stacked(source, lock, orders, is_prefix=is_prefix, advance=task.advance)


def _run_checks(evidence: Evidence, skip: Collection[str]) -> tuple[CheckReport, ...]:
    """Run every check that is not left out, then accept what waivers name."""
    chosen = [check for check in CHECKS if check.id not in skip]
    base = str(evidence.lock.base.digest or "scratch")
    reports, used = accept(
        [_ask(check, evidence) for check in chosen],
        evidence.recipe.waivers,
        base,
        evidence.today,
    )
    if waivers.CHECK.id in skip:
        return reports
    unasked = {*skip, *(report.check for report in reports if report.left_out)}
    return tuple(
        waivers.with_unused(report, evidence, used, unasked)
        if report.check == waivers.CHECK.id
        else report
        for report in reports
    )


def _ask(check: Check[Evidence], evidence: Evidence) -> CheckReport:
    """Ask a check, unless it compares with a base that is not there.

    The verdict fails then, by ``base.digest``, which cannot be waived nor pass without the base.
    """
    if check.rests_on and not evidence.base_is_prefix:
        return CheckReport(check=check.id, compared=(), left_out=check.rests_on)
    return check.judge(evidence)


def _base_layer_count(lock: Lock) -> int:
    manifest, config = lock.manifest, lock.config
    if manifest is None or config is None:
        return 0
    if len(manifest.layers) != len(config.rootfs.diff_ids):
        raise LockError("the locked manifest and config disagree on the number of layers")
    return len(manifest.layers)


def _prove(
    number: int, lock: Lock, source: ImageSource, meter: _Meter, reporter: Reporter
) -> BaseLayer:
    """Show that a layer of the base is the image's layer at the same position."""
    assert lock.manifest is not None
    assert lock.config is not None
    locked = lock.manifest.layers[number - 1].digest
    locked_diff_id = lock.config.rootfs.diff_ids[number - 1]
    if number > len(source.image.layers):
        return BaseLayer(
            number=number,
            locked=locked,
            locked_diff_id=locked_diff_id,
            found=None,
            claimed_diff_id=None,
            computed_diff_id=None,
            proof=Proof.ABSENT,
        )
    layer = source.image.layers[number - 1]
    found = layer.descriptor.digest if layer.descriptor else None
    # a descriptor digest that equals the locked one is the base's blob; everything else, the
    # config's diff ids included, is only a claim until the bytes were read
    computed: Digest | None = None
    if found != locked:
        size = layer.descriptor.size if layer.descriptor else None
        with reporter.task(f"reading base layer {number}", size) as task:
            blob = replace(layer.blob, diff_id=None)
            reading = read_layer(source.open_layer(layer), blob, progress=task.advance)
        computed = reading.diff_id
        meter.read += reading.compressed
        meter.base_layers += 1
    proof = Proof.DESCRIPTOR
    if computed is not None:
        proof = Proof.DIFF_ID if computed == locked_diff_id else Proof.DIFFERENT
    return BaseLayer(
        number=number,
        locked=locked,
        locked_diff_id=locked_diff_id,
        found=found,
        claimed_diff_id=layer.diff_id,
        computed_diff_id=computed,
        proof=proof,
    )
