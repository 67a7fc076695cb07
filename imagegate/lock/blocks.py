"""A path index by blocks: whoever asks for a path reads the block that it is in, and no other.

The sorted lines are cut into blocks, each a zstd frame of its own (RFC 8878, 3.1). Behind them
comes one more frame with the table: a line for each block with its first path, its number of
lines, its size and the digest of its text, then a line for each owner with the number of paths
that it claims. A skippable frame (3.1.2) ends the file: the compressed size of every frame, so
that the table is found from the end and each block from the table.

The index's digest is that of the table's text. It covers every block by its digest, and nothing
that depends on how well the text was compressed; a block is compared when it is read.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Protocol

from imagegate.errors import LockError
from imagegate.lock.lines import escape, format_line, parse_line, path_of, unescape
from imagegate.oci.digest import Digest
from imagegate.oci.zstd import ZstdError, compress, decompress_frame

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from imagegate.rootfs import Node

_HEADER = "#imagegate-index-2"
_LINES = 1024
_LEVEL = 9
# a block has a thousand lines; a path and a link's target have at most 4,096 bytes each, which
# take up to 6 characters a byte when escaped
_BLOCK_LIMIT = 64 << 20
_TABLE_LIMIT = 256 << 20
_SKIPPABLE = 0x184D2A5E
_MAGIC = b"IGX2"
_TRAILER = struct.Struct("<I4s")
_KEPT = 48


class RandomAccess(Protocol):
    """Bytes that are read in pieces."""

    @property
    def size(self) -> int:
        """How many there are."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Return so many bytes from there, fewer where they end."""


@dataclass(frozen=True, slots=True)
class InMemory:
    """Bytes that are here already."""

    content: bytes

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.content)

    def read_at(self, offset: int, size: int) -> bytes:
        """Return so many bytes from there."""
        return self.content[offset : offset + size]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    first: str
    lines: int
    size: int
    sha256: str


