"""A tar that is cut, corrupt or read differently by readers in use is an error, never a short list."""

from __future__ import annotations

import io
import tarfile

import pytest

from imagegate.errors import ImageError
from imagegate.oci.tar import scan_tar
from tests.images import tar
from tests.rawtar import END, GNU, base256, entry, header, octal, padded, pax, seal

TWO = tar({"first": b"one", "second": b"two"}, format=tarfile.USTAR_FORMAT)


def refusal(content: bytes) -> str:
    with pytest.raises(ImageError) as caught:
        list(scan_tar([content]))
    return caught.value.message


def names_by_tarfile(content: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return archive.getnames()


# --- what `tarfile` passes in silence


def test_boxlite_772_a_bad_checksum_in_the_second_header_is_an_error() -> None:
    broken = bytearray(TWO)
    broken[1024 + 150] ^= 1
    assert names_by_tarfile(bytes(broken)) == ["first"]
    assert "header checksum" in refusal(bytes(broken))
    assert "byte 1024" in refusal(bytes(broken))


def test_a_cut_between_two_entries_is_an_error() -> None:
    assert names_by_tarfile(TWO[:1024]) == ["first"]
    assert "without the end-of-archive marker" in refusal(TWO[:1024])


def test_a_lone_zero_block_is_an_error() -> None:
    lone = TWO[:1024] + bytes(512) + TWO[1024:]
    assert names_by_tarfile(lone) == ["first"]
    assert "one zero block" in refusal(lone)


def test_a_second_archive_after_the_end_marker_is_an_error() -> None:
    doubled = TWO + tar({"hidden": b"x"})
    assert names_by_tarfile(doubled) == ["first", "second"]
    assert "bytes follow the end-of-archive marker" in refusal(doubled)


@pytest.mark.parametrize("cut", [0, 1, 511, 512, 513, 1023, 2047, 2048, 2049, 2048 + 512])
def test_a_cut_anywhere_is_an_error(cut: int) -> None:
    assert "ends" in refusal(TWO[:cut]) or "one zero block" in refusal(TWO[:cut])


def test_zeros_after_the_end_marker_are_padding() -> None:
    # tar pads to a record of 10,240 bytes (POSIX pax, "blocksize")
    assert len(list(scan_tar([TWO, bytes(30_000)]))) == 2


def test_a_claimed_size_beyond_the_stream_is_an_error() -> None:
    # of 9 GiB three bytes are there
    nine = base256(9 << 30, 12)
    assert "ends inside an entry" in refusal(header(b"f", size=nine) + padded(b"abc") + END)
    by_pax = pax((b"size", b"9663676416")) + header(b"f") + padded(b"abc") + END
    assert "ends inside an entry" in refusal(by_pax)


# --- broken fields


@pytest.mark.parametrize(
    ("what", "content"),
    [
        ("size is not a number", header(b"f", size=b"0000000009x\0")),
        # Go cuts leading NULs and reads 3, Python reads 0
        ("size is not a number", entry(b"f", b"abc", size=b"\x00" + b"0000000003\0")),
        # GNU tar stops at the NUL, Go refuses
        ("mode is not a number", header(b"f", mode=b"644\x00 644")),
        ("negative size", header(b"f", size=b"\xff" * 12)),
        ("negative size", header(b"f", size=b"\xc0" + bytes(11))),
        ("size is too large", header(b"f", size=base256(1 << 80, 12))),
        ("mode is not a number", header(b"f", mode=b"-000644\0")),
        ("unknown type", header(b"f", flag=b"Z")),
        ("unknown type", header(b"f", flag=b"M")),
        # Solaris' pax header, an entry of unknown type for Go
        ("unknown type", entry(b"f", b"12 path=abc\n", flag=b"X")),
        ("leaves the image's root", header(b"../../etc/passwd")),
        ("leaves the image's root", header(b"a/../b")),
        ("leaves the image's root", header(b"h", flag=b"1", link=b"../x")),
        ("says", header(b"l", flag=b"2")),
        ("has no name", header(b"")),
        ("has no name", header(b"./", flag=b"2", link=b"x")),
        ("is not a file and claims 512 bytes", entry(b"d", bytes(512), flag=b"5")),
        (
            "is not a file and claims 3 bytes",
            pax((b"size", b"3")) + entry(b"h", flag=b"1", link=b"f"),
        ),
        # GNU tar and Python make a directory of it, Go a file
        ("a directory's name", header(b"f/", flag=b"0")),
        ("Linux allows 4095", pax((b"path", b"d/" * 2100)) + header(b"f")),
        ("NUL in its name", pax((b"path", b"a\0b")) + header(b"f")),
        ("says", pax((b"linkpath", b"a\0b")) + header(b"l", flag=b"2")),
    ],
)
def test_a_field_that_cannot_be_trusted_is_an_error(what: str, content: bytes) -> None:
    assert what in refusal(content + END)


def test_a_hard_link_may_repeat_its_files_size() -> None:
    # cpio and old tars do; Go, GNU tar and Python all read no bytes after it
    found = list(scan_tar([entry(b"f", b"abc") + header(b"g", flag=b"1", link=b"f", size=3) + END]))
    assert [(e.path, e.size) for e in found] == [("f", 3), ("g", 0)]


# --- extended headers


@pytest.mark.parametrize(
    ("what", "content"),
    [
        ("record length is not a number", entry(b"x", b"no record at all\n", flag=b"x")),
        ("malformed pax record", entry(b"x", b"30 path=short\n", flag=b"x")),
        ("malformed pax record", entry(b"x", b"9 path=abc\n", flag=b"x")),
        ("malformed pax record", entry(b"x", b"6 =abc\n"[:7], flag=b"x")),
        ("pax record length is not a number", entry(b"x", b"-12 path=abc\n", flag=b"x")),
        ("record length is not a number", entry(b"x", b"\0\x0012 path=abc\n", flag=b"x")),
        ("size is not a number", pax((b"size", b"1e3")) + header(b"f")),
        ("uid is not a number", pax((b"uid", b"-1")) + header(b"f")),
        ("an extended header claims", header(b"x", flag=b"x", size=5 << 20)),
        ("the stream ends inside an entry", header(b"x", flag=b"L", size=1 << 20)),
        # Go forgets the first of the two, GNU tar and Python merge them
        ("two headers of type `x`", pax((b"path", b"a")) + pax((b"uid", b"1")) + header(b"f")),
        ("two headers of type `L`", entry(b"L", b"a", flag=b"L") * 2 + header(b"f")),
        ("disagree", pax((b"path", b"a")) + entry(b"L", b"b\0", flag=b"L") + header(b"f")),
        # Go forgets what stands before a global header
        ("a global header stands", pax((b"path", b"a")) + pax((b"comment", b"b"), flag=b"g")),
        # GNU tar and Python rename what follows, Go does not
        ("global pax header sets `path`", pax((b"path", b"a"), flag=b"g") + header(b"f")),
        ("global pax header sets `size`", pax((b"size", b"1"), flag=b"g") + header(b"f")),
        ("followed by no entry", pax((b"path", b"a"))),
    ],
)
def test_an_extended_header_that_readers_take_differently_is_an_error(
    what: str, content: bytes
) -> None:
    assert what in refusal(content + END)


# --- sparse maps


def sparse(*records: tuple[bytes, bytes], content: bytes = b"abc") -> bytes:
    return pax(*records) + entry(b"s", content)


def old_sparse(segments: bytes, *, real: int, more: bytes = b"\0", magic: bytes = GNU) -> bytes:
    tail = bytes(41) + segments.ljust(96, b"\0") + more + octal(real, 12)
    return header(b"s", flag=b"S", size=3, magic=magic, tail=tail) + padded(b"abc")


SIZE = (b"GNU.sparse.size", b"100")


@pytest.mark.parametrize(
    ("what", "content"),
    [
        ("out of order", sparse(SIZE, (b"GNU.sparse.map", b"10,2,5,1"))),
        ("out of order", sparse(SIZE, (b"GNU.sparse.map", b"99,3"))),
        ("does not fit its stored size", sparse(SIZE, (b"GNU.sparse.map", b"0,2"))),
        ("another number of values", sparse(SIZE, (b"GNU.sparse.map", b"0,3,9"))),
        (
            "another number of values",
            sparse(SIZE, (b"GNU.sparse.numblocks", b"2"), (b"GNU.sparse.map", b"0,3")),
        ),
        ("sparse map is not a number", sparse(SIZE, (b"GNU.sparse.map", b"0,,3,1"))),
        ("no real size", sparse((b"GNU.sparse.map", b"0,3"))),
        ("unknown form", sparse(SIZE, (b"GNU.sparse.major", b"2"), (b"GNU.sparse.minor", b"0"))),
        (
            "out of order",
            sparse(SIZE, (b"GNU.sparse.numbytes", b"3"), (b"GNU.sparse.offset", b"0")),
        ),
        # Go takes the name for a sparse file's only where there is a map
        ("no real size", sparse((b"GNU.sparse.name", b"other"))),
        ("is not a file and claims to be sparse", pax(SIZE) + header(b"d", flag=b"5")),
        ("add up to", sparse((b"GNU.sparse.size", b"1" + b"0" * 15), (b"GNU.sparse.map", b"0,3"))),
        (
            "malformed sparse map",
            sparse(
                (b"GNU.sparse.major", b"1"),
                (b"GNU.sparse.minor", b"0"),
                (b"GNU.sparse.realsize", b"9"),
                content=b"x" * 1500,
            ),
        ),
        ("more than 262144 segments", sparse(
                (b"GNU.sparse.major", b"1"),
                (b"GNU.sparse.minor", b"0"),
                (b"GNU.sparse.realsize", b"9"),
                content=b"999999999\n".ljust(512, b"\0"),
            )),
        ("did not write", old_sparse(b"", real=3, magic=b"ustar\x0000")),
        ("does not fit its stored size", old_sparse(octal(0, 12) + octal(2, 12), real=9)),
        ("out of order", old_sparse(octal(8, 12) + octal(3, 12), real=9)),
    ],
)  # fmt: skip
def test_a_sparse_map_that_does_not_add_up_is_an_error(what: str, content: bytes) -> None:
    assert what in refusal(content + END)


def test_holes_are_limited_by_their_sum() -> None:
    """A hole costs the writer nothing; many small lies are one large one."""
    one = sparse((b"GNU.sparse.size", b"3000"), (b"GNU.sparse.map", b"0,3"))
    assert len(list(scan_tar([one + END], hole_limit=5000))) == 1
    with pytest.raises(ImageError, match="add up to 5994 bytes"):
        list(scan_tar([one + one + END], hole_limit=5000))


def test_an_old_sparse_map_that_never_ends_is_an_error() -> None:
    content = old_sparse(b"", real=3, more=b"\1")[:512] + bytes(504) + b"\1" + bytes(7)
    assert "ends inside an entry" in refusal(content)


def test_a_checksum_is_over_every_other_byte() -> None:
    whole = seal(header(b"name", tail=b"prefix"))
    for position in (*range(148), *range(156, 512)):
        broken = bytearray(whole)
        broken[position] ^= 0x40
        assert "checksum" in refusal(bytes(broken) + END)
