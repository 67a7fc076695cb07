"""When a program that ends processes fires, as a figure of memory.

earlyoom: its own source, tags 1.0 to 1.9.0 (``main.c``, ``parse_term_kill_tuple``,
``meminfo.c``). Ray: ``ThresholdMemoryMonitor``. All figures in MiB or percent as named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

RAY_THRESHOLD = 0.95
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SHORT_WITH_VALUE = "mMsSrNPn"
_LONG_WITH_VALUE = ("avoid", "prefer", "ignore", "sort-by-rss", "syslog")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A moment of a host's memory, in KiB (``/proc/meminfo``)."""

    total: float
    available: float
    anonymous: float
    swap_total: float
    swap_free: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What earlyoom was told, in percent.

    Attributes:
        term, kill: of memory.
        swap_term, swap_kill: of swap.
        error: why the program ends at once instead of watching, ``""`` where it runs.
        notes: what it changes by itself.
        avoid, prefer, ignore: regular expressions of process names.
    """

    term: float = 10.0
    kill: float = 5.0
    swap_term: float = 10.0
    swap_kill: float = 5.0
    error: str = ""
    notes: tuple[str, ...] = ()
    avoid: str = ""
    prefer: str = ""
    ignore: str = ""


@dataclass(slots=True)
class _Given:
    percent: tuple[float, float] | None = None
    swap_percent: tuple[float, float] | None = None
    kib: tuple[float, float] | None = None
    swap_kib: tuple[float, float] | None = None
    patterns: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class _BadArgumentError(Exception):
    pass


def earlyoom_thresholds(arguments: Sequence[str], memory: Memory) -> Thresholds:
    """Read earlyoom's arguments as the program does; sizes in KiB become percent of the totals."""
    given = _Given()
    try:
        _read_arguments(list(arguments), given, memory)
        term, kill = given.percent or (10.0, 5.0)
        if given.kib is not None:
            in_percent = tuple(100 * value / memory.total for value in given.kib)
            # with both, the lower counts
            term = min(term, in_percent[0]) if given.percent else in_percent[0]
            kill = min(kill, in_percent[1]) if given.percent else in_percent[1]
        swap_term, swap_kill = given.swap_percent or (10.0, 5.0)
        if given.swap_kib is not None:
            of_swap = tuple(100 * value / memory.swap_total for value in given.swap_kib)
            swap_term = min(swap_term, of_swap[0]) if given.swap_percent else of_swap[0]
            swap_kill = min(swap_kill, of_swap[1]) if given.swap_percent else of_swap[1]
    except _BadArgumentError as error:
        return Thresholds(error=str(error))
    return Thresholds(
        term=term,
        kill=kill,
        swap_term=swap_term,
        swap_kill=swap_kill,
        notes=tuple(given.notes),
        avoid=given.patterns.get("avoid", ""),
        prefer=given.patterns.get("prefer", ""),
        ignore=given.patterns.get("ignore", ""),
    )


def _read_arguments(words: list[str], given: _Given, memory: Memory) -> None:
    """Follow ``getopt_long``: short options may have their value attached."""
    while words:
        word = words.pop(0)
        if word == "--":
            if words:
                raise _BadArgumentError(f"extra argument `{words[0]}`")
            return
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name in ("avoid", "prefer", "ignore"):
                if not equals:
                    value = words.pop(0) if words else _missing(word)
                given.patterns[name] = value
            continue
        if not word.startswith("-") or word == "-":
            raise _BadArgumentError(f"extra argument `{word}`")
        _read_short(word[1:], words, given, memory)


def _read_short(letters: str, words: list[str], given: _Given, memory: Memory) -> None:
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter not in _SHORT_WITH_VALUE or letter == "n":
            continue
        if letters:
            value, letters = letters, ""
        else:
            value = words.pop(0) if words else _missing(f"-{letter}")
        if letter == "m":
            given.percent = _pair(value, 99, given)
        elif letter == "s":
            given.swap_percent = _pair(value, 100, given)
        elif letter == "M":
            given.kib = _pair(value, memory.total, given)
        elif letter == "S":
            # without swap the limit is 0, and any value is too much
            given.swap_kib = _pair(value, memory.swap_total, given)


