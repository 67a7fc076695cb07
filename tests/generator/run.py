"""Draw, let the root's own programs say what they take, and ask the gate."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from tests.generator.drawing import draw, draw_honest
from tests.generator.judged import Gate
from tests.generator.root import LAUNCHER, base, observe, remove, write
from tests.images import File

if TYPE_CHECKING:
    from pathlib import Path

    from tests.images import Content


@dataclass
class Figures:
    """What some draws gave.

    Attributes:
        draws: how many there were.
        moved: of how many the real winner of something is another than in the base.
        refused: how many were refused.
        missed: draws whose winner is another and that passed: bugs of the model.
        needless: draws that were refused though nothing that was asked is another.
        honest: how many honest draws there were.
        alarms: honest draws that were refused.
    """

    draws: int = 0
    moved: int = 0
    refused: int = 0
    needless: int = 0
    honest: int = 0
    missed: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)


def run(folder: Path, seed: int, draws: int, honest: int) -> Figures:
    """Run some draws; the same seed gives the same ones."""
    random, figures = Random(seed), Figures()
    files = {**base(), **LAUNCHER}
    root = folder / "root"
    write(root, files)
    gate = Gate(folder, files)
    assert gate.judge([]).passed, [f.code for f in gate.judge([]).failures]
    observe(root, warm=True)
    before = observe(root)
    assert not any("ends with" in text for text in before.values()), before
    libm = next(c for p, c in files.items() if p.endswith("/libm.so.6") and p.startswith("usr"))
    assert isinstance(libm, File)
    assert isinstance(libm.content, bytes)
    for number in range(draws):
        layer = {p: c for p, c in draw(random, libm.content).items() if p not in files}
        if not layer:
            continue
        figures.draws += 1
        now = _observed(root, layer)
        verdict = gate.judge([layer])
        moved = [key for key in before if before[key] != now[key]]
        figures.moved += bool(moved)
        figures.refused += not verdict.passed
        figures.needless += not moved and not verdict.passed
        if moved and verdict.passed:
            figures.missed.append(
                f"draw {number}: {_shown(layer)}: {moved}: {_differs(before, now)}"
            )
    for number in range(honest):
        layer = draw_honest(random)
        name = next(p for p in layer if p.endswith("/METADATA")).split("/")[-2].partition("-")[0]
        verdict = gate.judge([layer], locked={f"{name}==1.0": layer})
        figures.honest += 1
        if not verdict.passed:
            codes = sorted({f.code for f in verdict.failures})
            figures.alarms.append(f"honest {number}: {_shown(layer)}: {codes}")
    return figures


def _observed(root: Path, layer: dict[str, Content]) -> dict[str, str]:
    write(root, layer)
    try:
        return observe(root)
    finally:
        remove(root, layer)


def _shown(layer: dict[str, Content]) -> str:
    return ", ".join(f"{p} ({getattr(c, 'target', type(c).__name__)})" for p, c in layer.items())


def _differs(before: dict[str, str], now: dict[str, str]) -> str:
    lines = []
    for key, text in before.items():
        old, new = text.splitlines(), now[key].splitlines()
        lines += [f"{key}: {line}" for line in new if line not in old][:2]
    return " | ".join(lines)
