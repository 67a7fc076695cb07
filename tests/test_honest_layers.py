"""Layers made from real wheels, as anybody would add them: the gate has nothing to say against them.

Three run in CI, the others on purpose (marker ``heavy``): a large wheel is downloaded for each.
"""

from __future__ import annotations

import os
from datetime import date
from typing import TYPE_CHECKING

import pytest

from imagegate.report.text import render_text
from imagegate.resolver.wheels import cache_folder
from imagegate.usecases.build import build_recipe
from imagegate.usecases.lock import lock_recipe
from imagegate.workspace import Workspace
from tests.calls import calling
from tests.images import ImageBuilder, write_layout
from tests.judging import SITE, dist

if TYPE_CHECKING:
    from pathlib import Path

    from tests.images import Content

EDITABLE = dist(
    "small-project",
    "0.1",
    direct_url='{"dir_info": {"editable": true}, "url": "file:///srv/small-project"}',
    files={"__editable__.small_project-0.1.pth": "/srv/small-project/src\n"},
)
BASE: dict[str, Content] = {
    "etc/os-release": "ID=ubuntu\n",
    "usr/lib/python3.12/os.py": "# the standard library\n",
    "srv/small-project/src/small_project/__init__.py": "",
    f"{SITE}/README": "",
    **dist("packaging", "26.1"),
    **EDITABLE,
}
RECIPE = """
schema = 1
platform = "linux/arm64"
repository = "registry.example/honest"
[base]
image = "registry.example/base@{digest}"
[python]
version = "3.12"
site = "/{site}"
glibc = "2.39"
"""
ENVIRONMENT = {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "CUDA_HOME=/usr/local/cuda"]}


@pytest.mark.parametrize(
    "requirement",
    [
        pytest.param("sentencepiece", marks=pytest.mark.wheels),
        pytest.param("grpcio-tools", marks=pytest.mark.wheels),
        # over a base with an editable install, as all of these are; alone it adds one pure wheel
        pytest.param("click", marks=pytest.mark.wheels),
        pytest.param("ray[default]", marks=pytest.mark.heavy),
        pytest.param("transformers", marks=pytest.mark.heavy),
        pytest.param("opencv-python-headless", marks=pytest.mark.heavy),
        pytest.param("jupyterlab", marks=pytest.mark.heavy),
        pytest.param("polars", marks=pytest.mark.heavy),
        pytest.param("triton", marks=pytest.mark.heavy),
        pytest.param("pandas", marks=pytest.mark.heavy),
    ],
)
def test_an_honest_layer_passes(requirement: str, tmp_path: Path) -> None:
    base = ImageBuilder(config=ENVIRONMENT).layer(BASE, "ADD rootfs").build()
    layout = write_layout(tmp_path / "base", base)
    recipe = tmp_path / "images" / "honest"
    recipe.mkdir(parents=True)
    (tmp_path / "locks").mkdir()
    (recipe / "image.toml").write_text(RECIPE.format(digest=base.digest, site=SITE))
    (recipe / "requirements.in").write_text(f"{requirement}\n")
    workspace, cache = Workspace(tmp_path), cache_folder(os.environ)
    lock_recipe(calling(workspace, cache=cache), "honest", base=f"oci:{layout}")
    outcome = build_recipe(
        calling(workspace, cache=cache, threads=2, today=date(2026, 1, 1)), "honest", full_from=None
    )
    assert outcome.verdict.passed, render_text(outcome.verdict)
