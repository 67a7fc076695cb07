"""Every form in which a tar can say the same thing is read alike."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

from imagegate.oci.tar import Kind, TarEntry, scan_tar
from tests.images import Directory, File, HardLink, Link, tar
from tests.rawtar import END, GNU, USTAR, V7, base256, entry, header, octal, padded, pax

if TYPE_CHECKING:
    from pathlib import Path


def scan(content: bytes) -> list[TarEntry]:
    return list(scan_tar([content]))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_an_entry_says_all_that_a_layer_can_say_of_a_path() -> None:
    content = tar(
        {
            "etc": Directory(0o700),
            "etc/shadow": File(b"root", mode=0o640, uid=42),
            "bin": Link("usr/bin"),
            "etc/same": HardLink("etc/shadow"),
        }
    )
    assert scan(content) == [
        TarEntry(path="etc", kind=Kind.DIRECTORY, mode=0o700, uid=0, gid=0),
        TarEntry(
            path="etc/shadow",
            kind=Kind.FILE,
            mode=0o640,
            uid=42,
            gid=0,
            size=4,
            sha256=sha256(b"root"),
        ),
        TarEntry(path="bin", kind=Kind.SYMLINK, mode=0o644, uid=0, gid=0, target="usr/bin"),
        TarEntry(
            path="etc/same", kind=Kind.HARDLINK, mode=0o644, uid=0, gid=0, target="etc/shadow"
        ),
    ]


@pytest.mark.parametrize(
    ("flag", "kind"), [(b"3", Kind.CHARACTER), (b"4", Kind.BLOCK), (b"6", Kind.FIFO)]
)
def test_devices_and_pipes_are_entries(flag: bytes, kind: Kind) -> None:
    assert [e.kind for e in scan(header(b"dev/x", flag=flag) + END)] == [kind]


# --- names


def test_go_containerregistry_1412_long_names_read_alike_in_every_format() -> None:
    deep = "usr/" + "d" * 90
    name = f"{deep}/{'f' * 95}"
    layer: dict[str, bytes | Link | HardLink] = {
        name: b"content",
        "short": Link(f"{deep}/{'t' * 90}"[:100]),
        "hard": HardLink(f"{deep}/x"[:100]),
    }
    formats = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
    ustar, gnu, posix = (scan(tar(layer, format=which)) for which in formats)  # type: ignore[arg-type]
    assert ustar == gnu == posix
    assert ustar[0].path == name


def test_go_containerregistry_1414_links_longer_than_a_header_holds_read_alike() -> None:
    target = "t/" * 100 + "end"
    layer = {"soft": Link("/" + target), "hard": HardLink(target)}
    gnu, posix = (
        scan(tar(layer, format=which))  # type: ignore[arg-type]
        for which in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
    )
    assert gnu == posix
    assert [e.target for e in gnu] == ["/" + target, target]


def test_names_that_are_no_utf8_come_back_as_they_were() -> None:
    found = scan(entry(b"caf\xe9", b"x") + END)
    assert os.fsencode(found[0].path) == b"caf\xe9"


@pytest.mark.parametrize("raw", [b"./a/b", b"/a/b", b"a//b", b"a/./b", b"./a/b/."])
def test_one_path_has_one_name(raw: bytes) -> None:
    # anchore-engine#209: `tarfile` keeps each of these as it stands
    assert [e.path for e in scan(entry(raw) + END)] == ["a/b"]


def test_the_root_is_the_empty_path() -> None:
    assert [(e.path, e.kind) for e in scan(header(b"./", flag=b"5") + END)] == [
        ("", Kind.DIRECTORY)
    ]


def test_a_name_with_a_slash_at_its_end_was_a_directory_before_posix() -> None:
    # Go's archive/tar: type NUL with a trailing slash is a directory
    found = scan(
        header(b"old/", flag=b"\0", magic=V7) + entry(b"old/f", flag=b"\0", magic=V7) + END
    )
    assert [(e.path, e.kind) for e in found] == [("old", Kind.DIRECTORY), ("old/f", Kind.FILE)]


def test_the_prefix_belongs_to_ustar_alone() -> None:
    blocks = [header(b"name", magic=magic, tail=b"prefix") for magic in (USTAR, V7)]
    assert [e.path for e in scan(b"".join(blocks) + END)] == ["prefix/name", "name"]


def test_gnu_times_are_no_prefix() -> None:
    # GNU tar --incremental writes access and change time where ustar has the prefix
    times = octal(0o14000000000, 12) + octal(0o14000000001, 12)
    assert [e.path for e in scan(header(b"name", magic=GNU, tail=times) + END)] == ["name"]


def test_golang_go_9683_old_go_wrote_a_prefix_into_gnu_headers() -> None:
    # Go's reader takes what is no time for a prefix, so a runtime does
    assert [e.path for e in scan(header(b"name", magic=GNU, tail=b"usr/lib") + END)] == [
        "usr/lib/name"
    ]


def test_star_keeps_times_behind_a_shorter_prefix() -> None:
    # Go's archive/tar: the trailer `tar\0` says so; the prefix has 131 bytes then
    tail = b"p" * 131 + octal(1, 12) + octal(2, 12)
    tail = tail.ljust(163, b"\0") + b"tar\0"
    assert scan(header(b"name", tail=tail) + END)[0].path == "p" * 131 + "/name"


# --- numbers


def test_a_size_over_8_gib_is_read_from_base_256_and_from_pax() -> None:
    """The numbers alone: the stream ends where 9 GiB would have to follow."""
    nine = 9 << 30
    assert int.from_bytes(base256(nine, 12)[1:], "big") == nine
    small = entry(b"f", b"abc", size=base256(3, 12)) + END
    by_pax = pax((b"size", b"3")) + header(b"f", size=0) + padded(b"abc") + END
    assert scan(small) == scan(by_pax)
    assert scan(small)[0].sha256 == sha256(b"abc")


def test_owners_beyond_octal_are_read() -> None:
    # 2,000,000,000 does not fit into seven octal digits
    big = scan(entry(b"f", uid=base256(2_000_000_000, 8)) + END)
    by_pax = scan(pax((b"uid", b"2000000000")) + entry(b"f") + END)
    assert big == by_pax
    assert big[0].uid == 2_000_000_000


def test_numbers_may_be_padded_with_blanks() -> None:
    # historic writers: `   644 ` and a NUL
    assert scan(entry(b"f", mode=b"   644 \0") + END)[0].mode == 0o644


def test_a_checksum_over_signed_bytes_is_accepted() -> None:
    # POSIX allows for implementations with signed characters; tarfile and Go accept both
    block = bytearray(header(b"caf\xe9"))
    signed = sum(byte - 256 if byte > 127 else byte for byte in block[:148] + block[156:]) + 8 * 32
    block[148:156] = b"%06o\0 " % signed
    assert len(scan(bytes(block) + END)) == 1


# --- pax


def test_extended_attributes_are_read() -> None:
    capability = "\x01\x00\x00\x02\x00\x04"
    content = tar({"bin/ping": File(b"x", pax=(("SCHILY.xattr.security.capability", capability),))})
    assert scan(content)[0].xattrs == (("security.capability", capability.encode()),)


def test_a_record_without_a_value_is_as_if_it_were_not_there() -> None:
    # POSIX pax: a zero-length value; Go keeps what the header says
    content = pax((b"path", b""), (b"size", b"")) + entry(b"f", b"abc") + END
    assert [(e.path, e.size) for e in scan(content)] == [("f", 3)]


def test_of_two_equal_keywords_the_last_counts() -> None:
    content = pax((b"path", b"a"), (b"path", b"b")) + entry(b"f") + END
    assert [e.path for e in scan(content)] == ["b"]


def test_a_global_header_that_only_remarks_is_passed() -> None:
    # `git archive` writes the commit as a global comment
    content = pax((b"comment", b"4a1f"), flag=b"g") + entry(b"f") + END
    assert [e.path for e in scan(content)] == ["f"]


# --- sparse files, with GNU tar as the writer


def holey(path: Path, size: int, pieces: dict[int, bytes]) -> bytes:
    with path.open("wb") as stream:
        for offset, piece in pieces.items():
            stream.seek(offset)
            stream.write(piece)
        stream.truncate(size)
    return path.read_bytes()


SPARSE_FORMS = {
    "old": ("--format=gnu",),
    "0.0": ("--format=pax", "--sparse-version=0.0"),
    "0.1": ("--format=pax", "--sparse-version=0.1"),
    "1.0": ("--format=pax", "--sparse-version=1.0"),
}
SPARSE_FILES: dict[str, tuple[int, dict[int, bytes]]] = {
    "hole in the middle": (1 << 20, {0: b"begin", (1 << 20) - 4096: b"z" * 4096}),
    "hole at the end": (1 << 20, {0: b"a" * 10_000}),
    "hole at the start": (300_000, {204_800: b"b" * 5000}),
    "nothing but a hole": (1 << 20, {}),
    "more segments than a header holds": (
        40 << 16,
        {number << 16: bytes([65 + number % 26]) * 4096 for number in range(0, 40, 1)},
    ),
}


@pytest.mark.parametrize("form", SPARSE_FORMS)
@pytest.mark.parametrize("which", SPARSE_FILES)
def test_tar_split_21_sparse_files_are_expanded(tmp_path: Path, form: str, which: str) -> None:
    size, pieces = SPARSE_FILES[which]
    expected = holey(tmp_path / "sparse", size, pieces)
    (tmp_path / "after").write_bytes(b"what follows is still in step")
    archive = tmp_path / "a.tar"
    command = ["tar", *SPARSE_FORMS[form], "-S", "-cf", str(archive), "-C", str(tmp_path)]
    subprocess.run([*command, "sparse", "after"], check=True)
    content = archive.read_bytes()
    assert len(content) < max(size // 2, 250_000)
    found = scan(content)
    assert [(e.path, e.size, e.sha256) for e in found] == [
        ("sparse", size, sha256(expected)),
        ("after", 29, sha256(b"what follows is still in step")),
    ]


def test_ratarmount_23_a_sparse_file_has_its_own_name(tmp_path: Path) -> None:
    """Form 1.0 keeps `GNUSparseFile.0/…` in the header for readers that know no better."""
    holey(tmp_path / "image.raw", 1 << 20, {0: b"x"})
    archive = tmp_path / "a.tar"
    command = ["tar", "--format=pax", "--sparse-version=1.0", "-S", "-cf", str(archive)]
    subprocess.run([*command, "-C", str(tmp_path), "image.raw"], check=True)
    assert b"GNUSparseFile" in archive.read_bytes()
    assert [e.path for e in scan(archive.read_bytes())] == ["image.raw"]


def test_toybox_469_the_old_sparse_header_is_read_by_hand_too() -> None:
    # offset 512 with 3 bytes, real size 1024 (GNU tar manual, struct oldgnu_header)
    segments = octal(512, 12) + octal(3, 12)
    tail = bytes(41) + segments.ljust(96, b"\0") + b"\0" + octal(1024, 12)
    content = header(b"s", flag=b"S", size=3, magic=GNU, tail=tail) + padded(b"abc") + END
    found = scan(content)
    assert (found[0].size, found[0].sha256) == (1024, sha256(bytes(512) + b"abc" + bytes(509)))


# --- what somebody wants of a file


class Taken:
    def __init__(self) -> None:
        self.heads: dict[str, bytes] = {}
        self.pieces: dict[str, list[bytes]] = {}

    def __call__(self, path: str, size: int, head: bytes) -> Taken.Sink:
        del size
        self.heads[path] = head
        return Taken.Sink(self.pieces.setdefault(path, []))

    class Sink:
        def __init__(self, pieces: list[bytes]) -> None:
            self._pieces = pieces

        def write(self, chunk: bytes | memoryview) -> None:
            self._pieces.append(bytes(chunk))


@pytest.mark.parametrize("step", [1, 7, 511, 512, 513, 1000, 1 << 20])
def test_the_first_bytes_do_not_depend_on_how_the_stream_is_cut(step: int) -> None:
    layer: dict[str, bytes] = {"elf": b"\x7fELF" + bytes(range(200)), "tiny": b"ab", "none": b""}
    content = tar(layer)  # type: ignore[arg-type]
    taken = Taken()
    list(scan_tar((content[i : i + step] for i in range(0, len(content), step)), taken))
    assert taken.heads == {name: text[:64] for name, text in layer.items()}
    assert {name: b"".join(pieces) for name, pieces in taken.pieces.items()} == layer


def test_a_sparse_file_is_handed_on_expanded(tmp_path: Path) -> None:
    expected = holey(tmp_path / "s", 1 << 20, {0: b"\x7fELF", 1 << 19: b"end"})
    archive = tmp_path / "a.tar"
    command = ["tar", "--format=pax", "-S", "-cf", str(archive), "-C", str(tmp_path), "s"]
    subprocess.run(command, check=True)
    taken = Taken()
    list(scan_tar([archive.read_bytes()], taken))
    assert b"".join(taken.pieces["s"]) == expected
    assert taken.heads["s"][:4] == b"\x7fELF"
