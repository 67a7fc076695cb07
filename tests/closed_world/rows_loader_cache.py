"""The loader's cache: what ldconfig makes of the image is no finding, any other is one."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.closed_world.debian import LIB
from tests.closed_world.rows import Row, on_base, with_base
from tests.elf import library
from tests.images import Link

if TYPE_CHECKING:
    from tests.images import Content

PATH = "etc/ld.so.cache"


def cache(*entries: tuple[str, str]) -> bytes:
    """Write a cache as glibc's ldconfig does (elf/cache.c, ``struct cache_file_new``)."""
    start = 48 + 24 * len(entries)
    texts, table = b"", b""
    for name, path in entries:
        key = start + len(texts)
        texts += name.encode() + b"\0"
        value = start + len(texts)
        texts += path.encode() + b"\0"
        table += struct.pack("<iIIIQ", 3, key, value, 0, 0)
    head = struct.pack(
        "<20sIIB3xI3I", b"glibc-ld.so.cache1.1", len(entries), len(texts), 2, *[0] * 4
    )
    return head + table + texts


LIBC = ("libc.so.6", f"/{LIB}/libc.so.6")
MATH = ("libm.so.6", f"/{LIB}/libm.so.6")
EVIL = ("libc.so.6", "/opt/evil/libc.so.6")
BASE: dict[str, Content] = {
    PATH: cache(MATH, LIBC),
    f"{LIB}/libm.so.6": library(soname="libm.so.6"),
}
ELSEWHERE = library(soname="libc.so.6")


def refused(name: str, content: Content, **more: Content) -> Row:
    return Row(
        name=f"a loader's cache {name}",
        case=with_base(on_base({PATH: content, **more}), BASE),
        fails=("*",),
        control=with_base(on_base({PATH: cache(LIBC, MATH)}), BASE),
    )


ROWS: tuple[Row, ...] = (
    Row(
        name="a loader's cache that ldconfig wrote again",
        case=with_base(on_base({PATH: cache(LIBC, MATH)}), BASE),
    ),
    refused("that names another library", cache(MATH, EVIL), **{EVIL[1][1:]: ELSEWHERE}),
    refused("that names another library first", cache(EVIL, LIBC, MATH)),
    refused("that names one file for another", cache(LIBC, ("libm.so.6", LIBC[1]))),
    refused("that lists nothing", cache()),
    refused("that leaves out a library of the base", cache(LIBC)),
    refused("that is cut off", cache(LIBC, MATH)[:60]),
    refused("of another form", b"x"),
    refused("that is a link", Link("/opt/cache"), **{"opt/cache": cache(MATH, EVIL)}),
)
