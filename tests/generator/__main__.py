"""``python -m tests.generator SEED DRAWS HONEST``: the figures, for RESULTS.md."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.generator.run import run

seed, draws, honest = (int(word) for word in sys.argv[1:4])
with tempfile.TemporaryDirectory() as folder:
    figures = run(Path(folder), seed, draws, honest)
for line in (*figures.missed, *figures.alarms):
    print(line)
print(
    f"{figures.draws} draws: {figures.moved} moved a winner, {figures.refused} refused, "
    f"{len(figures.missed)} missed, {figures.needless} refused though nothing asked for moved; "
    f"{figures.honest} honest: {len(figures.alarms)} refused"
)
