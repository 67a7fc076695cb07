"""What may be kept of an image in memory: as much as its bytes are worth, not as they claim.

A megabyte of compressed layer can claim gigabytes of metadata or millions of paths. Honest
metadata is mostly digests and names, which no compressor makes eight times smaller.
"""

from __future__ import annotations

import threading

from imagegate.errors import ImageError

_MB = 1 << 20


class Budget:
    """Counts the compressed bytes that were given and the bytes that are kept, of one image.

    Layers are read side by side, so all methods may be called from several threads.

    Args:
        what: what is kept, for messages.
        fixed: bytes that may be kept whatever was given.
        each: further bytes for each byte given.
        most: the most that is ever kept.
    """

    def __init__(self, what: str, *, fixed: int, each: int, most: int) -> None:
        self._what = what
        self._fixed, self._each, self._most = fixed, each, most
        self._given = self._kept = 0
        self._lock = threading.Lock()

    def give(self, count: int) -> None:
        """Count bytes of layers as they were read."""
        with self._lock:
            self._given += count

    def keep(self, count: int, path: str) -> None:
        """Count bytes that are about to be kept.

        Raises:
            ImageError: the image's bytes are not worth so many.
        """
        with self._lock:
            self._kept += count
            allowed = min(self._fixed + self._each * self._given, self._most)
            if self._kept <= allowed:
                return
            kept, given = self._kept, self._given
        raise ImageError(
            f"{self._what} of the image would take {kept} bytes of memory at `{path}`, "
            f"out of {given} bytes of layers; at most {allowed} are kept",
            hint="no honest image is like this; look at what the layer holds: `tar tvf`",
        )


def text_budget() -> Budget:
    """Make the budget for the text of an image's metadata, lists and settings."""
    return Budget("the metadata", fixed=8 * _MB, each=8, most=512 * _MB)


def path_budget() -> Budget:
    """Make the budget for an image's paths, links and attributes."""
    return Budget("the list of paths", fixed=48 * _MB, each=40, most=4096 * _MB)
