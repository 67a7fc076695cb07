"""ELF tables out of a stream of chunks, compared with what was written and with readelf."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from imagegate.catalog.collect import Collector
from imagegate.catalog.elf import INTERESTS, ElfTables, read_elf, version_number
from imagegate.facts import ElfFile
from imagegate.oci.tar import scan_tar
from imagegate.rootfs import FileTree
from tests.elf import CUDA, X86_64, Library, library
from tests.images import tar


def read(content: bytes, *, chunk: int = 1 << 20) -> ElfFile | None:
    """Read one file as a layer's only one."""
    raw = tar({"lib/x.so": content})
    collector = Collector(INTERESTS)
    entries = list(
        scan_tar((raw[i : i + chunk] for i in range(0, len(raw), chunk)), collector.want)
    )
    collector.end_layer(entries)
    tree = FileTree()
    tree.apply(entries, 1)
    node = tree.get("lib/x.so")
    assert node is not None
    return read_elf(collector, node)


FULL = Library(
    soname="libx.so.1",
    needed=("libnccl.so.2", "libc.so.6"),
    rpath="$ORIGIN/../lib",
    runpath="/opt/lib",
    requires={"libc.so.6": ("GLIBC_2.17", "GLIBC_2.34", "GLIBC_2.4"), "libm.so.6": ("GLIBC_2.29",)},
    provides=("X_1.0", "X_1.10", "X_1.9"),
    build_id="ab54bc831187dbf664867543564e5390b464ee58",
)


@pytest.mark.parametrize("chunk", [1 << 20, 4096, 513, 64])
@pytest.mark.parametrize("appended", [False, True])
def test_every_table_is_read_wherever_chunks_are_cut(chunk: int, appended: bool) -> None:
    from dataclasses import replace

    content = replace(FULL, appended=appended, filler=100_000).encode()
    found = read(content, chunk=chunk)
    assert found == ElfFile(
        path="lib/x.so",
        machine="aarch64",
        soname="libx.so.1",
        needed=("libnccl.so.2", "libc.so.6"),
        rpath="$ORIGIN/../lib",
        runpath="/opt/lib",
        # of a series the highest by number: 2.34 is above 2.4, 1.10 above 1.9
        requires=("libc.so.6 GLIBC_2.34", "libm.so.6 GLIBC_2.29"),
        provides=("X_1.10",),
        build_id="ab54bc831187dbf664867543564e5390b464ee58",
    )


def test_tables_behind_the_limit_of_the_first_segment_are_unread_and_not_empty() -> None:
    found = read(library(soname="libx.so.1", filler=33 << 20))
    assert found is not None
    assert found.unread == "the string table was not kept"


def test_tables_that_patchelf_appended_behind_forty_megabytes_are_read() -> None:
    found = read(library(soname="libx.so.1", needed=("liby.so",), filler=40 << 20, appended=True))
    assert found is not None
    assert (found.soname, found.needed, found.unread) == ("libx.so.1", ("liby.so",), "")


def test_program_headers_at_the_end_of_the_file_are_read() -> None:
    content = bytearray(library(soname="libx.so.1", filler=200_000))
    headers = bytes(content[64 : 64 + 56 * 4])
    content[32:40] = len(content).to_bytes(8, "little")
    assert read(bytes(content) + headers) is not None
    found = read(bytes(content) + headers, chunk=4096)
    assert found is not None
    assert found.soname == "libx.so.1"


def test_a_table_of_versions_that_points_outside_the_file_is_unread() -> None:
    content = bytearray(FULL.encode())
    tag = (0x6FFFFFFE).to_bytes(8, "little")
    at = content.index(tag)
    content[at + 8 : at + 16] = (1 << 40).to_bytes(8, "little")
    found = read(bytes(content))
    assert found is not None
    assert found.unread == "the table of needed versions lies in no segment"


def test_code_for_a_gpu_is_no_program_of_the_system() -> None:
    assert read(library(machine=CUDA)) is None


def test_an_object_file_is_not_loaded_and_not_read() -> None:
    assert read(library(type=1)) is None


def test_the_machine_is_named_even_where_it_is_another() -> None:
    found = read(library(machine=X86_64))
    assert found is not None
    assert found.machine == "x86-64"


