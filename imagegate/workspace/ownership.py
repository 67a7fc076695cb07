"""What proves that a folder was written by imagegate, so that it may be replaced.

A folder with anything else in it is somebody's work, and is refused and never removed. The proof
is the folder's own content: no list beside it, which could be older or younger than the folder.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from imagegate.errors import ImageError, UsageError
from imagegate.localfiles import read_regular
from imagegate.oci.documents import OCI_LAYOUT_OWNER
from imagegate.oci.strictjson import read_object

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

_BLOB = re.compile(r"blobs(?:/[a-z0-9]+(?:/[0-9a-f]{32,})?)?")
_LAYOUT_FILES = ("oci-layout", "index.json")


def require_own(folder: Path, foreign: Callable[[Path], str], where: str) -> None:
    """Require that a folder is free, empty or imagegate's.

    Args:
        folder: where something will be written.
        foreign: says what in it is not imagegate's, ``""`` for nothing.
        where: how messages name the folder.

    Raises:
        UsageError: it is somebody else's, or is not a folder.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"`{where}` is not a folder", hint="move it away; nothing was changed")
    if not any(folder.iterdir()):
        return
    found = foreign(folder)
    if found:
        raise UsageError(
            f"`{where}` is not replaced: {found}",
            hint="move it away or remove it yourself; nothing was changed",
        )


def require_own_record(path: Path, where: str) -> None:
    """Require that a JSON record is free or imagegate's.

    Args:
        path: where a record will be written.
        where: how messages name it.

    Raises:
        UsageError: what is there was not written by imagegate.
    """
    if (path.exists() or path.is_symlink()) and not _is_record(path):
        raise UsageError(
            f"`{where}` is not replaced: imagegate did not write it",
            hint="move it away or remove it yourself; nothing was changed",
        )


def require_own_dockerfile(path: Path, layout: Path, record: Path, where: str) -> None:
    """Require that a kept Dockerfile is free, or stands beside a build of imagegate's.

    Its text says nothing of who wrote it; the build that it belongs to does, which is always
    written first.

    Raises:
        UsageError: nothing beside it was built by imagegate.
    """
    if not (path.exists() or path.is_symlink()):
        return
    built = layout.is_dir() and any(layout.iterdir()) and not foreign_in_layout(layout)
    if not path.is_file() or not (built or _is_record(record)):
        raise UsageError(
            f"`{where}` is not replaced: imagegate did not write it",
            hint="move it away or remove it yourself; nothing was changed",
        )


def _is_record(path: Path) -> bool:
    try:
        document = read_object(read_regular(path), "the record")
    except (OSError, ImageError):
        return False
    # the earliest records have no schema
    return str(document.get("schema")).startswith("imagegate-") or (
        "digest" in document and "imagegate" in document
    )


def foreign_in_layout(folder: Path) -> str:
    """Say what in a folder is not of an OCI layout that imagegate wrote."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (name in _LAYOUT_FILES or _BLOB.fullmatch(name)):
            return f"imagegate did not write `{name}` in it"
    try:
        index = read_object(read_regular(folder / "index.json"), "index.json")
    except (OSError, ImageError):
        return "imagegate did not write it: it has no `index.json` that can be read"
    annotations = index.get("annotations")
    if isinstance(annotations, dict) and OCI_LAYOUT_OWNER in annotations:
        return ""
    record = folder.with_name(f"{folder.name}.build.json")
    if _built(record) in _digests(index):
        return ""  # before layouts named who wrote them
    return "it is an OCI layout that imagegate did not write"


def foreign_in_lock(names: Collection[str], proof: str) -> Callable[[Path], str]:
    """Return what says what in a folder is not of a lock.

    Args:
        names: the files that locks have had.
        proof: the one without which it is not a lock.
    """

    def foreign(folder: Path) -> str:
        for path in sorted(folder.iterdir()):
            if path.name not in names or path.is_symlink() or not path.is_file():
                return f"imagegate did not write `{path.name}` in it"
        return "" if (folder / proof).exists() else f"it is not a lock: it has no `{proof}`"

    return foreign


def _built(record: Path) -> str:
    try:
        return str(read_object(read_regular(record), "the record").get("digest"))
    except (OSError, ImageError):
        return ""


def _digests(index: dict[str, object]) -> list[str]:
    entries = index.get("manifests")
    return [
        str(entry.get("digest"))
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict)
    ]
