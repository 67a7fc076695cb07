"""Temporary folders that do not outlive a killed process by more than one run.

Each is held by a lock (flock(2)) while its process lives, in whatever container; the next folder
that is made removes those that nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "imagegate-tmp-"
# a folder is not yet held in the moment after it is made
_YOUNG = 60.0


@contextmanager
def scratch_folder(below: Path | None = None) -> Iterator[Path]:
    """Give a new folder, which is removed afterwards.

    Args:
        below: where it is made; the system's temporary folder (``TMPDIR``) if ``None``.
    """
    parent = below if below is not None else Path(tempfile.gettempdir())
    _sweep(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield folder
    finally:
        os.close(descriptor)
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove this user's folders that no living process holds."""
    for left in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                status = os.fstat(descriptor)
                if status.st_uid != os.geteuid() or time.time() - status.st_mtime < _YOUNG:
                    continue
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)
