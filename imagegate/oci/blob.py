"""Blobs: read once, hashed once, compared with what their descriptor promises."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO, Protocol

from imagegate.errors import DigestMismatch, ImageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from imagegate.oci.digest import Digest

CHUNK = 1 << 21


class Hasher(Protocol):
    """Takes bytes in order and gives a digest, as `hashlib`'s objects do."""

    def update(self, chunk: bytes, /) -> object:
        """Take the next bytes."""

    def hexdigest(self) -> str:
        """Return the digest's hex digits."""


class VerifiedReader(io.RawIOBase):
    """A stream that counts and hashes what is read from it and refuses other bytes than promised.

    The comparison is made by :meth:`finish`, which also requires that everything was read: bytes
    that a decompressor does not look at would otherwise be bytes that nobody looked at.

    Args:
        stream: where the bytes come from; closed with the reader.
        what: how messages name the blob.
        digest: the promised digest, ``None`` where there is no promise.
        size: the promised number of bytes, likewise.
        progress: called with the number of bytes of each read.
    """

    def __init__(
        self,
        stream: BinaryIO,
        *,
        what: str,
        digest: Digest | None,
        size: int | None,
        progress: Callable[[int], object] | None = None,
    ) -> None:
        super().__init__()
        self._stream = stream
        self._what = what
        self._digest = digest
        self._size = size
        self._hasher: Hasher | None = digest.hasher() if digest is not None else None
        self._progress = progress
        self._pushed = b""
        self.count = 0

    def head(self, size: int) -> bytes:
        """Return the first `size` bytes, fewer only where there are no more; they are read again."""
        while len(self._pushed) < size and (more := self._next(size - len(self._pushed))):
            self._pushed += more
        return self._pushed[:size]

    def readable(self) -> bool:
        """Return that this is a stream to read from."""
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Read into `buffer`; returns the number of bytes, 0 at the end."""
        content = self.read(memoryview(buffer).nbytes)
        buffer[: len(content)] = content
        return len(content)

    def read(self, size: int = -1, /) -> bytes:
        """Read up to `size` bytes."""
        if self._pushed:
            cut = len(self._pushed) if size < 0 else size
            content, self._pushed = self._pushed[:cut], self._pushed[cut:]
            return content
        return self._next(size)

    def _next(self, size: int) -> bytes:
        """Read from the stream below; count, hash and tell."""
        content = self._stream.read(size if size >= 0 else -1)
        if content:
            self.count += len(content)
            if self._size is not None and self.count > self._size:
                raise DigestMismatch(
                    f"{self._what} has more bytes than promised: expected={self._size} found>{self._size}"
                )
            if self._hasher is not None:
                self._hasher.update(content)
            if self._progress is not None:
                self._progress(len(content))
        return content

    def finish(self) -> None:
        """Require the end of the stream, the promised size and the promised digest.

        Raises:
            DigestMismatch: size or digest differ.
            ImageError: bytes are left that nothing has read.
        """
        if self.read(1):
            raise ImageError(f"{self._what} has bytes after the end of its compressed data")
        if self._size is not None and self.count != self._size:
            raise DigestMismatch(
                f"{self._what} is cut: expected={self._size} bytes found={self.count}"
            )
        if self._digest is not None and self._hasher is not None:
            found = self._hasher.hexdigest()
            if found != self._digest.encoded:
                raise DigestMismatch(
                    f"{self._what} has other bytes than promised: "
                    f"expected={self._digest} found={self._digest.algorithm}:{found}",
                    hint="the source is damaged or lies; get the image again",
                )

    def close(self) -> None:
        """Close the stream below."""
        self._stream.close()
        super().close()


def read_document(
    stream: BinaryIO, *, what: str, digest: Digest | None, size: int | None, limit: int
) -> bytes:
    """Read one small blob whole and verify it.

    Raises:
        ImageError: it is larger than `limit` bytes, or not what was promised.
    """
    reader = VerifiedReader(stream, what=what, digest=digest, size=size)
    with reader:
        if size is not None and size > limit:
            raise ImageError(f"{what} claims {size} bytes; such a document has at most {limit}")
        pieces = []
        while piece := reader.read(CHUNK):
            pieces.append(piece)
            if reader.count > limit:
                raise ImageError(f"{what} has more than {limit} bytes")
        reader.finish()
    return b"".join(pieces)
