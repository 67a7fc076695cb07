"""Trees of layers that are written as mappings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.oci.tar import scan_tar
from imagegate.rootfs import FileTree, Node
from tests.images import Layer, tar

if TYPE_CHECKING:
    from imagegate.rootfs import PathIndex


def tree_of(*layers: Layer, lower: PathIndex | None = None, first: int = 1) -> FileTree:
    """Apply layers in order."""
    tree = FileTree(lower)
    for number, layer in enumerate(layers, first):
        tree.apply(scan_tar([tar(layer)]), number)
    return tree


def paths(tree: FileTree) -> list[str]:
    return [node.path for node in tree.under("")]


def notes(tree: FileTree) -> set[tuple[str, str]]:
    return {(found.code, found.path) for found in tree.irregularities}


def node(tree: FileTree, path: str) -> Node:
    found = tree.get(path)
    assert found is not None, f"nothing at {path}"
    return found
