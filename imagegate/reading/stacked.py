"""What an image holds: all of it, or what stands on a base that is locked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from imagegate.catalog import merge_facts, new_collector, ownership, read_facts
from imagegate.catalog.system import OWNERSHIP_INTERESTS
from imagegate.reading.layers import LayerOrder, read_layers, without_cycle_search
from imagegate.reading.merged import find_changes
from imagegate.reading.options import INTEREST, options_of_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from imagegate.catalog.collect import Collector
    from imagegate.checks.image.evidence import Change
    from imagegate.facts import Facts
    from imagegate.lock import Lock
    from imagegate.oci.image import ImageSource
    from imagegate.rootfs import FileTree, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeImage:
    """An image of which every layer was read.

    Attributes:
        nodes: what is at each path, in order.
        facts: what the files say.
        owners: who claims a path.
        options: the serving options of its programs, empty where it has none.
    """

    nodes: tuple[Node, ...]
    facts: Facts
    owners: Mapping[str, str]
    options: bytes


def read_whole(source: ImageSource, advance: Callable[[int], object]) -> WholeImage:
    """Read every layer of an image once.

    Raises:
        ImageError: a layer is missing, damaged or not what it must be.
    """

    def collector() -> Collector:
        return new_collector(*OWNERSHIP_INTERESTS, INTEREST)

    orders = [LayerOrder(layer=layer, collector=collector) for layer in source.image.layers]
    with without_cycle_search():
        read = read_layers(source, orders, advance=advance)
        nodes = tuple(read.tree.under(""))
        facts = read_facts(read.tree, read.collector, [node.path for node in nodes])
        owners, contradictions = ownership(read.tree, read.collector, facts)
        options = options_of_tree(read.tree, read.collector)
    return WholeImage(
        nodes=nodes,
        facts=replace(facts, contradictions=contradictions),
        owners=owners,
        options=options,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StackedImage:
    """What an image makes of a locked base.

    Attributes:
        tree: the image's files; those of the base that no layer touched come from the lock.
        collector: what was kept of the files that were read.
        changes: every path that differs from the base or was touched.
        added_facts: what the files say that were read.
        facts: what they and the base's say together.
        compressed: bytes that were read.
    """

    tree: FileTree
    collector: Collector
    changes: tuple[Change, ...]
    added_facts: Facts
    facts: Facts
    compressed: int


def read_stacked(
    source: ImageSource,
    lock: Lock,
    orders: Sequence[LayerOrder],
    *,
    is_prefix: bool = True,
    advance: Callable[[int], object],
) -> StackedImage:
    """Read what stands on a locked base, and compare.

    Args:
        source: the image.
        lock: says what the base holds.
        orders: the added layers; all layers where the base is not below.
        is_prefix: whether the base's layers are the image's first.
        advance: called with the number of compressed bytes of each read.

    Raises:
        ImageError: a layer is missing, damaged or not what it must be.
    """
    base = lock.files if is_prefix else None
    read = read_layers(source, orders, onto=base, advance=advance)
    changes = find_changes(lock.files, read.tree, is_prefix=is_prefix)
    known = lock.base.facts if is_prefix else None
    touched = [change.path for change in changes]
    added = read_facts(read.tree, read.collector, touched, known)
    return StackedImage(
        tree=read.tree,
        collector=read.collector,
        changes=changes,
        added_facts=added,
        facts=merge_facts(lock.base.facts, added, read.tree, is_prefix=is_prefix),
        compressed=read.compressed,
    )
