"""Reading tar streams: every entry, every byte, nothing skipped silently.

The standard library's reader stops without an error at a broken second header, at a cut between
two entries and at a lone zero block; a gate that reads with it can miss files. This scanner reads
ustar (POSIX.1-1988), pax (POSIX.1-2001), GNU long names and base-256 numbers, and GNU sparse
files in all four forms; it requires the end marker and refuses what comes after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from imagegate.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

BLOCK = 512
# a pax header holds a path and xattrs (each at most 64 KiB on Linux); a larger one is an attack
_HEADER_LIMIT = 4 << 20
# a hole costs the reader time and the writer nothing, so sparse files alone have a limit
_SPARSE_LIMIT = 64 << 30
_OCTAL = re.compile(rb"[0-7]+")
_ZERO_BLOCK = bytes(BLOCK)
_ZEROS = bytes(1 << 20)
_PLAIN_PATH = re.compile(r"(?!\.{1,2}(?:/|$))[^/\0]+(?:/(?!\.{1,2}(?:/|$))[^/\0]+)*")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TarEntry:
    """One entry of a layer's tar, in the order in which it stands there.

    Attributes:
        path: without leading or trailing slash, ``.`` and empty parts removed; ``""`` is the root.
        size: logical bytes of a regular file, 0 for all else.
        sha256: hex digest of a regular file's logical bytes, ``""`` for all else.
        target: what a symbolic link says, verbatim; the normalised path of a hard link.
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
        """Return where the file's bytes go; `head` holds its first (up to 64) bytes."""


def want_nothing(_path: str, _size: int, _head: bytes, /) -> None:
    """Want no file's bytes."""


def scan_tar(chunks: Iterable[bytes], want: Want = want_nothing) -> Iterator[TarEntry]:
    """Yield the entries of one tar stream and hash every file in it.

    Args:
        chunks: the uncompressed stream in pieces of any size.
        want: asked once for each regular file; its sink gets the bytes before the entry is yielded.

    Raises:
        ImageError: the stream is cut, a header is broken, or bytes follow the end marker.
    """
    return _Scanner(_Cursor(chunks), want).entries()


