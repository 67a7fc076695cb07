"""``build --builder NAME``: a builder that lives in another daemon, read back as an archive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engines.machines import Site, look_inside
from tests.registry_source.peers import run

pytestmark = pytest.mark.engines


def images(*host: str) -> list[bytes]:
    return sorted(run("docker", *host, "image", "ls", "--quiet", "--no-trunc").split())


def test_a_builder_of_another_daemon_gives_the_same_image(
    locked: Site, builds: dict[str, Path], second: str, tmp_path: Path
) -> None:
    site = locked.copy(tmp_path / "site")
    before, there = images(), images("--host", second)

    assert site.run("build", "demo", "--engine", "docker", "--builder", "second") == 0

    assert look_inside(site, site.layout) == look_inside(locked, builds["buildx"])
    engine = json.loads((site.root / "build/demo.build.json").read_text())["engine"]
    assert (engine["builder"], engine["instance"], engine["driver"]) == (
        "buildx",
        "second",
        "docker",
    )
    # no daemon was given the image, neither this machine's nor the builder's
    assert images() == before
    assert images("--host", second) == there


def test_a_failing_build_leaves_nothing_behind(
    locked: Site, second: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    site = locked.copy(tmp_path / "site")
    site.template("FROM {{ base }}\nRUN exit 7\n")
    there = images("--host", second)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        patch.setattr("tempfile.tempdir", None)
        code = site.run("build", "demo", "--engine", "docker", "--builder", "second")

    assert code in (1, 3)
    assert not site.layout.exists()
    assert list(temporary.iterdir()) == []
    assert images("--host", second) == there
    capfd.readouterr()


def test_a_builder_that_is_none_is_named(
    locked: Site, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    site = locked.copy(tmp_path / "site")
    capfd.readouterr()
    assert site.run("build", "demo", "--engine", "docker", "--builder", "nobodys") == 3
    err = capfd.readouterr().err
    assert "buildx has no builder `nobodys`" in err
    assert "docker buildx ls" in err
