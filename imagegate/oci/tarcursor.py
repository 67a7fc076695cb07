"""A position in a stream that arrives in chunks of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FILE_CHUNK = 1 << 16


class Cursor:
    """Hands out the stream's bytes; what lies within one chunk is not copied."""

    __slots__ = ("_at", "_before", "_chunk", "_chunks", "_view")

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._chunk = b""
        self._view = memoryview(b"")
        self._at = 0
        self._before = 0

    @property
    def offset(self) -> int:
        """Bytes of the stream that were taken."""
        return self._before + self._at

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer only at the end of the stream."""
        end = self._at + count
        if end <= len(self._chunk):
            piece = self._chunk[self._at : end]
            self._at = end
            return piece
        return b"".join(self.pieces(count))

    def pieces(self, count: int) -> Iterator[memoryview]:
        """Yield the next `count` bytes in pieces, fewer only at the end of the stream."""
        while count:
            if self._at == len(self._chunk) and not self._advance():
                return
            end = min(self._at + count, len(self._chunk))
            piece = self._view[self._at : end]
            count -= len(piece)
            self._at = end
            yield piece

    def whole(self, count: int) -> memoryview | None:
        """Return the next `count` bytes if they lie within one chunk; else take nothing."""
        end = self._at + count
        if end > len(self._chunk):
            return None
        piece = self._view[self._at : end]
        self._at = end
        return piece

    def head(self, count: int) -> bytes:
        """Return the next `count` bytes without taking them, fewer only at the stream's end."""
        while len(self._chunk) - self._at < count:
            rest = self._chunk[self._at :]
            if not self._advance():
                return rest
            if rest:
                self._before -= len(rest)
                self._chunk = rest + self._chunk
                self._view = memoryview(self._chunk)
        return self._chunk[self._at : self._at + count]

    def skip(self, count: int) -> bool:
        """Pass `count` bytes; returns whether there were so many."""
        end = self._at + count
        if end <= len(self._chunk):
            self._at = end
            return True
        return sum(map(len, self.pieces(count))) == count

    def _advance(self) -> bool:
        """Go to the next chunk that holds something; at the end everything stays as it is."""
        for following in self._chunks:
            if following:
                self._before += len(self._chunk)
                self._chunk, self._view, self._at = following, memoryview(following), 0
                return True
        return False


class FileCursor(Cursor):
    """A position in a file that can be wound forward without reading.

    Args:
        stream: a file at its start.
        size: its size in bytes.
    """

    __slots__ = ("_size", "_stream")

    def __init__(self, stream: BinaryIO, size: int) -> None:
        super().__init__(iter(lambda: stream.read(_FILE_CHUNK), b""))
        self._stream = stream
        self._size = size

    def skip(self, count: int) -> bool:
        """Pass `count` bytes; returns whether there were so many."""
        if self._at + count <= len(self._chunk):
            return super().skip(count)
        target = self.offset + count
        if target > self._size:
            return False
        self._stream.seek(target)
        self._chunk, self._view = b"", memoryview(b"")
        self._before, self._at = target, 0
        return True
