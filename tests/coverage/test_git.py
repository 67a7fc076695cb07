"""What git knows of assets: submodules, hooks, refusals; asked once for each repository."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.usecases.covering.assets import find_assets, heads
from imagegate.usecases.covering.contexts import read_context
from imagegate.usecases.covering.git import git_state

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
_IDENTITY = (
    "-c",
    "user.name=t",
    "-c",
    "user.email=t@example.org",
    "-c",
    "protocol.file.allow=always",
)


@dataclass(frozen=True)
class Repository:
    folder: Path

    def git(self, *arguments: str) -> None:
        subprocess.run(
            ["git", *_IDENTITY, *arguments],
            cwd=self.folder, check=True, capture_output=True, env=_CLEAN,
        )  # fmt: skip


def repository(folder: Path, files: dict[str, str]) -> Repository:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    made = Repository(folder)
    made.git("init", "-q")
    made.git("add", ".")
    made.git("commit", "-qm", "start")
    return made


def test_a_submodule_that_is_not_checked_out_is_said(tmp_path: Path) -> None:
    repository(tmp_path / "up", {"kimi/t.jinja": "t"})
    whole = repository(tmp_path / "whole", {"recipes/own/t.jinja": "t"})
    whole.git("submodule", "add", "../up", "recipes/up")
    whole.git("commit", "-qm", "submodule")
    there = git_state(whole.folder, ("recipes",))
    assert there is not None
    assert there.tracked == {"recipes/own/t.jinja", "recipes/up/kimi/t.jinja"}
    found = find_assets(("recipes/up",), (), read_context(whole.folder), there)
    assert [asset.path for asset in found.assets] == ["recipes/up/kimi/t.jinja"]

    whole.git("clone", "-q", str(whole.folder), str(tmp_path / "clone"))
    clone = tmp_path / "clone"
    for pattern in ("recipes/*", "recipes/up", "recipes/up/**", "."):
        state = git_state(clone, heads((pattern,)))
        assert state is not None
        found = find_assets((pattern,), (), read_context(clone), state)
        assert [asset.path for asset in found.assets if asset.missing] == ["recipes/up"]


def test_a_pattern_into_a_submodule_is_answered_from_there(tmp_path: Path) -> None:
    repository(tmp_path / "up", {"kimi/t.jinja": "t"})
    whole = repository(tmp_path / "whole", {"x": "x"})
    whole.git("submodule", "add", "../up", "recipes/up")
    (whole.folder / "recipes/up/kimi/new").write_text("new")
    state = git_state(whole.folder, ("recipes/up/kimi",))
    assert state is not None
    assert state.tracked == {"recipes/up/kimi/t.jinja"}
    assert state.untracked == {"recipes/up/kimi/new"}


def test_outside_a_work_tree_nothing_is_doubted(tmp_path: Path) -> None:
    assert git_state(tmp_path, ("",)) is None


def test_git_that_refuses_is_said(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    state = git_state(tmp_path, ("",))
    assert state is not None
    assert state.refused.startswith("git says: not a git repository")


def test_a_hook_of_another_repository_does_not_answer_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repository(tmp_path / "other", {"y": "y"})
    here = repository(tmp_path / "here", {"x": "x"})
    monkeypatch.setenv("GIT_DIR", str(other.folder / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.folder / ".git/index"))
    state = git_state(here.folder, ("",))
    assert state is not None
    assert state.tracked == {"x"}
