"""A disk that takes no more: what could not be written is said, and what was there stays."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.world import World

# a limit of 4 blocks of 512 bytes a file makes the kernel refuse a write, as a full disk does
_SMALL = ["sh", "-c", 'ulimit -f 4; exec "$@"', "sh"]


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("command", "written"),
    [
        (("build", "demo"), "build/demo"),
        (("lock", "demo"), "locks/bases"),
        (("promote", "demo"), "profiles/demo"),
    ],
    ids=["build", "lock", "promote"],
)
def test_a_write_that_fails_names_its_place_and_a_second_run_completes(
    world: World, command: tuple[str, ...], written: str
) -> None:
    if command[0] == "lock":
        command = (*command, "--base", f"oci:{world.base_layout}")
        (world.root / "images/demo/requirements.in").write_text("helperish\n")
        world.forget_base()
    before = contents(world.root)
    program = [sys.executable, "-m", "imagegate", *command, "--workspace", str(world.root)]

    done = subprocess.run(
        [*_SMALL, *program],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 3, done.stderr
    assert f"{world.root}/{written}" in done.stderr
    assert "file too large" in done.stderr.lower()
    assert contents(world.root) == before
    assert world.run(*command) == 0
