"""Finding files inside an uncompressed tar without reading them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from imagegate.oci.tar import Kind, Scanner, want_nothing
from imagegate.oci.tarattributes import Damage
from imagegate.oci.tarcursor import FileCursor

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One entry of an archive.

    Attributes:
        path: in the form that :class:`imagegate.oci.tar.TarEntry` has.
        offset: where a file's bytes begin, counted from the start of the archive.
        size: how many they are.
        target: what a link says; the normalised path of a hard link.
    """

    path: str
    kind: Kind
    offset: int
    size: int
    target: str


def locate_members(stream: BinaryIO, size: int) -> Iterator[Member]:
    """Yield the entries of a tar by reading its headers alone.

    Args:
        stream: the archive at its start; it can be wound.
        size: bytes of the archive.

    Raises:
        ImageError: the archive is cut, a header is broken, or a file in it is sparse.
    """
    locator = _Locator(FileCursor(stream, size), want_nothing, what="archive")
    for entry in locator.entries():
        yield Member(
            path=entry.path,
            kind=entry.kind,
            offset=locator.offset,
            size=entry.size,
            target=entry.target,
        )


class _Locator(Scanner):
    """Passes over contents and remembers where the last one began."""

    offset = 0

    def _content(self, path: str, stored: int) -> tuple[int, str]:
        self.offset = self._cursor.offset
        if not self._cursor.skip(stored):
            raise Damage(f"the archive ends inside `{path}`")
        self._pad(stored, stored)
        return stored, ""

    def _sparse(self, path: str, stored: int, _header: bytes) -> tuple[int, str]:
        raise Damage(
            f"`{path}` of {stored} stored bytes is sparse; no image archive has such files"
        )
