"""``imagegate load``: into docker and podman without a registry, and started by its id."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.engines.machines import Site, forget_images
from tests.registry_source.peers import run

pytestmark = pytest.mark.engines


@pytest.fixture
def site(locked: Site, builds: dict[str, Path], tmp_path: Path) -> Site:
    """A workspace whose build was promoted and whose base lies in a layout, not in an engine."""
    site = locked.copy(tmp_path / "site")
    shutil.copytree(builds["compose"], site.layout)
    assert site.run("promote", "demo") == 0
    layout = site.root.parent / "base"
    run(
        *("skopeo", "copy", "--src-tls-verify=false", "--preserve-digests"),
        *(f"docker://{site.base.replace(':stable', '')}", f"oci:{layout}"),
    )
    return site


def identity(site: Site) -> str:
    profile = (site.root / "profiles/demo.env").read_text().splitlines()
    return next(line for line in profile if line.startswith("IMAGE_ID=")).removeprefix("IMAGE_ID=")


def forget(engine: str, image: str) -> None:
    found = json.loads(run(engine, "image", "inspect", image))[0]
    run(engine, "rmi", "--force", *(found.get("RepoTags") or [image]))


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_the_id_of_the_profile_starts_what_was_loaded(
    engine: str, site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    image = identity(site)
    forget_images("localhost/imagegate/demo")
    capfd.readouterr()

    base = f"oci:{site.root.parent / 'base'}"
    assert site.run("load", "demo", "--engine", engine, "--base", base) == 0

    out = capfd.readouterr().out
    assert f"loaded    {image}" in out
    assert "profiles/demo.env names this image" in out
    said = run(engine, "run", "--rm", "--network", "none", image, "ray", "--version").decode()
    assert said.startswith("ray, version ")
    assert site.run("profile", "check", "demo", "--engine", engine) == 0
    capfd.readouterr()
    assert site.run("load", "demo", "--engine", engine, "--base", base) == 0
    assert "sent      nothing: all" in capfd.readouterr().out
    forget(engine, image)


def test_docker_is_not_sent_what_it_holds(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    """The base is in the store, and no place is named that holds its layers."""
    image = identity(site)
    forget_images("localhost/imagegate/demo")
    run("docker", "pull", "--quiet", site.base)
    capfd.readouterr()

    assert site.run("load", "demo", "--base", str(site.root / "no-base")) == 0

    layers = json.loads(run("docker", "image", "inspect", image))[0]["RootFS"]["Layers"]
    base = json.loads(run("docker", "image", "inspect", site.base))[0]["RootFS"]["Layers"]
    sent = len(layers) - len(base)
    assert f"in {sent} layers; {len(base)} were there" in capfd.readouterr().out
    forget("docker", image)


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_changed_layer_is_refused_on_the_way(
    engine: str, site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    image = identity(site)
    forget_images("localhost/imagegate/demo")
    manifest = json.loads((site.layout / "index.json").read_text())["manifests"][0]["digest"]
    blobs = site.layout / "blobs/sha256"
    layers = json.loads((blobs / manifest.partition(":")[2]).read_text())["layers"]
    blob = blobs / layers[-1]["digest"].partition(":")[2]
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(content)
    capfd.readouterr()

    base = f"oci:{site.root.parent / 'base'}"
    assert site.run("load", "demo", "--engine", engine, "--base", base) == 3

    assert "other bytes than promised" in capfd.readouterr().err
    with pytest.raises(AssertionError):
        run(engine, "image", "inspect", image)


def test_the_store_of_containerd_keeps_the_digest(
    site: Site, second: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """It knows an image by its manifest, which is the digest that the profile names."""
    profile = (site.root / "profiles/demo.env").read_text()
    base = f"oci:{site.root.parent / 'base'}"
    capfd.readouterr()

    assert site.run("load", "demo", "--host", second, "--base", base) == 0

    loaded = capfd.readouterr().out.splitlines()[0].split()[1]
    assert f"IMAGE_DIGEST={loaded}\n" in profile
    said = run("docker", "--host", second, "run", "--rm", loaded, "ray", "--version").decode()
    assert said.startswith("ray, version ")


def test_a_host_that_does_not_answer_is_named(
    site: Site, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    assert site.run("load", "demo", "--host", f"unix://{tmp_path}/nothing") == 3
    assert f"docker on `unix://{tmp_path}/nothing` cannot be reached" in capfd.readouterr().err
    assert site.run("load", "demo", "--engine", "podman", "--host", "ssh://-oProxy/x") == 2
