"""The kernel's watermarks (``mm/page_alloc.c``) and what they hide from ``MemAvailable``.

All figures in pages, unless a name says KiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """One zone: its managed pages, its watermarks, and what is kept for other zones.

    Attributes:
        boost: what the kernel adds to the watermarks for a while after fragmentation; the figures
            of ``/proc/zoneinfo`` have it in them.
    """

    name: str
    managed: int
    min: int = 0
    low: int = 0
    high: int = 0
    reserve: int = 0
    boost: int = 0


def watermarks(
    zones: Sequence[Zone], min_free_kib: int, scale_factor: int, page_kib: int = 4
) -> tuple[Zone, ...]:
    """Compute the watermarks (``__setup_per_zone_wmarks``).

    min = min_free · managed / Σ managed; the gap is the larger of min/4 and
    managed · watermark_scale_factor / 10000; low = min + gap, high = low + gap.
    """
    pages_min = min_free_kib // page_kib
    total = sum(zone.managed for zone in zones)
    found = []
    for zone in zones:
        share = pages_min * zone.managed // total if total else 0
        gap = max(share // 4, zone.managed * scale_factor // 10000)
        found.append(
            Zone(
                name=zone.name,
                managed=zone.managed,
                min=share,
                low=share + gap,
                high=share + 2 * gap,
                reserve=zone.reserve,
            )
        )
    return tuple(found)


def reserved(zones: Sequence[Zone]) -> int:
    """Return the pages that never count as available (``calculate_totalreserve_pages``).

    They are computed when a sysctl changes, so a boost of the moment is not in them.
    """
    return sum(min(zone.managed, zone.high - zone.boost + zone.reserve) for zone in zones)


def available_kib(
    zones: Sequence[Zone],
    *,
    free_kib: int,
    file_kib: int,
    reclaimable_kib: int,
    page_kib: int = 4,
) -> int:
    """Compute ``MemAvailable`` (``si_mem_available``)."""
    low = sum(zone.low for zone in zones)
    free, file, slab = (v // page_kib for v in (free_kib, file_kib, reclaimable_kib))
    found = free - reserved(zones)
    found += file - min(file // 2, low)
    found += slab - min(slab // 2, low)
    return max(0, found) * page_kib
