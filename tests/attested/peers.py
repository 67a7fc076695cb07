"""Other hands' programs: cosign of two generations, oras and crane, on loopback or on a folder.

``IMAGEGATE_COSIGN`` names the cosign programs, separated as in ``PATH``; else the one on ``PATH``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

OFFLINE = ("--insecure-ignore-tlog=true",)


def cosigns() -> list[str]:
    named = os.environ.get("IMAGEGATE_COSIGN", "")
    return [name for name in named.split(os.pathsep) if name] or ["cosign"]


def program(name: str) -> str:
    path = shutil.which(name)
    assert path, f"`{name}` is needed for this test"
    return path


def run(
    home: Path, *command: str, stdin: str = "", check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program with a home of its own and no way to a network but loopback."""
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "COSIGN_PASSWORD": "throw-away",
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }
    done = subprocess.run(
        (program(command[0]), *command[1:]),
        input=stdin,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert not check or done.returncode == 0, f"{command}: {done.stderr}"
    return done
