"""Writing tar streams that are a pure function of their entries.

Every field is fixed: owner, time, format, order of records. Names or links that ustar cannot
hold get a pax header (POSIX.1-2001) with these two records and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.oci.tar import Kind
from imagegate.oci.tarheader import BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

# 1980-01-01T00:00:00Z: the oldest time that zip archives can hold; packing installed files into a
# wheel or a working directory fails on older ones
EPOCH = 315_532_800
_TYPE_FLAG = {Kind.FILE: b"0", Kind.SYMLINK: b"2", Kind.DIRECTORY: b"5"}
# 11 octal digits
_OCTAL_SIZE_LIMIT = 1 << 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a written entry says of itself; its time is :data:`EPOCH`."""

    path: str
    kind: Kind
    mode: int
    size: int = 0
    target: str = ""
    uid: int = 0
    gid: int = 0


class TarWriter:
    """Writes entries to a function that takes bytes."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._left = 0
        self._padding = 0

    def start(self, header: Header) -> None:
        """Write an entry's header; a file's bytes follow through :meth:`content`."""
        assert self._left == 0, "the entry before is not complete"
        name = header.path + ("/" if header.kind is Kind.DIRECTORY else "")
        raw_name, raw_target = _raw(name), _raw(header.target)
        records = []
        if len(raw_name) > 100:
            records.append((b"path", raw_name))
        if len(raw_target) > 100:
            records.append((b"linkpath", raw_target))
        if header.size >= _OCTAL_SIZE_LIMIT:
            records.append((b"size", str(header.size).encode()))
        if records:
            body = b"".join(_record(key, value) for key, value in records)
            self._write(_block(b"././@PaxHeader", b"x", 0o644, len(body), b"", 0, 0))
            self._write(body + bytes(-len(body) % BLOCK))
        size = header.size if header.size < _OCTAL_SIZE_LIMIT else 0
        flag = _TYPE_FLAG[header.kind]
        self._write(
            _block(
                raw_name[:100], flag, header.mode, size, raw_target[:100], header.uid, header.gid
            )
        )
        self._left = header.size
        self._padding = -header.size % BLOCK

    def content(self, chunk: bytes) -> None:
        """Write the next bytes of the current file."""
        self._left -= len(chunk)
        assert self._left >= 0, "more bytes than the header says"
        self._write(chunk)
        if self._left == 0 and self._padding:
            self._write(bytes(self._padding))
            self._padding = 0

    def finish(self) -> None:
        """Write the end-of-archive marker."""
        assert self._left == 0, "the last entry is not complete"
        self._write(bytes(2 * BLOCK))


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _record(key: bytes, value: bytes) -> bytes:
    """Write one pax record, whose length counts its own digits."""
    bare = len(key) + len(value) + 3
    length = bare + len(str(bare))
    length = bare + len(str(length))
    return b"%d %s=%s\n" % (length, key, value)


def _block(
    name: bytes, flag: bytes, mode: int, size: int, target: bytes, uid: int, gid: int
) -> bytes:
    """Write one ustar header (POSIX.1-1988)."""
    fields = b"".join(
        (
            name.ljust(100, b"\0"),
            b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (mode, uid, gid, size, EPOCH),
            b" " * 8,
            flag,
            target.ljust(100, b"\0"),
            b"ustar\x0000",
            bytes(32 + 32),  # user and group name: the image's own tables decide
            b"0000000\x000000000\0",
            bytes(155 + 12),
        )
    )
    return fields[:148] + b"%06o\0 " % sum(fields) + fields[156:]
