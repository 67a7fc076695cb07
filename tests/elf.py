"""ELF files made by hand (System V gABI): small, and with every table where the test wants it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

_AARCH64, X86_64, CUDA = 183, 62, 190
AARCH64 = _AARCH64


@dataclass
class Strings:
    """A string table that grows."""

    content: bytearray = field(default_factory=lambda: bytearray(b"\0"))

    def add(self, text: str) -> int:
        at = len(self.content)
        self.content += text.encode() + b"\0"
        return at


@dataclass(frozen=True)
class Library:
    """What the file shall say.

    Attributes:
        requires: library to versions.
        text: bytes that stand somewhere in it, as a version string does.
        filler: bytes between the program headers and the tables.
        appended: whether the tables lie in a segment of their own at the end, as patchelf does.
    """

    machine: int = AARCH64
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: str = ""
    runpath: str = ""
    requires: dict[str, tuple[str, ...]] = field(default_factory=dict)
    provides: tuple[str, ...] = ()
    build_id: str = ""
    text: bytes = b""
    filler: int = 0
    appended: bool = False
    type: int = 3

    def encode(self) -> bytes:
        strings = Strings()
        verneed, verdef = self._verneed(strings), self._verdef(strings)
        tags = [(1, strings.add(name)) for name in self.needed]
        tags += [(14, strings.add(self.soname))] if self.soname else []
        tags += [(15, strings.add(self.rpath))] if self.rpath else []
        tags += [(29, strings.add(self.runpath))] if self.runpath else []
        note = b""
        if self.build_id:
            raw = bytes.fromhex(self.build_id)
            note = struct.pack("<III", 4, len(raw), 3) + b"GNU\0" + raw + bytes(-len(raw) % 4)
        headers = 64 + 56 * 4
        text = self.text + bytes(self.filler)
        tables = headers + len(text)
        tables += -tables % 8
        # patchelf's segment is mapped elsewhere than at its offset
        address = 0x400000 if self.appended else 0
        parts = {"str": bytes(strings.content), "need": verneed, "def": verdef, "note": note}
        offsets: dict[str, int] = {}
        blob = bytearray()
        for name, part in parts.items():
            offsets[name] = tables + len(blob)
            blob += part + bytes(-len(part) % 8)
        tags += [(5, offsets["str"] + address), (10, len(strings.content))]
        if verneed:
            tags += [(0x6FFFFFFE, offsets["need"] + address), (0x6FFFFFFF, len(self.requires))]
        if verdef:
            tags += [(0x6FFFFFFC, offsets["def"] + address), (0x6FFFFFFD, len(self.provides) + 1)]
        dynamic = b"".join(struct.pack("<qQ", *tag) for tag in [*tags, (0, 0)])
        at = tables + len(blob)
        end = at + len(dynamic)
        first = (1, 5, 0, 0, tables if self.appended else end)
        last = (1, 6, tables, tables + address, end - tables)
        segments = [
            first,
            last if self.appended else (0, 0, 0, 0, 0),
            (2, 6, at, at + address, len(dynamic)),
            (4, 4, offsets["note"], offsets["note"] + address, len(note)),
        ]
        out = bytearray(
            b"\x7fELF\x02\x01\x01"
            + bytes(9)
            + struct.pack(
                "<HHIQQQIHHHHHH", self.type, self.machine, 1, 0, 64, 0, 0, 64, 56, 4, 0, 0, 0
            )
        )
        for kind, flags, offset, where, size in segments:
            out += struct.pack("<IIQQQQQQ", kind, flags, offset, where, where, size, size, 8)
        out += text
        out += bytes(tables - len(out))
        return bytes(out + blob + dynamic)

    def _verneed(self, strings: Strings) -> bytes:
        out = b""
        for number, (library, versions) in enumerate(self.requires.items(), 1):
            aux = b""
            for index, version in enumerate(versions, 1):
                following = 16 if index < len(versions) else 0
                aux += struct.pack("<IHHII", 0, 0, index + 1, strings.add(version), following)
            following = 16 + len(aux) if number < len(self.requires) else 0
            out += (
                struct.pack("<HHIII", 1, len(versions), strings.add(library), 16, following) + aux
            )
        return out

    def _verdef(self, strings: Strings) -> bytes:
        if not self.provides:
            return b""
        out = b""
        names = [self.soname, *self.provides]
        for index, name in enumerate(names, 1):
            following = 28 if index < len(names) else 0
            out += struct.pack("<HHHHIII", 1, int(index == 1), index, 1, 0, 20, following)
            out += struct.pack("<II", strings.add(name), 0)
        return out


def library(**what: object) -> bytes:
    """Write one shared library."""
    return Library(**what).encode()  # type: ignore[arg-type] # the keywords are the class's
