"""A layer is read to its end and verified, however it is compressed, or it is an error."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import signal
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from backports import zstd
from hypothesis import given, settings, strategies as st
from isal import igzip

from imagegate.errors import DigestMismatch, ImageError
from imagegate.oci.digest import Digest
from imagegate.oci.layer import LayerBlob, LayerReading, read_layer
from tests.images import tar

if TYPE_CHECKING:
    from collections.abc import Callable

TAR = tar({f"f{number}": hashlib.sha256(b"%d" % number).digest() * 40 for number in range(40)})
HALF = len(TAR) // 2
SKIPPABLE = struct.pack("<II", 0x184D2A50, 5) + b"hello"


def read(
    blob: bytes,
    *,
    digest: Digest | None = None,
    size: int | None = None,
    diff_id: Digest | None = None,
) -> LayerReading:
    """Read a blob by the promises that its own bytes keep, unless others are given."""
    promise = LayerBlob(
        what="layer 1",
        digest=digest or Digest.of(blob),
        size=len(blob) if size is None else size,
        diff_id=diff_id or Digest.of(TAR),
    )
    return read_layer(io.BytesIO(blob), promise)


def unpromised(blob: bytes) -> LayerReading:
    """Read a blob of which nothing is known, as in a classic docker archive."""
    return read_layer(
        io.BytesIO(blob), LayerBlob(what="layer 1", digest=None, size=None, diff_id=None)
    )


def pieces(compress: Callable[[bytes], bytes]) -> bytes:
    return compress(TAR[:HALF]) + compress(TAR[HALF:])


FORMS: dict[str, bytes] = {
    "plain": TAR,
    "gzip 1": gzip.compress(TAR, 1),
    "gzip 9": gzip.compress(TAR, 9),
    "igzip": igzip.compress(TAR),
    "gzip of several members": pieces(gzip.compress),
    "gzip with an empty member": gzip.compress(b"") + gzip.compress(TAR) + gzip.compress(b""),
    "zstd": zstd.compress(TAR),
    "zstd of several frames": pieces(zstd.compress),
    "zstd with a skippable frame first": SKIPPABLE + zstd.compress(TAR),
    "zstd with skippable frames between and last": SKIPPABLE.join(
        [zstd.compress(TAR[:HALF]), zstd.compress(TAR[HALF:]), b""]
    ),
    "zstd with a checksum": zstd.compress(
        TAR, options={zstd.CompressionParameter.checksum_flag: 1}
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_moby_31919_recompression_changes_the_digest_and_nothing_else(form: str) -> None:
    """Also moby#22011, podman#15969 and podman#18809: the content's identity is the diff id."""
    reading, plain = read(FORMS[form]), read(TAR)
    assert reading.entries == plain.entries
    assert reading.diff_id == plain.diff_id
    assert (reading.compressed, reading.uncompressed) == (len(FORMS[form]), len(TAR))
    assert len(reading.entries) == 40


def test_a_diff_id_of_another_algorithm_is_computed_by_it() -> None:
    # moby#48241: sha512
    diff_id = Digest.of(TAR, "sha512")
    blob = gzip.compress(TAR)
    assert read(blob, digest=Digest.of(blob, "sha512"), diff_id=diff_id).diff_id == diff_id


def test_without_promises_the_diff_id_is_still_computed() -> None:
    assert unpromised(gzip.compress(TAR)).diff_id == Digest.of(TAR)


# --- lies


@pytest.mark.parametrize("form", ["plain", "gzip 1", "zstd"])
def test_other_bytes_than_promised_are_an_error(form: str) -> None:
    blob = FORMS[form]
    with pytest.raises(DigestMismatch, match=r"expected=sha256:.* found=sha256:"):
        read(blob, digest=Digest.of(b"other"))


