"""The shipped glm, built from its real wheels and judged: PASSED, and what was compared is told."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from imagegate.workspace import Workspace

ROOT = Path(__file__).parents[2]
NCCL = "usr/local/lib/python3.12/dist-packages/nvidia/nccl/lib/libnccl.so.2"

pytestmark = pytest.mark.wheels


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Check to the lines that its report has; the base's bytes are nowhere."""
    root = tmp_path_factory.mktemp("glm")
    for folder in ("images", "locks"):
        shutil.copytree(ROOT / folder, root / folder)

    def run(*command: str) -> str:
        program = [sys.executable, "-m", "imagegate", *command, "--workspace", str(root)]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("build", "glm")
    report: dict[str, Any] = json.loads(run("verify", "glm", "--format", "json"))
    assert not [f for c in report["checks"] for f in c["findings"] if f["severity"] == "fail"]
    return {check["id"]: check["compared"] for check in report["checks"]}


def test_every_distribution_of_the_base_is_told_with_both_sides(
    compared: dict[str, list[str]],
) -> None:
    base = Workspace(ROOT).lock("glm").base.facts.distributions
    assert len(base) == 198
    assert set(compared["python.pins"]) == {
        f"{pin.name}: locked={pin.version} found={pin.version}" for pin in base
    }


def test_every_added_wheel_and_asset_is_told(compared: dict[str, list[str]]) -> None:
    lock = Workspace(ROOT).lock("glm")
    assert len(compared["python.locked"]) == len(lock.wheels)
    told = "\n".join(compared["copy.present"])
    assert all(asset.source in told and asset.sha256 in told for asset in lock.assets)


def test_every_reading_of_a_gpu_library_is_told_and_which_one_is_loaded(
    compared: dict[str, list[str]],
) -> None:
    told = compared["native.pins"]
    for reading in Workspace(ROOT).lock("glm").base.facts.native:
        line = f"{reading.component} by {reading.source}: {reading.value} in `{reading.path}`"
        assert line in told
    loads = [
        line for line in compared["native.loads"] if line.startswith(("torch loads", "vLLM loads"))
    ]
    assert any(f"torch loads `/{NCCL}` for `libnccl.so.2`: DT_RPATH" in line for line in loads)
    assert any(f"vLLM loads `/{NCCL}`" in line for line in loads)


def test_every_layer_of_the_base_is_told_with_how_it_was_proven(
    compared: dict[str, list[str]],
) -> None:
    manifest = Workspace(ROOT).lock("glm").manifest
    assert manifest is not None
    told = "\n".join(compared["base.digest"])
    for layer in manifest.layers:
        assert f"locked={layer.digest} proven by descriptor digest" in told


@pytest.mark.parametrize("check", ["config.moves", "pins.declared", "lock.fresh", "native.abi"])
def test_no_check_passes_by_emptiness(check: str, compared: dict[str, list[str]]) -> None:
    assert compared[check]
