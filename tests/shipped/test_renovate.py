"""Renovate proposes new digests of bases: its configuration is valid, and fits what recipes say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CONFIG = Path(__file__).parents[2] / ".github/renovate.json"
DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("image", "name", "tag"),
    [
        (f"docker.io/vllm/vllm-openai:v0.29.0@{DIGEST}", "docker.io/vllm/vllm-openai", "v0.29.0"),
        (f"registry.example:5000/team/base:1@{DIGEST}", "registry.example:5000/team/base", "1"),
    ],
)
def test_name_tag_and_digest_of_a_base_are_found(image: str, name: str, tag: str) -> None:
    (manager,) = json.loads(CONFIG.read_text())["customManagers"]
    (written,) = manager["matchStrings"]
    found = re.search(written.replace("(?<", "(?P<"), f'[base]\nimage = "{image}"\n')
    assert found is not None
    assert (found["depName"], found["currentValue"], found["currentDigest"]) == (name, tag, DIGEST)
    (files,) = manager["managerFilePatterns"]
    assert re.search(files.strip("/"), "images/glm/image.toml")


@pytest.mark.peers
def test_renovates_own_validator_accepts_the_configuration(tmp_path: Path) -> None:
    npx = shutil.which("npx")
    assert npx, "`npx` is needed for this test"
    shutil.copy(CONFIG, tmp_path / "renovate.json")
    command = [npx, "--yes", "--package=renovate@44", "renovate-config-validator", "--strict"]
    done = subprocess.run(
        [*command, "renovate.json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "validated successfully" in done.stdout + done.stderr
