"""Is the loader's cache what ldconfig makes of the image."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from imagegate.catalog.ldcache import PATH, parse_cache

if TYPE_CHECKING:
    from imagegate.checks.image.evidence import Evidence


def is_made_by_ldconfig(evidence: Evidence) -> bool:
    """Say whether a new cache names only what is searched, and the first of several copies first.

    Installing a library runs ``ldconfig``. A cache that was forged names a file elsewhere, or
    another copy first, or leaves out a library that the base's cache names and that is still
    there: without its entry, a folder that only the cache knows is not searched (ld.so(8)).
    """
    node = evidence.tree.get(PATH)
    content = evidence.collector.extract("loader cache", node) if node and node.layer else None
    entries = parse_cache(content) if content is not None else None
    if not entries or not _keeps_what_is_there({library for library, _ in entries}, evidence):
        return False
    loader, tree = evidence.loader, evidence.tree
    searched = [*loader.configured(), *loader.defaults()]
    order: dict[str, int] = {}
    for folder in searched:
        order.setdefault(tree.resolve(folder) or folder, len(order))
    first: dict[str, int] = {}
    for library, path in entries:
        folder, _, name = path.rpartition("/")
        above, inside, _ = folder.partition("/glibc-hwcaps/")
        place = order.get(tree.resolve(above) or above.strip("/"))
        if place is None or name != posixpath.basename(library) or tree.resolve(path) is None:
            return False
        if not inside and place < first.setdefault(library, place):
            return False
    return all(_is_first(library, place, searched, evidence) for library, place in first.items())


def _is_first(library: str, place: int, searched: list[str], evidence: Evidence) -> bool:
    """Say whether no folder that is searched before has the library too."""
    tree = evidence.tree
    seen: list[str] = []
    for folder in searched:
        real = tree.resolve(folder) or folder
        if real not in seen:
            seen.append(real)
    return all(tree.resolve(f"{folder}/{library}") is None for folder in seen[:place])


def _keeps_what_is_there(listed: set[str], evidence: Evidence) -> bool:
    """Say whether each library of the base's cache is listed, or its file is gone."""
    for file in evidence.lock.base.facts.loader:
        for line in file.lines if file.path == PATH else ():
            library, _, path = line.partition(" ")
            path = path.partition(" level ")[0]
            if library not in listed and evidence.tree.resolve(path) is not None:
                return False
    return True
