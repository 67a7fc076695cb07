"""Judging one image: prove the base, read the added layers, run every check."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from imagegate.catalog import new_collector, read_facts, secrets, system
from imagegate.catalog.native import links as native_links
from imagegate.checks import CHECKS, waivers
from imagegate.checks.evidence import BaseLayer, Change, Evidence, Proof
from imagegate.errors import LockError
from imagegate.facts import Distribution, Facts
from imagegate.oci.layer import read_layer
from imagegate.rootfs import FileTree
from imagegate.verdict import Cost, Verdict, accept

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import date
    from typing import Self

    from imagegate.lock import Lock
    from imagegate.oci.digest import Digest
    from imagegate.oci.image import ImageSource
    from imagegate.usecases.ports import Reporter
    from imagegate.verdict import CheckReport
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
    today: date,
    skip: Collection[str] = (),
) -> tuple[Verdict, Evidence]:
    """Judge an image by a recipe and its lock.

    Reads the manifest, the config and the added layers. A layer of the base is read only where
    its descriptor's digest is not the locked one.

    Args:
        state: the recipe and what stands beside it.
        lock: its lock.
        source: the image.
        reporter: where progress goes.
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
    # without the base below, every layer has to be read to say what differs
    added = image.layers[len(proofs) :] if is_prefix else image.layers
    # text that may hold credentials is kept of the added layers alone, and not of files that are
    # compared with a locked wheel's by hash
    collector = new_collector()
    searching = new_collector(
        secrets.interest(lock.layer.get), *system.content_interests(lock.layer.get)
    )
    tree = FileTree(lock.files if is_prefix else None)
    total = sum(layer.descriptor.size for layer in added if layer.descriptor)
    with reporter.task("reading added layers", total or None) as task:
        for layer in added:
            # a base layer that is not the base's was computed above; its claim is judged there
            judged = layer.number <= len(proofs)
            keeping = collector if judged else searching
            blob = replace(layer.blob, diff_id=None) if judged else layer.blob
            reading = read_layer(
                source.open_layer(layer), blob, want=keeping.want, progress=task.advance
            )
            keeping.end_layer(reading.entries)
            tree.apply(reading.entries, layer.number)
            meter.read += reading.compressed
    collector.absorb(searching)
    changes = _changes(lock, tree, is_prefix=is_prefix)
    touched = [change.path for change in changes]
    known = lock.base.facts if is_prefix else None
    added_facts = read_facts(tree, collector, touched, known)
    evidence = Evidence(
        recipe=state.recipe,
        requirements=state.requirements_digest,
        requested=state.requirements,
        assets=state.assets,
        lock=lock,
        image=image,
        base_layers=tuple(proofs),
        added=image.layers[len(proofs) :],
        tree=tree,
        changes=changes,
        added_facts=added_facts,
        facts=_merge(lock.base.facts, added_facts, tree, is_prefix=is_prefix),
        collector=collector,
        today=today,
    )
    cost = Cost(
        read=meter.read,
        added=sum(layer.descriptor.size for layer in evidence.added if layer.descriptor),
        total=sum(layer.descriptor.size for layer in image.layers if layer.descriptor),
        base_layers_read=meter.base_layers,
    )
    verdict = Verdict(
        recipe=state.recipe.name,
        image=image.digest,
        location=image.location,
        platform=str(image.config.platform),
        base=lock.base.digest,
        lock=lock.digest,
        reports=_run_checks(evidence, skip),
        cost=cost,
        policy=state.recipe.policy,
        skipped=tuple(check.id for check in CHECKS if check.id in skip),
    )
    return verdict, evidence


