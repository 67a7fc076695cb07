"""Threads of one pass: chunks handed on in order, hashes computed beside the work.

C code that inflates or hashes releases the interpreter's lock, so a pass over a layer keeps
several cores busy. A thread never outlives the ``with`` block of its object, whoever stops first.
"""

from __future__ import annotations

from collections import deque
from threading import Condition, Thread
from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from types import TracebackType

    from imagegate.oci.blob import Hasher

# chunks of 2 MiB in flight between two threads; this bounds the memory of one pass
_DEPTH = 6

_T = TypeVar("_T")


class _Channel(Generic[_T]):
    """A bounded queue that either side can end; nobody waits at an ended one."""

    def __init__(self) -> None:
        self._items: deque[_T] = deque()
        self._changed = Condition()
        self._complete = False
        self._abandoned = False

    def put(self, item: _T) -> bool:
        """Add an item when there is room; returns whether anybody will still take it."""
        with self._changed:
            while len(self._items) >= _DEPTH and not self._abandoned:
                self._changed.wait()
            if self._abandoned:
                return False
            self._items.append(item)
            self._changed.notify_all()
            return True

    def get(self) -> _T | None:
        """Take the next item, ``None`` after the last or where the channel was abandoned."""
        with self._changed:
            while not self._items and not self._complete and not self._abandoned:
                self._changed.wait()
            if self._abandoned or not self._items:
                return None
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def complete(self) -> None:
        """Say that no further item comes."""
        with self._changed:
            self._complete = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Drop what is there and let both sides go on."""
        with self._changed:
            self._abandoned = True
            self._items.clear()
            self._changed.notify_all()


class _Worker(Generic[_T]):
    """A thread and the channel that it works on."""

    def __init__(self, name: str) -> None:
        self._channel: _Channel[_T] = _Channel()
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.abandon()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised again where the result is used
            self._failure = error
            self._ended()

    def _work(self) -> None:
        """Do what the thread is for."""
        raise AssertionError

    def _ended(self) -> None:
        """Tell the other side that the work failed."""
        raise AssertionError

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


class Pipe(_Worker[bytes]):
    """Runs a generator of chunks in a thread and hands its chunks over in order."""

    def __init__(self, chunks: Callable[[], Generator[bytes]]) -> None:
        super().__init__("imagegate-inflate")
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        """Yield the chunks; raises here what was raised in the thread."""
        while (chunk := self._channel.get()) is not None:
            yield chunk
        self._thread.join()
        self._check()

    def _work(self) -> None:
        chunks = self._chunks()
        try:
            for chunk in chunks:
                if not self._channel.put(chunk):
                    return
        finally:
            chunks.close()
        self._channel.complete()

    def _ended(self) -> None:
        self._channel.complete()


class ThreadedHasher(_Worker[bytes]):
    """Updates a hash in a thread of its own."""

    def __init__(self, hasher: Hasher) -> None:
        super().__init__("imagegate-hash")
        self._hasher = hasher

    def update(self, chunk: bytes, /) -> None:
        """Take the next bytes."""
        self._channel.put(chunk)

    def hexdigest(self) -> str:
        """Wait until all bytes are hashed and return the digest's hex digits."""
        self._channel.complete()
        self._thread.join()
        self._check()
        return self._hasher.hexdigest()

    def _work(self) -> None:
        while (chunk := self._channel.get()) is not None:
            self._hasher.update(chunk)

    def _ended(self) -> None:
        self._channel.abandon()
