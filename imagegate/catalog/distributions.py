"""Which distributions the site directories of a tree have, their own and those linked in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from imagegate.catalog import python
from imagegate.catalog.declaration import is_untouched
from imagegate.facts import Distribution, MetadataRemnant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from imagegate.catalog.declaration import Reading
    from imagegate.rootfs import FileTree


def installed(reading: Reading) -> tuple[Distribution, ...]:
    """Read every distribution that the paths bring or touch."""
    found = [one for one in _metadata(reading) if isinstance(one, Distribution)]
    found += _linked(reading, found)
    read_already = {pin.path for pin in found}
    found += [pin for pin in _relinked(reading) if pin.path not in read_already]
    return tuple(sorted(found))


def remnants(reading: Reading) -> tuple[MetadataRemnant, ...]:
    """List the metadata folders that name no distribution."""
    return tuple(sorted(one for one in _metadata(reading) if isinstance(one, MetadataRemnant)))


def merged(
    base: tuple[Distribution, ...], added: tuple[Distribution, ...], tree: FileTree
) -> tuple[Distribution, ...]:
    """Take the base's distributions whose metadata no layer touched, and all that were read."""
    anew = {pin.path for pin in added}

    def kept(pin: Distribution) -> bool:
        names = (
            f"{pin.path}/METADATA",
            f"{pin.path}/PKG-INFO",
            f"{pin.path}/EGG-INFO/PKG-INFO",
            pin.path,
        )
        first = next((name for name in names if tree.get(name) is not None), None)
        return first is not None and is_untouched(tree, first) and pin.path not in anew

    return tuple(sorted([*(pin for pin in base if kept(pin)), *added]))


def _metadata(reading: Reading) -> Iterator[Distribution | MetadataRemnant]:
    locked = _locked(reading)
    for site in reading.sites:
        for path in python.metadata_directories(reading.paths, site.path):
            yield python.read_distribution(
                reading.tree, reading.collector, path, site.path, locked.get(path)
            )


def _locked(reading: Reading) -> Mapping[str, Distribution]:
    known = reading.known.distributions if reading.known is not None else ()
    return {pin.path: pin for pin in known}


def _linked(reading: Reading, own: list[Distribution]) -> Iterator[Distribution]:
    """Read what lies outside a site directory, in a folder that a file of it names."""
    tree, collector, locked = reading.tree, reading.collector, _locked(reading)
    for site in reading.sites:
        # what lies in the site directory itself is found first
        names = {pin.name for pin in own if pin.site == site.path}
        for folder, linked in python.linked_folders(
            tree, collector, site.path, reading.paths, reading.startup
        ):
            for path in python.metadata_directories(reading.paths, folder):
                read = python.read_distribution(tree, collector, path, site.path, locked.get(path))
                if isinstance(read, Distribution) and read.name not in names:
                    names.add(read.name)
                    yield replace(read, linked=linked)


def _relinked(reading: Reading) -> Iterator[Distribution]:
    """Read those distributions again that lie outside and whose metadata a layer wrote."""
    for pin in _locked(reading).values():
        if pin.linked and any(
            path == pin.path or path.startswith(f"{pin.path}/") for path in reading.paths
        ):
            read = python.read_distribution(
                reading.tree, reading.collector, pin.path, pin.site, pin
            )
            if isinstance(read, Distribution):
                yield replace(read, linked=pin.linked)
