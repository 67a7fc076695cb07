"""ELF files: what they need, what they provide, and where they look for it.

Files of more than a gigabyte stream past, so only the ranges that hold the tables are kept: the
head with the program headers, the first loaded segment up to a limit, ``PT_DYNAMIC``, the notes,
and the small segments that patchelf and auditwheel append at the end. A table that lies elsewhere
is said to be unread; it is never taken for empty. (System V gABI, chapters 4 and 5; GNU symbol
versioning: LSB Core, "Symbol Versioning".)
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from imagegate.catalog.collect import Interest
from imagegate.catalog.elfheader import (
    MACHINES,
    MAGIC,
    PT_DYNAMIC,
    PT_LOAD,
    PT_NOTE,
    Header,
    Ranges,
    Segment,
    is_program,
    parse_header,
    program_headers,
)
from imagegate.facts import ElfFile
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from imagegate.catalog.collect import Collector
    from imagegate.rootfs import FileTree, Node

# program headers of every linker in use lie in the first pages
_HEAD = 64 << 10
# how much of one loaded segment is kept; the string tables of the largest library in use
# (libtorch_cuda.so, 1 GB) end before
_SEGMENT_LIMIT = 32 << 20
# what patchelf and auditwheel append is a table or two
_LATER_SEGMENT_LIMIT = 16 << 20
_NOTE_LIMIT = 64 << 10
_VERSION_LIMIT = 1 << 16
_STRING_LIMIT = 4096

_DT_NEEDED, _DT_STRTAB, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 5, 14, 15, 29
_DT_VERDEF, _DT_VERDEFNUM = 0x6FFFFFFC, 0x6FFFFFFD
_DT_VERNEED, _DT_VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF
_EXECUTABLE = 1
_NUMBERED = re.compile(r"(?P<space>.*?)_?(?P<number>\d+(?:\.\d+)*)")


class ElfTables:
    """Keeps the ranges of one ELF file that hold its tables, and reads them at its end."""

    def __init__(self, _path: str, size: int) -> None:
        self._size = size
        self._at = 0
        self._ranges: Ranges | None = Ranges()
        self._header: Header | None = None
        self._wanted: list[tuple[int, int]] = []
        self._planned = False
        self._reading = b""

    def write(self, chunk: bytes | memoryview, /) -> None:
        """Take the next bytes."""
        start, self._at = self._at, self._at + len(chunk)
        if self._ranges is None:
            return
        if self._planned:
            self._keep(self._ranges, start, chunk)
        else:
            # which ranges count is not known yet, so whole chunks are kept from the beginning on,
            # and where the program headers lie
            if start < _SEGMENT_LIMIT or any(low < self._at for low, _ in self._wanted):
                self._ranges.add(start, chunk)
            if self._at >= min(_HEAD, self._size):
                self._plan(self._ranges)
        if self._at >= self._size and self._ranges is not None:
            self._reading = _encode(parse(self._ranges, self._size))
            self._ranges = None

    def finish(self) -> bytes:
        """Return the reading, encoded; empty for what is not a program or library."""
        return self._reading

    def _keep(self, ranges: Ranges, start: int, chunk: bytes | memoryview) -> None:
        while self._wanted and self._wanted[0][1] <= start:
            self._wanted.pop(0)
        for first, last in self._wanted:
            if first >= self._at:
                return
            low, high = max(first, start), min(last, self._at)
            ranges.add(low, chunk[low - start : high - start])

    def _plan(self, ranges: Ranges) -> None:
        """Decide from the program headers which ranges of what follows are needed."""
        self._header = self._header or parse_header(ranges)
        if self._header is None or not is_program(self._header):
            self._ranges = None
            return
        segments = program_headers(ranges, self._header)
        if segments is not None:
            self._planned = True
            self._wanted = _merged(_needed_ranges(segments))
        elif not self._wanted:
            self._wanted = [(self._header.table, self._header.table_end)]


def _needed_ranges(segments: Iterable[Segment]) -> Iterator[tuple[int, int]]:
    first = True
    for segment in segments:
        if segment.kind == PT_DYNAMIC:
            yield segment.offset, segment.offset + min(segment.size, _SEGMENT_LIMIT)
        elif segment.kind == PT_NOTE:
            yield segment.offset, segment.offset + min(segment.size, _NOTE_LIMIT)
        elif segment.kind == PT_LOAD:
            limit = _SEGMENT_LIMIT if first else _LATER_SEGMENT_LIMIT
            if first or not segment.flags & _EXECUTABLE:
                yield segment.offset, segment.offset + min(segment.size, limit)
            first = False


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(r for r in ranges if r[0] < r[1]):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


@dataclass(frozen=True, slots=True, kw_only=True)
class ElfReading:
    """What one file's tables say; see :class:`imagegate.facts.ElfFile`."""

    machine: str
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: str = ""
    runpath: str = ""
    requires: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    build_id: str = ""
    unread: str = ""


