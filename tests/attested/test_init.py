"""``imagegate init``: the workspace that it writes works as its comments say."""

from __future__ import annotations

import platform
import shutil
from typing import TYPE_CHECKING

from imagegate.cli import run
from tests.images import Directory, File, ImageBuilder, Link, write_layout
from tests.workspaces import base_image

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.images import BuiltImage


def test_the_commented_recipe_locks_builds_verifies_and_promotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = base_image()
    layout = write_layout(tmp_path / "base", base)
    root = tmp_path / "new" / "workspace"
    assert run(["init", str(root), "--name", "glm"]) == 0
    recipe = root / "images/glm/image.toml"
    written = recipe.read_text()
    # this base shows neither a Python nor a glibc: the recipe has to say them
    recipe.write_text(
        written.replace(f'platform = "{machine()}"\n', "")
        .replace("# version", "version")
        .replace("# site", "site")
        .replace("# glibc", "glibc")
    )
    monkeypatch.chdir(root)
    assert run(["lock", "glm", "--base", f"oci:{layout}"]) == 0
    assert f"@{base.digest}" in recipe.read_text()
    assert run(["build", "glm"]) == 0
    assert run(["verify"]) == 0
    assert run(["promote", "glm"]) == 0
    profile = (root / "profiles/glm.env").read_text()
    assert "MAX_JOBS=1\n" in profile
    assert "IMAGE_PLATFORM=linux/arm64\n" in profile


def machine() -> str:
    """This machine's platform, as Go names it."""
    names = {"x86_64": "amd64", "aarch64": "arm64"}
    return f"linux/{names[platform.machine()]}"


def test_without_a_base_it_is_for_this_machine(tmp_path: Path) -> None:
    assert run(["init", str(tmp_path)]) == 0
    assert f'platform = "{machine()}"\n' in (tmp_path / "images/served/image.toml").read_text()


def python_base() -> BuiltImage:
    """A base as python:3.12 on Debian is: the interpreter first along PATH is not /usr/bin's."""
    files: dict[str, object] = {
        "usr/local/bin/python3.12": File(b"program", 0o755),
        "usr/local/bin/python3": Link("python3.12"),
        "usr/local/lib/python3.12/site.py": "site-packages",
        "usr/local/lib/python3.12/site-packages": Directory(),
        "usr/bin/python3.11": File(b"other", 0o755),
        "usr/bin/python3": Link("python3.11"),
        "usr/lib/python3.11/site.py": "dist-packages",
    }
    return ImageBuilder().layer(files).build()  # type: ignore[arg-type]


def test_a_base_fills_the_recipe_in_and_is_read_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = python_base()
    layout = write_layout(tmp_path / "of-ours", base)
    root = tmp_path / "workspace"

    assert run(["init", str(root), "--name", "glm", "--base", f"oci:{layout}"]) == 0

    # its C library is not shown: the keys that are known stand in the note
    err = capsys.readouterr().err
    assert "leaves out `python.glibc`" in err
    text = (root / "images/glm/image.toml").read_text()
    assert f'image = "localhost/of-ours@{base.digest}"' in text
    assert 'platform = "linux/arm64"' in text
    shutil.rmtree(layout)
    recipe = root / "images/glm/image.toml"
    recipe.write_text(text.replace("# glibc", "glibc"))
    assert run(["lock", "glm", "-w", str(root)]) == 0
    err = capsys.readouterr().err
    assert "reading the base" not in err
    assert "version 3.12, interpreter /usr/local/bin/python3" in err
    assert "the base also has /usr/bin/python3.11" in err


def test_a_base_that_cannot_be_read_leaves_nothing_behind(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    assert run(["init", str(root), "--base", f"oci:{tmp_path / 'nowhere'}"]) == 2
    assert not root.exists()
    layout = write_layout(tmp_path / "base", python_base())
    for blob in (layout / "blobs/sha256").iterdir():
        content = blob.read_bytes()
        if not content.startswith(b"{"):
            blob.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert run(["init", str(root), "--base", f"oci:{layout}"]) == 3
    assert not root.exists()


def test_the_name_of_a_published_base_is_kept(tmp_path: Path) -> None:
    base = python_base()
    layout = write_layout(tmp_path / "base", base)
    root = tmp_path / "workspace"
    name = "registry.example/team/python"
    assert run(["init", str(root), "--base", f"oci:{layout}", "--base-name", f"{name}:3.12"]) == 0
    text = (root / "images/served/image.toml").read_text()
    assert f'image = "{name}:3.12@{base.digest}"' in text
    assert run(["init", str(tmp_path / "x"), "--base-name", name]) == 2


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
