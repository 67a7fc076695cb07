"""Nodes of a merged file tree, and indexes over them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Sequence

    from imagegate.oci.tar import Kind, TarEntry

_CAPABILITY = "security.capability"
_NO_ATTRIBUTES: tuple[str, tuple[tuple[str, str], ...]] = ("", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What one path is in a merged tree.

    Attributes:
        path: without leading slash.
        kind: never :attr:`Kind.HARDLINK`; a hard link is the file that it names.
        mode: permission bits including setuid, setgid and sticky.
        size: bytes of a regular file, else 0.
        sha256: hex digest of a regular file, else ``""``.
        target: text of a symbolic link, else ``""``.
        capabilities: hex of the ``security.capability`` xattr, ``""`` where there is none.
        attributes: all other xattrs and ACLs, name and value in hex, in order of name.
        layer: number of the layer that made it, counted from 1; 0 is the locked base.
        owner: the distribution or package that claims the path, where an index knows it.
    """

    path: str
    kind: Kind
    mode: int
    uid: int = 0
    gid: int = 0
    size: int = 0
    sha256: str = ""
    target: str = ""
    capabilities: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    layer: int = 0
    owner: str = ""

    def same_content(self, other: Node) -> bool:
        """Whether both are the same thing with the same bytes, whatever their attributes."""
        return (self.kind, self.sha256, self.target) == (other.kind, other.sha256, other.target)


class PathIndex(Protocol):
    """Paths and what they are, in bytewise order."""

    def get(self, path: str) -> Node | None:
        """Return what stands at exactly this path."""

    def has_prefix(self, prefix: str) -> bool:
        """Say whether any path begins with these characters."""

    def under(self, path: str) -> Iterator[Node]:
        """Yield everything below a directory; ``""`` is the root."""

    def matching(self, pattern: re.Pattern[str]) -> Iterator[Node]:
        """Yield everything whose whole path fits a pattern."""


class SortedIndex:
    """An index over nodes that are given at once."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._nodes: dict[str, Node] = {node.path: node for node in nodes}
        self._paths: Sequence[str] = sorted(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, path: str) -> Node | None:
        """Return what stands at exactly this path."""
        return self._nodes.get(path)

    def has_prefix(self, prefix: str) -> bool:
        """Say whether any path begins with these characters."""
        return begins_one(self._paths, prefix)

    def under(self, path: str) -> Iterator[Node]:
        """Yield everything below a directory, in order of path."""
        for found in paths_under(self._paths, path):
            yield self._nodes[found]

    def matching(self, pattern: re.Pattern[str]) -> Iterator[Node]:
        """Yield everything whose whole path fits a pattern, in order of path."""
        for path in filter(pattern.fullmatch, self._paths):
            yield self._nodes[path]


def paths_under(paths: Sequence[str], directory: str) -> Iterator[str]:
    """Yield the paths below a directory out of a sorted sequence."""
    if not directory:
        yield from paths
        return
    prefix = f"{directory}/"
    for position in range(bisect_left(paths, prefix), len(paths)):
        if not paths[position].startswith(prefix):
            return
        yield paths[position]


def begins_one(paths: Sequence[str], prefix: str) -> bool:
    """Say whether a path of a sorted sequence begins with these characters."""
    position = bisect_left(paths, prefix)
    return position < len(paths) and paths[position].startswith(prefix)


def ancestors(path: str) -> Iterator[str]:
    """Yield the directories above a path, nearest first, without the root."""
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        yield path


def node_of(entry: TarEntry, layer: int) -> Node:
    """Return what an entry that is not a hard link puts into the tree."""
    capabilities, attributes = attributes_of(entry) if entry.xattrs else _NO_ATTRIBUTES
    return Node(
        path=entry.path,
        kind=entry.kind,
        mode=entry.mode,
        uid=entry.uid,
        gid=entry.gid,
        size=entry.size,
        sha256=entry.sha256,
        target=entry.target,
        capabilities=capabilities,
        attributes=attributes,
        layer=layer,
    )


def attributes_of(entry: TarEntry) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return an entry's file capabilities and its other attributes, as a node has them."""
    found = {name: value.hex() for name, value in entry.xattrs}
    return found.pop(_CAPABILITY, ""), tuple(found.items())
