"""Zstandard as of Python 3.14, and its backport before."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import (
        ZstdDecompressor,
        ZstdError,
        ZstdFile,
        compress,
        decompress,
    )
else:
    from backports.zstd import ZstdDecompressor, ZstdError, ZstdFile, compress, decompress

__all__ = ["ZstdError", "ZstdFile", "compress", "decompress", "decompress_frame"]


def decompress_frame(content: bytes, limit: int) -> bytes:
    """Unpack exactly one frame of at most `limit` bytes.

    Raises:
        ZstdError: it is damaged.
        EOFError: it is cut.
        ValueError: it unpacks to more, or more follows.
    """
    decompressor = ZstdDecompressor()
    text = decompressor.decompress(content, max_length=limit + 1)
    if len(text) > limit:
        raise ValueError(f"it unpacks to more than {limit} bytes")
    if not decompressor.eof:
        # a frame of exactly `limit` bytes may have its end still to come
        text += decompressor.decompress(b"", max_length=1)
        if len(text) > limit:
            raise ValueError(f"it unpacks to more than {limit} bytes")
        if not decompressor.eof:
            raise EOFError("it ends in the middle")
    if decompressor.unused_data:
        raise ValueError("more follows")
    return text
