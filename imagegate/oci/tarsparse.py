"""GNU sparse files in their four forms (tar manual, "Storing Sparse Files").

A sparse file is stored as a map of its segments and their bytes; what lies between is zeros. The
old form is type ``S`` with the map in the header. The pax forms are 0.0 (pairs of records), 0.1
(one record) and 1.0 (in front of the bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.oci.tarattributes import Damage
from imagegate.oci.tarheader import BLOCK, decimal, digits, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from imagegate.oci.tarcursor import Cursor


# a map is held in memory: so many segments are about 40 MB
_SEGMENT_LIMIT = 1 << 18
_ZEROS = bytes(1 << 20)
_HEAD = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseMap:
    """How a sparse file lies in the tar.

    Attributes:
        segments: offset and length of what is stored, in order.
        size: logical size in bytes.
        taken: bytes of the entry's content that the map itself took.
    """

    segments: tuple[tuple[int, int], ...]
    size: int
    taken: int

    @property
    def stored(self) -> int:
        """Bytes of all segments."""
        return sum(length for _, length in self.segments)

    def require_order(self) -> None:
        """Require that segments follow one another within the file.

        Raises:
            Damage: they do not.
        """
        at = 0
        for offset, length in self.segments:
            if offset < at or offset + length > self.size:
                raise Damage("the segments of a sparse map are out of order")
            at = offset + length


def is_sparse(flag: bytes, records: Mapping[str, bytes]) -> bool:
    """Say whether an entry is a sparse file in any form."""
    return flag == b"S" or any(key.startswith("GNU.sparse.") for key in records)


def read_map(header: bytes, records: Mapping[str, bytes], cursor: Cursor) -> SparseMap:
    """Read the map of a sparse file; what follows in the stream is its segments' bytes.

    Raises:
        Damage: the map is malformed, or its form is not known for certain.
    """
    version = (records.get("GNU.sparse.major"), records.get("GNU.sparse.minor"))
    in_record = records.get("GNU.sparse.map")
    if header[156:157] == b"S":
        if version != (None, None) or in_record is not None:
            raise Damage("a sparse file has both an old and a pax map")
        found = _old_map(header, cursor)
    elif version == (b"1", b"0"):
        found = _map_in_content(records, cursor)
    elif version in ((None, None), (b"0", b"0"), (b"0", b"1")):
        # 0.x holds no map record where the whole file is one hole
        found = _map_in_record(records, in_record or b"")
    else:
        raise Damage(f"unknown form of a sparse file: {version}")
    found.require_order()
    return found


def head_of(sparse: SparseMap, cursor: Cursor) -> bytes:
    """Return the first bytes of a sparse file, up to 64 and to the end of its first part."""
    if not sparse.segments or sparse.segments[0][0]:
        first = sparse.segments[0][0] if sparse.segments else sparse.size
        return _ZEROS[: min(first, _HEAD)]
    return cursor.head(min(sparse.segments[0][1], _HEAD))


def expand(sparse: SparseMap, cursor: Cursor) -> Iterator[bytes | memoryview]:
    """Yield the logical bytes of a sparse file.

    Raises:
        Damage: the stream ends before the last segment does.
    """
    at = 0
    for offset, length in sparse.segments:
        yield from _zeros(offset - at)
        read = 0
        for piece in cursor.pieces(length):
            read += len(piece)
            yield piece
        if read != length:
            raise Damage("the stream ends inside an entry")
        at = offset + length
    yield from _zeros(sparse.size - at)


def _zeros(count: int) -> Iterator[bytes]:
    while count:
        step = min(count, len(_ZEROS))
        yield _ZEROS[:step]
        count -= step


def _old_map(header: bytes, cursor: Cursor) -> SparseMap:
    """Read the map of a type ``S`` header and of the blocks that continue it."""
    if header[257:265] != b"ustar  \0":
        raise Damage("a header of type `S` that GNU tar did not write")
    segments: list[tuple[int, int]] = []
    block, first, count, more = header, 386, 4, header[482]
    while True:
        for at in range(first, first + 24 * count, 24):
            if not block[at]:
                break
            offset = number(block[at : at + 12], "sparse map")
            segments.append((offset, number(block[at + 12 : at + 24], "sparse map")))
        if not more:
            break
        _limit(len(segments))
        block = cursor.take(BLOCK)
        if len(block) < BLOCK:
            raise Damage("the stream ends inside an entry")
        first, count, more = 0, 21, block[504]
    # the blocks that continue the map are not counted in the entry's size
    return SparseMap(segments=tuple(segments), size=number(header[483:495], "real size"), taken=0)


def _map_in_record(records: Mapping[str, bytes], text: bytes) -> SparseMap:
    """Read the map of forms 0.0 and 0.1."""
    size = decimal(records, "GNU.sparse.size")
    if size is None:
        raise Damage("a sparse file has no real size")
    values = [digits(part, "sparse map") for part in text.split(b",")] if text else []
    _limit(len(values) // 2)
    if len(values) % 2 or decimal(records, "GNU.sparse.numblocks") not in (None, len(values) // 2):
        raise Damage("a sparse map has another number of values than it says")
    segments = tuple(zip(values[::2], values[1::2], strict=True))
    return SparseMap(segments=segments, size=size, taken=0)


def _map_in_content(records: Mapping[str, bytes], cursor: Cursor) -> SparseMap:
    """Read the map in front of the bytes of form 1.0: decimal numbers, a line each."""
    size = decimal(records, "GNU.sparse.realsize")
    if size is None:
        raise Damage("a sparse file has no real size")
    buffer = b""
    taken = 0

    def line() -> int:
        nonlocal buffer, taken
        while b"\n" not in buffer:
            block = cursor.take(BLOCK)
            taken += BLOCK
            if len(block) < BLOCK or len(buffer) > BLOCK:
                raise Damage("malformed sparse map")
            buffer += block
        text, _, buffer = buffer.partition(b"\n")
        return digits(text, "sparse map")

    count = line()
    _limit(count)
    segments = tuple((line(), line()) for _ in range(count))
    return SparseMap(segments=segments, size=size, taken=taken)


def _limit(segments: int) -> None:
    if segments > _SEGMENT_LIMIT:
        raise Damage(f"a sparse map of more than {_SEGMENT_LIMIT} segments")
