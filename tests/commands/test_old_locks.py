"""Locks of the first form, which held base and layer in one folder, are moved over."""

from __future__ import annotations

import json
import shutil

import pytest
from backports import zstd

from imagegate.catalog import REVISION
from imagegate.lock.sealed import seal
from imagegate.oci.digest import Digest
from imagegate.oci.documents import canonical_json
from imagegate.workspace import Workspace
from tests.world import World

Captured = pytest.CaptureFixture[str]


def write_old_form(world: World, revision: str = REVISION) -> None:
    """Write what the first version wrote: one table over nine files, indexes in one piece."""
    workspace = Workspace(world.root)
    lock = workspace.lock("demo")
    assert lock.based_on is not None
    facts = json.loads((world.base_lock / "base.json").read_text())["facts"]
    plain = {
        "base.json": canonical_json(
            {
                "image": lock.base.image,
                "digest": str(lock.base.digest),
                "index": None,
                "platform": lock.base.platform,
                "compressed": lock.base.compressed,
                "facts": facts,
                "catalog": revision,
            }
        ),
        "files.zst": index(list(lock.files.lines())),
        "layer.zst": index(list(lock.layer.lines())),
    }
    for name in ("freeze.txt", "manifest.json", "config.json"):
        plain[name] = (world.base_lock / name).read_bytes()
    for name in ("requirements.txt", "assets.json"):
        plain[name] = (world.lock / name).read_bytes()
    table = {
        "schema": 1,
        "name": "demo",
        "recipe": str(lock.contents.recipe),
        "requirements": str(lock.contents.requirements),
        "files": {name: str(Digest.of(content)) for name, content in plain.items()},
        "wheel_sizes": dict(lock.contents.wheel_sizes),
    }
    shutil.rmtree(world.root / "locks")
    world.lock.mkdir(parents=True)
    for name, content in plain.items():
        packed = zstd.compress(content) if name.endswith(".zst") else content
        (world.lock / name).write_bytes(packed)
    (world.lock / "lock.json").write_bytes(seal(table))


def index(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in ["#imagegate-index-1", *lines]).encode()


def test_an_old_lock_is_moved_over_without_the_base_and_gives_the_same_verdict(
    world: World, capsys: Captured
) -> None:
    assert world.run("verify", "demo", "--format", "json") == 0
    before = json.loads(capsys.readouterr().out)
    files = {p.name: p.read_bytes() for p in (*world.base_lock.iterdir(), *world.lock.iterdir())}
    write_old_form(world)
    shutil.rmtree(world.base_layout)
    capsys.readouterr()
    assert world.run("verify", "demo") == 3
    assert "imagegate lock demo" in capsys.readouterr().err

    assert world.run("lock", "demo") == 0

    assert files == {
        p.name: p.read_bytes() for p in (*world.base_lock.iterdir(), *world.lock.iterdir())
    }
    capsys.readouterr()
    assert world.run("verify", "demo", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == before


def test_an_old_lock_with_other_facts_has_its_base_read_again(
    world: World, capsys: Captured
) -> None:
    write_old_form(world, "another")
    capsys.readouterr()

    assert world.run("lock", "demo", "--base", f"oci:{world.base_layout}") == 0

    assert f"reading the base {world.base.digest}: " in capsys.readouterr().err
    assert world.run("verify", "demo") == 0


def test_an_edited_old_lock_is_not_moved_over(world: World, capsys: Captured) -> None:
    write_old_form(world)
    path = world.lock / "base.json"
    path.write_bytes(path.read_bytes().replace(b'"3.13.3"', b'"3.14.5"'))
    capsys.readouterr()

    assert world.run("lock", "demo", "--base", f"oci:{world.base_layout}") == 0

    said = capsys.readouterr().err
    assert "reading the base" in said
    facts = Workspace(world.root).lock("demo").base.facts
    assert {pin.version for pin in facts.distributions if pin.name == "aiohttp"} == {"3.13.3"}
