"""Reading tar streams: every entry, every byte, nothing skipped silently.

The standard library's reader stops without an error at a broken second header, at a cut between
two entries and at a lone zero block; a gate that reads with it can miss files. This scanner reads
ustar (POSIX.1-1988), pax (POSIX.1-2001), GNU long names and base-256 numbers, and GNU sparse
files in all four forms; it requires the end marker and refuses what comes after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from imagegate.errors import ImageError
from imagegate.oci.tarattributes import Damage, attributes_of
from imagegate.oci.tarcursor import Cursor
from imagegate.oci.tarheader import (
    BLOCK,
    check_sum,
    decimal,
    link_text,
    name_of,
    normal_path,
    number,
    pax_records,
    refuse_meaning,
    text_of,
)
from imagegate.oci.tarsparse import expand, head_of, is_sparse, read_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# a pax header holds a path and xattrs (each at most 64 KiB on Linux); a larger one is an attack
_HEADER_LIMIT = 4 << 20
# a hole costs the reader time and the writer nothing, so holes alone have a limit, one a layer
_HOLE_LIMIT = 512 << 20
_HEAD = 64
_ZERO_BLOCK = bytes(BLOCK)


class Kind(StrEnum):
    """What a path is; the values are the letters of an index line."""

    FILE = "f"
    DIRECTORY = "d"
    SYMLINK = "l"
    HARDLINK = "h"
    CHARACTER = "c"
    BLOCK = "b"
    FIFO = "p"


_KINDS = {
    b"0": Kind.FILE,
    b"\0": Kind.FILE,
    b"7": Kind.FILE,
    b"S": Kind.FILE,
    b"1": Kind.HARDLINK,
    b"2": Kind.SYMLINK,
    b"3": Kind.CHARACTER,
    b"4": Kind.BLOCK,
    b"5": Kind.DIRECTORY,
    b"6": Kind.FIFO,
}
_EXTENDED = frozenset({b"x", b"g", b"L", b"K"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TarEntry:
    """One entry of a layer's tar, in the order in which it stands there.

    Attributes:
        path: without leading or trailing slash, ``.`` and empty parts removed; ``""`` is the root.
        size: logical bytes of a regular file, 0 for all else.
        sha256: hex digest of a regular file's logical bytes, ``""`` for all else.
        target: what a symbolic link says, verbatim; the normalised path of a hard link.
        xattrs: extended attributes and ACLs, by name; see :mod:`imagegate.oci.tarattributes`.
    """

    path: str
    kind: Kind
    mode: int
    uid: int
    gid: int
    size: int = 0
    sha256: str = ""
    target: str = ""
    xattrs: tuple[tuple[str, bytes], ...] = ()


class Sink(Protocol):
    """Receives a wanted file's bytes in order."""

    def write(self, chunk: bytes | memoryview, /) -> object:
        """Take the next bytes."""


class Want(Protocol):
    """Decides which files' bytes somebody needs."""

    def __call__(self, path: str, size: int, head: bytes, /) -> Sink | None:
        """Return where the file's bytes go.

        `head` holds the file's first 64 bytes, fewer only where the file is smaller or, for a
        sparse file, where its first segment or hole is.
        """


def want_nothing(_path: str, _size: int, _head: bytes, /) -> None:
    """Want no file's bytes."""


def scan_tar(
    chunks: Iterable[bytes], want: Want = want_nothing, *, hole_limit: int = _HOLE_LIMIT
) -> Iterator[TarEntry]:
    """Yield the entries of one tar stream and hash every file in it.

    Args:
        chunks: the uncompressed stream in pieces of any size.
        want: asked once for each regular file; its sink gets the bytes before the entry is yielded.
        hole_limit: bytes to which the holes of all sparse files may add up.

    Raises:
        ImageError: the stream is cut, a header is broken or read differently by readers in use,
            or bytes follow the end marker.
    """
    return Scanner(Cursor(chunks), want, what="layer", hole_limit=hole_limit).entries()


