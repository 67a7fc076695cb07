"""One layer's entries, sorted into what it writes and what it hides (layer.md, "Whiteouts")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.errors import ImageError
from imagegate.oci.tar import Kind, TarEntry
from imagegate.rootfs.nodes import ancestors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WHITEOUT_PREFIX = ".wh."
OPAQUE_MARKER = ".wh..wh..opq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changeset:
    """What a layer does, whatever the order of its entries.

    Attributes:
        written: path to entry, in the order of the tar; of two the last.
        hidden: path that a whiteout names, to the whiteout's own path.
        opaque: directory with an opaque marker, to the marker's path.
        parents: paths that are written as no directory and have other entries below them.
        order: path to the position of the entry that counts, among those of the layer.
        irregularities: code, path and detail of what the specification forbids.
    """

    written: dict[str, TarEntry] = field(default_factory=dict)
    hidden: dict[str, str] = field(default_factory=dict)
    opaque: dict[str, str] = field(default_factory=dict)
    parents: dict[str, None] = field(default_factory=dict)
    order: dict[str, int] = field(default_factory=dict)
    irregularities: list[tuple[str, str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, entries: Iterable[TarEntry]) -> Changeset:
        """Sort a layer's entries.

        Raises:
            ImageError: a whiteout names nothing or leaves its directory, or an entry lies below
                a whiteout's name or links to one.
        """
        change = cls()
        for position, entry in enumerate(entries):
            change._add(entry, position)
        seen: set[str] = set()
        for path in change.written:
            for parent in ancestors(path):
                if parent in seen:
                    break
                seen.add(parent)
                above = change.written.get(parent)
                if above is not None and above.kind is not Kind.DIRECTORY:
                    change.parents[parent] = None
        return change

    def marked(self) -> Iterator[tuple[str, str]]:
        """Yield each directory in which a marker acts, with the marker's path."""
        for path, marker in self.hidden.items():
            yield path.rpartition("/")[0], marker
        yield from self.opaque.items()

    def _add(self, entry: TarEntry, position: int) -> None:
        if not entry.path:
            return  # the root itself; its attributes are the runtime's
        directory, _, name = entry.path.rpartition("/")
        for path in (directory, entry.target if entry.kind is Kind.HARDLINK else ""):
            # AUFS kept links below `.wh..wh.plnk`; runtimes skip such, unpack them or serve them
            # as link targets
            if path.startswith(WHITEOUT_PREFIX) or f"/{WHITEOUT_PREFIX}" in path:
                raise ImageError(
                    f"malformed layer: `{entry.path}` lies below a whiteout or links to one: `{path}`"
                )
        if name.startswith(WHITEOUT_PREFIX):
            self._mark(entry.path, directory, name)
            return
        earlier = self.written.pop(entry.path, None)
        if earlier is not None:
            # layer.md: a layer MUST NOT have two entries of one path
            # of two entries of a folder the later mode and owner count, and attributes add up
            folders = earlier.kind is entry.kind is Kind.DIRECTORY
            same = earlier == entry or (folders and earlier.xattrs == entry.xattrs)
            code = "repeated-path" if same else "duplicate-path"
            detail = "the layer has two entries of this name"
            self.irregularities.append((code, entry.path, detail))
        self.written[entry.path] = entry
        self.order[entry.path] = position

    def _mark(self, path: str, directory: str, name: str) -> None:
        """File a whiteout or opaque marker; the marker is the exact name, not a prefix."""
        if name == OPAQUE_MARKER:
            self.opaque[directory] = path
            return
        bare = name.removeprefix(WHITEOUT_PREFIX)
        if bare in ("", ".", ".."):
            raise ImageError(f"malformed layer: the whiteout `{path}` names nothing")
        self.hidden[f"{directory}/{bare}" if directory else bare] = path
