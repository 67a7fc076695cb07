"""One writer at a time, of all processes (flock(2)).

Linux passes such locks on to the server of an NFS mount, so that they hold between hosts too; an
NFS mount with ``nolock`` or ``local_lock=flock`` keeps them to one host. Where a file system has
none at all, this is an error: two writers could lose one another's work.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from imagegate.errors import ImagegateError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_STEP = 0.02


class BusyError(ImagegateError):
    """Another process holds what has to be written."""


@contextmanager
def exclusive(path: Path, what: str, *, patience: float) -> Iterator[None]:
    """Hold a file or folder alone while the block runs.

    Args:
        path: a lock file, which is made where it does not exist and stays; or a folder.
        what: how messages name what is held.
        patience: seconds to wait for another process.

    Raises:
        BusyError: another process held it for that long.
        ImagegateError: the file system has no locks.
        OSError: the file cannot be opened.
    """
    descriptor = _open(path)
    try:
        end = time.monotonic() + patience
        while not _taken(descriptor, path):
            if time.monotonic() >= end:
                raise BusyError(
                    f"another process is writing {what} (it holds `{path}`)",
                    hint="wait for it, then run again",
                )
            time.sleep(_STEP)
        yield
    finally:
        # closing lets go; so does the end of the process, however it comes
        os.close(descriptor)


def _open(path: Path) -> int:
    if path.is_dir():
        # an NFS server gives an exclusive lock only on what is open for writing: a file then
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EBADF, errno.EINVAL, errno.EISDIR):
                os.close(descriptor)
                path = path / ".imagegate.lock"
            else:
                return descriptor
        else:
            return descriptor
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)


def _taken(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise ImagegateError(
            f"the file system of `{path}` has no locks between processes: {error.strerror}",
            hint="on NFS, mount with locking (nfsvers=4, or without `nolock`)",
        ) from error
    return True
