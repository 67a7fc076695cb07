"""Folders with locks, in a workspace or wherever they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.errors import ImageError, LockError
from imagegate.localfiles import read_regular
from imagegate.lock import BASE, CONTENTS, decode_base, decode_lock, named_base
from imagegate.lock.base import FILES
from imagegate.oci.documents import parse_json
from imagegate.workspace.access import FileAccess

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from imagegate.lock import BaseLock, Lock
    from imagegate.lock.sealed import FileContent
    from imagegate.oci.digest import Digest

# a path index of the largest base has some tens of megabytes, compressed
_LIMIT = 256 << 20


def read_lock_files(folder: Path, where: str) -> dict[str, bytes]:
    """Read the files of a lock; the paths of a base lock are left out.

    Raises:
        LockError: one cannot be read.
    """
    try:
        paths = [path for path in folder.iterdir() if path.is_file()]
        of_base = any(path.name == BASE for path in paths) and not any(
            path.name == CONTENTS for path in paths
        )
        # the index of a base is read by the block
        return {
            path.name: read_regular(path, limit=_LIMIT)
            for path in paths
            if not (of_base and path.name == FILES)
        }
    except OSError as error:
        raise LockError(f"cannot read `{where}`: {error}") from error


def base_files(folder: Path, files: Mapping[str, bytes]) -> dict[str, FileContent]:
    """Add the paths of a base lock, read by the block, to its other files."""
    return {**files, FILES: FileAccess(folder / FILES)}


def is_lock_folder(folder: Path) -> bool:
    """Say whether a folder looks like a recipe's lock or a base's."""
    return (folder / CONTENTS).is_file() or (folder / BASE).is_file()


def read_lock_folder(folder: Path, bases: Path | None) -> Lock | BaseLock:
    """Read a recipe's lock or a base's from the folder that it lies in.

    Args:
        folder: the lock's folder.
        bases: where base locks are looked for that do not lie beside it.

    Raises:
        LockError: it is missing, damaged or edited, or its base's lock is nowhere.
    """
    files, where = read_lock_files(folder, str(folder)), str(folder)
    if CONTENTS not in files:
        return decode_base(base_files(folder, files), where)
    try:
        name = str(parse_json(files[CONTENTS], f"`{where}/{CONTENTS}`").get("name"))
    except ImageError as error:
        raise LockError(error.message) from error
    named = named_base(name, files, where)
    if named is None:
        return decode_lock(name, files, where, None)
    return decode_lock(name, files, where, _base_beside(folder, bases, named.digest))


def _base_beside(folder: Path, bases: Path | None, digest: Digest) -> BaseLock:
    looked = [folder.resolve().parent / "bases", *([bases] if bases is not None else [])]
    for place in looked:
        found = place / f"{digest.algorithm}-{digest.encoded}"
        if (found / BASE).is_file():
            return decode_base(base_files(found, read_lock_files(found, str(found))), str(found))
    raise LockError(
        f"`{folder}` stands on the base {digest}, whose lock is not there",
        hint=f"it is looked for in {', '.join(f'`{place}`' for place in looked)}",
    )
