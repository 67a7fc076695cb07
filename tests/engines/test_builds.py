"""One lock, every engine: the gate passes all, and what is inside is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.machines import Site, look_inside

pytestmark = pytest.mark.engines


def test_every_engine_gives_the_same_files_and_the_same_freeze(
    locked: Site, builds: dict[str, Path]
) -> None:
    composed = look_inside(locked, builds["compose"])
    assert "ray==" in composed.freeze
    for name, layout in builds.items():
        found = look_inside(locked, layout)
        assert found.freeze == composed.freeze, name
        differing = {
            path: (composed.files.get(path), found.files.get(path))
            for path in composed.files.keys() | found.files.keys()
            if composed.files.get(path) != found.files.get(path)
        }
        assert differing == {}, name
        assert found.environment == composed.environment, name
        assert found.labels == composed.labels, name
