"""The dynamic loader's cache: which file it names for each library (ldconfig(8)).

The form is that of glibc since 2.2, ``glibc-ld.so.cache1.1`` (glibc, elf/cache.c and
sysdeps/generic/dl-cache.h); the older one may stand before it in the same file.
"""

from __future__ import annotations

import re
import struct

from imagegate.catalog.collect import Interest, WholeText

PATH = "etc/ld.so.cache"
_MAGIC = b"glibc-ld.so.cache1.1"
_OLD_MAGIC = b"ld.so-1.7.0"
# magic, number of entries, bytes of strings, flags, extensions; then 24 bytes an entry:
# flags, key, value, OS version, hwcap
_HEADER = struct.Struct("<20sIIB3xI3I")
_ENTRY = struct.Struct("<iIIIQ")

INTEREST = Interest(
    name="loader cache", pattern=re.compile(re.escape(PATH)), marks=(PATH,), keep=WholeText
)


def parse_cache(content: bytes) -> tuple[tuple[str, str], ...] | None:
    """Return library and file of each entry, in the order of the cache.

    Returns:
        ``None`` where the file has another form, or an entry points out of it.
    """
    start = content.find(_MAGIC) if content.startswith(_OLD_MAGIC) else 0
    if start < 0 or not content.startswith(_MAGIC, start):
        return None
    cache = content[start:]
    if len(cache) < _HEADER.size:
        return None
    _, count, *_ = _HEADER.unpack_from(cache)
    if _HEADER.size + count * _ENTRY.size > len(cache):
        return None
    found = []
    for number in range(count):
        _, key, value, _, _ = _ENTRY.unpack_from(cache, _HEADER.size + number * _ENTRY.size)
        texts = (_text(cache, key), _text(cache, value))
        if texts[0] is None or texts[1] is None:
            return None
        found.append((texts[0], texts[1]))
    return tuple(found)


def _text(cache: bytes, offset: int) -> str | None:
    end = cache.find(b"\0", offset)
    if offset >= len(cache) or end < 0:
        return None
    return cache[offset:end].decode("utf-8", "surrogateescape")
