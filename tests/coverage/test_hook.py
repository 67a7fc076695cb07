"""The pre-commit hook in a repository with its own Dockerfile: it fires when a model is added."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOK = (ROOT / ".pre-commit-hooks.yaml").read_text().partition("- id: imagegate-coverage")[2]
_CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose hook is the entry of .pre-commit-hooks.yaml, as pre-commit calls it."""
    files = {
        "recipes/llama/template.jinja": "l",
        "recipes/qwen/template.jinja": "q",
        "Containerfile": ("FROM scratch\nCOPY recipes/llama /r/llama\nCOPY recipes/qwen /r/qwen\n"),
        "coverage.toml": '[[build]]\ndockerfile = "Containerfile"\nassets = "recipes/*"\n',
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "start")
    found = re.search(r"entry: imagegate (.+)", HOOK)
    assert found is not None
    hook = tmp_path / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m imagegate {found[1]}\n")
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**_CLEAN, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_a_new_model_that_no_copy_reaches_is_not_committed(repository: Path) -> None:
    (repository / "recipes/kimi3").mkdir()
    (repository / "recipes/kimi3/template.jinja").write_text("k")
    git(repository, "add", "recipes/kimi3/template.jinja")
    refused = git(repository, "commit", "-qm", "kimi3")
    assert refused.returncode == 1
    assert "no COPY reaches it" in refused.stdout + refused.stderr

    with (repository / "Containerfile").open("a") as file:
        file.write("COPY recipes/kimi3 /r/kimi3\n")
    # also where git hands the hook an index of its own, as with `git commit PATH`
    done = git(repository, "commit", "-qam", "kimi3")
    assert done.returncode == 0, done.stderr


def test_a_model_that_was_not_added_to_git_is_said(repository: Path) -> None:
    (repository / "recipes/kimi3").mkdir()
    (repository / "recipes/kimi3/template.jinja").write_text("k")
    with (repository / "Containerfile").open("a") as file:
        file.write("COPY recipes/kimi3 /r/kimi3\n")
    refused = git(repository, "commit", "-qam", "kimi3 forgotten")
    assert refused.returncode == 1
    assert "not tracked by git" in refused.stdout + refused.stderr


def test_a_recipe_that_is_removed_and_still_copied_is_said(repository: Path) -> None:
    git(repository, "rm", "-rq", "recipes/qwen")
    refused = git(repository, "commit", "-qm", "qwen is gone")
    assert refused.returncode == 1
    assert "not found" in refused.stdout + refused.stderr


def test_the_hook_fires_whatever_is_committed() -> None:
    keys = dict(re.findall(r"^  (\w+): (.*)$", HOOK, re.MULTILINE))
    assert keys["always_run"] == "true"
    assert keys["pass_filenames"] == "false"
    assert re.search(keys["files"].strip('"'), "recipes/kimi3/template.jinja")
