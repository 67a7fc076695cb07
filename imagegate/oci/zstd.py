"""Zstandard as of Python 3.14, and its backport before."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError, ZstdFile, compress, decompress
else:
    from backports.zstd import ZstdError, ZstdFile, compress, decompress

__all__ = ["ZstdError", "ZstdFile", "compress", "decompress"]