@pytest.mark.parametrize("form", ["plain", "gzip 1", "zstd"])
def test_boxlite_772_a_diff_id_that_is_not_the_tars_is_an_error(form: str) -> None:
    with pytest.raises(DigestMismatch, match="unpacks to other bytes"):
        read(FORMS[form], diff_id=Digest.of(b"other"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("by", [-1, 1])
def test_another_size_than_promised_is_an_error(form: str, by: int) -> None:
    with pytest.raises(ImageError):
        read(FORMS[form], size=len(FORMS[form]) + by)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cut", [1, 2, 4, 6, 9, 1000])
def test_zstd_3255_a_cut_blob_is_an_error_even_without_promises(form: str, cut: int) -> None:
    """stargz-snapshotter#1596: readers that stop at a frame's end give a shorter list."""
    blob = FORMS[form]
    if form.startswith("zstd with skippable"):
        # what is cut off is first of all the skippable frame, which holds nothing
        cut += len(SKIPPABLE)
    if form == "gzip with an empty member":
        cut += len(gzip.compress(b""))
    if form == "plain":
        cut += 10_240  # `tarfile` pads with zeros, of which 1024 are needed
    with pytest.raises(ImageError):
        unpromised(blob[:-cut])


@pytest.mark.parametrize(
    "form", ["gzip 1", "gzip of several members", "zstd", "zstd of several frames"]
)
@pytest.mark.parametrize("tail", [b"junk", b"\1" * 4096, TAR[:512]])
def test_bytes_after_the_compressed_data_are_an_error(form: str, tail: bytes) -> None:
    with pytest.raises(ImageError):
        unpromised(FORMS[form] + tail)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd.compress])
def test_bytes_after_the_end_of_the_tar_are_an_error(compress: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ImageError, match="follow the end-of-archive marker"):
        unpromised(compress(TAR + TAR))


def test_a_second_gzip_member_may_not_hide_a_second_archive() -> None:
    with pytest.raises(ImageError, match="follow the end-of-archive marker"):
        unpromised(gzip.compress(TAR) + gzip.compress(TAR))


def test_a_wrong_crc_is_an_error() -> None:
    blob = bytearray(gzip.compress(TAR))
    blob[-8] ^= 1
    with pytest.raises(ImageError, match="damaged"):
        unpromised(bytes(blob))


def test_a_wrong_zstd_checksum_is_an_error() -> None:
    blob = bytearray(FORMS["zstd with a checksum"])
    blob[-1] ^= 1
    with pytest.raises(ImageError, match="damaged"):
        unpromised(bytes(blob))


def test_an_empty_blob_is_no_layer() -> None:
    with pytest.raises(ImageError, match="end-of-archive marker"):
        unpromised(b"")


def test_moby_28826_the_empty_layer_is_a_valid_layer() -> None:
    # Docker's gzip of 1024 zero bytes, its digest and its diff id as published
    blob = bytes.fromhex("1f8b080000096e8800ff621805a360148c5800080000ffff2eafb5ef00040000")
    reading = read(
        blob,
        digest=Digest.parse(
            "sha256:a3ed95caeb02ffe68cdd9fd84406680ae93d633cb16422d00e8a7c22955b46d4"
        ),
        diff_id=Digest.parse(
            "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"
        ),
    )
    assert reading.entries == ()
    assert reading.uncompressed == 1024


def test_an_error_names_the_layer_once() -> None:
    with pytest.raises(ImageError) as caught:
        unpromised(gzip.compress(TAR)[:-9])
    assert caught.value.message.count("layer 1") == 1
    with pytest.raises(ImageError) as caught:
        unpromised(TAR[:5000])
    assert caught.value.message.startswith("layer 1: malformed layer: ")


@given(
    st.sampled_from([form for form in FORMS if form != "plain"]),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(1, 255)), min_size=1, max_size=4),
)
@settings(max_examples=60)
def test_flipped_bytes_are_an_error(form: str, flips: list[tuple[int, int]]) -> None:
    blob = bytearray(FORMS[form])
    for position, mask in flips:
        blob[position % len(blob)] ^= mask
    if bytes(blob) != FORMS[form]:
        with pytest.raises(ImageError):
            read(bytes(blob), digest=Digest.of(FORMS[form]))


