"""Bytes that a real image of several gigabytes moves through a real registry; prints one table.

    python -m tests.bench.over_the_wire --workspace . --recipe glm --base oci-layout-of-the-base

The recipe has to be locked and built. Debian's docker-registry keeps its storage in a temporary
folder, which needs room for the base once. Between it and imagegate stands a wire that counts
every byte of the connections, headers included: what the tool prints is compared with that count.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.registry_source.peers import CuttingWire, docker_registry


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command and what it moved.

    Attributes:
        what: the command, for a person.
        wall: seconds.
        sent: bytes to the registry, counted on the wire.
        received: bytes from it, counted on the wire.
        told: the tool's own words on it.
        promise: the bytes that the larger of the two ways is compared with.
    """

    what: str
    wall: float
    sent: int
    received: int
    told: str
    promise: int

    @property
    def ratio(self) -> float:
        return max(self.sent, self.received) / self.promise


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Bytes of the compressed layers, by the manifest."""

    base: int
    added: int


def sizes(workspace: Path, recipe: str) -> Sizes:
    layout = workspace / "build" / recipe
    index = json.loads((layout / "index.json").read_text())
    blobs = layout / "blobs/sha256"
    manifest = json.loads((blobs / index["manifests"][0]["digest"][7:]).read_text())
    locked = json.loads((workspace / "locks" / recipe / "manifest.json").read_text())
    base = {layer["digest"]: layer["size"] for layer in locked["layers"]}
    added = [layer["size"] for layer in manifest["layers"] if layer["digest"] not in base]
    return Sizes(base=sum(base.values()), added=sum(added))


def walk(workspace: Path, recipe: str, base: Path, folder: Path) -> Iterator[Step]:
    """Mirror, promote, verify and lock through the counting wire.

    The workspace is copied, because locking and promoting write into it.
    """
    site = folder / "workspace"
    for part in ("images", "locks"):
        shutil.copytree(workspace / part, site / part)
    shutil.copytree(workspace / "build" / recipe, site / "build" / recipe)
    size = sizes(workspace, recipe)
    with docker_registry(folder) as registry:
        wire = CuttingWire(registry, up=[], down=[])
        with wire.running() as name:

            def run(what: str, *arguments: str, promise: int) -> Step:
                return _run(site, wire, what, arguments, promise)

            mirrored = run(
                "mirror the base",
                *("mirror", recipe, "--to", f"{name}/team/base", "--base", f"oci:{base}"),
                promise=size.base,
            )
            yield mirrored
            base_name = _named(mirrored.told, f"{name}/team/base")
            promoted = run(
                "promote beside the base (mount)",
                *("promote", recipe, "--to", f"{name}/team/{recipe}", "--base", base_name),
                promise=size.added,
            )
            yield promoted
            image = _named(promoted.told, f"{name}/team/{recipe}")
            yield run(
                "verify --image, by digest", "verify", recipe, "--image", image, promise=size.added
            )
            yield run(
                "promote on, image and base there",
                *("promote", recipe, "--image", image, "--to", f"{name}/team/live:{recipe}"),
                promise=size.added,
            )
            yield run("lock --base", "lock", recipe, "--base", base_name, promise=size.base)


def _run(
    site: Path, wire: CuttingWire, what: str, arguments: tuple[str, ...], promise: int
) -> Step:
    before = dict(wire.moved)
    start = time.monotonic()
    command = [sys.executable, "-m", "imagegate", *arguments, "--workspace", str(site)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall = time.monotonic() - start
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
    time.sleep(0.2)  # what is on its way through the wire is counted too
    return Step(
        what=what,
        wall=wall,
        sent=wire.moved["up"] - before["up"],
        received=wire.moved["down"] - before["down"],
        told=done.stdout + done.stderr,
        promise=promise,
    )


def _named(told: str, repository: str) -> str:
    found = re.search(rf"{re.escape(repository)}\S*?(@sha256:[0-9a-f]{{64}})", told)
    assert found, told
    return repository + found[1]


def in_the_tools_words(step: Step) -> str:
    """Return the line in which the tool says what it moved."""
    lines = [line for line in step.told.splitlines() if re.search(r"\bbytes (sent|in)\b", line)]
    return lines[-1].strip() if lines else "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--base", type=Path, required=True)
    arguments = parser.parse_args()
    workspace = arguments.workspace.resolve()
    size = sizes(workspace, arguments.recipe)
    print(f"base {size.base} bytes, added {size.added} bytes, load {os.getloadavg()[0]:.1f}\n")
    print("| what | wall s | sent | received | x | the tool says |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    with tempfile.TemporaryDirectory(dir=workspace / "build") as name:
        for step in walk(workspace, arguments.recipe, arguments.base.resolve(), Path(name)):
            print(
                f"| {step.what} | {step.wall:.1f} | {step.sent:,} | {step.received:,} "
                f"| {step.ratio:.4f} | {in_the_tools_words(step)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