class Scanner:
    """The state of one pass: the cursor, and what extended headers said of the entry to come.

    Args:
        cursor: where the stream stands.
        want: as for :func:`scan_tar`.
        what: how messages name the stream.
        hole_limit: as for :func:`scan_tar`.
    """

    def __init__(
        self, cursor: Cursor, want: Want, *, what: str, hole_limit: int = _HOLE_LIMIT
    ) -> None:
        self._cursor = cursor
        self._what = what
        self._want = want
        self._holes = 0
        self._hole_limit = hole_limit
        self._records: dict[str, bytes] = {}
        self._flags: set[bytes] = set()

    def entries(self) -> Iterator[TarEntry]:
        """Yield every entry; see :func:`scan_tar`."""
        cursor = self._cursor
        start = 0
        try:
            while True:
                start = cursor.offset
                header = self._header()
                if header is None:
                    return
                flag = header[156:157]
                if flag in _EXTENDED:
                    self._extend(header, flag)
                    continue
                yield self._entry(header, flag)
                if self._flags:
                    self._records, self._flags = {}, set()
        except Damage as damage:
            raise ImageError(
                f"malformed {self._what}: {damage} (at byte {start} of the uncompressed tar)"
            ) from damage

    def _header(self) -> bytes | None:
        """Return the next header, or ``None`` after the end-of-archive marker."""
        header = self._cursor.take(BLOCK)
        if len(header) < BLOCK:
            raise Damage("the stream ends without the end-of-archive marker")
        if header[:1] == b"\0" and header == _ZERO_BLOCK:
            self._finish()
            return None
        check_sum(header)
        return header

    def _finish(self) -> None:
        if self._flags:
            raise Damage("an extended header is followed by no entry")
        if self._cursor.take(BLOCK) != _ZERO_BLOCK:
            raise Damage("one zero block instead of the end-of-archive marker's two")
        while rest := self._cursor.take(1 << 20):
            if rest.count(0) != len(rest):
                raise Damage("bytes follow the end-of-archive marker")

    def _extend(self, header: bytes, flag: bytes) -> None:
        """Read a pax (``x``, ``g``) or GNU long name (``L``, ``K``) header."""
        size = number(header[124:136], "size")
        if size > _HEADER_LIMIT:
            raise Damage(f"an extended header claims {size} bytes")
        content = self._cursor.take(size)
        self._pad(size, len(content))
        if flag == b"g":
            if self._flags:
                raise Damage("a global header stands between an entry and its extended header")
            refuse_meaning(pax_records(content))
            return
        # of two pax headers some readers merge and some forget the first
        if flag in self._flags:
            raise Damage(f"two headers of type `{flag.decode()}` in front of one entry")
        self._flags.add(flag)
        if flag == b"x":
            found = pax_records(content)
        else:
            found = {"path" if flag == b"L" else "linkpath": text_of(content)}
        for key, value in found.items():
            if self._records.setdefault(key, value) != value:
                raise Damage(f"a pax and a GNU header disagree on an entry's `{key}`")

    def _entry(self, header: bytes, flag: bytes) -> TarEntry:
        records = self._records
        sparse = bool(records or flag == b"S") and is_sparse(flag, records)
        raw = records.get("path") or name_of(header)
        if sparse:
            raw = records.get("GNU.sparse.name") or raw
        path = normal_path(raw)
        kind = _kind(flag, raw, path)
        stored = decimal(records, "size") if records else None
        claimed = stored is not None
        if stored is None:
            stored = number(header[124:136], "size")
        size, digest, target = 0, "", ""
        if kind is Kind.FILE:
            size, digest = (
                self._sparse(path, stored, header) if sparse else self._content(path, stored)
            )
        elif sparse:
            raise Damage(f"`{path}` is not a file and claims to be sparse")
        elif stored and (claimed or kind is not Kind.HARDLINK):
            # readers differ on whether bytes follow; only a hard link's size means nothing to all
            raise Damage(f"`{path}` is not a file and claims {stored} bytes")
        elif kind is Kind.SYMLINK:
            target = link_text(records.get("linkpath") or text_of(header[157:257]))
        elif kind is Kind.HARDLINK:
            target = normal_path(records.get("linkpath") or text_of(header[157:257]))
        uid = decimal(records, "uid") if records else None
        gid = decimal(records, "gid") if records else None
        return TarEntry(
            path=path,
            kind=kind,
            mode=number(header[100:108], "mode") & 0o7777,
            uid=number(header[108:116], "uid") if uid is None else uid,
            gid=number(header[116:124], "gid") if gid is None else gid,
            size=size,
            sha256=digest,
            target=target,
            xattrs=attributes_of(records, path) if records else (),
        )

    def _content(self, path: str, stored: int) -> tuple[int, str]:
        """Read one file's bytes; returns its size and SHA-256."""
        cursor = self._cursor
        sink = self._want(path, stored, cursor.head(min(stored, _HEAD)))
        whole = cursor.whole(stored)
        if whole is not None:
            digest = sha256(whole)
            read = stored
            if sink is not None:
                sink.write(whole)
        else:
            digest = sha256()
            read = 0
            for piece in cursor.pieces(stored):
                digest.update(piece)
                read += len(piece)
                if sink is not None:
                    sink.write(piece)
        self._pad(stored, read)
        return stored, digest.hexdigest()

    def _sparse(self, path: str, stored: int, header: bytes) -> tuple[int, str]:
        """Expand one sparse file; returns its logical size and the SHA-256 of that."""
        sparse = read_map(header, self._records, self._cursor)
        if sparse.stored != stored - sparse.taken:
            raise Damage(f"the sparse map of `{path}` does not fit its stored size")
        self._holes += sparse.size - sparse.stored
        if self._holes > self._hole_limit:
            raise Damage(f"holes of sparse files add up to {self._holes} bytes at `{path}`")
        sink = self._want(path, sparse.size, head_of(sparse, self._cursor))
        digest = sha256()
        for piece in expand(sparse, self._cursor):
            digest.update(piece)
            if sink is not None:
                sink.write(piece)
        self._pad(stored, stored)
        return sparse.size, digest.hexdigest()

    def _pad(self, size: int, read: int) -> None:
        """Require that `size` bytes were read, then pass the padding to the next block."""
        if read != size or not self._cursor.skip(-size % BLOCK):
            raise Damage("the stream ends inside an entry")


def _kind(flag: bytes, raw: bytes, path: str) -> Kind:
    kind = _KINDS.get(flag)
    if kind is None:
        raise Damage(f"`{path}` has the unknown type {flag!r}")
    if kind is Kind.FILE and raw[-1:] == b"/":
        if flag != b"\0":
            raise Damage(
                f"the file `{path}` has a directory's name, which readers take differently"
            )
        return Kind.DIRECTORY  # the form of a directory before POSIX.1-1988
    if not path and kind is not Kind.DIRECTORY:
        raise Damage("an entry that is not a directory has no name")
    return kind
