"""The ELF header and the program headers: what a file is and where its tables lie.

System V gABI, chapters 4 ("ELF Header") and 5 ("Program Header").
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagegate.oci.platform import Platform

MAGIC = b"\x7fELF"
PT_LOAD, PT_DYNAMIC, PT_NOTE = 1, 2, 4
_ET_EXEC, _ET_DYN = 2, 3
# machines that an operating system runs programs on; the others are code for devices
MACHINES = {
    3: "i386",
    8: "mips",
    20: "powerpc",
    21: "powerpc64",
    22: "s390",
    40: "arm",
    43: "sparcv9",
    62: "x86-64",
    183: "aarch64",
    243: "riscv",
    258: "loongarch",
}
# GOARCH to the machine
_OF_PLATFORM = {
    "386": "i386",
    "amd64": "x86-64",
    "arm": "arm",
    "arm64": "aarch64",
    "loong64": "loongarch",
    "ppc64le": "powerpc64",
    "riscv64": "riscv",
    "s390x": "s390",
}


def machine_of(platform: Platform) -> str:
    """Name the machine that programs of a platform are for."""
    return _OF_PLATFORM.get(platform.architecture, platform.architecture)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One program header: type, flags, place in the file and in memory."""

    kind: int
    flags: int
    offset: int
    address: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the ELF header says of the tables that are needed here."""

    order: str
    wide: bool
    type: int
    machine: int
    table: int
    entry_size: int
    count: int

    @property
    def table_end(self) -> int:
        """Where the program headers end."""
        return self.table + self.entry_size * self.count


class Ranges:
    """Pieces of a file by their offset."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._pieces: list[bytes | memoryview] = []

    def add(self, offset: int, piece: bytes | memoryview) -> None:
        """Keep a piece that lies behind all pieces so far."""
        self._offsets.append(offset)
        self._pieces.append(piece)

    def read(self, offset: int, length: int) -> bytes | None:
        """Return bytes of the file, ``None`` where some of them were not kept."""
        found = self.read_some(offset, length)
        return found if len(found) == length else None

    def read_some(self, offset: int, length: int) -> bytes:
        """Return as many of these bytes as were kept in a row from `offset` on."""
        parts: list[bytes] = []
        index = max(bisect_right(self._offsets, offset) - 1, 0)
        while length > 0 and index < len(self._offsets):
            start, piece = self._offsets[index], self._pieces[index]
            if not start <= offset < start + len(piece):
                break
            part = bytes(piece[offset - start : offset - start + length])
            parts.append(part)
            offset += len(part)
            length -= len(part)
            index += 1
        return b"".join(parts)


def parse_header(ranges: Ranges) -> Header | None:
    """Read the ELF header; ``None`` for what is none."""
    head = ranges.read_some(0, 64)
    if len(head) < 52 or head[:4] != MAGIC or head[4] not in (1, 2) or head[5] not in (1, 2):
        return None
    order, wide = "<" if head[5] == 1 else ">", head[4] == 2
    if wide and len(head) < 64:
        return None
    kind, machine = struct.unpack_from(order + "HH", head, 16)
    (table,) = struct.unpack_from(order + ("Q" if wide else "I"), head, 32 if wide else 28)
    entry_size, count = struct.unpack_from(order + "HH", head, 54 if wide else 42)
    return Header(
        order=order,
        wide=wide,
        type=kind,
        machine=machine,
        table=table,
        entry_size=entry_size,
        count=count,
    )


def is_program(header: Header) -> bool:
    """Say whether the file is a program or shared library for an operating system's machine."""
    return header.type in (_ET_EXEC, _ET_DYN) and header.machine in MACHINES


def program_headers(ranges: Ranges, header: Header) -> tuple[Segment, ...] | None:
    """Read the program headers, ``None`` where they were not kept or are malformed."""
    if header.entry_size < (56 if header.wide else 32) and header.count:
        return None
    table = ranges.read(header.table, header.entry_size * header.count) if header.count else b""
    if table is None or header.count == 0xFFFF:  # PN_XNUM: the number is in a section header
        return None
    segments: list[Segment] = []
    for at in range(0, len(table), header.entry_size or 1):
        if header.wide:
            kind, flags, offset, address, _, size = struct.unpack_from(
                header.order + "IIQQQQ", table, at
            )
        else:
            kind, offset, address, _, size, _, flags = struct.unpack_from(
                header.order + "IIIIIII", table, at
            )
        segments.append(Segment(kind=kind, flags=flags, offset=offset, address=address, size=size))
    return tuple(segments)
