"""Base locks measured: many files in a base, and many recipes over few bases.

    python -m tests.bench.base_locks FOLDER [files|recipes]

Each command runs in a process of its own; CPU seconds are user and system time of that process,
memory is its largest resident set.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

FILES = (60_000, 500_000)
RECIPES, BASES = 60, 3
# of each base in the second table; bytes that cannot be compressed
BASE_SIZE = int(os.environ.get("IMAGEGATE_BENCH_BASE", "0")) or 64 << 20
_TOML = """\
schema = 1
platform = "linux/arm64"
repository = "localhost/{name}"
[base]
image = "localhost/base@{digest}"
[python]
version = "3.12"
site = "/opt/site"
glibc = "2.39"
[assets]
models = ["m"]
target = "/srv/{{model}}"
"""


def layout(folder: Path, members: list[tuple[str, bytes]]) -> str:
    """Write an image of one layer as a layout; returns the manifest's digest."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    plain = folder / "layer.tar"
    with tarfile.open(plain, "w") as tar:
        for path, content in members:
            info = tarfile.TarInfo(path)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    hashed = hashlib.sha256()
    packed = folder / "layer.tar.gz"
    with plain.open("rb") as source, gzip.open(packed, "wb", 1) as target:
        while chunk := source.read(1 << 20):
            hashed.update(chunk)
            target.write(chunk)
    plain.unlink()

    def put(path: Path | None, content: bytes = b"") -> dict[str, object]:
        if path is None:
            digest, size = hashlib.sha256(content).hexdigest(), len(content)
            (blobs / digest).write_bytes(content)
        else:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            size = path.stat().st_size
            path.rename(blobs / digest)
        return {"digest": f"sha256:{digest}", "size": size}

    oci = "application/vnd.oci.image"
    config = {
        "architecture": "arm64",
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashed.hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{oci}.manifest.v1+json",
        "config": {
            "mediaType": f"{oci}.config.v1+json",
            **put(None, json.dumps(config).encode()),
        },
        "layers": [{"mediaType": f"{oci}.layer.v1.tar+gzip", **put(packed)}],
    }
    entry = {"mediaType": f"{oci}.manifest.v1+json", **put(None, json.dumps(manifest).encode())}
    index = {"schemaVersion": 2, "manifests": [entry]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    return str(entry["digest"])


def measure(*command: str) -> tuple[float, int]:
    """Run imagegate; returns CPU seconds and megabytes."""
    program = [sys.executable, "-m", "imagegate", *command]
    process = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024


def recipe(workspace: Path, name: str, digest: str) -> None:
    folder = workspace / "images" / name
    (folder / "recipes" / "m").mkdir(parents=True)
    (folder / "recipes" / "m" / "template.jinja").write_text(name)
    (folder / "image.toml").write_text(_TOML.format(name=name, digest=digest))


def many_files(folder: Path) -> None:
    """A base of so many small files, and a small layer on it."""
    print("| files in the base | command | CPU s | µs of CPU a file | MB |")
    print("| --- | --- | --- | --- | --- |")
    for count in FILES:
        # in a process of its own: a child begins with its parent's memory
        subprocess.run([sys.executable, "-m", "tests.bench.base_locks", str(folder), f"make-{count}"], check=True)  # fmt: skip
        base, workspace = folder / f"base-{count}", folder / f"workspace-{count}"
        shutil.rmtree(workspace, ignore_errors=True)
        (workspace / "locks").mkdir(parents=True)
        digest = json.loads((base / "index.json").read_text())["manifests"][0]["digest"]
        recipe(workspace, "x", digest)
        where = ("-w", str(workspace))
        for label, command in (
            ("lock, base read", ("lock", "x", "--base", f"oci:{base}", *where)),
            ("lock again", ("lock", "x", *where)),
            ("build", ("build", "x", *where)),
            ("verify", ("verify", "x", *where)),
        ):
            cpu, memory = measure(*command)
            print(f"| {count:,} | {label} | {cpu:.2f} | {cpu / count * 1e6:.1f} | {memory} |")


def make_big(folder: Path, number: int) -> None:
    generator = random.Random(number)  # bytes that do not compress, the same each time
    pieces = [
        (f"opt/{number}/{i:04}", generator.randbytes(1 << 20)) for i in range(BASE_SIZE >> 20)
    ]
    layout(folder / f"big-{number}", pieces)


def make(folder: Path, count: int) -> None:
    target = folder / f"base-{count}"
    if not target.exists():
        members = [(f"opt/data/{i // 1000:04}/file-{i:07}.txt", b"%d\n" % i) for i in range(count)]
        layout(target, members)


def many_recipes(folder: Path) -> None:
    """Sixty recipes over three bases: each base is read once."""
    workspace = folder / "recipes"
    shutil.rmtree(workspace, ignore_errors=True)
    (workspace / "locks").mkdir(parents=True)
    reading = 0.0
    for number in range(BASES):
        base = folder / f"big-{number}"
        if not base.exists():
            subprocess.run([sys.executable, "-m", "tests.bench.base_locks", str(folder), f"make-big-{number}"], check=True)  # fmt: skip
        digest = json.loads((base / "index.json").read_text())["manifests"][0]["digest"]
        for name in range(number, RECIPES, BASES):
            recipe(workspace, f"r{name:02}", digest)
        cpu, _ = measure("base", "read", f"oci:{base}", "-w", str(workspace))
        reading += cpu
    whole, memory = measure("lock", "--all", "-w", str(workspace))
    locks = workspace / "locks"
    size = sum(path.stat().st_size for path in locks.rglob("*") if path.is_file())
    of_bases = sum(p.stat().st_size for p in (locks / "bases").rglob("*") if p.is_file())
    print("| recipes | bases | bytes a base | CPU s reading the bases | CPU s `lock --all` then | MB | bytes committed | of them the bases' |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    print(f"| {RECIPES} | {BASES} | {BASE_SIZE:,} | {reading:.2f} | {whole:.2f} | {memory} | {size:,} | {of_bases:,} |")  # fmt: skip


def main(folder: Path, chosen: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if chosen.startswith("make-big-"):
        make_big(folder, int(chosen.removeprefix("make-big-")))
        return
    if chosen.startswith("make-"):
        make(folder, int(chosen.removeprefix("make-")))
        return
    if chosen in ("", "files"):
        many_files(folder)
    if chosen in ("", "recipes"):
        many_recipes(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
