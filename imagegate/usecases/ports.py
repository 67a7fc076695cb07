"""What a use case tells a person while it works."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager


class Task(Protocol):
    """A piece of work that is measured in bytes."""

    def advance(self, count: int, /) -> object:
        """Say that `count` more bytes are done."""


class Reporter(Protocol):
    """Where progress and remarks go; never to standard output."""

    def say(self, text: str, /) -> None:
        """Tell a person one line."""

    def task(self, title: str, total: int | None) -> AbstractContextManager[Task]:
        """Start a piece of work of `total` bytes, unknown if ``None``."""


class Silent:
    """Tells nothing."""

    def say(self, _text: str, /) -> None:
        """Say nothing."""

    @contextmanager
    def task(self, _title: str, _total: int | None) -> Iterator[Task]:
        """Measure nothing."""
        yield _Unmeasured()


class _Unmeasured:
    def advance(self, _count: int, /) -> None:
        """Take the count and forget it."""
