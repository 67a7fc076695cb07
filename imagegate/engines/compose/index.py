"""What a set of wheels installs: the layer's index, made at lock time from the wheels alone."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, BinaryIO

from imagegate.engines.compose.install import digest_stream, install_wheel
from imagegate.errors import RecipeError
from imagegate.oci.tar import Kind
from imagegate.rootfs import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from imagegate.lock import LockedWheel
    from imagegate.recipe import Recipe


class _Indexer:
    """Hashes every file and keeps what it is."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.nodes: list[Node] = []

    def receive(self, path: str, mode: int, stream: BinaryIO, /) -> tuple[str, int]:
        digest, size = digest_stream(stream)
        self.nodes.append(
            Node(path=path, kind=Kind.FILE, mode=mode, size=size, sha256=digest, owner=self._owner)
        )
        return digest, size


def index_wheels(
    recipe: Recipe,
    wheels: Mapping[LockedWheel, Path],
    *,
    advance: Callable[[int], object],
) -> tuple[Node, ...]:
    """List every file that the wheels install, each with the wheel it comes from.

    Args:
        recipe: says where files go, and whose file it is where two wheels differ.
        wheels: the wheels and where they lie.
        advance: called with the bytes of each wheel that was read.

    Raises:
        RecipeError: two wheels bring different files of one path and the recipe does not decide,
            or it decides about a path on which no two wheels differ.
    """

    def one(wheel: LockedWheel) -> list[Node]:
        indexer = _Indexer(wheel.label)
        install_wheel(wheels[wheel], recipe.python, wheel.name, indexer)
        advance(wheels[wheel].stat().st_size)
        return indexer.nodes

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        listings = list(pool.map(one, sorted(wheels)))
    return _merge(recipe, [node for nodes in listings for node in nodes])


def _merge(recipe: Recipe, nodes: list[Node]) -> tuple[Node, ...]:
    site = recipe.python.site.lstrip("/")
    decided = {f"{site}/{path}": name for path, name in recipe.document.layer.overlaps.items()}
    merged: dict[str, Node] = {}
    overlapping: set[str] = set()
    undecided: list[str] = []
    for node in nodes:
        other = merged.get(node.path)
        if other is None:
            merged[node.path] = node
            continue
        if other.sha256 == node.sha256:
            continue
        overlapping.add(node.path)
        keep = decided.get(node.path)
        names = {_name(node): node, _name(other): other}
        if keep in names:
            merged[node.path] = names[keep]
        elif keep is None:
            undecided.append(f"`{node.path}`: {other.owner} and {node.owner}")
    if undecided:
        raise RecipeError(
            f"wheels bring different files of one path: {'; '.join(sorted(undecided))}",
            hint="say under `[layer.overlaps]` whose file it is, path relative to the site directory",
        )
    idle = sorted(set(decided) - overlapping)
    if idle:
        raise RecipeError(
            f"`[layer.overlaps]` decides about `{idle[0]}`, on which no two wheels differ",
            hint="take the line out",
        )
    return tuple(merged.values())


def _name(node: Node) -> str:
    return node.owner.partition("==")[0]
