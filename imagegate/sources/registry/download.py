"""A blob's bytes from a connection that may break (RFC 9110, section 14, range requests)."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from imagegate.errors import FetchError
from imagegate.sources.registry.retry import Backoff, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from imagegate.sources.registry.retry import Clock
    from imagegate.sources.registry.wire import Answer, Body

_CHUNK = 1 << 20
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(?:\d+|\*)")


class ResumingReader(io.RawIOBase):
    """Reads a blob; where the connection breaks, the rest is asked for by range.

    A server without ranges sends the blob from its start again, and what was read is passed over.
    Attempts that bring no new byte are counted; any new byte starts the count again.

    Args:
        open_at: asks for the blob from an offset on; status 200 or 206, with a body.
        size: the blob's promised size in bytes, which tells a cut from an end.
        clock: waits between attempts.
    """

    def __init__(self, open_at: Callable[[int], Answer], *, size: int, clock: Clock) -> None:
        super().__init__()
        self._open_at = open_at
        self._size = size
        self._backoff = Backoff(clock)
        self._position = 0
        self._skip = 0
        self._body: Body | None = self._connect()

    def readable(self) -> bool:
        """Return that this is a stream to read from."""
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Read into `buffer`; returns the number of bytes, 0 at the end."""
        content = self.read(memoryview(buffer).nbytes)
        buffer[: len(content)] = content
        return len(content)

    def read(self, size: int = -1, /) -> bytes:
        """Read `size` bytes, fewer at the end only; all that are left where `size` is negative.

        Raises:
            FetchError: the connection broke, and no attempt to resume brought a further byte.
        """
        pieces = []
        left = size
        while left:
            content = self._some(min(left, _CHUNK) if left > 0 else _CHUNK)
            if not content:
                break
            pieces.append(content)
            if left > 0:
                left -= len(content)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Close the connection."""
        if self._body is not None:
            self._body.close()
        super().close()

    def _some(self, size: int) -> bytes:
        """Return up to `size` new bytes, nothing at the end."""
        while True:
            try:
                if self._body is None:
                    self._body = self._connect()
                content = self._body.read(min(size, self._skip) if self._skip else size)
                if not content and self._position < self._size:
                    raise self._cut()
            except TransientError as error:
                if self._position >= self._size:
                    # everything is here; what broke is only the connection's end
                    return b""
                self._drop()
                self._backoff.wait(self._at_position(error))
                continue
            if self._skip:
                self._skip -= len(content)
                continue
            if content:
                self._position += len(content)
                self._backoff.reset()
            return content

    def _connect(self) -> Body:
        answer = self._open_at(self._position)
        assert answer.body is not None
        start = 0
        if answer.status == 206:
            found = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", "").strip())
            if not found or int(found[1]) > self._position:
                answer.body.close()
                raise FetchError(
                    f"`{answer.where}` answers another range than asked for: "
                    f"asked={self._position} answered=`{answer.headers.get('content-range')}`",
                    hint="the registry or a proxy before it handles ranges wrongly",
                )
            start = int(found[1])
        self._skip = self._position - start
        self._where = answer.where
        return answer.body

    def _drop(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None

    def _cut(self) -> TransientError:
        return TransientError(
            f"`{self._where}` ended early",
            hint="the network or the registry cuts connections; run again",
        )

    def _at_position(self, error: TransientError) -> TransientError:
        return TransientError(
            f"{error.message}: expected={self._size} bytes received={self._position}",
            hint=error.hint,
            retry_after=error.retry_after,
        )
