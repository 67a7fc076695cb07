"""What a project's text says of its wheel, against wheels that were really built.

``data/wheels.json`` holds 30 projects and, for each of their files, its path in the wheel that
``pip wheel`` made (setuptools 84.2 and the same with 65.5, hatchling 1.33, poetry-core 2.5,
flit_core 4.2, uv_build 0.13).
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from imagegate.coverage.packages import NotPacked, NotTold, Packed, Project, read_project
from imagegate.coverage.tree import build_tree, file

MEASURED: dict[str, dict[str, dict[str, str | None]]] = json.loads(
    (Path(__file__).parent / "data/wheels.json").read_text()
)
# poetry: an `include` without `format` is in the wheel before poetry 2 and not since
NOT_TOLD = {("poetry packages", "tests/t.json")}


def project(files: dict[str, str]) -> Project:
    root = build_tree({path: file(size=len(text)) for path, text in files.items()})
    found = read_project(root, lambda path: io.BytesIO(files[path].encode()))
    assert found is not None
    return found


@pytest.mark.parametrize("title", sorted(MEASURED))
def test_the_text_says_what_the_wheel_holds(title: str) -> None:
    row = MEASURED[title]
    files = {path: text or "" for path, text in row["files"].items()}
    for path, place in row["wheel"].items():
        said = project(files).answer(path)
        if (title, path) in NOT_TOLD:
            assert isinstance(said, NotTold), path
        elif place is None:
            assert isinstance(said, NotPacked), path
        else:
            assert isinstance(said, Packed), path
            assert said.place == place


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (
            {"pyproject.toml": '[build-system]\nbuild-backend = "mesonpy"\n'},
            "the rules of the build backend `mesonpy` are not read",
        ),
        (
            {"pyproject.toml": '[build-system]\nbuild-backend="own"\nbackend-path=["."]\n'},
            "the project brings its build backend along",
        ),
        ({"pyproject.toml": "x = ["}, "pyproject.toml is not valid TOML"),
        (
            {"setup.py": "from setuptools import setup\nsetup(packages=made_up())\n"},
            "setup.py computes `packages`",
        ),
        (
            {"setup.py": "from setuptools import setup\nsetup(**config)\n"},
            "setup.py computes its arguments",
        ),
        (
            {"setup.py": "from setuptools import setup\nsetup(cmdclass={'build_py': X})\n"},
            "setup.py says `cmdclass`",
        ),
        ({"setup.py": "def ("}, "setup.py cannot be read"),
        (
            {
                "pyproject.toml": '[build-system]\nbuild-backend="hatchling.build"\n'
                "[tool.hatch.build.hooks.custom]\n"
            },
            "a build hook of hatchling",
        ),
    ],
)
def test_what_a_program_decides_is_not_told(files: dict[str, str], reason: str) -> None:
    said = project({**files, "demo/__init__.py": "", "demo/x.json": "{}"}).answer("demo/x.json")
    assert isinstance(said, NotTold)
    assert reason in said.reason


def test_a_folder_without_a_project_has_no_rules() -> None:
    assert read_project(build_tree({"x": file()}), lambda _: io.BytesIO()) is None