def test_symbol_versions_are_compared_by_number() -> None:
    assert version_number("GLIBC_2.34") == ("GLIBC", (2, 34))
    assert version_number("GLIBC_PRIVATE") == ("GLIBC_PRIVATE", ())


@given(st.binary(max_size=4096))
def test_any_bytes_behind_the_magic_are_read_without_a_crash(tail: bytes) -> None:
    tables = ElfTables("x", len(tail) + 4)
    tables.write(b"\x7fELF" + tail)
    tables.finish()


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=8)), max_size=12),
    st.integers(1, 700),
)
def test_a_damaged_file_is_read_or_said_to_be_unread(
    damage: list[tuple[int, bytes]], chunk: int
) -> None:
    content = bytearray(FULL.encode())
    for at, piece in damage:
        at %= len(content)
        content[at : at + len(piece)] = piece
    tables = ElfTables("x", len(content))
    for at in range(0, len(content), chunk):
        tables.write(bytes(content[at : at + chunk]))
    tables.finish()


def _readelf(path: Path) -> tuple[list[str], str, str, str, set[str], set[str]]:
    """What binutils' readelf prints of the same tables."""

    def run(*options: str) -> str:
        return subprocess.run(
            ["readelf", "--wide", *options, str(path)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        ).stdout

    shown, notes = run("-d", "-V"), run("-n")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", shown)
    soname = "".join(re.findall(r"\(SONAME\).*\[(.*)\]", shown))
    rpath = "".join(re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", shown))
    build_id = "".join(re.findall(r"Build ID: ([0-9a-f]+)", notes)[:1])
    requires: set[str] = set()
    library = ""
    for line in shown.partition("Version needs section")[2].splitlines():
        if match := re.search(r"File: (\S+)", line):
            library = match[1]
        elif match := re.search(r"Name: (\S+)", line):
            requires.add(f"{library} {match[1]}")
    defined = re.search(
        r"Version definition section(.*?)(?:Version (?:needs|symbols)|\Z)", shown, re.DOTALL
    )
    provides = set()
    for line in (defined[1] if defined else "").splitlines():
        match = re.search(r"Flags: (\S+).*Name: (\S+)", line)
        if match and match[1] != "BASE":
            provides.add(match[2])
    return needed, soname, rpath, build_id, requires, provides


def _numbers(versions: set[str]) -> set[str]:
    """Keep the highest of each series, by a plain sort that shares no code with the reader."""
    best: dict[str, tuple[list[int], str]] = {}
    for version in versions:
        match = re.fullmatch(r"(.*?)_?(\d+(?:\.\d+)*)", version)
        key, number = (match[1], [int(p) for p in match[2].split(".")]) if match else (version, [])
        if key not in best or number > best[key][0]:
            best[key] = (number, version)
    return {version for _, version in best.values()}


def _is_loaded(head: bytes) -> bool:
    """An ELF file that is a program or library, not an object file (gABI, ``e_type``)."""
    return head[:4] == b"\x7fELF" and head[16:18] in (b"\x02\0", b"\x03\0")


@pytest.mark.engines
def test_every_library_of_this_machine_is_read_as_readelf_reads_it() -> None:
    paths = [
        path
        for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/bin")
        for path in sorted(Path(folder).glob("*"))
        if path.is_file() and not path.is_symlink() and _is_loaded(path.read_bytes()[:18])
    ][:400]
    assert len(paths) > 50
    for path in paths:
        content = path.read_bytes()
        found = read(content)
        assert found is not None, path
        needed, soname, rpath, build_id, requires, provides = _readelf(path)
        assert found.unread == "", path
        assert list(found.needed) == needed, path
        assert found.soname == soname, path
        assert (found.rpath or found.runpath) == rpath, path
        assert found.build_id == build_id, path
        by_library: dict[str, set[str]] = {}
        for line in requires:
            library_name, _, version = line.partition(" ")
            by_library.setdefault(library_name, set()).add(version)
        expected = {f"{n} {v}" for n, vs in by_library.items() for v in _numbers(vs)}
        assert set(found.requires or ()) == expected, path
        assert set(found.provides) == _numbers(provides), path
