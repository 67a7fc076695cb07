"""Layers to a file tree (OCI image-spec, layer.md, "Applying Changesets").

Layers are applied from the bottom up. A tree may stand on an index of paths that is already
known (a locked base), so that only the added layers have to be read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from imagegate.errors import ImageError
from imagegate.oci.tar import Kind, TarEntry
from imagegate.rootfs.changeset import Changeset
from imagegate.rootfs.nodes import (
    Node,
    PathIndex,
    SortedIndex,
    ancestors,
    attributes_of,
    begins_one,
    node_of,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

# Linux gives up after 40 links (path_resolution(7))
_LINK_LIMIT = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerIrregularity:
    """Something in a layer that the specification forbids or that runtimes treat differently.

    Attributes:
        code: ``duplicate-path``, ``repeated-path`` (the same twice), ``whiteout-of-nothing``,
            ``through-link``, ``file-as-parent``, ``link-before-target`` (a hard link that stands
            in front of what it names) or ``link-attributes`` (a hard link whose header gives the
            file that it names another mode, owner or attribute).
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
        self._upper_paths: list[str] | None = None
        self._removed: dict[str, int] = {}
        self._sound: set[str] = set()
        self._through: dict[str, str | None] = {}
        self.irregularities: list[LayerIrregularity] = []

    def get(self, path: str) -> Node | None:
        """Return what stands at exactly this path."""
        node = self._upper.get(path)
        if node is not None:
            return node
        return None if path in self._removed else self._lower.get(path)

    def may_begin(self, prefix: str) -> bool:
        """Say whether a path may begin with these characters; where not, none does.

        One look instead of one for each ending that a name could have.
        """
        if self._upper_paths is None:
            self._upper_paths = sorted(self._upper)
        return begins_one(self._upper_paths, prefix) or self._lower.has_prefix(prefix)

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
        lower = self._lower.matching(pattern)
        found = {node.path: node for node in lower if node.path not in self._removed}
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
        self._upper_paths = None
        change = Changeset.of(entries)
        for code, path, detail in change.irregularities:
            self._note(code, path, layer, detail)
        self._sound, self._through = set(), {}
        # layer.md: whiteouts apply to lower layers only, wherever they stand among their siblings
        self._report_markers(change, layer)
        self._hide(change, layer)
        self._make_room(change, layer)
        for path in change.parents:
            if path in change.written and change.written[path].kind is not Kind.HARDLINK:
                # a file or link that other entries of this layer take for a folder; it goes
                # first, so that they find it whatever the order was
                self._upper[path] = node_of(change.written[path], layer)
        for path, entry in change.written.items():
            if entry.kind is not Kind.HARDLINK and path not in change.parents:
                self._put(node_of(entry, layer), layer)
        self._link(change, layer)

    def _report_markers(self, change: Changeset, layer: int) -> None:
        """Note markers in folders that are none: runtimes act through the link, or replace it."""
        checked: set[str] = set()
        for directory, marker in change.marked():
            for part in (*reversed(tuple(ancestors(directory))), directory):
                if part in checked:
                    continue
                checked.add(part)
                entry = change.written.get(part)
                if entry is not None and entry.kind is Kind.DIRECTORY:
                    continue
                current = self.get(part) if part else None
                if current is not None and current.kind is Kind.SYMLINK:
                    detail = f"the whiteout's folder `{part}` is a link to `{current.target}`"
                    self._note("through-link", marker, layer, detail)
                elif current is not None and current.kind is not Kind.DIRECTORY:
                    detail = f"the whiteout's folder `{part}` is a file, not a directory"
                    self._note("file-as-parent", marker, layer, detail)

    def _hide(self, change: Changeset, layer: int) -> None:
        """Remove what whiteouts and opaque markers name from all layers below."""
        for path in change.hidden:
            if not self._remove(path, layer) and layer > 1:
                self._note("whiteout-of-nothing", path, layer, "nothing of this name is below")
        # an opaque marker on a directory that is not below hides nothing and is no change
        self._remove_below({*change.hidden, *change.opaque}, layer)

    def _make_room(self, change: Changeset, layer: int) -> None:
        """Remove the content of directories that become something else."""
        replaced: set[str] = set()
        for path, entry in change.written.items():
            if entry.kind is Kind.DIRECTORY:
                continue
            current = self.get(path)
            if current is not None and current.kind is Kind.DIRECTORY:
                replaced.add(path)
        self._remove_below(replaced, layer)

    def _remove(self, path: str, layer: int) -> bool:
        existed = self.get(path) is not None
        self._upper.pop(path, None)
        if existed and self._lower.get(path) is not None:
            self._removed[path] = layer
        return existed

    def _remove_below(self, directories: set[str], layer: int) -> None:
        outermost = {one for one in directories if not _is_below(one, directories)}
        for directory in outermost:
            for node in self._lower.under(directory):
                if node.path in self._upper or node.path not in self._removed:
                    self._removed[node.path] = layer
        if "" in outermost:
            self._upper.clear()
        elif outermost:
            for path in [path for path in self._upper if _is_below(path, outermost)]:
                del self._upper[path]

    def _put(self, node: Node, layer: int) -> None:
        """Add one node, with the parents that the layer leaves implicit."""
        for _ in range(_LINK_LIMIT):
            link = self._make_parents(node.path, layer)
            if link is None:
                self._upper[node.path] = node
                return
            moved = self._follow(node, link, layer)
            if moved is None:
                return
            node = moved
        self._note("through-link", node.path, layer, f"more than {_LINK_LIMIT} links on the way")

    def _make_parents(self, path: str, layer: int) -> str | None:
        """Make a path's parents directories; returns the topmost that is a link, if one is."""
        for parent in self._unchecked_parents(path):
            current = self.get(parent)
            if current is None:
                self._upper[parent] = _implicit(parent, layer)
            elif current.kind is Kind.SYMLINK:
                return parent
            elif current.kind is not Kind.DIRECTORY:
                self._note("file-as-parent", path, layer, f"`{parent}` is a file, not a directory")
                self._upper[parent] = _implicit(parent, layer)
            self._sound.add(parent)
        return None

    def _unchecked_parents(self, path: str) -> Iterator[str]:
        """Yield the parents that this layer has not yet found to be directories, topmost first."""
        found: list[str] = []
        for parent in ancestors(path):
            if parent in self._sound:
                break
            found.append(parent)
        return reversed(found)

    def _follow(self, node: Node, parent: str, layer: int) -> Node | None:
        """Return a node at the path to which its parent, a link, leads.

        Runtimes that apply onto the merged tree write through the link, others replace it by a
        directory; the former is followed here, both are reported. ``None`` where nothing is left
        to be put.
        """
        if parent not in self._through:
            self._through[parent] = self.resolve(parent)
        through = self._through[parent]
        if through is None:
            self._note("through-link", node.path, layer, f"`{parent}` is a link to nothing")
            self._upper[node.path] = node
            return None
        self._note("through-link", node.path, layer, f"`{parent}` is a link to `{through}`")
        path = (through + node.path[len(parent) :]).lstrip("/")
        current = self.get(path)
        if current is not None and current.kind is Kind.DIRECTORY is not node.kind:
            return None
        return replace(node, path=path)

    def _link(self, change: Changeset, layer: int) -> None:
        """Give each hard link what it names; links to links may stand in any order."""
        waiting = {e.path: e for e in change.written.values() if e.kind is Kind.HARDLINK}
        while waiting:
            _, entry = waiting.popitem()
            chain = [entry]
            while entry.target in waiting:
                entry = waiting.pop(entry.target)
                chain.append(entry)
            if any(entry.target == other.path for other in chain):
                raise ImageError(f"malformed layer: the hard link `{entry.path}` names itself")
            for link in reversed(chain):
                self._put_link(link, change, layer)

    def _put_link(self, link: TarEntry, change: Changeset, layer: int) -> None:
        target = self.get(link.target)
        if target is None:
            parent, _, name = link.target.rpartition("/")
            through = self.resolve(parent)
            target = self.get(f"{through}/{name}") if through else None
            if target is not None:
                detail = f"the hard link's target `{link.target}` leads to `{target.path}`"
                self._note("through-link", link.path, layer, detail)
        if target is None or target.kind is Kind.DIRECTORY:
            raise ImageError(
                f"malformed layer: `{link.path}` is a hard link to `{link.target}`, "
                "which is not there"
            )
        if link.path in change.parents:
            detail = "a hard link that other entries take for a directory"
            self._note("file-as-parent", link.path, layer, detail)
            return
        self._judge_link(link, target, change, layer)
        self._put(replace(target, path=link.path, layer=layer, owner=""), layer)

    def _judge_link(self, link: TarEntry, target: Node, change: Changeset, layer: int) -> None:
        """Note what runtimes, who make links in the order of the layer, would do otherwise."""
        at = change.order[link.path]
        for path in dict.fromkeys((link.target, target.path)):
            if change.order.get(path, -1) > at:
                detail = f"`{path}`, which the hard link names, is written later in the layer"
                self._note("link-before-target", link.path, layer, detail)
        capabilities, attributes = attributes_of(link)
        says = f"{link.mode:o} {link.uid}:{link.gid}"
        is_as = f"{target.mode:o} {target.uid}:{target.gid}"
        names = [name for name, value in attributes if (name, value) not in target.attributes]
        if capabilities not in ("", target.capabilities):
            names.append("security.capability")
        if target.kind is not Kind.SYMLINK and (says != is_as or names):
            # one file has one mode: runtimes give the file what the link's header says
            detail = f"the link's header says {' '.join([says, *names])}, its target is {is_as}"
            self._note("link-attributes", link.path, layer, detail)

    def _note(self, code: str, path: str, layer: int, detail: str) -> None:
        self.irregularities.append(
            LayerIrregularity(code=code, path=path, layer=layer, detail=detail)
        )


def _implicit(path: str, layer: int) -> Node:
    return Node(path=path, kind=Kind.DIRECTORY, mode=0o755, layer=layer)


def _is_below(path: str, directories: set[str]) -> bool:
    return (bool(path) and "" in directories) or any(up in directories for up in ancestors(path))
