"""Layers to a file tree (OCI image-spec, layer.md, "Applying Changesets")."""

from imagegate.rootfs.nodes import Node, PathIndex, SortedIndex, ancestors, paths_under
from imagegate.rootfs.tree import FileTree, LayerIrregularity

__all__ = [
    "FileTree",
    "LayerIrregularity",
    "Node",
    "PathIndex",
    "SortedIndex",
    "ancestors",
    "paths_under",
]
