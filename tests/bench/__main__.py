"""Times and memory of the promises that have a figure; prints one table.

Usage: ``python -m tests.bench BASE_LAYOUT`` in the repository, after ``imagegate build glm``.
BASE_LAYOUT is the layout of the composed vllm-gb10. ``igzip`` has to be installed. Every figure
stands beside a floor that was measured in the same run, because only ratios travel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_READ_BASE = """
import sys
from pathlib import Path
from imagegate.sources import Connection, open_image
from imagegate.usecases.bases import read_base
from imagegate.usecases.ports import Silent
from imagegate.workspace import Workspace
recipe = Workspace(Path(sys.argv[1])).recipe("glm")
read_base(open_image("oci:" + sys.argv[2], Connection(platform=recipe.platform)), Silent())
"""
_INFLATE = """
import hashlib, sys
from isal import igzip
hasher, blob = hashlib.sha256(), hashlib.sha256()
class Hashed:
    def __init__(self, path): self.stream = open(path, "rb", buffering=0)
    def read(self, size=-1):
        chunk = self.stream.read(size)
        blob.update(chunk)
        return chunk
    def readinto(self, buffer):
        chunk = self.read(len(buffer)); buffer[:len(chunk)] = chunk; return len(chunk)
    def seekable(self): return False
for path in sys.argv[1:]:
    with igzip.open(Hashed(path)) as stream:
        while chunk := stream.read(1 << 20):
            hasher.update(chunk)
"""


# an installed program has its bytecode; a repository where none is written compiles at every start
_AS_INSTALLED = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Figures:
    """One command: seconds on the clock, seconds of CPU, peak memory in MB."""

    wall: float
    cpu: float
    memory: float


def measure(command: list[str], *, repeat: int = 3) -> Figures:
    """Run a command several times; the quickest run counts, memory is the largest."""
    runs = []
    for _ in range(repeat):
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT, env=_AS_INSTALLED)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{command} ended with {process.returncode}")
        runs.append(Figures(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    best = min(runs, key=lambda run: run.wall)
    return Figures(best.wall, best.cpu, max(run.memory for run in runs))


def blobs_of(layout: Path) -> list[str]:
    """Return the layers of a layout that it holds itself."""
    index = json.loads((layout / "index.json").read_text())
    digest = index["manifests"][0]["digest"].removeprefix("sha256:")
    manifest = json.loads((layout / "blobs/sha256" / digest).read_text())
    paths = [
        layout / "blobs/sha256" / d["digest"].removeprefix("sha256:") for d in manifest["layers"]
    ]
    return [str(path) for path in paths if path.exists()]


def main() -> None:
    """Measure and print."""
    base = Path(sys.argv[1]).resolve()
    layers = blobs_of(base)
    floor = measure(
        ["sh", "-c", 'for f in "$@"; do igzip -dc "$f"; done', "igzip", *layers], repeat=2
    )
    reading = measure([sys.executable, "-c", _READ_BASE, str(ROOT), str(base)], repeat=2)
    added = blobs_of(ROOT / "build/glm")
    inflating = measure([sys.executable, "-c", _INFLATE, *added])
    imagegate = [sys.executable, "-m", "imagegate"]
    verify = measure([*imagegate, "verify", "glm"])
    help_time = measure([*imagegate, "--help"], repeat=5)
    rows = [
        ("igzip -dc of the base's layers", floor, ""),
        ("lock: reading the base", reading, f"{reading.wall / floor.wall:.2f} x (goal 1.5)"),
        ("inflate and hash the added layers", inflating, ""),
        (
            "verify glm",
            verify,
            f"{(verify.wall - 0.3) / inflating.wall:.2f} x + 0.3 s (goal 2)",
        ),
        ("--help", help_time, "goal 0.15 s"),
    ]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| what | wall s | CPU s | MB | ratio |\n| --- | ---: | ---: | ---: | --- |")
    for name, figures, ratio in rows:
        print(
            f"| {name} | {figures.wall:.2f} | {figures.cpu:.2f} | {figures.memory:.0f} | {ratio} |"
        )


if __name__ == "__main__":
    main()
