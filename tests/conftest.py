"""Fixtures that many tests share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.world import World, configure, make_world


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The small workspace, locked and built by the real commands."""
    folder = tmp_path_factory.mktemp("world")
    world = make_world(folder)
    before = dict(os.environ)
    configure(os.environ, folder)  # type: ignore[arg-type]
    try:
        assert world.run("lock", "demo", "--base", f"oci:{world.base_layout}") == 0
        assert world.run("build", "demo") == 0
    finally:
        os.environ.clear()
        os.environ.update(before)
    return world


@pytest.fixture
def world(built_once: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A copy of the locked and built workspace, to be changed freely."""
    shutil.copytree(built_once.root.parent, tmp_path / "world", symlinks=True)
    environment = dict(os.environ)
    configure(environment, tmp_path / "world")
    for name in os.environ.keys() - environment.keys():
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return World(tmp_path / "world" / "workspace", built_once.base)
