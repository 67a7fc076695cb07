"""When to try again and how long to wait; time comes from outside."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import Protocol

from imagegate.errors import FetchError

# five attempts wait 0.5 + 1 + 2 + 4 seconds in all, unless the registry asks for more
ATTEMPTS = 5
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
# a registry that asks for more patience than this is reported instead of waited for
_PATIENCE = 300.0


class Clock(Protocol):
    """Time as the registry client needs it."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's own time."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class TransientError(FetchError):
    """A failure that another attempt may not meet.

    Attributes:
        retry_after: seconds that the other side asked to wait, or ``None``.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class Backoff:
    """Counts the attempts at one thing and waits between them, each time twice as long."""

    def __init__(self, clock: Clock, attempts: int = ATTEMPTS) -> None:
        self._clock = clock
        self._attempts = attempts
        self._failed = 0

    def wait(self, error: TransientError) -> None:
        """Wait before the next attempt.

        Raises:
            FetchError: no further attempt is due.
        """
        self._failed += 1
        if self._failed >= self._attempts:
            raise FetchError(
                f"{error.message} ({self._failed} attempts)", hint=error.hint
            ) from error
        seconds = min(_FIRST_WAIT * 2 ** (self._failed - 1), _LONGEST_WAIT)
        if error.retry_after is not None:
            if error.retry_after > _PATIENCE:
                raise FetchError(
                    f"{error.message}; it asks to wait {error.retry_after:.0f} s",
                    hint="run the same command again later; what was done is kept",
                ) from error
            seconds = max(seconds, error.retry_after)
        self._clock.sleep(seconds)

    def reset(self) -> None:
        """Count from the start again: something was achieved."""
        self._failed = 0


def retry_after(value: str | None, clock: Clock) -> float | None:
    """Read a ``Retry-After`` header: seconds or a date (RFC 9110, 10.2.3)."""
    if value is None:
        return None
    value = value.strip()
    if value.isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - clock.now())
    except ValueError:
        return None
