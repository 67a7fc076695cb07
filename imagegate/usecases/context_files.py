"""A build context and its ignore files, as they lie on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from imagegate.coverage.golang.paths import clean
from imagegate.coverage.tree import Context, Node, directory, file, link, special
from imagegate.errors import CoverageError

if TYPE_CHECKING:
    from imagegate.coverage.sending.client import Client


def read_context(folder: Path, name: str = "") -> Context:
    """Read the names, kinds and sizes of a context; contents are read when they are asked for.

    Raises:
        CoverageError: `folder` is no readable directory.
    """
    if not folder.is_dir():
        raise CoverageError(
            f"no build context `{folder}`", hint="give the folder that the builder is given"
        )
    root = directory()
    try:
        _scan(os.fspath(folder), root)
    except OSError as unreadable:
        raise CoverageError(f"the context cannot be read: {unreadable}") from unreadable

    def open_file(path: str) -> BinaryIO:
        try:
            return (folder / path).open("rb")
        except OSError as unreadable:
            raise CoverageError(f"`{path}` of the context: {unreadable.strerror}") from unreadable

    return Context(root=root, open=open_file, name=name, location=str(folder))


def _scan(top: str, root: Node) -> None:
    waiting = [(top, root)]
    while waiting:
        folder, node = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    node.children[entry.name] = link(os.fsdecode(Path(entry.path).readlink()))
                elif entry.is_dir(follow_symlinks=False):
                    child = node.children[entry.name] = directory()
                    waiting.append((entry.path, child))
                elif entry.is_file(follow_symlinks=False):
                    node.children[entry.name] = file(size=entry.stat(follow_symlinks=False).st_size)
                else:
                    node.children[entry.name] = special()


def label_of(path: Path) -> str:
    """Return how messages name a file: the path that was given, cleaned."""
    return clean(path.as_posix())


def read_bytes(path: Path, missing: str) -> bytes:
    """Read a file.

    Raises:
        CoverageError: it cannot be read; `missing` is the message where there is none.
    """
    try:
        return path.read_bytes()
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
