"""The shipped base, composed for real: 3.9 GB of wheels, run on purpose and not in CI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r'image = "localhost/vllm-gb10@(sha256:[0-9a-f]{64})"')

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize(("threads", "seed"), [("2", "0"), ("1", "7")])
def test_composing_the_base_gives_the_digest_that_glm_pins(
    threads: str, seed: str, tmp_path: Path
) -> None:
    pinned = PINNED.search((ROOT / "images/glm/image.toml").read_text())
    assert pinned is not None
    for folder in ("images", "locks"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    command = [sys.executable, "-m", "imagegate", "build", "vllm-gb10", "--threads", threads]

    done = subprocess.run(
        [*command, "--workspace", str(tmp_path)],
        env={**os.environ, "PYTHONHASHSEED": seed, "IMAGEGATE_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )

    assert f"digest    {pinned[1]}" in done.stdout
    assert "PASSED" in done.stdout
