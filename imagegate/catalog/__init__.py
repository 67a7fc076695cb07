"""File trees to facts: a catalog for each kind, declared once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from imagegate.catalog import (
    checkouts,
    databases,
    distributions,
    elf,
    loader,
    native,
    python,
    startup,
    system,
)
from imagegate.catalog.collect import Collector
from imagegate.catalog.declaration import (
    Catalog,
    Reading,
    all_of_both,
    of_base_alone,
    where_there,
    where_untouched,
)
from imagegate.facts import (
    Checkout,
    DatabaseEntry,
    Distribution,
    ElfFile,
    Facts,
    Interpreter,
    LibraryLink,
    LoaderFile,
    MetadataRemnant,
    NativeReading,
    RecordContradiction,
    SiteDirectory,
    StartupFile,
    SystemPackage,
)
from imagegate.rootfs import FileTree

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from imagegate.catalog.collect import Interest

CATALOGS: tuple[Catalog[Any], ...] = (
    Catalog(
        name="sites",
        fact=SiteDirectory,
        revision=1,
        read=lambda reading: reading.sites,
        merge=all_of_both,
    ),
    Catalog(
        name="distributions",
        fact=Distribution,
        revision=2,
        wants=python.INTERESTS,
        read=distributions.installed,
        merge=distributions.merged,
    ),
    Catalog(
        name="remnants",
        fact=MetadataRemnant,
        revision=1,
        read=distributions.remnants,
        merge=where_there,
    ),
    Catalog(
        name="contradictions",
        fact=RecordContradiction,
        revision=1,
        # every file that a RECORD names has to have been read: see :func:`ownership`
        read=lambda _: None,
        merge=of_base_alone,
    ),
    Catalog(
        name="native",
        fact=NativeReading,
        revision=1,
        wants=native.INTERESTS,
        forms=native.FORMS,
        read=lambda reading: native.readings(reading.collector, reading.nodes),
        merge=where_untouched,
    ),
    Catalog(
        name="links",
        fact=LibraryLink,
        revision=1,
        read=lambda reading: native.links(reading.tree, reading.nodes),
        merge=native.merged_links,
    ),
    Catalog(
        name="elf",
        fact=ElfFile,
        revision=1,
        wants=elf.INTERESTS,
        # what a base's own files need of each other is its own affair
        unlocked=frozenset({"requires", "build_id"}),
        read=lambda reading: elf.elf_files(
            reading.tree,
            reading.collector,
            reading.nodes,
            reading.known.elf if reading.known is not None else (),
        ),
        merge=where_untouched,
    ),
    Catalog(
        name="packages",
        fact=SystemPackage,
        revision=1,
        wants=system.INTERESTS,
        read=lambda reading: system.packages(reading.collector, reading.nodes),
        merge=where_untouched,
    ),
    Catalog(
        name="loader",
        fact=LoaderFile,
        revision=2,
        wants=loader.INTERESTS,
        read=lambda reading: loader.loader_files(reading.collector, reading.nodes),
        merge=where_untouched,
    ),
    Catalog(
        name="startup",
        fact=StartupFile,
        revision=2,
        wants=startup.STARTUP_INTERESTS,
        read=lambda reading: reading.startup,
        merge=where_untouched,
    ),
    Catalog(
        name="interpreters",
        fact=Interpreter,
        revision=2,
        wants=startup.INTERPRETER_INTERESTS,
        read=lambda reading: startup.interpreters(reading.collector, reading.nodes),
        merge=where_untouched,
    ),
    Catalog(
        name="checkouts",
        fact=Checkout,
        revision=1,
        wants=checkouts.INTERESTS,
        read=lambda reading: checkouts.checkouts(
            reading.tree,
            reading.collector,
            reading.nodes,
            {one.path: one for one in reading.known.checkouts} if reading.known else None,
        ),
        merge=checkouts.merged,
    ),
    Catalog(
        name="entries",
        fact=DatabaseEntry,
        revision=1,
        wants=databases.INTERESTS,
        read=lambda reading: databases.database_entries(reading.collector, reading.nodes),
        merge=where_untouched,
    ),
)


def revision_of(catalogs: Collection[Catalog[Any]]) -> str:
    """Return the revision of some catalogs: short, and another for every other declaration."""
    declared = json.dumps([catalog.declared() for catalog in catalogs], sort_keys=True)
    return hashlib.sha256(declared.encode()).hexdigest()[:16]


# what a lock says of the facts that it holds
REVISION = revision_of(CATALOGS)


def new_collector(*more: Interest) -> Collector:
    """Make a collector that keeps what all catalogs need, and what `more` asks for."""
    return Collector([*(want for catalog in CATALOGS for want in catalog.wants), *more])


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
    nodes = tuple(node for node in map(tree.get, paths) if node is not None)
    reading = Reading(tree=tree, collector=collector, nodes=nodes, known=known)
    return _facts({catalog.name: catalog.read(reading) for catalog in CATALOGS})


def no_facts() -> Facts:
    """Return the facts of an empty tree, which was read to its end."""
    return replace(read_facts(FileTree(), Collector(()), ()), contradictions=())


def merge_facts(base: Facts, added: Facts, tree: FileTree, *, is_prefix: bool) -> Facts:
    """Combine the base's facts with those of the added layers, as the merged tree has them.

    Args:
        base: facts of the locked base.
        added: facts of what the layers on it touched.
        tree: the merged tree.
        is_prefix: whether the base lies below; else `added` was read of the whole image.
    """
    if not is_prefix:
        return added
    return _facts(
        {
            catalog.name: catalog.merge(
                getattr(base, catalog.name) or (), getattr(added, catalog.name) or (), tree
            )
            for catalog in CATALOGS
        }
    )


def locked_facts(facts: Facts) -> Facts:
    """Leave out what nobody asks of a base."""
    return _facts(
        {
            catalog.name: found
            if (found := getattr(facts, catalog.name)) is None or not catalog.unlocked
            else tuple(replace(fact, **dict.fromkeys(catalog.unlocked)) for fact in found)
            for catalog in CATALOGS
        }
    )


def _facts(sets: Mapping[str, Any]) -> Facts:
    """Put sets together; a set that no catalog declares, or a catalog without a set, is a bug."""
    return Facts(**sets)


assert [field.name for field in fields(Facts)] == [catalog.name for catalog in CATALOGS]


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
