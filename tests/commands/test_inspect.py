"""``imagegate inspect`` where the base's bytes are not at hand: the lock stands for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from imagegate.usecases.inspect import inspect_image
from imagegate.usecases.ports import Silent
from imagegate.workspace import Workspace
from tests.images import write_layout

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.world import World


def test_a_build_without_its_bases_blobs_is_shown_whole(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert world.run("inspect", "demo", "--format", "json") == 0
    shown = json.loads(capsys.readouterr().out)

    assert {pin["name"] for pin in shown["facts"]["distributions"]} >= {"torch", "rayish"}
    assert shown["lock"] == "demo"
    assert any("the base's programs" in line for line in shown["unknown"])


def test_the_lock_says_of_the_base_what_its_bytes_say(world: World, tmp_path: Path) -> None:
    write_layout(tmp_path / "full", world.image())

    read = inspect_image(f"oci:{tmp_path / 'full'}", platform=None, reporter=Silent())
    told = inspect_image(
        f"oci:{world.layout}",
        platform=None,
        reporter=Silent(),
        workspace=Workspace(world.root),
    )

    assert told.compressed < read.compressed
    assert told.snapshot.groups == read.snapshot.groups
    assert told.facts.distributions == read.facts.distributions
    assert (told.facts.links, told.facts.packages) == (read.facts.links, read.facts.packages)


def test_a_damaged_lock_is_no_reason_not_to_read_the_bytes(world: World, tmp_path: Path) -> None:
    write_layout(tmp_path / "full", world.image())
    (world.base_lock / "base.json").write_text("{}")

    found = inspect_image(
        f"oci:{tmp_path / 'full'}",
        platform=None,
        reporter=Silent(),
        workspace=Workspace(world.root),
    )

    assert found.lock == ""
    assert "torch" in found.snapshot.groups["distributions"]