class IndexWriter:
    """Takes sorted lines and gives the bytes of an index; holds one block at a time."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._blocks: list[_Block] = []
        self._owners: Counter[str] = Counter()
        self._lines: list[str] = []

    def add(self, line: str, owner: str) -> None:
        """Take the next line and who claims its path."""
        self._lines.append(line)
        if owner:
            self._owners[owner] += 1
        if len(self._lines) == _LINES:
            self._end_block()

    def finish(self) -> bytes:
        """Return the index."""
        if self._lines:
            self._end_block()
        table = _table_text(self._blocks, self._owners).encode()
        frames = [*self._frames, compress(table, level=_LEVEL)]
        sizes = struct.pack(f"<{len(frames)}I", *map(len, frames))
        payload = sizes + _TRAILER.pack(len(frames), _MAGIC)
        return b"".join([*frames, struct.pack("<II", _SKIPPABLE, len(payload)), payload])

    def _end_block(self) -> None:
        text = "".join(f"{line}\n" for line in self._lines).encode()
        self._blocks.append(
            _Block(
                first=path_of(self._lines[0]),
                lines=len(self._lines),
                size=len(text),
                sha256=hashlib.sha256(text).hexdigest(),
            )
        )
        self._frames.append(compress(text, level=_LEVEL))
        self._lines = []


def _table_text(blocks: Sequence[_Block], owners: Mapping[str, int]) -> str:
    lines = [f"{_HEADER}\t{len(blocks)}\t{len(owners)}"]
    lines += [f"{b.first}\t{b.lines}\t{b.size}\t{b.sha256}" for b in blocks]
    lines += [f"{escape(owner)}\t{count}" for owner, count in sorted(owners.items())]
    return "".join(f"{line}\n" for line in lines)


class BlockIndex:
    """A path index that reads a block when a path of it is asked for.

    Args:
        content: the index's bytes.
        where: the file, for messages.

    Raises:
        LockError: it is not an index, or a table that contradicts itself.
    """

    def __init__(self, content: RandomAccess, where: str) -> None:
        self._content = content
        self._where = where
        self._kept: OrderedDict[int, list[str]] = OrderedDict()
        sizes = self._frame_sizes()
        starts = [0, *accumulate(sizes)]
        text = self._frame(starts[-2], sizes[-1], _TABLE_LIMIT)
        self.digest = Digest.of(text)
        self._spans = list(zip(starts, sizes[:-1], strict=False))
        self._blocks, self._owners = self._parse_table(text)
        if len(self._blocks) != len(self._spans):
            raise self._damaged("its table lists another number of blocks than there are")
        self._firsts = [block.first for block in self._blocks]
        if any(one >= other for one, other in pairwise(self._firsts)):
            raise LockError(f"the blocks of `{where}` are not in order", hint="lock again")
        self._length = sum(block.lines for block in self._blocks)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Node]:
        return map(parse_line, self._lines_from(0))

    def owners(self) -> Counter[str]:
        """Count the paths that each owner claims."""
        return Counter(self._owners)

    def get(self, path: str) -> Node | None:
        """Return what stands at exactly this path."""
        key = escape(path)
        number = bisect_right(self._firsts, key) - 1
        if number < 0:
            return None
        lines, start = self._block(number), f"{key}\t"
        position = bisect_left(lines, start)
        if position < len(lines) and lines[position].startswith(start):
            return parse_line(lines[position])
        return None

    def has_prefix(self, prefix: str) -> bool:
        """Say whether any path begins with these characters."""
        key = escape(prefix)
        number = max(bisect_right(self._firsts, key) - 1, 0)
        if not self._blocks:
            return False
        lines = self._block(number)
        position = bisect_left(lines, key)
        if position < len(lines):
            return lines[position].startswith(key)
        return number + 1 < len(self._firsts) and self._firsts[number + 1].startswith(key)

    def under(self, path: str) -> Iterator[Node]:
        """Yield everything below a directory, in order of path."""
        if not path:
            yield from self
            return
        prefix = f"{escape(path)}/"
        number = max(bisect_right(self._firsts, prefix) - 1, 0)
        position = bisect_left(self._block(number), prefix) if self._blocks else 0
        while number < len(self._blocks):
            for line in self._block(number)[position:]:
                if not line.startswith(prefix):
                    return
                yield parse_line(line)
            number, position = number + 1, 0

    def matching(self, pattern: re.Pattern[str]) -> Iterator[Node]:
        """Yield everything whose whole path fits a pattern, in order of path."""
        for line in self._lines_from(0):
            path = path_of(line)
            if pattern.fullmatch(path if "\\" not in path else unescape(path)):
                yield parse_line(line)

    def lines(self) -> Iterator[str]:
        """Yield every line."""
        return self._lines_from(0)

    def _lines_from(self, number: int) -> Iterator[str]:
        # not kept: who walks through all of it would push out what is asked for again
        for one in range(number, len(self._blocks)):
            yield from self._kept.get(one) or self._read(one)

    def _block(self, number: int) -> list[str]:
        lines = self._kept.get(number)
        if lines is None:
            lines = self._kept[number] = self._read(number)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(number)
        return lines

    def _read(self, number: int) -> list[str]:
        """Read a block, and require that it is the one of the table."""
        block, (start, size) = self._blocks[number], self._spans[number]
        text = self._frame(start, size, block.size)
        if len(text) != block.size or hashlib.sha256(text).hexdigest() != block.sha256:
            raise LockError(
                f"`{self._where}` was changed by hand: block {number + 1} is not the one of its "
                f"table: locked=sha256:{block.sha256} found={Digest.of(text)}",
                hint="restore it from version control",
            )
        try:
            lines = text.decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise LockError(f"`{self._where}` is not UTF-8 text") from error
        if lines.pop() != "" or len(lines) != block.lines or path_of(lines[0]) != block.first:
            raise self._damaged(f"block {number + 1} does not hold what its table says")
        # look-ups halve the list; out of order, they would miss paths
        after = self._firsts[number + 1] if number + 1 < len(self._firsts) else None
        if any(one >= other for one, other in pairwise(lines)) or (
            after is not None and path_of(lines[-1]) >= after
        ):
            raise LockError(f"the lines of `{self._where}` are not in order", hint="lock again")
        return lines

    def _frame_sizes(self) -> list[int]:
        """Read the end of the file: the compressed size of every frame."""
        total = self._content.size
        tail = self._content.read_at(max(total - _TRAILER.size, 0), _TRAILER.size)
        if len(tail) < _TRAILER.size or tail[4:] != _MAGIC:
            raise LockError(
                f"`{self._where}` is not a path index of this version, or it is damaged",
                hint="restore it from version control, or lock again",
            )
        count = _TRAILER.unpack(tail)[0]
        length = 4 * count + _TRAILER.size
        begin = total - length
        if count == 0 or begin < 8:
            raise self._damaged("its end lists no frame, or more than there are")
        if struct.unpack("<II", self._content.read_at(begin - 8, 8)) != (_SKIPPABLE, length):
            raise self._damaged("its end is not where it says")
        sizes = list(struct.unpack(f"<{count}I", self._content.read_at(begin, 4 * count)))
        if sum(sizes) != begin - 8:
            raise self._damaged("its frames are not as long as its end says")
        return sizes

    def _frame(self, start: int, size: int, limit: int) -> bytes:
        try:
            return decompress_frame(self._content.read_at(start, size), limit)
        except (ZstdError, EOFError, ValueError) as error:
            raise self._damaged(str(error)) from error

    def _parse_table(self, text: bytes) -> tuple[list[_Block], dict[str, int]]:
        try:
            header, *lines = text.decode("utf-8").split("\n")
            name, blocks, owners = header.split("\t")
            if (
                name != _HEADER
                or not lines
                or lines.pop() != ""
                or len(lines) != int(blocks) + int(owners)
            ):
                raise self._damaged("its table is malformed")
            listed = [line.split("\t") for line in lines]
            parsed = [
                _Block(first=first, lines=int(count), size=int(size), sha256=sha256)
                for first, count, size, sha256 in listed[: int(blocks)]
            ]
            known = {unescape(owner): int(count) for owner, count in listed[int(blocks) :]}
        except ValueError as error:
            raise self._damaged("its table is malformed") from error
        if any(block.lines < 1 or not 0 < block.size <= _BLOCK_LIMIT for block in parsed):
            raise self._damaged("its table lists a block of a size that none has")
        return parsed, known

    def _damaged(self, why: str) -> LockError:
        return LockError(
            f"`{self._where}` is damaged: {why}", hint="restore it from version control"
        )


def encode_index(nodes: Iterable[Node], owners: Mapping[str, str] | None = None) -> bytes:
    """Write an index; the order of `nodes` does not matter.

    Args:
        nodes: what is at each path.
        owners: who claims a path, where the nodes themselves do not say.
    """
    known = owners if owners is not None else {}
    writer = IndexWriter()
    # a line begins with its path and a tab, which sorts before everything that a path may have:
    # sorted by path, a line need not live longer than its block
    for node in sorted(nodes, key=lambda node: escape(node.path)):
        owner = known.get(node.path, node.owner)
        writer.add(format_line(node, owner), owner)
    return writer.finish()


def decode_index(content: bytes | RandomAccess, where: str) -> BlockIndex:
    """Read an index's table.

    Raises:
        LockError: it is not an index, or a table that contradicts itself.
    """
    access = InMemory(content) if isinstance(content, bytes) else content
    return BlockIndex(access, where)
