"""A file that is read in pieces."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

from imagegate.errors import LockError
from imagegate.localfiles import open_regular

if TYPE_CHECKING:
    from pathlib import Path


class FileAccess:
    """A file's bytes, read where they are asked for.

    It stays open: whoever replaces the file meanwhile does not change what is read here.

    Raises:
        LockError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        try:
            with open_regular(path) as opened:
                self._descriptor = os.dup(opened.fileno())
        except OSError as error:
            raise LockError(
                f"`{path.parent.name}/{path.name}` is missing or cannot be read: {error.strerror}",
                hint="restore it from version control, or lock again",
            ) from error
        weakref.finalize(self, os.close, self._descriptor)
        self._size = os.fstat(self._descriptor).st_size

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self._size

    def read_at(self, offset: int, size: int) -> bytes:
        """Return so many bytes from there, fewer where they end."""
        pieces = []
        while size > 0 and (piece := os.pread(self._descriptor, size, offset)):
            pieces.append(piece)
            offset, size = offset + len(piece), size - len(piece)
        return b"".join(pieces)
