"""A build context and its ignore files, as they lie on disk."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from imagegate.coverage.golang.paths import clean
from imagegate.coverage.tree import Context, Kind, Node, file, link, special
from imagegate.errors import CoverageError
from imagegate.localfiles import open_regular, read_regular

if TYPE_CHECKING:
    from imagegate.coverage.sending.client import Client


class _Folder(Node):
    """A folder of a context that is read when its entries are asked for, and once.

    What no walk enters is never read: the folders that an ignore file keeps a builder out of cost
    nothing, whatever they hold.
    """

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        super().__init__(kind=Kind.DIRECTORY)
        self._place = place
        # an empty slot is asked for through `__getattr__`, once; then it is as quick as any other
        del self.children

    def __getattr__(self, name: str) -> dict[str, Node]:
        if name != "children":
            raise AttributeError(name)
        try:
            self.children = _entries(self._place)
        except OSError as unreadable:
            raise CoverageError(f"the context cannot be read: {unreadable}") from unreadable
        return self.children


def read_context(folder: Path, name: str = "") -> Context:
    """Open a context; names, kinds, sizes and contents are read when they are asked for.

    Raises:
        CoverageError: `folder` is not a readable directory, also later, when a folder is entered
            that cannot be read.
    """
    if not folder.is_dir():
        raise CoverageError(
            f"no build context `{folder}`", hint="give the folder that the builder is given"
        )
    root = _Folder(os.fspath(folder))
    _ = root.children  # whether it can be read at all is heard of before anything else

    def open_file(path: str) -> BinaryIO:
        try:
            return io.BufferedReader(open_regular(folder / path))
        except OSError as unreadable:
            raise CoverageError(f"`{path}` of the context: {unreadable.strerror}") from unreadable

    return Context(root=root, open=open_file, name=name, location=str(folder))


def _entries(folder: str) -> dict[str, Node]:
    found: dict[str, Node] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                found[entry.name] = file(size=entry.stat(follow_symlinks=False).st_size)
            elif entry.is_dir(follow_symlinks=False):
                found[entry.name] = _Folder(entry.path)
            elif entry.is_symlink():
                found[entry.name] = link(str(Path(entry.path).readlink()))
            else:
                found[entry.name] = special()
    return found


def label_of(path: Path) -> str:
    """Return how messages name a file: the path that was given, cleaned."""
    return clean(path.as_posix())


def read_bytes(path: Path, missing: str) -> bytes:
    """Read a file.

    Raises:
        CoverageError: it cannot be read; `missing` is the message where there is none.
    """
    try:
        return read_regular(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as absent:
        raise CoverageError(missing) from absent
    except OSError as unreadable:
        raise CoverageError(f"`{path}` cannot be read: {unreadable}") from unreadable


def ignore_bytes(place: Path, client: Client) -> bytes | None:
    """Return the bytes of an ignore file; a folder of that name is none for BuildKit only."""
    if place.is_dir():
        if client.skips_folders:
            return None
        raise CoverageError(f"`{place}` is a folder", hint="this builder wants a file there")
    if not place.exists():
        return None
    return read_bytes(place, f"no ignore file `{place}`")
