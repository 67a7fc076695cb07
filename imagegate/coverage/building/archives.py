"""Tar archives that ADD unpacks: recognised by content, whatever the name says.

A builder decompresses what looks compressed and reads one tar header; if that works, it is an
archive. Members are listed here, never extracted.
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

from imagegate.coverage.building.placing import BuildFailureError, NotKnownError
from imagegate.coverage.golang.paths import clean, inside
from imagegate.coverage.tree import Node, directory, file, link, special

if TYPE_CHECKING:
    from imagegate.coverage.tree import Context

_COMPRESSED = {
    b"\x1f\x8b\x08": "gz",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
}
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_HEADER = 512


def list_members(
    context: Context, path: str, *, refuses_climbing: bool = False
) -> dict[str, Node] | None:
    """Return the members of the archive at `path` by their path, or ``None`` if it is none.

    Args:
        context: where it lies.
        path: its path there.
        refuses_climbing: a member above the root fails the build, instead of landing at it.

    Raises:
        BuildFailureError: such a member is there.
        NotKnownError: it is compressed in a way that is not read here.
    """
    with context.open(path) as opened:
        head = opened.read(_HEADER)
    if head.startswith(_ZSTANDARD):
        raise NotKnownError(
            f"`{path}` is compressed with zstandard and was not looked into", anything=True
        )
    packed = any(head.startswith(magic) for magic in _COMPRESSED)
    if not packed and (len(head) < _HEADER or not _is_tar_header(head)):
        return None
    try:
        with context.open(path) as opened, tarfile.open(fileobj=opened, mode="r:*") as archive:
            members = list(archive)
    except (tarfile.TarError, OSError, EOFError):
        return None
    for member in members:
        if refuses_climbing and f"{clean(member.name)}/".startswith("../"):
            raise BuildFailureError(f"`{path}`: invalid entry name `{member.name}`")
    return {inside(member.name): _node(member) for member in members if inside(member.name)}


def _is_tar_header(head: bytes) -> bool:
    """Tell whether the checksum field of a tar header holds (POSIX ustar, also old formats)."""
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _node(member: tarfile.TarInfo) -> Node:
    if member.isdir():
        return directory()
    if member.issym():
        return link(member.linkname)
    if member.isfile() or member.islnk():
        return file(size=member.size)
    return special()
