"""``profile check --node``: what docker and podman on this machine would start."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from imagegate.cli import run as imagegate
from tests.engines.machines import forget_images
from tests.registry_source.peers import run
from tests.workspaces import built_workspace

pytestmark = pytest.mark.engines

ENGINES = ("docker", "podman")


@pytest.fixture
def root(engines: Path, plain: str, tmp_path: Path) -> Path:
    """A workspace whose image is promoted to the registry."""
    assert (engines / "cli-plugins").is_dir()
    root = tmp_path / "workspace"
    built_workspace(root)
    to = ["--to", f"{plain}/node/served:live", "--base", f"oci:{root / 'base'}"]
    assert imagegate(["promote", "served", "-w", str(root), *to]) == 0
    forget_images(f"{plain}/node")
    return root


def image(root: Path) -> str:
    lines = (root / "profiles/served.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)["IMAGE"]


def check(root: Path, engine: str) -> int:
    arguments = ["profile", "check", "served", "--node", "--engine", engine, "-w", str(root)]
    return imagegate(arguments)


def pull(engine: str, reference: str) -> None:
    options = ["--tls-verify=false"] if engine == "podman" else []
    run(engine, "pull", "--quiet", *options, "--platform", "linux/arm64", reference)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_node_that_pulled_the_image_is_right(engine: str, root: Path) -> None:
    pull(engine, image(root))

    assert check(root, engine) == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_node_without_the_image_is_told_what_to_pull(
    engine: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    assert check(root, engine) == 1

    said = capsys.readouterr().out
    assert "no such image" in said
    assert f"{engine} pull {image(root)}" in said


@pytest.mark.parametrize("engine", ENGINES)
def test_another_image_under_the_same_tag_is_not_the_profiles(
    engine: str, root: Path, plain: str, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(root, other)
    asset = other / "images/served/recipes/glm53/serve.yaml"
    asset.write_text("tensor-parallel-size: 4\n")
    base = f"oci:{root / 'base'}"
    to = ["--to", f"{plain}/node/served:live", "--base", base]
    assert imagegate(["lock", "served", "--base", base, "-w", str(other)]) == 0
    assert imagegate(["build", "served", "-w", str(other)]) == 0
    assert imagegate(["promote", "served", "-w", str(other), *to]) == 0
    assert image(other) != image(root)
    pull(engine, f"{plain}/node/served:live")

    assert check(root, engine) == 1
    pull(engine, image(other))
    assert check(other, engine) == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_an_image_that_came_from_an_archive_is_known_by_its_id(
    engine: str, root: Path, plain: str
) -> None:
    """No registry named it here; the id binds every layer's content (image-spec, config.md)."""
    pull(engine, image(root))
    archive = root / "image.tar"
    identity = json.loads(run(engine, "image", "inspect", image(root)))[0]["Id"]
    run(engine, "save", "--output", str(archive), image(root))
    forget_images(f"{plain}/node")
    said = run(engine, "load", "--input", str(archive)).decode()
    assert said
    run(engine, "tag", identity.removeprefix("sha256:"), f"{plain}/node/served:live")

    assert check(root, engine) == 0


def test_an_engine_that_is_not_there_is_no_answer(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    for engine in ENGINES:
        capsys.readouterr()
        assert check(root, engine) == 3
        assert f"{engine}" in capsys.readouterr().err
