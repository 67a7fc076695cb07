"""Which files' bytes the catalogs need, and how they are kept while layers stream past."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from imagegate.errors import ImageError
from imagegate.oci.budget import text_budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from imagegate.oci.budget import Budget
    from imagegate.oci.tar import Sink, TarEntry
    from imagegate.rootfs import FileTree, Node

# the largest text a catalog reads whole; a RECORD of 100,000 files has about 12 MB
_TEXT_LIMIT = 64 << 20
_LAUNCHER_LIMIT = 4 << 10
_HEAD = 16
# what an extract that is not told of otherwise keeps of a file, at most
_KEPT = 64
_HEADER_END = re.compile(rb"\r?\n\r?\n")
_END_LENGTH = 3


class Extract(Protocol):
    """Takes a file's bytes in order and keeps what a catalog needs of them."""

    def write(self, chunk: bytes | memoryview, /) -> object:
        """Take the next bytes."""

    def finish(self) -> bytes:
        """Return what is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """Files that a catalog wants, by path or by first bytes, and what it keeps of each.

    Attributes:
        name: identifies the kind of extract; one file may be wanted under several names.
        keep: makes the extract for one file from its path and size.
        pattern: matched against the whole path; ``None`` for every path.
        marks: texts of which each path that fits the pattern has one; they are looked for first,
            because that is much quicker.
        magic: the bytes that the file begins with; empty where any do.
        unless: paths that are left out although they match.
    """

    name: str
    keep: Callable[[str, int], Extract]
    pattern: re.Pattern[str] | None = None
    marks: tuple[str, ...] = ("",)
    magic: bytes = b""
    unless: Callable[[str], bool] | None = None

    def wants(self, path: str, head: bytes) -> bool:
        """Say whether a file is wanted; a head that is cut too short to tell counts as fitting."""
        if self.pattern is not None and not self.pattern.fullmatch(path):
            return False
        if not self.magic.startswith(head[: len(self.magic)]):
            return False
        return self.unless is None or not self.unless(path)


class WholeText:
    """Keeps a small file whole."""

    keeps = _TEXT_LIMIT

    def __init__(self, path: str, size: int) -> None:
        if size > _TEXT_LIMIT:
            raise ImageError(
                f"`{path}` has {size} bytes; a file of its kind is read up to {_TEXT_LIMIT}"
            )
        self._pieces: list[bytes] = []

    def write(self, chunk: bytes | memoryview, /) -> None:
        """Take the next bytes."""
        self._pieces.append(bytes(chunk))

    def finish(self) -> bytes:
        """Return the file's bytes."""
        return b"".join(self._pieces)


class SmallText:
    """Keeps a file whole if it is as small as a generated launcher, else nothing."""

    keeps = _LAUNCHER_LIMIT

    def __init__(self, _path: str, size: int) -> None:
        self._small = size <= _LAUNCHER_LIMIT
        self._pieces: list[bytes] = []

    def write(self, chunk: bytes | memoryview, /) -> None:
        """Take the next bytes."""
        if self._small:
            self._pieces.append(bytes(chunk))

    def finish(self) -> bytes:
        """Return the file's bytes, or none."""
        return b"".join(self._pieces)


class FirstBytes:
    """Keeps the head of a file, long enough for the header of compiled Python (PEP 552)."""

    def __init__(self, _path: str, _size: int) -> None:
        self._head = b""

    def write(self, chunk: bytes | memoryview, /) -> None:
        """Take the next bytes."""
        if len(self._head) < _HEAD:
            self._head += bytes(chunk[: _HEAD - len(self._head)])

    def finish(self) -> bytes:
        """Return the head."""
        return self._head