class _Unread(Exception):  # noqa: N818 - not an error, a reading that was not possible
    """A table that was not kept, or that makes no sense."""


def parse(ranges: Ranges, size: int) -> ElfReading | None:
    """Read a file's tables; ``None`` for what is not a program or library.

    Args:
        ranges: the parts of the file that were kept.
        size: bytes of the whole file.
    """
    header = parse_header(ranges)
    if header is None or not is_program(header):
        return None
    machine = MACHINES[header.machine]
    segments = program_headers(ranges, header)
    if segments is None:
        return ElfReading(machine=machine, unread="the program headers cannot be read")
    build_id = ""
    for segment in segments:
        if segment.kind == PT_NOTE and not build_id:
            notes = ranges.read_some(segment.offset, min(segment.size, _NOTE_LIMIT))
            build_id = build_id_note(notes, header.order)
    try:
        return _Dynamic(ranges, header, segments, size).read(machine, build_id)
    except _Unread as reason:
        return ElfReading(machine=machine, build_id=build_id, unread=str(reason))


class _Dynamic:
    """Reads what ``PT_DYNAMIC`` leads to (gABI, "Dynamic Section")."""

    def __init__(
        self, ranges: Ranges, header: Header, segments: tuple[Segment, ...], size: int
    ) -> None:
        self._ranges = ranges
        self._header = header
        self._segments = segments
        self._size = size
        self._strings = 0

    def read(self, machine: str, build_id: str) -> ElfReading:
        """Read all tables.

        Raises:
            _Unread: a table was not kept or makes no sense.
        """
        entries = list(self._entries())
        values = dict(reversed(entries))
        if not values:
            return ElfReading(machine=machine, build_id=build_id)
        named = {_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH, _DT_VERNEED, _DT_VERDEF}
        if _DT_STRTAB in values:
            self._strings = self._offset(values[_DT_STRTAB], "string table")
        elif named & values.keys():
            raise _Unread("the dynamic section names no string table")

        def text(tag: int) -> str:
            return self._string(values[tag]) if tag in values else ""

        return ElfReading(
            machine=machine,
            soname=text(_DT_SONAME),
            needed=tuple(self._string(value) for tag, value in entries if tag == _DT_NEEDED),
            rpath=text(_DT_RPATH),
            runpath=text(_DT_RUNPATH),
            requires=self._requires(values),
            provides=self._provides(values),
            build_id=build_id,
        )

    def _entries(self) -> Iterator[tuple[int, int]]:
        dynamic = next((s for s in self._segments if s.kind == PT_DYNAMIC and s.size), None)
        if dynamic is None:
            return
        if dynamic.offset + dynamic.size > self._size:
            raise _Unread("the dynamic section lies outside the file")
        form = self._header.order + ("qQ" if self._header.wide else "iI")
        table = self._ranges.read(dynamic.offset, min(dynamic.size, _SEGMENT_LIMIT))
        if table is None:
            raise _Unread("the dynamic section was not kept")
        step = struct.calcsize(form)
        for at in range(0, len(table) - step + 1, step):
            tag, value = struct.unpack_from(form, table, at)
            if tag == 0:
                return
            yield tag, value

    def _offset(self, address: int, what: str) -> int:
        """Turn an address in memory into an offset in the file, through the loaded segments."""
        for segment in self._segments:
            if (
                segment.kind == PT_LOAD
                and segment.address <= address < segment.address + segment.size
            ):
                return address - segment.address + segment.offset
        raise _Unread(f"the {what} lies in no segment")

    def _string(self, index: int) -> str:
        raw = self._ranges.read_some(self._strings + index, 256)
        if b"\0" not in raw:
            raw = self._ranges.read_some(self._strings + index, _STRING_LIMIT)
        text, end, _ = raw.partition(b"\0")
        if not end:
            raise _Unread("the string table was not kept")
        return text.decode("utf-8", "replace")

    def _requires(self, values: Mapping[int, int]) -> tuple[str, ...]:
        """Read ``DT_VERNEED``: of each file, the versions that are needed."""
        if _DT_VERNEED not in values:
            return ()
        at = self._offset(values[_DT_VERNEED], "table of needed versions")
        found: list[tuple[str, str]] = []
        for _ in range(min(values.get(_DT_VERNEEDNUM, 0), _VERSION_LIMIT)):
            _, count, file, first, following = self._record(at, "HHIII")
            name = self._string(file)
            inner = at + first
            for _ in range(count):
                *_, version, next_inner = self._record(inner, "IHHII")
                found.append((name, self._string(version)))
                if len(found) > _VERSION_LIMIT:
                    raise _Unread("the table of needed versions has no end")
                if not next_inner:
                    break
                inner += next_inner
            if not following:
                break
            at += following
        return tuple(f"{name} {version}" for name, version in _highest(found))

    def _provides(self, values: Mapping[int, int]) -> tuple[str, ...]:
        """Read ``DT_VERDEF``: the versions that the library defines, without its own name."""
        if _DT_VERDEF not in values:
            return ()
        at = self._offset(values[_DT_VERDEF], "table of defined versions")
        found: list[tuple[str, str]] = []
        for _ in range(min(values.get(_DT_VERDEFNUM, 0), _VERSION_LIMIT)):
            _, flags, _, _, _, first, following = self._record(at, "HHHHIII")
            version, _ = self._record(at + first, "II")
            if not flags & 1:  # VER_FLG_BASE: the library itself
                found.append(("", self._string(version)))
            if not following:
                break
            at += following
        return tuple(version for _, version in _highest(found))

    def _record(self, at: int, form: str) -> tuple[int, ...]:
        form = self._header.order + form
        raw = self._ranges.read(at, struct.calcsize(form))
        if raw is None:
            raise _Unread("the table of versions was not kept")
        return struct.unpack(form, raw)


