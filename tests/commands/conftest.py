"""A workspace whose base is served by a registry that can be told to lie."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.registry import Lies, LoopbackRegistry
from tests.world import World, configure


@pytest.fixture(scope="module")
def served() -> Iterator[LoopbackRegistry]:
    with LoopbackRegistry().running() as running:
        yield running


@pytest.fixture(scope="module")
def homed_once(
    built_once: World, served: LoopbackRegistry, tmp_path_factory: pytest.TempPathFactory
) -> World:
    """The workspace with its base in the registry, pinned, locked and built from there."""
    folder = tmp_path_factory.mktemp("homed")
    shutil.copytree(built_once.root.parent, folder, symlinks=True, dirs_exist_ok=True)
    world = World(folder / "workspace", built_once.base)
    reference = served.add("team/base", world.base, "stable")
    path = world.root / "images/demo/image.toml"
    path.write_text(path.read_text().replace(f"localhost/base@{world.base.digest}", reference))
    before = dict(os.environ)
    configure(os.environ, folder)  # type: ignore[arg-type]
    try:
        assert world.run("lock", "demo") == 0
        assert world.run("build", "demo") == 0
    finally:
        os.environ.clear()
        os.environ.update(before)
    return world


@pytest.fixture
def registry(served: LoopbackRegistry, homed_once: World) -> LoopbackRegistry:
    """The registry, honest again, with nothing but the base."""
    for held in (served.blobs, served.manifests, served.tags, served.uploads, served.tokens):
        held.clear()
    for counted in (served.seen, served.served, served.received, served.failures):
        counted.clear()
    served.accounts = None
    served.lies = Lies()
    served.add("team/base", homed_once.base, "stable")
    return served


@pytest.fixture
def homed(homed_once: World, world: World, tmp_path: Path) -> World:
    shutil.copytree(homed_once.root, tmp_path / "homed", symlinks=True)
    return World(tmp_path / "homed", world.base)
