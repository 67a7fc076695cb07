"""Gzip streams that are the same on every machine and for every number of threads.

The input is cut into blocks of a fixed size. Each block is deflated on its own with the end of
the block before as dictionary, so blocks can be deflated side by side and neither the callers'
chunks nor the number of threads can change a byte. The standard library's zlib gives the same
bytes in all its releases in use; a Python that is linked to another deflate library does not,
and :func:`known_answer` finds that out.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK_SIZE = 1 << 20
_WINDOW = 32 << 10
LEVEL = 6
# RFC 1952: deflate, no flags, mtime 0, no extra flags, unknown operating system, no name
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
# blocks in work for each thread
_AHEAD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressor:
    """What made a compressed digest; recorded in a build's provenance.

    Attributes:
        version: the library's own version at run time.
        block_size: bytes of input a block.
        known_answer: whether a fixed input gave the fixed output here.
    """

    name: str
    version: str
    level: int
    block_size: int
    known_answer: bool


class GzipWriter:
    """Compresses what is written to it and hands the result on in order.

    Args:
        write: takes compressed bytes.
        threads: how many blocks are deflated at a time.
    """

    def __init__(self, write: Callable[[bytes], object], *, threads: int) -> None:
        self._write = write
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="deflate")
        self._ahead = threads * _AHEAD
        self._waiting: deque[Future[bytes]] = deque()
        self._block = bytearray()
        self._dictionary = b""
        self._crc = 0
        self._size = 0
        write(_HEADER)

    def write(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._crc = zlib.crc32(chunk, self._crc)
        self._size += len(chunk)
        self._block += chunk
        while len(self._block) >= BLOCK_SIZE:
            block = bytes(self._block[:BLOCK_SIZE])
            del self._block[:BLOCK_SIZE]
            self._submit(block, last=False)

    def finish(self) -> None:
        """Write what is left and the trailer."""
        self._submit(bytes(self._block), last=True)
        while self._waiting:
            self._write(self._waiting.popleft().result())
        # RFC 1952: CRC-32 and length modulo 2^32
        self._write(struct.pack("<II", self._crc, self._size & 0xFFFFFFFF))
        self._pool.shutdown()

    def abort(self) -> None:
        """Stop without finishing."""
        self._pool.shutdown(cancel_futures=True)

    def _submit(self, block: bytes, *, last: bool) -> None:
        self._waiting.append(self._pool.submit(deflate_block, block, self._dictionary, last=last))
        self._dictionary = block[-_WINDOW:]
        while len(self._waiting) > self._ahead:
            self._write(self._waiting.popleft().result())


def deflate_block(block: bytes, dictionary: bytes, *, last: bool) -> bytes:
    """Deflate one block so that it can follow a block that ends with `dictionary`."""
    if dictionary:
        deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=dictionary)
    else:
        deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(block) + deflate.flush(zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH)


@cache
def compressor() -> Compressor:
    """Describe the compressor of this process and try it on the known input."""
    return Compressor(
        name="zlib",
        version=zlib.ZLIB_RUNTIME_VERSION,
        level=LEVEL,
        block_size=BLOCK_SIZE,
        known_answer=known_answer() == KNOWN_ANSWER,
    )


def known_answer() -> str:
    """Deflate a fixed input, text-like and random-like, and return the result's SHA-256."""
    noise = b"".join(sha256(struct.pack("<I", n)).digest() for n in range(2048))
    words = b"".join(b"%d: the same words again and again %d\n" % (n, n * n) for n in range(2048))
    first = deflate_block(noise + words, b"", last=False)
    second = deflate_block(words + noise, (noise + words)[-_WINDOW:], last=True)
    return sha256(first + second).hexdigest()


# the same for zlib 1.2.13, 1.3.1 and 1.3.2, on x86-64 and aarch64
KNOWN_ANSWER = "7389ba58904710e1bf629688b84ca4f0df97efd4e59618e89837b5cd05cb0c65"
