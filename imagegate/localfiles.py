"""Opening files of this machine that somebody else may have put there: one way for all of them.

A pipe that nobody writes to would hold the program for ever, and a device has no end. So a file is
opened without waiting, and has to be a regular one (links to one are followed) of a bounded size.
Failures are plain :class:`OSError`, whose ``strerror`` says what is wrong in words for a message.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# recipes, Dockerfiles, ignore files, keys, settings: what people write by hand
TEXT_LIMIT = 16 << 20
_CHUNK = 1 << 20
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: Path) -> io.FileIO:
    """Open a regular file for reading, unbuffered, without ever waiting for it.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(error.errno, "it is a socket, not a regular file", str(path)) from error
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(number, f"it is {kind}, not a regular file", str(path))
    return io.FileIO(descriptor, "rb")


def read_regular(path: Path, *, limit: int = TEXT_LIMIT) -> bytes:
    """Read a regular file whole.

    Args:
        path: the file.
        limit: the largest size in bytes.

    Raises:
        OSError: it cannot be read, is not a regular file, or is larger.
    """
    pieces = []
    left = limit
    with open_regular(path) as stream:
        while piece := stream.read(min(_CHUNK, left + 1)):
            pieces.append(piece)
            left -= len(piece)
            if left < 0:
                raise OSError(
                    errno.EFBIG, f"it has more than {limit} bytes, the limit of its kind", str(path)
                )
    return b"".join(pieces)


def read_regular_text(path: Path, *, limit: int = TEXT_LIMIT) -> str:
    """Read a regular file of UTF-8 text, line ends made LF.

    Raises:
        OSError: as for :func:`read_regular`.
        UnicodeDecodeError: it is not UTF-8.
    """
    text = read_regular(path, limit=limit).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