@given(st.sampled_from([b"", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", SKIPPABLE]), st.binary(max_size=600))
@settings(max_examples=60)
def test_random_blobs_are_an_error_or_an_empty_layer(magic: bytes, rest: bytes) -> None:
    with suppress(ImageError):
        assert unpromised(magic + rest).entries == ()
    assert running() == []


# --- threads


def running() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("imagegate-")]


class Trickle(io.RawIOBase):
    """A source that gives few bytes at a time, as a network does, and fails where told to."""

    def __init__(self, content: bytes, *, step: int, fail_after: int | None = None) -> None:
        super().__init__()
        self._content = content
        self._step = step
        self._fail_after = fail_after
        self._at = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._fail_after is not None and self._at >= self._fail_after:
            raise ConnectionResetError("connection reset by peer")
        end = self._at + min(self._step, size if size >= 0 else self._step)
        piece = self._content[self._at : end]
        self._at += len(piece)
        return piece


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_a_source_may_give_few_bytes_at_a_time(form: str, step: int) -> None:
    blob = FORMS[form]
    promise = LayerBlob(
        what="layer 1", digest=Digest.of(blob), size=len(blob), diff_id=Digest.of(TAR)
    )
    source = Trickle(blob, step=step)
    assert len(read_layer(source, promise).entries) == 40  # type: ignore[arg-type]
    assert source.closed


@pytest.mark.parametrize("form", ["plain", "gzip 1", "zstd"])
def test_a_source_that_fails_is_an_error_and_leaves_no_thread(form: str) -> None:
    source = Trickle(FORMS[form], step=100, fail_after=500)
    with pytest.raises(ImageError, match="connection reset"):
        read_layer(source, LayerBlob(what="layer 1", digest=None, size=None, diff_id=None))  # type: ignore[arg-type]
    assert running() == []
    assert source.closed


# more than the queues between the threads hold, so that every thread is waiting for another
LONG = tar({f"f{number}": bytes(1 << 20) for number in range(64)})


class Interrupting:
    """Wants every file and is interrupted at one of them."""

    def __init__(self, at: int, error: BaseException) -> None:
        self._left = at
        self._error = error

    def __call__(self, path: str, size: int, head: bytes) -> None:
        del path, size, head
        self._left -= 1
        if self._left < 0:
            raise self._error


@pytest.mark.parametrize("at", [0, 5, 63])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), MemoryError(), ImageError("`x` has too many bytes")]
)
@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd.compress])
def test_a_reader_that_stops_early_ends_its_threads_and_closes_its_source(
    at: int, error: BaseException, compress: Callable[[bytes], bytes]
) -> None:
    source = io.BytesIO(compress(LONG))
    blob = LayerBlob(what="layer 1", digest=Digest.of(b""), size=None, diff_id=None)
    with pytest.raises(type(error)):
        read_layer(source, blob, want=Interrupting(at, error))
    assert running() == []
    assert source.closed


def test_progress_that_is_interrupted_ends_the_pass() -> None:
    def interrupt(_count: int) -> None:
        raise KeyboardInterrupt

    source = io.BytesIO(gzip.compress(LONG))
    blob = LayerBlob(what="layer 1", digest=None, size=None, diff_id=None)
    with pytest.raises(KeyboardInterrupt):
        read_layer(source, blob, progress=interrupt)
    assert running() == []
    assert source.closed


def test_progress_counts_every_compressed_byte() -> None:
    counts: list[int] = []
    blob = gzip.compress(LONG)
    promise = LayerBlob(what="layer 1", digest=None, size=None, diff_id=None)
    read_layer(io.BytesIO(blob), promise, progress=counts.append)
    assert sum(counts) == len(blob)


_ENDLESS = """
import io, signal, sys
from imagegate.oci.layer import LayerBlob, read_layer
from tests.rawtar import header

# a shell's background job inherits that it is ignored
signal.signal(signal.SIGINT, signal.default_int_handler)

class Endless(io.RawIOBase):
    first = header(b"f", size=b"77777777777\\0")
    def read(self, size=-1, /):
        piece, self.first = self.first or bytes(size), b""
        return piece

started = False
def progress(count):
    global started
    if not started:
        started = True
        print("started", flush=True)

blob = LayerBlob(what="layer 1", digest=None, size=None, diff_id=None)
read_layer(Endless(), blob, progress=progress)
"""


def test_ctrl_c_ends_a_pass_over_a_source_without_end() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _ENDLESS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        process.send_signal(signal.SIGINT)
        # a hang is a failure, however long the machine takes for all else
        try:
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith(b"KeyboardInterrupt")
