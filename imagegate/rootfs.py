"""Layers to a file tree (OCI image-spec, layer.md, "Applying Changesets").

Layers are applied from the bottom up. A tree may stand on an index of paths that is already
known (a locked base), so that only the added layers have to be read.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from imagegate.errors import ImageError
from imagegate.oci.tar import Kind, TarEntry

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Sequence

WHITEOUT_PREFIX = ".wh."
OPAQUE_MARKER = ".wh..wh..opq"
# Linux gives up after 40 links (path_resolution(7))
_LINK_LIMIT = 40


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
    layer: int = 0
    owner: str = ""

    def same_content(self, other: Node) -> bool:
        """Whether both are the same thing with the same bytes, whatever their attributes."""
        return (self.kind, self.sha256, self.target) == (other.kind, other.sha256, other.target)


class PathIndex(Protocol):
    """Paths and what they are, in bytewise order."""

    def get(self, path: str) -> Node | None:
        """Return what stands at exactly this path."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerIrregularity:
    """Something in a layer that the specification forbids or that runtimes treat differently.

    Attributes:
        code: ``duplicate-path``, ``repeated-path`` (the same twice), ``whiteout-of-nothing``,
            ``through-link`` or ``file-as-parent``.
        path: the entry's path.
        layer: the layer's number.
        detail: what exactly was found.
    """

    code: str
    path: str
    layer: int
    detail: str


