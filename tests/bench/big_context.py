"""Times and memory of COPY coverage on big contexts; prints one table.

Usage: ``python -m tests.bench.big_context`` in the repository. The trees are made in a temporary
folder: 200,000 files below a folder that an ignore file names, and 100,000 files that are sent.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench.__main__ import measure

_DOCKERFILE = "FROM scratch\nCOPY . /opt/\n"
_COMMAND = [sys.executable, "-m", "imagegate", "coverage", "--recipes", "recipes/*"]


def grow(root: Path, folders: int, files: int) -> None:
    """Make `folders` folders of `files` empty files each below ``big``."""
    for number in range(folders):
        folder = root / "big" / f"d{number}"
        folder.mkdir(parents=True)
        for inner in range(files):
            (folder / f"f{inner}").touch()
    (root / "recipes/a").mkdir(parents=True)
    (root / "recipes/a/t.jinja").write_text("x")
    (root / "Dockerfile").write_text(_DOCKERFILE)


def main() -> None:
    """Measure and print."""
    rows: list[tuple[str, str, str]] = []
    with tempfile.TemporaryDirectory() as name:
        ignored, sent = Path(name) / "ignored", Path(name) / "sent"
        grow(ignored, 1000, 200)
        grow(sent, 1000, 100)
        for said, lines, builder in (
            ("200,000 below `big`", "big\n", "buildkit"),
            ("200,000 below `*`, `!recipes`", "*\n!recipes\n", "buildkit"),
            ("200,000 below `*`, `!recipes`", "*\n!recipes\n", "classic"),
            ("200,000 below `*`, `!recipes`", "*\n!recipes\n", "buildah"),
            ("200,000 and an asset ignored", "big\nrecipes\n", "buildkit"),
            ("200,000, entered for `!**/keep`", "big\n!**/keep\n", "buildkit"),
            ("200,000, not entered for `!**/keep`", "big\n!**/keep\n", "classic"),
        ):
            (ignored / ".dockerignore").write_text(lines)
            rows.append(_row(said, builder, ignored))
        rows += [
            _row("100,000 that are sent", builder, sent)
            for builder in ("buildkit", "classic", "buildah")
        ]
        shutil.rmtree(name, ignore_errors=True)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| context | builder | wall s, CPU s, MB |\n| --- | --- | --- |")
    for said, builder, figures in rows:
        print(f"| {said} | {builder} | {figures} |")


def _row(said: str, builder: str, context: Path) -> tuple[str, str, str]:
    command = [
        *_COMMAND, "--context", str(context), "-f", str(context / "Dockerfile"),
        "--builder", builder, "--format", "github",
    ]  # fmt: skip
    found = measure(["sh", "-c", '"$@"; test $? -lt 2', "sh", *command], repeat=3)
    return said, builder, f"{found.wall:.2f}, {found.cpu:.2f}, {found.memory:.0f}"


if __name__ == "__main__":
    main()
