"""The C allocator's habit of giving memory back, which costs a reader of layers a tenth of its time.

glibc returns freed blocks of some megabytes to the kernel at once (mallopt(3), ``M_TRIM_THRESHOLD``
and ``M_MMAP_THRESHOLD``). A pass over a layer frees and takes such blocks thousands of times, and
each time the kernel clears every page of them again. One arena for all threads keeps what is kept
small: a block that one thread takes was often freed by another.
"""

from __future__ import annotations

import ctypes
from functools import cache

# mallopt(3); the numbers are malloc.h's
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_KEPT = 64 << 20
_LARGEST_KEPT_BLOCK = 8 << 20


@cache
def keep_freed_memory() -> None:
    """Let the process keep up to 64 MiB that it has freed; does nothing but on glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_TRIM_THRESHOLD, _KEPT)
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BLOCK)
