"""Laws of the tar reader: any bytes are read or refused, and what is read is what others read."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tracemalloc
from typing import Literal

from hypothesis import assume, example, given, settings, strategies as st

from imagegate.errors import ImageError
from imagegate.oci.tar import Kind, TarEntry, scan_tar
from imagegate.oci.tarwrite import Header, TarWriter
from tests.images import tar
from tests.rawtar import END, GNU, USTAR, V7, entry, header, pax, seal

_PART = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=60
).filter(lambda part: part not in (".", ".."))
PATHS = st.lists(_PART, min_size=1, max_size=6).map("/".join)
CONTENTS = st.binary(max_size=1500)
Node = tuple[Literal["file", "directory", "symlink", "hardlink"], bytes, str, int]
NODES = st.one_of(
    st.tuples(st.just("file"), CONTENTS, st.just(""), st.integers(0, 0o7777)),
    st.tuples(st.just("directory"), st.just(b""), st.just(""), st.integers(0, 0o7777)),
    st.tuples(st.just("symlink"), st.just(b""), PATHS, st.just(0o777)),
    st.tuples(st.just("hardlink"), st.just(b""), PATHS, st.just(0o644)),
)
TYPES = {
    "file": (tarfile.REGTYPE, Kind.FILE),
    "directory": (tarfile.DIRTYPE, Kind.DIRECTORY),
    "symlink": (tarfile.SYMTYPE, Kind.SYMLINK),
    "hardlink": (tarfile.LNKTYPE, Kind.HARDLINK),
}


def cut(content: bytes, sizes: list[int]) -> list[bytes]:
    """Cut a stream into pieces of the given sizes, and what is left."""
    pieces, at = [], 0
    for size in sizes:
        pieces.append(content[at : at + size])
        at += size
    return [*pieces, content[at:]]


@given(
    st.lists(st.tuples(PATHS, NODES), max_size=8),
    st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    st.lists(st.integers(0, 3000), max_size=8),
    st.integers(0, 1 << 22),
)
def test_what_tarfile_writes_is_read_as_it_was_meant(
    entries: list[tuple[str, Node]],
    form: Literal[0, 1, 2],
    sizes: list[int],
    uid: int,
) -> None:
    buffer = io.BytesIO()
    expected = []
    with tarfile.open(fileobj=buffer, mode="w", format=form, encoding="utf-8") as archive:
        for path, (kind, content, target, mode) in entries:
            info = tarfile.TarInfo(path)
            info.type, expected_kind = TYPES[kind]
            info.size, info.mode, info.uid, info.linkname = len(content), mode, uid, target
            try:
                archive.addfile(info, io.BytesIO(content))
            except ValueError:
                # ustar cannot hold it; `tarfile` says so and writes nothing
                assume(form != tarfile.USTAR_FORMAT)
                raise
            expected.append(
                TarEntry(
                    path=path,
                    kind=expected_kind,
                    mode=mode,
                    uid=uid,
                    gid=0,
                    size=len(content),
                    sha256=hashlib.sha256(content).hexdigest() if kind == "file" else "",
                    target=target,
                )
            )
    assert list(scan_tar(cut(buffer.getvalue(), sizes))) == expected


@given(st.lists(st.tuples(PATHS, NODES), max_size=8))
def test_what_is_written_here_is_read_by_tarfile_and_by_the_scanner(
    entries: list[tuple[str, Node]],
) -> None:
    pieces: list[bytes] = []
    writer = TarWriter(pieces.append)
    meant = [item for item in entries if item[1][0] != "hardlink"]
    for path, (kind, content, target, mode) in meant:
        writer.start(
            Header(path=path, kind=TYPES[kind][1], mode=mode, size=len(content), target=target)
        )
        if content:
            writer.content(content)
    writer.finish()
    with tarfile.open(fileobj=io.BytesIO(b"".join(pieces)), encoding="utf-8") as archive:
        by_tarfile = [
            (info.name, info.type, info.mode, info.linkname, _content(archive, info))
            for info in archive
        ]
    by_scanner = [(e.path, e.kind, e.mode, e.target, e.sha256) for e in scan_tar(pieces)]
    assert [
        (p, t, m, target, hashed(k, c)) for p, (k, c, target, m) in meant for t in (TYPES[k][0],)
    ] == [(p, t, m, target, c) for p, t, m, target, c in by_tarfile]
    assert by_scanner == [(p, TYPES[k][1], m, t, hashed(k, c)) for p, (k, c, t, m) in meant]


def hashed(kind: str, content: bytes) -> str:
    return hashlib.sha256(content).hexdigest() if kind == "file" else ""


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> str:
    stream = archive.extractfile(info) if info.isreg() else None
    return hashlib.sha256(stream.read()).hexdigest() if stream else ""


# --- foreign bytes


def read_or_refused(content: bytes) -> list[TarEntry] | None:
    """Read a tar; anything but an answer or an ImageError is a failure of the test."""
    try:
        return list(scan_tar([content]))
    except ImageError:
        return None


VALID = st.sampled_from(
    [
        tar({"a": b"x" * 700, "b/c": b"", "d": b"y"}),
        tar({"n" * 150: b"x"}, format=tarfile.GNU_FORMAT) + bytes(512),
        pax((b"path", b"p" * 120), (b"uid", b"7"), (b"SCHILY.xattr.user.a", b"\0\1"))
        + entry(b"f", b"abc")
        + END,
        pax((b"GNU.sparse.size", b"9"), (b"GNU.sparse.map", b"1,3")) + entry(b"s", b"abc") + END,
        pax(
            (b"GNU.sparse.major", b"1"),
            (b"GNU.sparse.minor", b"0"),
            (b"GNU.sparse.realsize", b"2000"),
        )
        + entry(b"s", b"1\n500\n3\n".ljust(512, b"\0") + b"abc")
        + END,
    ]
)


@given(VALID, st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=4))
@settings(max_examples=150)
def test_changed_bytes_are_read_or_refused(content: bytes, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(content)
    for position, value in changes:
        changed[position % len(changed)] = value
    read_or_refused(bytes(changed))


@given(
    VALID,
    st.lists(st.tuples(st.integers(0, 511), st.binary(min_size=1, max_size=12)), max_size=3),
    st.integers(0, 3),
)
@settings(max_examples=150)
def test_changed_headers_with_a_right_checksum_are_read_or_refused(
    content: bytes, changes: list[tuple[int, bytes]], which: int
) -> None:
    start = which * 512
    block = bytearray(content[start : start + 512])
    for position, value in changes:
        block[position : position + len(value)] = value
    changed = content[:start] + seal(bytes(block[:512])) + content[start + 512 :]
    read_or_refused(changed)


FIELD = st.one_of(
    st.binary(min_size=12, max_size=12),
    st.text("01234567 \0x-", min_size=12, max_size=12).map(str.encode),
)


@given(
    st.lists(
        st.builds(
            header,
            st.binary(max_size=100),
            flag=st.sampled_from([bytes([b]) for b in b"\x0001234567SxgLKXDMVN"]),
            size=FIELD | st.integers(0, 2000),
            mode=FIELD.map(lambda raw: raw[:8]) | st.integers(0, 0o7777),
            link=st.binary(max_size=100),
            magic=st.sampled_from([USTAR, GNU, V7]),
            tail=st.binary(max_size=167),
        ),
        max_size=5,
    ),
    st.binary(max_size=2048),
)
@settings(max_examples=150)
def test_headers_of_random_fields_are_read_or_refused(blocks: list[bytes], rest: bytes) -> None:
    read_or_refused(b"".join(blocks) + rest)
    read_or_refused(b"".join(blocks) + END)


@given(st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=40)), max_size=6))
def test_random_pax_records_are_read_or_refused(records: list[tuple[bytes, bytes]]) -> None:
    read_or_refused(pax(*records) + entry(b"f", b"abc") + END)


_SPARSE_KEYS = st.sampled_from(
    [
        b"major",
        b"minor",
        b"size",
        b"realsize",
        b"map",
        b"numblocks",
        b"offset",
        b"numbytes",
        b"name",
    ]
)
_SPARSE_VALUES = st.one_of(
    st.integers(0, 4000).map(lambda n: b"%d" % n),
    st.lists(st.integers(0, 4000), max_size=6).map(lambda v: b",".join(b"%d" % n for n in v)),
    st.binary(max_size=12),
)


@given(
    st.lists(st.tuples(_SPARSE_KEYS, _SPARSE_VALUES), max_size=8),
    st.binary(max_size=1200),
    st.sampled_from([b"0", b"S", b"5"]),
)
@settings(max_examples=150)
def test_random_sparse_maps_are_read_or_refused(
    records: list[tuple[bytes, bytes]], content: bytes, flag: bytes
) -> None:
    named = [(b"GNU.sparse." + key, value) for key, value in records]
    read_or_refused(pax(*named) + entry(b"s", content, flag=flag, magic=GNU) + END)


@given(st.binary(max_size=3000))
@example(b"")
@example(bytes(512))
def test_random_bytes_are_read_or_refused(content: bytes) -> None:
    # 3000 random bytes hold no valid checksum; only zeros are an archive
    if read_or_refused(content) is not None:
        assert not content.strip(b"\0")


def test_a_header_that_claims_much_takes_no_memory() -> None:
    """A stream of 20 MB, in one file of unknown end, is read in the memory of its chunks."""
    chunk = bytes(1 << 20)
    stream = [header(b"f", size=b"77777777777\0"), *[chunk] * 20]
    tracemalloc.start()
    try:
        assert _refused(stream)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def _refused(stream: list[bytes]) -> bool:
    try:
        list(scan_tar(stream))
    except ImageError as error:
        return "ends inside an entry" in error.message
    return False


@given(VALID, st.integers(0, 5000))
def test_a_stream_that_is_cut_is_never_a_shorter_list(content: bytes, where: int) -> None:
    end = len(content.rstrip(b"\0"))
    # a cut behind the two zero blocks takes padding only
    shorter = content[: min(where, (end + 511) // 512 * 512 + 1023)]
    assert read_or_refused(shorter) is None
