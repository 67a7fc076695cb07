"""Tar headers field by field, for what no tool writes; the layouts are POSIX's and GNU tar's."""

from __future__ import annotations

USTAR = b"ustar\x0000"
GNU = b"ustar  \0"
V7 = bytes(8)
END = bytes(1024)


def octal(value: int, width: int) -> bytes:
    """A number as POSIX writes it: octal digits and a NUL."""
    return b"%0*o\0" % (width - 1, value)


def base256(value: int, width: int) -> bytes:
    """A number as GNU tar writes what octal cannot hold."""
    return b"\x80" + value.to_bytes(width - 1, "big")


def seal(header: bytes) -> bytes:
    """Put the checksum into a header whose other fields are done."""
    blank = header[:148] + b" " * 8 + header[156:]
    return header[:148] + b"%06o\0 " % sum(blank) + header[156:]


def header(
    name: bytes,
    *,
    flag: bytes = b"0",
    size: int | bytes = 0,
    mode: int | bytes = 0o644,
    uid: int | bytes = 0,
    link: bytes = b"",
    magic: bytes = USTAR,
    tail: bytes = b"",
) -> bytes:
    """One header block; `tail` is what stands from byte 345 on (the prefix, GNU's fields)."""
    block = b"".join(
        (
            name.ljust(100, b"\0"),
            mode if isinstance(mode, bytes) else octal(mode, 8),
            uid if isinstance(uid, bytes) else octal(uid, 8),
            octal(0, 8),
            size if isinstance(size, bytes) else octal(size, 12),
            octal(0, 12),
            bytes(8),
            flag,
            link.ljust(100, b"\0"),
            magic,
            bytes(64 + 16),
            tail.ljust(167, b"\0"),
        )
    )
    assert len(block) == 512
    return seal(block)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


def entry(name: bytes, content: bytes = b"", **fields: int | bytes) -> bytes:
    """A header and its content."""
    return header(name, size=fields.pop("size", len(content)), **fields) + padded(content)  # type: ignore[arg-type]


def record(key: bytes, value: bytes) -> bytes:
    """One pax record, whose length counts its own digits."""
    body = b" " + key + b"=" + value + b"\n"
    length = len(body) + 1
    while len(b"%d" % length) + len(body) != length:
        length += 1
    return b"%d" % length + body


def pax(*records: tuple[bytes, bytes], flag: bytes = b"x") -> bytes:
    """An extended header."""
    body = b"".join(record(key, value) for key, value in records)
    return entry(b"./PaxHeaders/x", body, flag=flag)