class _Cursor:
    """A position in a stream of chunks."""

    __slots__ = ("_at", "_chunk", "_chunks", "offset")

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._chunk = b""
        self._at = 0
        self.offset = 0

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer only at the end of the stream."""
        end = self._at + count
        if end <= len(self._chunk):
            piece = self._chunk[self._at : end]
            self._at = end
            self.offset += count
            return piece
        pieces = list(self.pieces(count))
        return b"".join(pieces)

    def pieces(self, count: int) -> Iterator[memoryview]:
        """Yield the next `count` bytes in pieces, fewer only at the end of the stream."""
        while count:
            if self._at == len(self._chunk):
                following = next(self._chunks, None)
                if following is None:
                    return
                self._chunk, self._at = following, 0
                continue
            end = min(self._at + count, len(self._chunk))
            piece = memoryview(self._chunk)[self._at : end]
            count -= len(piece)
            self.offset += len(piece)
            self._at = end
            yield piece

    def peek(self, count: int) -> bytes:
        """Return up to `count` bytes of the current chunk without moving."""
        if self._at == len(self._chunk):
            following = next(self._chunks, None)
            if following is None:
                return b""
            self._chunk, self._at = following, 0
        return self._chunk[self._at : self._at + count]


class _Scanner:
    """The state of one pass: the cursor, and what extended headers said."""

    def __init__(self, cursor: _Cursor, want: Want) -> None:
        self._cursor = cursor
        self._want = want
        self._global: dict[str, bytes] = {}

    def entries(self) -> Iterator[TarEntry]:
        extended: dict[str, bytes] = {}
        while True:
            start = self._cursor.offset
            header = self._cursor.take(BLOCK)
            if len(header) < BLOCK:
                raise _broken(start, "the stream ends without the end-of-archive marker")
            if header == _ZERO_BLOCK:
                self._finish(start, dangling=bool(extended))
                return
            _check(header, start)
            flag = header[156:157]
            if flag in b"xgLK" or flag == b"X":
                self._extend(header, flag, extended, start)
                continue
            yield self._entry(
                header, {**self._global, **extended} if extended or self._global else {}, start
            )
            extended = {}

    def _finish(self, start: int, *, dangling: bool) -> None:
        if dangling:
            raise _broken(start, "an extended header is followed by no entry")
        if self._cursor.take(BLOCK) != _ZERO_BLOCK:
            raise _broken(start, "one zero block instead of the end-of-archive marker's two")
        while rest := self._cursor.take(1 << 20):
            if rest.count(0) != len(rest):
                raise _broken(self._cursor.offset, "bytes follow the end-of-archive marker")

    def _extend(self, header: bytes, flag: bytes, extended: dict[str, bytes], start: int) -> None:
        """Read a pax (``x``, ``g``, Solaris' ``X``) or GNU (``L``, ``K``) header."""
        size = _number(header[124:136], "size", start)
        if size > _HEADER_LIMIT:
            raise _broken(start, f"an extended header claims {size} bytes")
        content = self._cursor.take(size)
        self._pad(size, len(content), start)
        if flag in b"LK":
            extended["path" if flag == b"L" else "linkpath"] = content.split(b"\0", 1)[0]
        elif flag == b"g":
            self._global.update(_pax_records(content, start))
        else:
            extended.update(_pax_records(content, start))

    def _entry(self, header: bytes, extended: Mapping[str, bytes], start: int) -> TarEntry:
        kind = _KINDS.get(header[156:157])
        raw = extended.get("GNU.sparse.name") or extended.get("path") or _name(header)
        path = normal_path(raw.decode("utf-8", "surrogateescape"))
        if kind is None:
            raise _broken(start, f"`{path}` has the unknown type {header[156:157]!r}")
        if kind is Kind.FILE and raw.endswith(b"/"):
            kind = Kind.DIRECTORY  # the form of a directory before POSIX.1-1988
        stored = _decimal(extended, "size", start)
        if stored is None:
            stored = _number(header[124:136], "size", start)
        size, digest = 0, ""
        if kind is Kind.FILE:
            size, digest = self._content(path, stored, header, extended, start)
        elif stored and kind is not Kind.HARDLINK:
            # some writers put a size on directories; the bytes would be read as a header
            raise _broken(start, f"`{path}` is no file and claims {stored} bytes")
        elif stored and extended.get("size") is not None:
            raise _broken(start, f"the hard link `{path}` claims {stored} bytes")
        return TarEntry(
            path=path,
            kind=kind,
            mode=_number(header[100:108], "mode", start) & 0o7777,
            uid=_either(extended, "uid", header[108:116], start),
            gid=_either(extended, "gid", header[116:124], start),
            size=size,
            sha256=digest,
            target=_target(kind, header, extended),
            xattrs=_xattrs(extended) if extended else (),
        )

    def _content(
        self, path: str, stored: int, header: bytes, extended: Mapping[str, bytes], start: int
    ) -> tuple[int, str]:
        """Read one file's bytes; returns its logical size and SHA-256."""
        cursor = self._cursor
        if (
            header[156:157] == b"S"
            or "GNU.sparse.major" in extended
            or "GNU.sparse.map" in extended
            or "GNU.sparse.size" in extended
        ):
            return self._sparse(path, stored, header, extended, start)
        sink = self._want(path, stored, cursor.peek(min(stored, 64)) if stored else b"")
        digest = sha256()
        read = 0
        for piece in cursor.pieces(stored):
            digest.update(piece)
            read += len(piece)
            if sink is not None:
                sink.write(piece)
        self._pad(stored, read, start)
        return stored, digest.hexdigest()

    def _sparse(
        self, path: str, stored: int, header: bytes, extended: Mapping[str, bytes], start: int
    ) -> tuple[int, str]:
        """Expand a GNU sparse file (tar manual, "Storing Sparse Files")."""
        consumed = 0
        if header[156:157] == b"S":
            segments, consumed = _old_sparse_map(header, self._cursor, start), 0
            size = _number(header[483:495], "real size", start)
        elif extended.get("GNU.sparse.major") == b"1":
            segments, consumed = _pax_sparse_map(self._cursor, start)
            size = _decimal(extended, "GNU.sparse.realsize", start) or 0
        else:
            numbers = extended.get("GNU.sparse.map", b"")
            values = [_digits(part, "sparse map", start) for part in numbers.split(b",") if part]
            segments = (
                list(zip(values[::2], values[1::2], strict=True)) if len(values) % 2 == 0 else []
            )
            if len(values) % 2:
                raise _broken(start, "a sparse map has an odd number of values")
            size = _decimal(extended, "GNU.sparse.size", start) or 0
        if size > _SPARSE_LIMIT:
            raise _broken(start, f"the sparse file `{path}` claims {size} bytes; that is not read")
        if sum(length for _, length in segments) != stored - consumed:
            raise _broken(start, f"the sparse map of `{path}` does not fit its stored size")
        sink = self._want(path, size, b"")
        digest = sha256()
        at = 0
        for offset, length in [*segments, (size, 0)]:
            if offset < at or offset + length > size:
                raise _broken(start, f"the sparse map of `{path}` is out of order")
            for piece in _zeros(offset - at):
                digest.update(piece)
                if sink is not None:
                    sink.write(piece)
            read = 0
            for chunk in self._cursor.pieces(length):
                digest.update(chunk)
                read += len(chunk)
                if sink is not None:
                    sink.write(chunk)
            if read != length:
                raise _broken(start, f"`{path}` is cut")
            at = offset + length
        self._pad(stored, stored, start)
        return size, digest.hexdigest()

    def _pad(self, size: int, read: int, start: int) -> None:
        """Require that `size` bytes were read, then pass the padding to the next block."""
        padding = -size % BLOCK
        if read != size or len(self._cursor.take(padding)) != padding:
            raise _broken(start, "the stream ends inside an entry")


def normal_path(raw: str) -> str:
    """Bring an entry's name into the one form that paths have here.

    Raises:
        ImageError: the name leaves the root (``..``) or holds a NUL.
    """
    if _PLAIN_PATH.fullmatch(raw):
        return raw
    parts = [part for part in raw.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ImageError(f"malformed layer: the entry `{raw}` leaves the image's root")
    if "\0" in raw:
        raise ImageError(f"malformed layer: the entry {raw!r} has a NUL in its name")
    return "/".join(parts)


def _name(header: bytes) -> bytes:
    name = header[:100].split(b"\0", 1)[0]
    # only ustar has the prefix field; GNU uses these bytes for other things
    if header[257:263] == b"ustar\0":
        prefix = header[345:500].split(b"\0", 1)[0]
        if prefix:
            return prefix + b"/" + name
    return name


def _target(kind: Kind, header: bytes, extended: Mapping[str, bytes]) -> str:
    if kind not in (Kind.SYMLINK, Kind.HARDLINK):
        return ""
    raw = extended.get("linkpath") or header[157:257].split(b"\0", 1)[0]
    text = raw.decode("utf-8", "surrogateescape")
    return normal_path(text) if kind is Kind.HARDLINK else text


def _check(header: bytes, start: int) -> None:
    """Compare the header's checksum (POSIX: the sum of its bytes, the field itself as blanks)."""
    stored = _number(header[148:156], "checksum", start)
    field_bytes = header[148:156]
    total = sum(header) - sum(field_bytes) + 8 * 0x20
    if stored == total:
        return
    # historic writers summed signed bytes
    signed = total - 256 * sum(byte > 127 for byte in header[:148] + header[156:])
    if stored != signed:
        raise _broken(start, f"header checksum: stored={stored} computed={total}")


def _number(raw: bytes, what: str, start: int) -> int:
    """Read an octal or base-256 number (GNU's form for what octal cannot hold)."""
    if raw[0] & 0x80:
        if raw[0] == 0xFF:
            raise _broken(start, f"negative {what}")
        return int.from_bytes(bytes([raw[0] & 0x7F]) + raw[1:], "big")
    text = raw.split(b"\0", 1)[0].strip(b" ")
    if not text:
        return 0
    if not _OCTAL.fullmatch(text):
        raise _broken(start, f"{what} is not a number: {raw!r}")
    return int(text, 8)


def _digits(raw: bytes, what: str, start: int) -> int:
    if not raw.isdigit() or len(raw) > 20:
        raise _broken(start, f"{what} is not a number: {raw[:32]!r}")
    return int(raw)


def _decimal(extended: Mapping[str, bytes], name: str, start: int) -> int | None:
    raw = extended.get(name)
    return None if raw is None else _digits(raw, name, start)


def _either(extended: Mapping[str, bytes], name: str, raw: bytes, start: int) -> int:
    value = _decimal(extended, name, start)
    return _number(raw, name, start) if value is None else value


def _pax_records(content: bytes, start: int) -> dict[str, bytes]:
    """Split ``length keyword=value`` records (POSIX pax, "pax Extended Header")."""
    records: dict[str, bytes] = {}
    at = 0
    sparse: list[bytes] = []
    while at < len(content) and content[at]:
        blank = content.find(b" ", at, at + 21)
        if blank < 0:
            raise _broken(start, "malformed pax record")
        length = _digits(content[at:blank], "pax record length", start)
        record = content[blank + 1 : at + length]
        name, equals, value = record.partition(b"=")
        if not length or not equals or at + length > len(content) or not value.endswith(b"\n"):
            raise _broken(start, "malformed pax record")
        key = name.decode("utf-8", "surrogateescape")
        if key in ("GNU.sparse.offset", "GNU.sparse.numbytes"):
            sparse.append(value[:-1])  # pax 0.0 repeats these two in pairs
        records[key] = value[:-1]
        at += length
    if sparse:
        records["GNU.sparse.map"] = b",".join(sparse)
    return records


def _xattrs(extended: Mapping[str, bytes]) -> tuple[tuple[str, bytes], ...]:
    prefix = "SCHILY.xattr."
    found = (item for item in extended.items() if item[0].startswith(prefix))
    return tuple(sorted((key.removeprefix(prefix), value) for key, value in found))


def _old_sparse_map(header: bytes, cursor: _Cursor, start: int) -> list[tuple[int, int]]:
    """Read the map of a type ``S`` header and its continuation blocks."""
    segments: list[tuple[int, int]] = []
    block, first, count, more = header, 386, 4, header[482]
    while True:
        for index in range(count):
            raw = block[first + 24 * index : first + 24 * index + 24]
            if raw[0]:
                segments.append(
                    (_number(raw[:12], "sparse map", start), _number(raw[12:], "sparse map", start))
                )
        if not more:
            return segments
        if len(segments) > 1 << 20:
            raise _broken(start, "a sparse map has more than a million segments")
        block = cursor.take(BLOCK)
        if len(block) < BLOCK:
            raise _broken(start, "the stream ends inside an entry")
        first, count, more = 0, 21, block[504]


def _pax_sparse_map(cursor: _Cursor, start: int) -> tuple[list[tuple[int, int]], int]:
    """Read the map in front of a pax 1.0 sparse file's data; returns it and the bytes it took."""
    buffer = b""
    consumed = 0

    def number() -> int:
        nonlocal buffer, consumed
        while b"\n" not in buffer:
            block = cursor.take(BLOCK)
            consumed += BLOCK
            if len(block) < BLOCK or len(buffer) > BLOCK:
                raise _broken(start, "malformed sparse map")
            buffer += block
        line, _, buffer = buffer.partition(b"\n")
        return _digits(line, "sparse map", start)

    count = number()
    if count > 1 << 20:
        raise _broken(start, "a sparse map has more than a million segments")
    return [(number(), number()) for _ in range(count)], consumed


def _zeros(count: int) -> Iterator[bytes]:
    while count:
        step = min(count, len(_ZEROS))
        yield _ZEROS[:step] if step < len(_ZEROS) else _ZEROS
        count -= step


def _broken(offset: int, what: str) -> ImageError:
    return ImageError(f"malformed layer: {what} (at byte {offset} of the uncompressed tar)")