def _highest(versions: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Keep of each numbered series (``GLIBC_2.34``) the highest, and all that have no number."""
    best: dict[tuple[str, str], tuple[tuple[int, ...], str]] = {}
    for owner, version in versions:
        space, number = version_number(version)
        key = (owner, space if number else version)
        if key not in best or number > best[key][0]:
            best[key] = (number, version)
    return sorted((owner, version) for (owner, _), (_, version) in best.items())


def version_number(version: str) -> tuple[str, tuple[int, ...]]:
    """Split a symbol version into its series and number: ``GLIBC_2.34`` is ``GLIBC``, (2, 34)."""
    match = _NUMBERED.fullmatch(version)
    if match is None:
        return version, ()
    return match["space"], tuple(int(part[:9]) for part in match["number"].split("."))


def build_id_note(notes: bytes, order: str) -> str:
    """Read the GNU build id (note ``GNU``, type 3) as hex, ``""`` where there is none."""
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from(order + "III", notes, at)
        name = notes[at + 12 : at + 12 + name_size]
        start = at + 12 + (name_size + 3 & ~3)
        if kind == 3 and name == b"GNU\0":
            return notes[start : start + size].hex()
        at = start + (size + 3 & ~3)
    return ""


def _encode(reading: ElfReading | None) -> bytes:
    if reading is None:
        return b""
    values = (getattr(reading, name) for name in ElfReading.__slots__)
    return json.dumps(list(values)).encode()


def read_elf(collector: Collector, node: Node) -> ElfFile | None:
    """Return what was read of a file, ``None`` where it is not a program or library."""
    kept = collector.extract("elf", node)
    if not kept:
        return None
    machine, soname, needed, rpath, runpath, requires, provides, build_id, unread = json.loads(kept)
    return ElfFile(
        path=node.path,
        machine=machine,
        soname=soname,
        needed=tuple(needed),
        rpath=rpath,
        runpath=runpath,
        requires=tuple(requires),
        provides=tuple(provides),
        build_id=build_id,
        unread=unread,
    )


def elf_files(
    tree: FileTree, collector: Collector, nodes: Collection[Node], known: Collection[ElfFile] = ()
) -> tuple[ElfFile, ...]:
    """Read every program and library among some files of a tree.

    Args:
        tree: the merged tree.
        collector: holds what was kept of the layers that were read.
        nodes: the files.
        known: what a lock says of the base's files: a layer may give one of them one more name.
    """
    files = [node for node in nodes if node.kind is Kind.FILE]
    found = [elf for node in files if (elf := read_elf(collector, node)) is not None]
    unread = [node for node in files if not collector.has_read(node)] if known else []
    if unread:
        located = ((tree.below(file.path), file) for file in known)
        by_content = {node.sha256: file for node, file in located if node is not None}
        found += [
            replace(by_content[node.sha256], path=node.path)
            for node in unread
            if node.sha256 in by_content
        ]
    return tuple(sorted(found))


INTERESTS = (Interest(name="elf", magic=MAGIC, keep=ElfTables),)
