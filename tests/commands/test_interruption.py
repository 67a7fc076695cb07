"""Whenever a command is stopped, existing files are intact."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.world import World

# the program stops itself at a chosen step of its own work, so no test waits for a race
_STOPPER = """
import os, signal, sys
# a shell's background job inherits that it is ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.setswitchinterval(1e-4)
names = {"open", "os.rename", "os.mkdir", "subprocess.Popen", "shutil.rmtree", "tempfile.mkdtemp", "tempfile.mkstemp"}
root, stop_at, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
seen = 0
def hook(event, arguments):
    global seen
    if event not in names or not any(str(a).startswith(root) for a in arguments if isinstance(a, (str, bytes, os.PathLike))):
        return
    if event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
        return
    seen += 1
    if seen == stop_at:
        os.kill(os.getpid(), number)
sys.addaudithook(hook)
from imagegate.cli import run
code = run(sys.argv[4:])
print(f"steps={seen}", file=sys.stderr)
sys.exit(code)
"""


def snapshot(*folders: Path) -> dict[Path, bytes]:
    return {
        path: path.read_bytes()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.parts)
    }


def stopped(
    world: World, step: int, number: int, *arguments: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _STOPPER, str(world.root), str(step), str(number), *arguments]
    return subprocess.run(
        [*command, "-w", str(world.root)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("lock", signal.SIGKILL),
        ("lock", signal.SIGINT),
        ("build", signal.SIGKILL),
        ("build", signal.SIGTERM),
        ("promote", signal.SIGKILL),
    ],
)
def test_a_stop_at_any_step_leaves_old_or_new_and_a_second_run_completes(
    command: str, number: signal.Signals, world: World
) -> None:
    arguments = [command, "demo"]
    if command == "lock":
        arguments += ["--base", f"oci:{world.base_layout}"]
        (world.root / "images/demo/requirements.in").write_text("helperish\n")
    folders = {
        "lock": [world.lock],
        "build": [world.layout],
        "promote": [world.root / "profiles"],
    }[command]
    old = snapshot(*folders)
    whole = stopped(world, 10**9, number, *arguments)
    steps = int(whole.stderr.rsplit("steps=", 1)[1])
    assert whole.returncode == 0
    assert steps > 2
    new = snapshot(*folders)
    if command == "build":
        assert new == old  # a build is a function of its lock

    for step in sorted({1, steps // 2, steps - 1, steps}):
        result = stopped(world, step, number, *arguments)
        assert result.returncode in (-number, 130, 0)
        if command == "promote":
            env = world.root / "profiles/demo.env"
            assert env.read_bytes() == new[env]  # the same image: old and new say the same
            assert world.run("verify", "demo") == 0
        else:
            assert snapshot(*folders) in (old, new)
    assert stopped(world, 10**9, number, *arguments).returncode == 0
    leftovers = [p.name for p in world.root.rglob(".*.new") if command != "promote"]
    assert leftovers == []


def test_an_interrupted_command_says_so_and_ends_with_130(world: World) -> None:
    result = stopped(world, 1, signal.SIGINT, "build", "demo")

    assert result.returncode == 130
    assert "interrupted" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_download_is_ended_with_its_command(world: World) -> None:
    import shutil

    shutil.rmtree(world.root.parent / "cache")
    process = subprocess.Popen(
        [sys.executable, "-m", "imagegate", "build", "demo", "-w", str(world.root)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not list(
        (world.root.parent / "cache").glob("wheels/imagegate-tmp-*")
    ):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    process.communicate()

    assert process.returncode in (130, 0)
    assert not list((world.root.parent / "cache").glob("wheels/imagegate-tmp-*"))
