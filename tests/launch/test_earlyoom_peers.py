"""The thresholds against earlyoom itself: Debian 12's 1.7 and a later one, ``--dryrun``.

``IMAGEGATE_EARLYOOM`` names the programs, separated by colons (`.ci/peers` writes it). A made-up
/proc/meminfo is mounted over the kernel's in a namespace of its own.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from imagegate.launch.killers import Memory, earlyoom_acts, earlyoom_thresholds, uses_anonymous
from tests.launch.test_killers import SEED, moment

PROGRAMS = [one for one in os.environ.get("IMAGEGATE_EARLYOOM", "").split(":") if one]

pytestmark = pytest.mark.peers


def ask(program: str, arguments: list[str], memory: Memory, folder: Path) -> str:
    """Return ``TERM``, ``KILL``, ``""`` for nothing, or ``error`` where it ends at once."""
    made_up = folder / "meminfo"
    lines = {
        "MemTotal": memory.total, "MemFree": memory.available, "MemAvailable": memory.available,
        "Buffers": 0, "Cached": 0, "SwapTotal": memory.swap_total, "SwapFree": memory.swap_free,
        "AnonPages": memory.anonymous,
    }  # fmt: skip
    made_up.write_text(
        "".join(f"{name + ':':<16}{round(value):>8} kB\n" for name, value in lines.items())
    )
    script = 'mount --bind "$0" /proc/meminfo && exec timeout 0.5 "$@"'
    done = subprocess.run(
        [
            "unshare",
            "-rm",
            "sh",
            "-c",
            script,
            str(made_up),
            program,
            "--dryrun",
            "-r",
            "3600",
            *arguments,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert "earlyoom v" in said, said
    low = re.search(r"low memory! at or below SIG(TERM|KILL)", said)
    if low:
        return low[1]
    # 124: timeout ended it while it watched
    return "" if done.returncode == 124 else "error"


def version(program: str) -> str:
    done = subprocess.run([program, "-v"], capture_output=True, text=True, check=False)
    found = re.search(r"earlyoom v?([\d.]+)", done.stdout + done.stderr)
    assert found is not None
    return found[1]


def inputs() -> list[tuple[list[str], Memory]]:
    made: list[tuple[list[str], Memory]] = [
        ([], moment(2000, 20000)), ([], moment(2000, 20000, None)), (SEED, moment(3700, 20000)),
        (SEED, moment(1240, 20000)), (SEED, moment(3700, 90000)), (["-m", "4", "-s", "50"], moment(1240, 20000, 8000)),
        (["-m", "4,0", "-s", "100,100"], moment(1240, 20000)), (["-m", "100"], moment(4000, 0)),
        (["-s", "101"], moment(4000, 0)), (["-s", "0"], moment(4000, 0)), (["-m", "4%"], moment(4000, 0)),
        (["-m", "4", "2"], moment(4000, 0)), (["-m", "4,", "-s", "100,100"], moment(1240, 20000)),
        (["-m", "2,4", "-s", "100,100"], moment(4000, 90000)), (["-m10,5", "-m", "4,2", "-s100,100"], moment(3700, 90000)),
        (["-M", "4000000", "-s", "100,100"], moment(3700, 90000)),
        (["-M", "4000000,1000000", "-m", "9,8", "-s", "100,100"], moment(3000, 30000)),
        (["-S", "1000000"], moment(2000, 20000, None)), (["-S", "9000000,4000000", "-m", "10,5"], moment(2000, 20000, 4000)),
    ]  # fmt: skip
    source = random.Random(14)
    for _ in range(30):
        arguments: list[str] = []
        for letter, most in (("m", 30), ("s", 100)):
            if source.random() < 0.8:
                pair = [str(source.randint(0, most)) for _ in range(source.randint(1, 2))]
                arguments += [f"-{letter}", ",".join(pair)]
        made.append(
            (
                arguments,
                moment(
                    source.randint(0, 9000),
                    source.randint(0, 110000),
                    source.choice([None, 0, 3000, 16384]),
                ),
            )
        )
    return made


def test_at_least_an_old_and_a_new_earlyoom_are_there() -> None:
    assert {bool(uses_anonymous(version(one))) for one in PROGRAMS} == {False, True}


@pytest.mark.parametrize("program", PROGRAMS or [""])
def test_the_model_acts_as_the_program(program: str, tmp_path: Path) -> None:
    anonymous = bool(uses_anonymous(version(program)))
    wrong = []
    for arguments, memory in inputs():
        thresholds = earlyoom_thresholds(arguments, memory)
        model = (
            "error" if thresholds.error else earlyoom_acts(thresholds, memory, anonymous=anonymous)
        )
        said = ask(program, arguments, memory, tmp_path)
        if said != model:
            wrong.append((arguments, memory, said, model))
    assert wrong == []
