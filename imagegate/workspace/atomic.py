"""Replacing files and folders so that a reader sees the old one or the new one, never half."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from imagegate.workspace.ownership import require_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# renameat2(2): exchange the two paths in one step
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_SUFFIX = ".new"


def write_file(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Replace a file; a crash at any moment leaves the old or the new one.

    A file that is there keeps its mode, and a link stays: what it leads to is replaced.

    Args:
        path: the file.
        content: its new bytes.
        mode: of a new file.

    Raises:
        OSError: it cannot be written, or is not a regular file.
    """
    if path.is_symlink():
        path = path.resolve()
    try:
        found = path.stat().st_mode
    except FileNotFoundError:
        pass
    else:
        if not stat.S_ISREG(found):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        mode = stat.S_IMODE(found)
    _sweep(path)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=_prefix(path), suffix=_SUFFIX)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        Path(name).replace(path)
    except BaseException as error:
        _name(error, path)
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise
    _sync_folder(path.parent)


@contextlib.contextmanager
def new_folder(path: Path, foreign: Callable[[Path], str]) -> Iterator[Path]:
    """Fill a folder beside `path`; put it in `path`'s place when the block ends well.

    The block gets the new, empty folder. When the block raises, the old folder stays as it was.
    Where `path` is a link to a folder, that folder is replaced and the link stays.

    Args:
        path: where the folder will be.
        foreign: says what in a folder that is there is not imagegate's; see
            :func:`imagegate.workspace.ownership.require_own`.

    Raises:
        UsageError: what is there is somebody else's.
    """
    where = str(path)
    if path.is_symlink():
        path = path.resolve()
    require_own(path, foreign, where)
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    fresh = Path(tempfile.mkdtemp(dir=path.parent, prefix=_prefix(path), suffix=_SUFFIX))
    fresh.chmod(0o755)
    try:
        yield fresh
        _sync_tree(fresh)
        # somebody may have put something there meanwhile
        require_own(path, foreign, where)
        if path.exists():
            fresh.chmod(stat.S_IMODE(path.stat().st_mode))
        _swap(fresh, path)
    except OSError as error:
        _name(error, path)
        raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def write_folder(path: Path, files: Mapping[str, bytes], foreign: Callable[[Path], str]) -> None:
    """Replace a folder by one that holds exactly these files; see :func:`new_folder`."""
    with new_folder(path, foreign) as fresh:
        for name, content in files.items():
            (fresh / name).write_bytes(content)


def _name(error: BaseException, path: Path) -> None:
    """Say what could not be written: a full disk fails a write that knows no path."""
    if isinstance(error, OSError) and error.filename is None:
        error.filename = str(path)


def _swap(fresh: Path, path: Path) -> None:
    """Exchange two folders, or move the new one to a place that is free."""
    if not path.exists():
        fresh.rename(path)
    elif not _exchange(fresh, path):
        # no such system call here: the old folder keeps its bytes under the other name until
        # the new one stands
        old = fresh.with_suffix(".old")
        path.rename(old)
        try:
            fresh.rename(path)
        except OSError:
            old.rename(path)
            raise
        old.rename(fresh)
    _sync_folder(path.parent)


def _exchange(one: Path, other: Path) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    result = libc.renameat2(
        _AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE
    )
    if result == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(number, os.strerror(number), str(other))


def _prefix(path: Path) -> str:
    return f".{path.name}.{os.getpid()}-"


def _sweep(path: Path) -> None:
    """Remove what killed processes have left beside `path`; a living one's is left alone."""
    for left in path.parent.glob(f".{path.name}.*{_SUFFIX}"):
        number = left.name.removeprefix(f".{path.name}.").partition("-")[0]
        if not number.isdigit() or _is_alive(int(number)):
            continue
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _sync_tree(folder: Path) -> None:
    for found in folder.rglob("*"):
        if found.is_file():
            descriptor = os.open(found, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
