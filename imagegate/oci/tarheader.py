"""The fields of a tar header: POSIX.1-1988 ustar, POSIX.1-2001 pax, GNU tar's extensions.

Where readers in use differ on what a header says, the header is refused: a layer must not be one
thing to the gate and another to the runtime. The container runtimes read with Go's
``archive/tar``, so its rules decide where there is a rule.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from zlib import adler32

from imagegate.oci.tarattributes import Damage, is_attribute

if TYPE_CHECKING:
    from collections.abc import Mapping

BLOCK = 512
# Linux's PATH_MAX without the closing NUL; nothing longer can be unpacked
_PATH_LIMIT = 4095
_NUMBER = re.compile(rb" *([0-7]*)[ \0]*")
_DIGITS = re.compile(rb"[0-9]{1,19}")
_PLAIN_PATH = re.compile(r"(?!\.{1,2}(?:/|$))[^/\0]+(?:/(?!\.{1,2}(?:/|$))[^/\0]+)*")
_NO_TIMES = bytes(24)
_SPARSE_PAIR = ("GNU.sparse.offset", "GNU.sparse.numbytes")
_MEANING = frozenset({"path", "linkpath", "size", "uid", "gid"})
_SPARSE_PREFIX = "GNU.sparse."


def check_sum(header: bytes) -> None:
    """Compare the header's checksum (POSIX: the sum of its bytes, the field itself as blanks).

    Raises:
        Damage: it is another.
    """
    raw = header[148:156]
    stored = number(raw, "checksum")
    blank = header[:148] + b"        " + header[156:]
    # the low half of Adler-32 is one more than the sum of the bytes, modulo 65521; 512 ASCII
    # bytes add up to less than that
    if (adler32(blank) & 0xFFFF) == stored + 1 and blank.isascii():
        return
    total = sum(blank)
    if stored == total:
        return
    # historic writers summed signed bytes
    if stored != total - 256 * sum(byte > 127 for byte in blank):
        raise Damage(f"header checksum: stored={stored} computed={total}")


@lru_cache(maxsize=4096)
def number(raw: bytes, what: str) -> int:
    """Read an octal or base-256 number (GNU's form for what octal cannot hold).

    Raises:
        Damage: it is not a number, or a negative one.
    """
    if raw[0] & 0x80:
        # two's complement over all bits but the first
        if raw[0] & 0x40:
            raise Damage(f"negative {what}")
        value = int.from_bytes(bytes([raw[0] & 0x7F]) + raw[1:], "big")
        if value >= 1 << 63:
            raise Damage(f"{what} is too large: {value}")
        return value
    match = _NUMBER.fullmatch(raw)
    if match is None:
        raise Damage(f"{what} is not a number: {raw!r}")
    return int(match[1], 8) if match[1] else 0


def digits(raw: bytes, what: str) -> int:
    """Read a decimal number as pax records have it.

    Raises:
        Damage: it is none.
    """
    if not _DIGITS.fullmatch(raw):
        raise Damage(f"{what} is not a number: {raw[:32]!r}")
    return int(raw)


def decimal(records: Mapping[str, bytes], name: str) -> int | None:
    """Read a pax record's number, ``None`` where there is no such record."""
    raw = records.get(name)
    return None if raw is None else digits(raw, name)


def text_of(field: bytes) -> bytes:
    """Return a field's text, which ends at the first NUL."""
    return field.partition(b"\0")[0]


def name_of(header: bytes) -> bytes:
    """Return the name that the header itself has, without extended headers."""
    name = text_of(header[:100])
    magic = header[257:263]
    if magic == b"ustar\0":
        # star keeps two times at the end of the prefix and says so in the last four bytes
        end = 476 if header[508:512] == b"tar\0" else 500
        prefix = text_of(header[345:end])
    elif header[257:265] == b"ustar  \0":
        prefix = _gnu_prefix(header)
    else:
        return name
    return prefix + b"/" + name if prefix else name


def _gnu_prefix(header: bytes) -> bytes:
    """Return the prefix that Go before 1.8 wrote where GNU tar has access and change time.

    Go's reader, and so every runtime, takes the bytes for a prefix where they are no times.
    """
    times = header[345:369]
    if times == _NO_TIMES:
        return b""
    try:
        for raw in (times[:12], times[12:]):
            if raw[0]:
                number(raw, "time")
    except Damage:
        prefix = text_of(header[345:500])
        return prefix if prefix.isascii() else b""
    return b""


def pax_records(content: bytes) -> dict[str, bytes]:
    """Split ``length keyword=value`` records (POSIX pax, "pax Extended Header").

    Of equal keywords the last counts. One without a value is as if it were not there, but for an
    attribute: runtimes write an empty one, and overlayfs obeys such (``trusted.overlay.metacopy``).

    Raises:
        Damage: a record is malformed.
    """
    records: dict[str, bytes] = {}
    sparse: list[bytes] = []
    at = 0
    while at < len(content):
        blank = content.find(b" ", at, at + 20)
        if blank < 0:
            if not content[at:].strip(b"\0"):
                break
            raise Damage("malformed pax record")
        length = digits(content[at:blank], "pax record length")
        record = content[blank + 1 : at + length]
        name, equals, value = record.partition(b"=")
        if not name or not equals or at + length > len(content) or record[-1:] != b"\n":
            raise Damage("malformed pax record")
        key = name.decode("utf-8", "surrogateescape")
        value = value[:-1]
        if key in _SPARSE_PAIR:
            # pax 0.0 repeats these two in turn
            if key != _SPARSE_PAIR[len(sparse) % 2]:
                raise Damage("the records of a sparse map are out of order")
            sparse.append(value)
        records[key] = value
        at += length
    if sparse:
        records["GNU.sparse.map"] = b",".join(sparse)
    return {key: value for key, value in records.items() if value or is_attribute(key)}


def refuse_meaning(records: Mapping[str, bytes]) -> None:
    """Refuse a global header that says more than a remark.

    GNU tar and Python apply it to every entry that follows, Go and so the runtimes to none.

    Raises:
        Damage: it would change what an entry is.
    """
    for key in records:
        if key in _MEANING or key.startswith(_SPARSE_PREFIX) or is_attribute(key):
            raise Damage(f"a global pax header sets `{key}`, which readers take differently")


def normal_path(raw: bytes) -> str:
    """Bring an entry's name into the one form that paths have here.

    Raises:
        Damage: the name leaves the root (``..``), holds a NUL, or is longer than Linux allows.
    """
    text = raw.decode("utf-8", "surrogateescape")
    if len(raw) > _PATH_LIMIT:
        raise Damage(f"a name of {len(raw)} bytes; Linux allows {_PATH_LIMIT}: `{text[:80]}…`")
    if _PLAIN_PATH.fullmatch(text):
        return text
    if "\0" in text:
        raise Damage(f"the entry {text!r} has a NUL in its name")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Damage(f"the entry `{text}` leaves the image's root")
    return "/".join(parts)


def link_text(raw: bytes) -> str:
    """Return what a symbolic link says.

    Raises:
        Damage: nothing, a NUL, or more than Linux allows.
    """
    if not raw or b"\0" in raw or len(raw) > _PATH_LIMIT:
        raise Damage(f"a symbolic link says {raw[:80]!r}")
    return raw.decode("utf-8", "surrogateescape")
