"""File trees to facts: declared files, a parser each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from imagegate.catalog import checkouts, elf, loader, native, python, startup, system
from imagegate.catalog.collect import Collector
from imagegate.facts import Distribution, Facts, MetadataRemnant
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from imagegate.catalog.collect import Interest
    from imagegate.facts import ElfFile, RecordContradiction
    from imagegate.rootfs import FileTree, Node


def new_collector(*more: Interest) -> Collector:
    """Make a collector that keeps what all catalogs need, and what `more` asks for."""
    return Collector(
        (
            *python.INTERESTS,
            *native.INTERESTS,
            *elf.INTERESTS,
            *system.INTERESTS,
            *loader.INTERESTS,
            *startup.INTERESTS,
            *checkouts.INTERESTS,
            *more,
        )
    )


def ownership(
    tree: FileTree, collector: Collector, facts: Facts
) -> tuple[Mapping[str, str], tuple[RecordContradiction, ...]]:
    """Say who owns each recorded file, and where RECORD and file disagree.

    What a Python distribution records is its own, also where a Debian package brought it.

    Args:
        tree: the merged tree.
        collector: made with :data:`imagegate.catalog.system.OWNERSHIP_INTERESTS`.
        facts: what was read out of the tree.
    """
    owners, contradictions = python.ownership(tree, collector, facts.distributions)
    return {**system.ownership(tree, collector, facts.packages), **owners}, contradictions


def locked_facts(facts: Facts) -> Facts:
    """Leave out what nobody asks of a base: what its own files need is its own affair."""
    return replace(facts, elf=tuple(replace(file, requires=(), build_id="") for file in facts.elf))


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
    sites = python.sites(present)
    distributions: list[Distribution] = []
    remnants: list[MetadataRemnant] = []
    for site in sites:
        for path in python.metadata_directories(present, site.path):
            read = python.read_distribution(tree, collector, path, site.path, locked.get(path))
            if isinstance(read, Distribution):
                distributions.append(read)
            else:
                remnants.append(read)
    started = startup.startup_files(collector, nodes)
    for site in sites:
        own = {pin.name for pin in distributions if pin.site == site.path}
        for folder, linked in python.linked_folders(tree, collector, site.path, present, started):
            for path in python.metadata_directories(present, folder):
                read = python.read_distribution(tree, collector, path, site.path, locked.get(path))
                # what lies in the site directory itself is found first
                if isinstance(read, Distribution) and read.name not in own:
                    own.add(read.name)
                    distributions.append(replace(read, linked=linked))
    read_already = {pin.path for pin in distributions}
    distributions += [
        pin for pin in _relinked(tree, collector, present, known) if pin.path not in read_already
    ]
    return Facts(
        sites=sites,
        distributions=tuple(sorted(distributions)),
        remnants=tuple(sorted(remnants)),
        native=native.readings(collector, nodes),
        links=native.links(tree, nodes),
        elf=tuple(
            sorted([*elf.elf_files(collector, nodes), *_linked_elf(tree, collector, nodes, known)])
        ),
        packages=system.packages(collector, nodes),
        loader=loader.loader_files(collector, nodes),
        startup=started,
        interpreters=startup.interpreters(collector, nodes),
        checkouts=checkouts.checkouts(
            tree,
            collector,
            nodes,
            {one.path: one for one in known.checkouts} if known is not None else None,
        ),
    )


def _relinked(
    tree: FileTree, collector: Collector, touched: Collection[str], known: Facts | None
) -> list[Distribution]:
    """Read those distributions again that lie outside and whose metadata a layer wrote."""
    found = []
    for pin in known.distributions if known is not None else ():
        if pin.linked and any(
            path == pin.path or path.startswith(f"{pin.path}/") for path in touched
        ):
            read = python.read_distribution(tree, collector, pin.path, pin.site, pin)
            if isinstance(read, Distribution):
                found.append(replace(read, linked=pin.linked))
    return found


def _linked_elf(
    tree: FileTree, collector: Collector, nodes: Collection[Node], known: Facts | None
) -> list[ElfFile]:
    """Take over what is known of a base's file where a layer gave it one more name."""
    unread = [n for n in nodes if n.kind is Kind.FILE and not collector.has_read(n)]
    if not unread or known is None:
        return []
    located = ((tree.below(file.path), file) for file in known.elf)
    by_content = {node.sha256: file for node, file in located if node is not None}
    return [
        replace(by_content[node.sha256], path=node.path)
        for node in unread
        if node.sha256 in by_content
    ]