def _run_checks(evidence: Evidence, skip: Collection[str]) -> tuple[CheckReport, ...]:
    """Run every check that is not left out, then accept what waivers name."""
    chosen = [check for check in CHECKS if check.id not in skip]
    base = str(evidence.lock.base.digest or "scratch")
    reports, used = accept(
        [check.judge(evidence) for check in chosen],
        evidence.recipe.waivers,
        base,
        evidence.today,
    )
    if waivers.CHECK.id in skip:
        return reports
    return tuple(
        waivers.with_unused(report, evidence, used, skip)
        if report.check == waivers.CHECK.id
        else report
        for report in reports
    )


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


def _changes(lock: Lock, tree: FileTree, *, is_prefix: bool) -> tuple[Change, ...]:
    """List every path that differs from the base or was touched."""
    paths = set(tree.touched())
    if not is_prefix:
        paths.update(node.path for node in lock.files)
    found = []
    for path in sorted(paths):
        before, after = lock.files.get(path), tree.get(path)
        if before is None and after is None:
            continue
        layer = after.layer if after is not None else tree.removed_by(path)
        change = Change(path=path, before=before, after=after, layer=layer)
        if is_prefix or before is None or after is None or not _same(change):
            found.append(change)
    return tuple(found)


def _same(change: Change) -> bool:
    before, after = change.before, change.after
    assert before is not None
    assert after is not None
    return before.same_content(after) and before.mode == after.mode


def _merge(base: Facts, added: Facts, tree: FileTree, *, is_prefix: bool) -> Facts:
    """Combine the base's facts with those of the added layers, as the merged tree has them."""
    if not is_prefix:
        return added

    def untouched(path: str) -> bool:
        node = tree.get(path)
        return node is not None and node.layer == 0

    def kept(pin: Distribution) -> bool:
        names = (
            f"{pin.path}/METADATA",
            f"{pin.path}/PKG-INFO",
            f"{pin.path}/EGG-INFO/PKG-INFO",
            pin.path,
        )
        first = next((name for name in names if tree.get(name) is not None), None)
        return first is not None and untouched(first) and not _retouched(pin, added)

    linked = (tree.get(link.path) for link in base.links)
    links = {
        link.path: link
        for link in (
            *native_links(tree, [node for node in linked if node is not None]),
            *added.links,
        )
    }
    return Facts(
        sites=tuple(sorted({*base.sites, *added.sites})),
        distributions=tuple(
            sorted([*(pin for pin in base.distributions if kept(pin)), *added.distributions])
        ),
        remnants=tuple(
            sorted({*(r for r in base.remnants if tree.get(r.path) is not None), *added.remnants})
        ),
        contradictions=base.contradictions,
        native=tuple(sorted({*(r for r in base.native if untouched(r.path)), *added.native})),
        links=tuple(links[path] for path in sorted(links)),
        elf=_still_there(base.elf, added.elf, tree),
        packages=_still_there(base.packages, added.packages, tree),
        loader=_still_there(base.loader, added.loader, tree),
        startup=_still_there(base.startup, added.startup, tree),
        interpreters=_still_there(base.interpreters, added.interpreters, tree),
        # one of which a layer wrote a branch alone was read anew, and its HEAD is the base's
        checkouts=_still_there(
            (c for c in base.checkouts if c.path not in {a.path for a in added.checkouts}),
            added.checkouts,
            tree,
        ),
    )


class _Located(Protocol):
    """A fact that was read from one file."""

    @property
    def path(self) -> str: ...

    def __lt__(self, other: Self, /) -> bool: ...


_Fact = TypeVar("_Fact", bound=_Located)


def _still_there(
    base: Iterable[_Fact], added: Iterable[_Fact], tree: FileTree
) -> tuple[_Fact, ...]:
    """Combine facts of files that no layer touched with those of files that one wrote."""
    untouched = (
        fact for fact in base if (node := tree.get(fact.path)) is not None and node.layer == 0
    )
    return tuple(sorted({*untouched, *added}))


def _retouched(pin: Distribution, added: Facts) -> bool:
    """Say whether a layer wrote into a distribution's metadata folder, so that it was read anew."""
    return any(other.path == pin.path for other in added.distributions)
