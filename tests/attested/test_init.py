"""``imagegate init``: the workspace that it writes works as its comments say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.cli import run
from tests.images import write_layout
from tests.workspaces import base_image

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_commented_recipe_locks_builds_verifies_and_promotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = base_image()
    layout = write_layout(tmp_path / "base", base)
    root = tmp_path / "new" / "workspace"
    assert run(["init", str(root), "--name", "glm"]) == 0
    monkeypatch.chdir(root)
    assert run(["lock", "glm", "--base", f"oci:{layout}"]) == 0
    assert f"@{base.digest}" in (root / "images/glm/image.toml").read_text()
    assert run(["build", "glm"]) == 0
    assert run(["verify"]) == 0
    assert run(["promote", "glm"]) == 0
    assert "MAX_JOBS=16\n" in (root / "profiles/glm.env").read_text()


def test_before_the_lock_a_build_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", str(tmp_path)]) == 0
    assert run(["build", "served", "-w", str(tmp_path)]) == 3
    assert "imagegate lock served" in capsys.readouterr().err


def test_nothing_is_written_over_anything(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    assert run(["init", str(tmp_path)]) == 0
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    recipe = tmp_path / "images/served/image.toml"
    recipe.write_text("mine\n")
    assert run(["init", str(tmp_path)]) == 2
    assert recipe.read_text() == "mine\n"


def test_a_name_that_is_none_writes_nothing(tmp_path: Path) -> None:
    assert run(["init", str(tmp_path / "x"), "--name", "../out"]) == 2
    assert not (tmp_path / "x").exists()