def _missing(name: str) -> str:
    raise _BadArgumentError(f"`{name}` has no value")


def _pair(text: str, most: float, given: _Given) -> tuple[float, float]:
    """Read ``TERM[,KILL]``; one value means half of it for KILL."""
    first, comma, second = text.partition(",")
    numbers = [first, second] if comma else [first]
    for number in numbers:
        if number and not _NUMBER.fullmatch(number):
            raise _BadArgumentError(f"`{text}` is not a number or a pair of numbers")
    if not first:
        raise _BadArgumentError(f"`{text}` has no first value")
    term = float(first)
    kill = (float(second) if second else 0.0) if comma else term / 2
    if term < kill:
        given.notes.append(f"`{text}`: the first value is lower; it becomes {kill:g}")
        term = kill
    if term == 0 and kill == 0:
        raise _BadArgumentError(f"`{text}`: both values are 0")
    if term > most or kill > most:
        raise _BadArgumentError(f"`{text}` is more than {most:g}")
    return term, kill


def uses_anonymous(version: str | None) -> bool | None:
    """Whether percent are of available plus anonymous memory (1.8 and later); ``None`` if unknown."""
    numbers = re.findall(r"\d+", version or "")
    if not numbers:
        return None
    return (int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0) >= (1, 8)


def earlyoom_acts(thresholds: Thresholds, memory: Memory, *, anonymous: bool) -> str:
    """Return ``KILL``, ``TERM`` or ``""``: what earlyoom does at this moment."""
    denominator = memory.available + memory.anonymous if anonymous else memory.total
    percent = 100 * memory.available / denominator if denominator else 0.0
    swap = 100 * memory.swap_free / memory.swap_total if memory.swap_total else 0.0
    if percent <= thresholds.kill and swap <= thresholds.swap_kill:
        return "KILL"
    if percent <= thresholds.term and swap <= thresholds.swap_term:
        return "TERM"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fires:
    """When a killer fires.

    Attributes:
        term, kill: MemAvailable in KiB at or below which it sends the signal, with anonymous
            memory as it is now; ``None`` where it cannot fire.
        inert: why it cannot fire, ``""`` where it can.
    """

    term: float | None
    kill: float | None
    inert: str = ""


def earlyoom_fires(thresholds: Thresholds, memory: Memory, *, anonymous: bool) -> Fires:
    """Return the MemAvailable at which earlyoom fires now.

    For 1.8 and later A/(A+N) ≤ t/100 becomes A ≤ t/(100-t)·N, N being anonymous memory.
    """
    swap = 100 * memory.swap_free / memory.swap_total if memory.swap_total else 0.0

    def at(percent: float) -> float:
        if anonymous:
            return percent / (100 - percent) * memory.anonymous if percent < 100 else float("inf")
        return percent / 100 * memory.total

    term = at(thresholds.term) if swap <= thresholds.swap_term else None
    kill = at(thresholds.kill) if swap <= thresholds.swap_kill else None
    inert = ""
    if term is None and kill is None:
        inert = (
            f"{swap:.0f} % of swap is free and it waits until at most {thresholds.swap_term:g} % is"
        )
    return Fires(term=term, kill=kill, inert=inert)


def ray_fires(total_kib: float, threshold: str | None) -> float:
    """Return the MemAvailable in KiB below which Ray ends workers."""
    try:
        share = float(threshold) if threshold else RAY_THRESHOLD
    except ValueError:
        share = RAY_THRESHOLD
    return (1 - share) * total_kib


def ray_is_off(refresh_ms: str | None) -> bool:
    """Whether Ray's monitor is off: only the value 0 does that."""
    try:
        return refresh_ms is not None and float(refresh_ms) == 0
    except ValueError:
        return False
