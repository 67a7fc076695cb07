"""Engines, registries, the base and the workspace: made once for all engine tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.machines import (
    KEPT,
    Site,
    find_tool,
    forget_images,
    make_base,
    make_site,
    second_docker,
    start_docker,
)
from tests.registry_source.peers import PASSWORD, USER, docker_registry, run

# containers.conf(5): podman asks for more than a root without CAP_SYS_RESOURCE may have
_SMALL_LIMITS = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Docker with buildx, answering; returns docker's configuration folder."""
    folder = tmp_path_factory.mktemp("docker")
    buildx = "usr/libexec/docker/cli-plugins/docker-buildx"
    plugin = find_tool("docker-buildx", buildx)
    assert plugin, f"put Debian sid's docker-buildx below `.peers` ({buildx})"
    (folder / "config.json").write_text("{}")  # podman reads it too and wants it to be there
    (folder / "cli-plugins").mkdir()
    (folder / "cli-plugins/docker-buildx").symlink_to(plugin)
    before = dict(os.environ)
    # the distribution's docker, whose client still has BuildKit of its own
    os.environ["PATH"] = f"/usr/bin:{before['PATH']}"
    os.environ["DOCKER_CONFIG"] = str(folder)
    os.environ["IMAGEGATE_CACHE"] = str(KEPT / "cache")
    (folder / "containers.conf").write_text(_SMALL_LIMITS)
    os.environ["CONTAINERS_CONF"] = str(folder / "containers.conf")
    started = start_docker(folder)
    try:
        yield folder
        forget_images("localhost/imagegate/demo")
    finally:
        os.environ.clear()
        os.environ.update(before)
        if started is not None:
            started.terminate()
            started.wait()


@pytest.fixture(scope="session")
def second(engines: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Another docker, with containerd's image store; docker knows it as the context `second`."""
    assert (engines / "cli-plugins").is_dir()
    with second_docker(tmp_path_factory.mktemp("second")) as address:
        run("docker", "context", "create", "second", "--docker", f"host={address}")
        yield address


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docker_registry(tmp_path_factory.mktemp("plain")) as name:
        yield name
        forget_images(f"{name}/")


@pytest.fixture(scope="session")
def guarded(engines: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry with basic authentication; docker's configuration knows the account."""
    assert (engines / "cli-plugins").is_dir()
    with docker_registry(tmp_path_factory.mktemp("guarded"), basic_auth=True) as name:
        run(
            "docker", "login", "--username", USER, "--password-stdin", name, stdin=PASSWORD.encode()
        )
        yield name
        forget_images(f"{name}/")


@pytest.fixture(scope="session")
def locked(engines: Path, plain: str, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The workspace, locked from the registry."""
    assert (engines / "cli-plugins").is_dir()
    folder = tmp_path_factory.mktemp("site")
    base = make_base(plain, folder / "base")
    site = make_site(folder / "workspace", base, plain)
    assert site.run("lock", "demo") == 0
    return site


_BUILDS = {
    "compose": (),
    "buildx": ("--engine", "docker", "--builder", "buildx"),
    "buildkit": ("--engine", "docker", "--builder", "buildkit"),
    "classic": ("--engine", "docker", "--builder", "classic"),
    "podman": ("--engine", "podman"),
}


@pytest.fixture(scope="session")
def builds(locked: Site) -> dict[str, Path]:
    """The same lock built in every way; each layout is kept."""
    kept = {}
    for name, arguments in _BUILDS.items():
        assert locked.run("build", "demo", *arguments) == 0, name
        kept[name] = locked.root.parent / f"built-{name}"
        shutil.copytree(locked.layout, kept[name])
    return kept
