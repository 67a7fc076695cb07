"""The commands as a person types them, on a workspace of a few files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from imagegate.checks.image import CHECKS
from imagegate.cli import run
from tests.images import ImageBuilder, write_layout
from tests.judging import dist

if TYPE_CHECKING:
    from pathlib import Path

RECIPE = """
schema = 1
platform = "linux/arm64"
repository = "registry.example/small"
[base]
scratch = true
[python]
version = "3.12"
site = "/usr/lib/python3.12/site-packages"
glibc = "2.39"
[assets]
models = ["m"]
target = "/srv/{model}"
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    models = tmp_path / "images" / "small" / "recipes" / "m"
    models.mkdir(parents=True)
    (models / "template.jinja").write_text("{{ messages }}")
    (models.parent.parent / "image.toml").write_text(RECIPE)
    (tmp_path / "locks").mkdir()
    assert run(["lock", "small", "-w", str(tmp_path)]) == 0
    assert run(["build", "small", "-w", str(tmp_path)]) == 0
    return tmp_path


def test_a_whole_verification_passes(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "small", "-w", str(workspace)]) == 0
    assert "PASSED" in capsys.readouterr().out


def test_one_check_alone_is_partial_and_names_what_was_left_out(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    code = run(
        ["verify", "small", "-w", str(workspace), "--only", "base.digest", "--format", "json"]
    )
    report = json.loads(capsys.readouterr().out)
    assert code == 0
    assert report["verdict"] == "PARTIAL"
    assert report["skipped"] == [check.id for check in CHECKS if check.id != "base.digest"]
    assert [check["id"] for check in report["checks"]] == ["base.digest"]


def test_a_check_that_there_is_not_is_a_usage_error(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", "small", "-w", str(workspace), "--skip", "python.pin"]) == 2
    assert "did you mean `python.pins`?" in capsys.readouterr().err


def test_leaving_every_check_out_is_a_usage_error(workspace: Path) -> None:
    options = [word for check in CHECKS for word in ("--skip", check.id)]
    assert run(["verify", "small", "-w", str(workspace), *options]) == 2


def test_the_same_lock_twice_does_not_differ(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["diff", "small", "small", "-w", str(workspace)]) == 0
    assert capsys.readouterr().out == ""


def test_two_images_differ_in_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = ImageBuilder(config={"Env": ["A=1"]}).layer({**dist("ray", "2.54.0"), "a": "x"}).build()
    two = ImageBuilder(config={"Env": ["A=2"]}).layer({**dist("ray", "2.60.0"), "a": "x"}).build()
    write_layout(tmp_path / "one", one)
    write_layout(tmp_path / "two", two)
    code = run(["diff", f"oci:{tmp_path / 'one'}", f"oci:{tmp_path / 'two'}", "--format", "json"])
    shown = json.loads(capsys.readouterr().out)
    assert code == 1
    found = {(d["group"], d["subject"]): (d["old"], d["new"]) for d in shown["differences"]}
    assert found["distributions", "ray"] == ("2.54.0", "2.60.0")
    assert found["config", "Env A"] == ("1", "2")
    assert not any(subject == "a" for _, subject in found)


def test_what_is_neither_lock_nor_image_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["diff", "nowhere", "nothing"]) == 2
    assert "neither a lock nor an image" in capsys.readouterr().err


def test_the_facts_of_an_image_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = ImageBuilder(config={"Env": ["A=1"]}).layer(dist("ray", "2.54.0")).build()
    write_layout(tmp_path / "one", built)
    assert run(["inspect", f"oci:{tmp_path / 'one'}"]) == 0
    shown = capsys.readouterr().out
    assert f"image     {built.digest} (linux/arm64)" in shown
    assert "  ray: 2.54.0\n" in shown
    assert run(["inspect", f"oci:{tmp_path / 'one'}", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [pin["name"] for pin in document["facts"]["distributions"]] == ["ray"]


@pytest.mark.parametrize("check", [check.id for check in CHECKS])
def test_every_check_is_explained(check: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", check]) == 0
    assert capsys.readouterr().out.startswith(f"{check}\n\nasks ")
