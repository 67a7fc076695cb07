"""All images of a workspace at a glance: what is live, on which base, with which pins."""

from __future__ import annotations

import json
import textwrap
from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from imagegate.foreign import shown
from imagegate.foreign.credentials import redact_document
from imagegate.report.formats import printable
from imagegate.report.page import page_environment
from imagegate.report.text import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from jinja2 import Template

    from imagegate.oci.digest import Digest

# the pins that decide what an image computes and with whom it can speak, in the order of columns
PINS = ("nccl", "flashinfer", "torch", "cuda", "vllm")
_WIDTH = 100


class State(StrEnum):
    """How an image stands; what asks for attention comes first."""

    BROKEN = "cannot be read"
    STALE = "lock is stale"
    BEHIND = "live from an older lock"
    UNPUBLISHED = "not published"
    ORPHANED = "live without a recipe"
    LIVE = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What a profile has published.

    Attributes:
        image: repository and digest, or the digest alone where no registry has it.
        lock: digest of the lock that it was judged by.
        result: ``PASSED`` and the like, ``""`` where the stored verdict is not there.
        published_at: when, in UTC.
        added: compressed bytes of the added layers, ``None`` where the stored verdict is not there.
    """

    image: str
    lock: str
    result: str
    published_at: datetime
    added: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One image.

    Attributes:
        name: the recipe's or profile's name.
        state: how it stands.
        problem: what is wrong with it, in one sentence, or ``""``.
        base: digest of the base; ``None`` for scratch, or where the recipe cannot be read.
        platform: ``os/architecture``, ``""`` where the recipe cannot be read.
        pins: what the bytes say of each of :data:`PINS`, where they say anything.
        live: what is published, ``None`` where nothing is.
        drift: what became of the base's tag, ``""`` where nobody asked.
    """

    name: str
    state: State
    problem: str = ""
    base: Digest | None = None
    platform: str = ""
    pins: Mapping[str, str]
    live: Live | None = None
    drift: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All rows, at one moment.

    Attributes:
        rows: in the order of their names.
        at: when this was looked at, in UTC.
    """

    rows: tuple[Row, ...]
    at: datetime

    def usual(self, pin: str) -> str:
        """Return what most images have, ``""`` where no value is more frequent than another."""
        ranked = Counter(row.pins[pin] for row in self.rows if row.pins.get(pin)).most_common(2)
        if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
            return ""
        return ranked[0][0]

    def stands_out(self, row: Row, pin: str) -> bool:
        """Say whether an image has another pin than most."""
        usual = self.usual(pin)
        return bool(usual) and row.pins.get(pin, "") not in ("", usual)

    def age(self, row: Row) -> int | None:
        """Return whole days since a row's publication, ``None`` where there is none."""
        return (self.at - row.live.published_at).days if row.live is not None else None

    def count(self) -> dict[State, int]:
        """Count the states, what asks for attention first; what does not occur is left out."""
        found = Counter(row.state for row in self.rows)
        return {state: found[state] for state in State if found[state]}


def render_text(overview: Overview, *, details: bool = False) -> str:
    """Write the overview for a terminal, images of one base and one set of pins together.

    Args:
        overview: what there is.
        details: a line for each image.
    """
    rows = overview.rows
    states = ", ".join(f"{number} {state}" for state, number in overview.count().items())
    bases = len({row.base for row in rows if row.base is not None})
    lines = [f"{_plural(len(rows), 'image')} on {_plural(bases, 'base')}: {states}"]
    for group in _groups(rows):
        lines += ["", _heading(overview, group)]
        lines += _listed(overview, group) if details else _folded(overview, group)
    if any(overview.stands_out(row, pin) for row in rows for pin in PINS):
        lines += ["", "*: another version than most images have"]
    return "".join(f"{shown(line)}\n" for line in lines)


def _groups(rows: Iterable[Row]) -> list[list[Row]]:
    groups: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        key = (row.base, row.platform, *(row.pins.get(pin, "") for pin in PINS))
        groups[key].append(row)
    return sorted(groups.values(), key=lambda group: (-len(group), group[0].name))


def _heading(overview: Overview, group: Sequence[Row]) -> str:
    row = group[0]
    if not row.platform:
        return "without a recipe that can be read"
    base = f"base {row.base.encoded[:12]}" if row.base is not None else "from scratch"
    pins = [
        f"{pin} {row.pins[pin]}{'*' if overview.stands_out(row, pin) else ''}"
        for pin in PINS
        if row.pins.get(pin)
    ]
    return "  ".join([base, row.platform, *pins])


def _folded(overview: Overview, group: Sequence[Row]) -> list[str]:
    lines = []
    for state in State:
        found = [row for row in group if row.state is state]
        if not found:
            continue
        names = ", ".join(row.name for row in found)
        about = _ages(overview, found)
        lines += textwrap.wrap(
            f"{state} ({len(found)}{about}): {names}",
            width=_WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        if state is State.BROKEN:
            lines += [f"    {row.name}: {row.problem}" for row in found[:3]]
        if len(drifted := sorted({row.drift for row in found if row.drift})) > 0:
            lines += [f"    base: {said}" for said in drifted[:3]]
    return lines


def _ages(overview: Overview, rows: Sequence[Row]) -> str:
    ages = [age for row in rows if (age := overview.age(row)) is not None]
    if not ages:
        return ""
    sizes = [row.live.added for row in rows if row.live is not None and row.live.added is not None]
    added = (
        f", {_span([format_bytes(size) for size in (min(sizes), max(sizes))])} added"
        if sizes
        else ""
    )
    return f", judged {_span([str(min(ages)), str(max(ages))])} days ago{added}"


def _span(ends: list[str]) -> str:
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _listed(overview: Overview, group: Sequence[Row]) -> list[str]:
    width = max(len(row.name) for row in group)
    lines = []
    for row in group:
        said = [row.state.value]
        if row.live is not None:
            said += [row.live.result or "verdict not stored", f"{overview.age(row)} days"]
            said += [format_bytes(row.live.added)] if row.live.added is not None else []
            said += [row.live.image.rpartition("@")[2][:19]]
        said += [text for text in (row.drift, row.problem) if text]
        lines.append(f"  {row.name:<{width}}  {'  '.join(said)}")
    return lines


def render_json(overview: Overview) -> str:
    """Write the overview as one JSON document."""
    document = {
        "schema": "imagegate-overview-1",
        "at": overview.at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "images": [
            {
                "name": row.name,
                "state": row.state.value,
                "problem": row.problem,
                "base": str(row.base) if row.base is not None else None,
                "platform": row.platform or None,
                "pins": {pin: row.pins[pin] for pin in PINS if row.pins.get(pin)},
                "stands_out": [pin for pin in PINS if overview.stands_out(row, pin)],
                "live": None
                if row.live is None
                else {
                    "image": row.live.image,
                    "lock": row.live.lock,
                    "result": row.live.result or None,
                    "published_at": row.live.published_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "age_days": overview.age(row),
                    "added": row.live.added,
                },
                "drift": row.drift or None,
            }
            for row in overview.rows
        ],
    }
    return json.dumps(redact_document(document), indent=2, ensure_ascii=True) + "\n"


def render_page(overview: Overview, *, version: str) -> str:
    """Write the overview as one HTML file without scripts that asks nothing of any network."""
    return printable(
        _template().render(overview=overview, rows=overview.rows, pins=PINS, version=version)
    )


@cache
def _template() -> Template:
    return page_environment().get_template("overview.html.j2")


def _plural(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