class FileTree:
    """A merged file tree that grows by whole layers."""

    def __init__(self, lower: PathIndex | None = None) -> None:
        self._lower: PathIndex = lower if lower is not None else SortedIndex()
        self._upper: dict[str, Node] = {}
        self._removed: dict[str, int] = {}
        self.irregularities: list[LayerIrregularity] = []

    def get(self, path: str) -> Node | None:
        """Return what stands at exactly this path."""
        node = self._upper.get(path)
        if node is not None:
            return node
        return None if path in self._removed else self._lower.get(path)

    def below(self, path: str) -> Node | None:
        """Return what the lower index has at a path, whatever the layers on top did to it."""
        return self._lower.get(path)

    def under(self, path: str) -> Iterator[Node]:
        """Yield everything below a directory, in order of path."""
        found = {
            node.path: node for node in self._lower.under(path) if node.path not in self._removed
        }
        prefix = f"{path}/" if path else ""
        found.update((p, n) for p, n in self._upper.items() if p.startswith(prefix))
        for name in sorted(found):
            yield found[name]

    def matching(self, pattern: re.Pattern[str]) -> Iterator[Node]:
        """Yield everything whose whole path fits a pattern, in order of path."""
        found = {
            node.path: node
            for node in self._lower.matching(pattern)
            if node.path not in self._removed
        }
        found.update((path, node) for path, node in self._upper.items() if pattern.fullmatch(path))
        for name in sorted(found):
            yield found[name]

    def touched(self) -> Iterator[str]:
        """Yield each path that a layer on top of the lower index wrote or removed, in order."""
        yield from sorted({*self._upper, *self._removed})

    def removed_by(self, path: str) -> int:
        """Return the number of the layer that removed a path of the lower index, or 0."""
        return self._removed.get(path, 0) if path not in self._upper else 0

    def resolve(self, path: str) -> str | None:
        """Follow all symbolic links inside the root, absolute ones too.

        Returns:
            The path without links, or ``None`` where something on the way does not exist.
        """
        parts = [part for part in path.split("/") if part]
        done: list[str] = []
        hops = 0
        while parts:
            part = parts.pop(0)
            if part == ".":
                continue
            if part == "..":
                done = done[:-1]
                continue
            node = self.get("/".join([*done, part]))
            if node is None:
                return None
            if node.kind is not Kind.SYMLINK:
                done.append(part)
                continue
            hops += 1
            if hops > _LINK_LIMIT:
                return None
            if node.target.startswith("/"):
                done = []
            parts = [piece for piece in node.target.split("/") if piece] + parts
        return "/".join(done)

    def apply(self, entries: Iterable[TarEntry], layer: int) -> None:
        """Put one layer on top.

        Args:
            entries: all of the layer's entries in the order of the tar.
            layer: the layer's number, counted from 1.

        Raises:
            ImageError: a whiteout without a name, or a hard link to nothing.
        """
        written: dict[str, TarEntry] = {}
        hidden: dict[str, str] = {}
        opaque: set[str] = set()
        for entry in entries:
            self._sort_in(entry, layer, written, hidden, opaque)
        # layer.md: whiteouts apply to lower layers only, wherever they stand among their siblings
        self._hide(hidden, opaque, layer)
        self._make_room(written, layer)
        links = [entry for entry in written.values() if entry.kind is Kind.HARDLINK]
        for entry in written.values():
            if entry.kind is not Kind.HARDLINK:
                self._put(_node(entry, layer), layer)
        self._link(links, layer)

    def _sort_in(
        self,
        entry: TarEntry,
        layer: int,
        written: dict[str, TarEntry],
        hidden: dict[str, str],
        opaque: set[str],
    ) -> None:
        """File an entry as a whiteout, an opaque marker or something written."""
        directory, _, name = entry.path.rpartition("/")
        if name.startswith(WHITEOUT_PREFIX):
            if name == OPAQUE_MARKER:
                opaque.add(directory)
                return
            bare = name.removeprefix(WHITEOUT_PREFIX)
            if not bare:
                raise ImageError(f"malformed layer: the whiteout `{entry.path}` names nothing")
            hidden[f"{directory}/{bare}" if directory else bare] = entry.path
            return
        if not entry.path:
            return  # the root itself; its attributes are the runtime's
        earlier = written.pop(entry.path, None)
        if earlier is not None:
            same = earlier.kind is entry.kind is Kind.DIRECTORY or earlier == entry
            code = "repeated-path" if same else "duplicate-path"
            self._note(code, entry.path, layer, "the layer has two entries of this name")
        written[entry.path] = entry

    def _hide(self, hidden: dict[str, str], opaque: set[str], layer: int) -> None:
        """Remove what whiteouts and opaque markers name from all layers below."""
        for path in hidden:
            if not self._remove(path, layer) and layer > 1:
                self._note("whiteout-of-nothing", path, layer, "nothing of this name is below")
        below = set(hidden)
        below.update(opaque)
        # an opaque marker on a directory that is not below hides nothing and is no change
        self._remove_below(below, layer)

    def _make_room(self, written: dict[str, TarEntry], layer: int) -> None:
        """Remove the content of directories that become something else."""
        replaced: set[str] = set()
        for path, entry in written.items():
            if entry.kind is Kind.DIRECTORY:
                continue
            current = self.get(path)
            if current is not None and current.kind is Kind.DIRECTORY:
                replaced.add(path)
        self._remove_below(replaced, layer)

    def _remove(self, path: str, layer: int) -> bool:
        existed = self.get(path) is not None
        self._upper.pop(path, None)
        if self._lower.get(path) is not None:
            self._removed.setdefault(path, layer)
        return existed

    def _remove_below(self, directories: set[str], layer: int) -> None:
        if not directories:
            return
        for directory in directories:
            for node in self._lower.under(directory):
                self._removed.setdefault(node.path, layer)
        if "" in directories:
            self._upper.clear()
            return
        doomed = [path for path in self._upper if any(up in directories for up in ancestors(path))]
        for path in doomed:
            del self._upper[path]

    def _put(self, node: Node, layer: int) -> None:
        """Add one node, with the parents that the layer leaves implicit."""
        path = node.path
        for parent in reversed(list(ancestors(path))):
            current = self.get(parent)
            if current is None:
                implicit = Node(path=parent, kind=Kind.DIRECTORY, mode=0o755, layer=layer)
                self._upper[parent] = implicit
            elif current.kind is Kind.SYMLINK:
                through = self.resolve(parent)
                if through is None:
                    self._note("through-link", path, layer, f"`{parent}` is a link to nothing")
                    through = parent
                else:
                    # runtimes that apply onto the merged tree write through the link, others
                    # replace it by a directory; the former is followed here, both are reported
                    self._note("through-link", path, layer, f"`{parent}` is a link to `{through}`")
                    node = replace(node, path=through + path[len(parent) :])
                    self._put(node, layer)
                    return
            elif current.kind is not Kind.DIRECTORY:
                self._note("file-as-parent", path, layer, f"`{parent}` is a file, not a directory")
                self._upper[parent] = Node(
                    path=parent, kind=Kind.DIRECTORY, mode=0o755, layer=layer
                )
        self._upper[path] = node

    def _link(self, links: list[TarEntry], layer: int) -> None:
        """Give each hard link what it names; links to links may stand in any order."""
        while links:
            waiting: list[TarEntry] = []
            names = {entry.path for entry in links}
            for entry in links:
                target = self.get(entry.target)
                if entry.target in names and entry.target != entry.path:
                    waiting.append(entry)
                elif target is None or target.kind is Kind.DIRECTORY:
                    raise ImageError(
                        f"malformed layer: `{entry.path}` is a hard link to `{entry.target}`, "
                        "which is not there"
                    )
                else:
                    self._put(replace(target, path=entry.path, layer=layer, owner=""), layer)
            if len(waiting) == len(links):
                raise ImageError(f"malformed layer: the hard link `{links[0].path}` names itself")
            links = waiting

    def _note(self, code: str, path: str, layer: int, detail: str) -> None:
        self.irregularities.append(
            LayerIrregularity(code=code, path=path, layer=layer, detail=detail)
        )


def ancestors(path: str) -> Iterator[str]:
    """Yield the directories above a path, nearest first, without the root."""
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        yield path


def _node(entry: TarEntry, layer: int) -> Node:
    capability = next((v for k, v in entry.xattrs if k == "security.capability"), b"")
    return Node(
        path=entry.path,
        kind=entry.kind,
        mode=entry.mode,
        uid=entry.uid,
        gid=entry.gid,
        size=entry.size,
        sha256=entry.sha256,
        target=entry.target,
        capabilities=capability.hex(),
        layer=layer,
    )