class HeaderText(WholeText):
    """Keeps a file's header: what stands before the first empty line (RFC 5322 form).

    What follows is not kept, and each byte is looked at once.
    """

    def __init__(self, path: str, size: int) -> None:
        super().__init__(path, size)
        self._ended = False
        self._tail = b""

    def write(self, chunk: bytes | memoryview, /) -> None:
        """Take the next bytes."""
        if self._ended:
            return
        # an end may lie across two chunks: the last three bytes are looked at again
        text = self._tail + bytes(chunk)
        end = _HEADER_END.search(text)
        if end is not None:
            self._ended = True
            self._tail = text[: end.start()]
            return
        if len(text) > _END_LENGTH:
            self._pieces.append(text[:-_END_LENGTH])
            text = text[-_END_LENGTH:]
        self._tail = text

    def finish(self) -> bytes:
        """Return the header with its last line ended."""
        return super().finish() + self._tail + b"\n"


class Collector:
    """Gathers extracts over several layers, keyed by the content's digest.

    What is kept of all layers of an image has one budget, whose bytes the caller counts.

    Keying by content and not by path makes hard links and identical copies free, and lets the
    merged tree decide afterwards which of several files of one path counts.
    """

    def __init__(self, interests: Iterable[Interest], budget: Budget | None = None) -> None:
        self._interests = tuple(interests)
        self._budget = budget or text_budget()
        self._marks = tuple(
            (mark, number)
            for number, interest in enumerate(self._interests)
            for mark in interest.marks
        )
        self._pending: dict[str, list[tuple[str, Extract]]] = {}
        self._kept: dict[tuple[str, str], bytes] = {}
        self._read: set[str] = set()

    def within(self, budget: Budget) -> Collector:
        """Keep what an image's budget allows, which several collectors share."""
        self._budget = budget
        return self

    def want(self, path: str, size: int, head: bytes, /) -> Sink | None:
        """Answer the tar scanner (:class:`imagegate.oci.tar.Want`)."""
        candidates = {number for mark, number in self._marks if mark in path}
        extracts = [
            (interest.name, interest.keep(path, size))
            for interest in map(self._interests.__getitem__, candidates)
            if interest.wants(path, head)
        ]
        if not extracts:
            return None
        for _, extract in extracts:
            # a search keeps what it finds and not what it reads
            self._budget.keep(min(size, getattr(extract, "keeps", _KEPT)), path)
        self._pending[path] = extracts
        return extracts[0][1] if len(extracts) == 1 else _Tee([e for _, e in extracts])

    def end_layer(self, entries: Iterable[TarEntry]) -> None:
        """Take over what the layer just read has left."""
        digests = {}
        for entry in entries:
            if entry.sha256:
                self._read.add(entry.sha256)
            if entry.path in self._pending:
                digests[entry.path] = entry.sha256
        for path, extracts in self._pending.items():
            for name, extract in extracts:
                self._kept[name, digests[path]] = extract.finish()
        self._pending.clear()

    def absorb(self, other: Collector) -> None:
        """Take over all extracts of another collector, which is used no more."""
        self._kept.update(other._kept)
        # a base of one layer has a digest for each of some 100,000 files: they are not copied
        if self._read:
            self._read.update(other._read)
        else:
            self._read = other._read

    def has_read(self, node: Node) -> bool:
        """Say whether a file's bytes streamed past; a hard link to a file below did not."""
        return node.sha256 in self._read

    def extracts(self, name: str) -> Iterator[tuple[str, bytes]]:
        """Yield hex SHA-256 and extract of every file that was wanted under `name`."""
        for (kept_name, sha256), kept in self._kept.items():
            if kept_name == name:
                yield sha256, kept

    def extract(self, name: str, node: Node) -> bytes | None:
        """Return what was kept under `name` of the file that a node is."""
        return self._kept.get((name, node.sha256))


@dataclass(frozen=True, slots=True)
class _Tee:
    extracts: list[Extract] = field(default_factory=list)

    def write(self, chunk: bytes | memoryview, /) -> None:
        for extract in self.extracts:
            extract.write(chunk)


def files(tree: FileTree, paths: Iterable[str]) -> Iterator[Node]:
    """Yield what stands at each path of a tree, leaving out what is gone."""
    for path in paths:
        node = tree.get(path)
        if node is not None:
            yield node
