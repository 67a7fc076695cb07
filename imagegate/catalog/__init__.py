"""File trees to facts: declared files, a parser each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.catalog import native, python
from imagegate.catalog.collect import Collector
from imagegate.facts import Distribution, Facts, MetadataRemnant

if TYPE_CHECKING:
    from collections.abc import Collection

    from imagegate.rootfs import FileTree


def new_collector() -> Collector:
    """Make a collector that keeps what all catalogs need."""
    return Collector((*python.INTERESTS, *native.INTERESTS))


def read_facts(
    tree: FileTree,
    collector: Collector,
    paths: Collection[str],
    known: Facts | None = None,
) -> Facts:
    """Read the facts that lie at some paths of a tree.

    Args:
        tree: the merged tree, against which links are resolved.
        collector: holds the extracts of every layer in which one of `paths` lies.
        paths: all paths of the tree, or those that the added layers touched.
        known: the base's facts, where its layers were not read.
    """
    locked = {pin.path: pin for pin in known.distributions} if known is not None else {}
    nodes = [node for node in (tree.get(path) for path in paths) if node is not None]
    present = [node.path for node in nodes]
    found_sites = {site for site in map(python.site_of, present) if site is not None}
    distributions: list[Distribution] = []
    remnants: list[MetadataRemnant] = []
    for site in sorted(found_sites):
        for path in python.metadata_directories(present, site.path):
            read = python.read_distribution(tree, collector, path, site.path, locked.get(path))
            if isinstance(read, Distribution):
                distributions.append(read)
            else:
                remnants.append(read)
    return Facts(
        sites=tuple(sorted(found_sites)),
        distributions=tuple(sorted(distributions)),
        remnants=tuple(sorted(remnants)),
        native=native.readings(collector, nodes),
        links=native.links(tree, nodes),
    )
