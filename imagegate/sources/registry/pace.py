"""A floor of bytes per second: who sends less is no registry that anybody waits for.

A server that sends a byte now and then is never silent, and would be read for ever. Only the time
that is spent waiting for it counts, so that a slow reader on this side is not its fault. A line of
a modem's speed passes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from imagegate.errors import FetchError

if TYPE_CHECKING:
    from collections.abc import Callable

# seconds of waiting, and bytes per second that have to come in them
WINDOW = 30.0
FLOOR = 1024


class Pace:
    """Measures one answer's body.

    Args:
        where: scheme, host and path, for messages.
        window: seconds of waiting after which the bytes are counted.
        now: a clock that never goes back, in seconds.
    """

    def __init__(
        self, where: str, *, window: float = WINDOW, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._where = where
        self._window = window
        self._now = now
        self._waited = 0.0
        self._received = 0

    def start(self) -> float:
        """Begin to wait."""
        return self._now()

    def received(self, count: int, since: float) -> None:
        """Count bytes for which was waited since `since`; none are the end.

        Raises:
            FetchError: fewer came in a whole window than the floor allows.
        """
        self._waited += self._now() - since
        self._received += count
        if self._waited < self._window:
            return
        if count and self._received < FLOOR * self._window:
            raise FetchError(
                f"`{self._where}` is too slow: {self._received} bytes in {self._waited:.0f} s; "
                f"at least {FLOOR} a second are needed",
                hint="run again on a better line, or take the image from a nearer registry",
            )
        self._waited, self._received = 0.0, 0
