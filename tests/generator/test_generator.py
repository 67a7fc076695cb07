"""Whatever a layer adds: where the real winner is another, the gate refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.generator.run import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.engines  # it runs the root's own Python, as root
def test_five_hundred_draws(tmp_path: Path) -> None:
    figures = run(tmp_path, seed=9, draws=500, honest=100)
    assert figures.missed == []
    assert figures.alarms == []
    # the draws really move winners, and really leave others alone
    assert figures.moved > 100
    assert figures.draws - figures.refused > 50
