"""Layers: from a blob to tar entries in one pass that verifies all that can be verified.

One pass inflates the blob and computes the blob's digest, the diff id (the digest of the
uncompressed tar) and the digest of every file. Inflating, with the first hash, and the second run
in threads of their own.
"""

from __future__ import annotations

import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import new as new_hash
from typing import TYPE_CHECKING, BinaryIO, cast

from imagegate.errors import DigestMismatch, ImageError
from imagegate.oci.blob import CHUNK, VerifiedReader
from imagegate.oci.budget import Budget, path_budget
from imagegate.oci.digest import Digest
from imagegate.oci.tar import TarEntry, Want, scan_tar, want_nothing
from imagegate.oci.threads import Pipe, ThreadedHasher

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

# bytes that an entry, and an attribute of it, take beside their text
_ENTRY, _ATTRIBUTE = 400, 150
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# RFC 8878, 3.1.2: skippable frames have the magic numbers 0x184D2A50 to 0x184D2A5F
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBlob:
    """What is known of a layer's blob before it is read.

    Attributes:
        what: how messages name the layer.
        digest: the blob's promised digest, or ``None`` where the medium gives none.
        size: the blob's promised size in bytes, or ``None``.
        diff_id: the promised digest of the uncompressed tar, or ``None`` where the caller
            compares the computed one itself.
    """

    what: str
    digest: Digest | None
    size: int | None
    diff_id: Digest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerReading:
    """One layer, read to its end and verified.

    Attributes:
        entries: all entries in tar order.
        diff_id: digest of the tar, computed from its bytes.
        compressed: bytes read from the source.
        uncompressed: bytes of the tar.
    """

    entries: tuple[TarEntry, ...]
    diff_id: Digest
    compressed: int
    uncompressed: int


def read_layer(
    stream: BinaryIO,
    blob: LayerBlob,
    *,
    want: Want = want_nothing,
    progress: Callable[[int], object] | None = None,
    paths: Budget | None = None,
) -> LayerReading:
    """Read a layer to its end and verify blob digest, blob size and diff id.

    Args:
        stream: the blob's bytes; closed afterwards.
        blob: what the bytes must be.
        want: receives the bytes of chosen files, see :func:`imagegate.oci.tar.scan_tar`.
        progress: called with the number of compressed bytes of each read.
        paths: what an image's entries may take of memory; the layer's own if ``None``.

    Raises:
        DigestMismatch: the bytes are not the promised ones.
        ImageError: the compressed stream or the tar is damaged.
    """
    algorithm = blob.diff_id.algorithm if blob.diff_id else "sha256"
    budget = paths or path_budget()

    def given(count: int) -> None:
        budget.give(count)
        if progress is not None:
            progress(count)

    # leaving ends the threads first and closes the source last
    with ExitStack() as running:
        running.callback(stream.close)
        reader = VerifiedReader(
            stream,
            what=blob.what,
            digest=blob.digest,
            size=blob.size,
            progress=given,
        )
        tar = _Tar(running.enter_context(ThreadedHasher(new_hash(algorithm))))
        pipe = running.enter_context(Pipe(lambda: decompressed(reader, blob.what)))
        try:
            entries = tuple(_within(scan_tar(tar.passing(pipe), want), budget))
        except ImageError as error:
            if error.message.startswith(blob.what):
                raise
            raise type(error)(f"{blob.what}: {error.message}", hint=error.hint) from error
        reader.finish()
        found = Digest(algorithm, tar.hasher.hexdigest())
    if blob.diff_id is not None and found != blob.diff_id:
        raise DigestMismatch(
            f"{blob.what} unpacks to other bytes than its diff id says: "
            f"expected={blob.diff_id} found={found}",
            hint="the image's config claims a layer that is not there",
        )
    return LayerReading(
        entries=entries, diff_id=found, compressed=reader.count, uncompressed=tar.count
    )


def _within(entries: Iterable[TarEntry], budget: Budget) -> Iterator[TarEntry]:
    """Pass entries on while there is memory for them."""
    for entry in entries:
        size = _ENTRY + len(entry.path) + len(entry.target)
        if entry.xattrs:
            size += sum(_ATTRIBUTE + len(name) + len(value) for name, value in entry.xattrs)
        budget.keep(size, entry.path)
        yield entry


class _Tar:
    """Counts and hashes a tar's chunks while they pass."""

    def __init__(self, hasher: ThreadedHasher) -> None:
        self.hasher = hasher
        self.count = 0

    def passing(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.count += len(chunk)
            self.hasher.update(chunk)
            yield chunk


def decompressed(reader: VerifiedReader, what: str) -> Generator[bytes]:
    """Inflate by what the bytes are, as runtimes do; the media type was checked before."""
    head = reader.head(4)
    source = cast("BinaryIO", reader)
    try:
        if head[:2] == _GZIP_MAGIC:
            yield from _gunzip(source)
        elif head == _ZSTD_MAGIC or head[1:] == _ZSTD_SKIPPABLE:
            yield from _unzstd(source)
        else:
            while chunk := source.read(CHUNK):
                yield chunk
    except (EOFError, zlib.error, OSError) as error:
        _require_promised_bytes(reader)
        raise ImageError(
            f"{what} is damaged: {error}", hint="it was damaged before it was named; build it anew"
        ) from error


def _require_promised_bytes(reader: VerifiedReader) -> None:
    """Read what is left: bytes that nobody promised are a better reason than what they break."""
    try:
        while reader.read(CHUNK):
            pass
    except OSError:
        return  # it is the source that breaks
    reader.finish()


def _gunzip(source: BinaryIO) -> Iterator[bytes]:
    """Inflate all members of a gzip stream (RFC 1952); a cut or corrupt one raises."""
    from isal import igzip, isal_zlib

    try:
        with igzip.open(source, "rb") as stream:
            while chunk := stream.read(CHUNK):
                yield chunk
    except cast("type[Exception]", isal_zlib.error) as error:
        raise OSError(str(error)) from error


def _unzstd(source: BinaryIO) -> Iterator[bytes]:
    """Inflate all frames of a zstd stream (RFC 8878); a cut or corrupt one raises."""
    from imagegate.oci.zstd import ZstdError, ZstdFile

    try:
        with ZstdFile(source) as stream:
            while chunk := stream.read(CHUNK):
                yield chunk
    except ZstdError as error:
        raise OSError(str(error)) from error
