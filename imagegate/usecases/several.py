"""The same for many images: each is done, each is told, and one that fails hides no other."""

from __future__ import annotations

import fnmatch
import os
import signal
from typing import TYPE_CHECKING, TypeVar

from imagegate.errors import TRACEBACK, ImagegateError, UsageError, as_told
from imagegate.foreign.credentials import redact
from imagegate.report.several import Unjudged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future, ProcessPoolExecutor

_Done = TypeVar("_Done")


def choose(names: Sequence[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    """Return the names that are meant, each once, in the order of the known ones.

    Args:
        names: names and patterns, as a shell has them (``*``, ``?``, ``[ab]``); all if empty.
        known: every name there is.
        what: what they name, for messages.

    Raises:
        UsageError: there is none at all, or a name or pattern that none of them fits.
    """
    if not known:
        raise UsageError(f"there is no {what} here", hint=f"`imagegate init` writes a first {what}")
    if not names:
        return tuple(known)
    chosen: set[str] = set()
    for name in names:
        found = [one for one in known if one == name or fnmatch.fnmatchcase(one, name)]
        if not found and any(sign in name for sign in "*?["):
            listed = ", ".join(f"`{one}`" for one in known)
            raise UsageError(f"no {what} fits `{name}`", hint=f"there are: {listed}")
        # a name that is none is refused by whoever looks for it, with the nearest one
        chosen |= set(found) or {name}
    return tuple(sorted(chosen, key=lambda one: (one not in known, one)))


def each(
    names: Sequence[str],
    one: Callable[[str], _Done],
    *,
    file_of: Callable[[str], str],
    jobs: int = 1,
) -> list[_Done | Unjudged]:
    """Do one thing for each name.

    Args:
        names: for which.
        one: what; with several jobs it has to be a function of a module, as a partial one.
        file_of: the file of the repository that a name is about.
        jobs: how many processes work at the same time.

    Returns:
        What was done, in the order of the names; an error is a result too.
    """
    if jobs <= 1 or len(names) <= 1:
        return [_done(one, name, file_of(name)) for name in names]
    return list(_in_processes(names, one, file_of, jobs))


def _done(one: Callable[[str], _Done], name: str, file: str) -> _Done | Unjudged:
    try:
        return one(name)
    except Exception as error:
        if os.environ.get(TRACEBACK) and not isinstance(error, ImagegateError | OSError):
            raise
        told = as_told(error)
        return Unjudged(
            subject=name,
            message=redact(told.message),
            hint=redact(told.hint or ""),
            exit_code=told.exit_code,
            file=file,
        )


def _in_processes(
    names: Sequence[str],
    one: Callable[[str], _Done],
    file_of: Callable[[str], str],
    jobs: int,
) -> Iterator[_Done | Unjudged]:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    with ProcessPoolExecutor(
        max_workers=min(jobs, len(names)),
        # a fork would take over locks of threads that are not there
        mp_context=get_context("spawn"),
        initializer=_die_quietly,
    ) as pool:
        waiting: list[tuple[str, Future[_Done | Unjudged]]] = [
            (name, pool.submit(_done, one, name, file_of(name))) for name in names
        ]
        try:
            for name, future in waiting:
                try:
                    yield future.result()
                except BrokenProcessPool:
                    yield Unjudged(
                        subject=name,
                        message="the process that judged it, or one beside it, was killed",
                        hint="the kernel does so where memory is short: give fewer `--jobs`",
                        exit_code=3,
                        file=file_of(name),
                    )
        except BaseException:
            _end(pool)
            raise


def _die_quietly() -> None:
    """Leave Ctrl-C to the process that waits; it ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(pool: ProcessPoolExecutor) -> None:
    """End the processes of a pool at once."""
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
