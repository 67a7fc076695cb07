"""``imagegate lock``: what it writes, what it refuses, what it leaves alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.images import digest, write_layout
from tests.registry import LoopbackRegistry
from tests.world import SITE, World, base_image


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def relock(world: World, *more: str) -> int:
    return world.run("lock", "demo", "--base", f"oci:{world.base_layout}", *more)


def test_a_lock_is_the_same_bytes_when_it_is_made_again(world: World) -> None:
    before = contents(world.lock)
    for path in world.lock.iterdir():
        path.unlink()
    world.lock.rmdir()
    base = contents(world.base_lock)
    world.forget_base()

    assert relock(world) == 0

    assert contents(world.lock) == before
    assert contents(world.base_lock) == base


def test_a_base_in_a_registry_is_read_once_and_what_it_sent_is_said(
    world: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = registry.add("team/base", world.base)
    world.forget_base()
    capsys.readouterr()

    assert world.run("lock", "demo", "--base", reference) == 0

    document = json.loads(world.base.manifest)
    sizes = {one["digest"]: one["size"] for one in (*document["layers"], document["config"])}
    assert dict(registry.served) == sizes
    # the manifest, the blobs and the answer `{}` to the question whether a registry is there
    sent = len(world.base.manifest) + sum(sizes.values()) + 2
    assert f"the registry sent {sent} bytes in " in capsys.readouterr().err


def test_a_lock_has_the_files_that_the_readme_lists(world: World) -> None:
    assert sorted(contents(world.lock)) == [
        "assets.json",
        "layer.zst",
        "lock.json",
        "requirements.txt",
    ]
    assert sorted(contents(world.base_lock)) == [
        "base.json",
        "config.json",
        "files.zst",
        "freeze.txt",
        "manifest.json",
    ]
    assert (world.base_lock / "manifest.json").read_bytes() == world.base.manifest
    assert (world.base_lock / "config.json").read_bytes() == world.base.config


def test_the_locked_requirements_are_pips_hashed_form_without_addresses(world: World) -> None:
    wheelhouse = world.root.parent / "wheelhouse"
    expected = "".join(
        f"{name}=={version} --hash={digest((wheelhouse / file).read_bytes())}\n"
        for name, version, file in (
            ("helperish", "1.2", "helperish-1.2-py3-none-any.whl"),
            ("rayish", "2.60.0", "rayish-2.60.0-py3-none-any.whl"),
        )
    )

    assert (world.lock / "requirements.txt").read_text() == expected.replace("=sha256:", "=sha256:")


def test_the_freeze_is_that_of_the_base(world: World) -> None:
    # PEP 610, "direct URL to requirement", for the one from version control
    assert (world.base_lock / "freeze.txt").read_text() == (
        "aiohttp==3.13.3\n"
        "flashinfer-python==0.6.18\n"
        "nvidia-cuda-nvrtc==13.0.88\n"
        "nvidia-nccl-cu13==2.30.7\n"
        "patched @ git+https://example.invalid/p.git@1\n"
        "torch==2.13.0\n"
    )


def test_the_lock_knows_what_the_base_really_is(world: World) -> None:
    native = json.loads((world.base_lock / "base.json").read_text())["facts"]["native"]
    readings = {(r["component"], r["source"]): r["value"] for r in native}

    assert readings["nccl", "version string"] == "2.30.7+cuda13.3"
    assert readings["libnccl", "build id"] == "ab" * 20
    assert readings["torch", "version.py"] == "2.13.0+cu130"
    assert readings["flashinfer-python", "_build_meta.py"] == "0.6.18"


def test_a_requirement_that_the_base_cannot_meet_is_refused_with_both_sides(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(world.lock)
    (world.root / "images/demo/requirements.in").write_text("greedyish\n")

    assert relock(world) == 3

    message = capsys.readouterr().err
    assert "cannot be met without moving the base" in message
    assert "`aiohttp`: base=3.13.3 needed=3.14.5" in message
    assert contents(world.lock) == before


def test_a_requirement_that_nobody_publishes_is_told_as_such(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    (world.root / "images/demo/requirements.in").write_text("no-such-distribution\n")

    assert relock(world) == 3

    assert "with or without the base" in capsys.readouterr().err


def test_the_difference_to_the_previous_lock_is_shown(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    (world.root / "images/demo/requirements.in").write_text("helperish\n")
    capsys.readouterr()

    assert relock(world) == 0

    shown = capsys.readouterr().out
    assert "added distributions: 1" in shown
    assert "rayish: gone, was 2.60.0" in shown


def test_another_base_given_on_purpose_is_taken_into_the_recipe(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = base_image(compression="zstd")
    layout = write_layout(tmp_path / "newer", newer)
    toml = world.root / "images/demo/image.toml"
    toml.write_text(toml.read_text() + "\n# a remark that stays\n")
    capsys.readouterr()

    assert world.run("lock", "demo", "--base", f"oci:{layout}") == 0

    assert f'image = "localhost/base@{newer.digest}"' in toml.read_text()
    assert "# a remark that stays" in toml.read_text()
    assert f"base: {world.base.digest} -> {newer.digest}" in capsys.readouterr().out
    assert world.run("build", "demo") == 0


def test_two_wheels_with_different_files_of_one_path_need_a_decision(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.wheels import write_wheel

    write_wheel(world.root.parent / "wheelhouse", "clashish", "1.0", {"helperish.py": "other"})
    (world.root / "images/demo/requirements.in").write_text("helperish\nclashish\n")

    assert relock(world) == 2

    message = capsys.readouterr().err
    assert "clashish==1.0 and helperish==1.2" in message
    toml = world.root / "images/demo/image.toml"
    toml.write_text(toml.read_text() + '\n[layer.overlaps]\n"helperish.py" = "clashish"\n')
    assert relock(world) == 0
    assert world.run("build", "demo") == 0


def test_a_corrupt_base_layer_is_an_error_and_writes_nothing(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(world.lock)
    world.forget_base()
    blob = world.base_layout / "blobs/sha256" / digest(world.base.layers[1])[7:]
    content = bytearray(blob.read_bytes())
    content[len(content) // 2] ^= 1
    blob.write_bytes(content)

    assert relock(world) == 3

    assert "layer 2" in capsys.readouterr().err
    assert contents(world.lock) == before


def test_a_base_for_another_platform_is_refused(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = write_layout(tmp_path / "amd64", base_image(architecture="amd64"))

    assert world.run("lock", "demo", "--base", f"oci:{layout}") == 3

    assert "recipe=linux/arm64 found=linux/amd64" in capsys.readouterr().err


def test_site_directories_are_found_by_structure(world: World) -> None:
    facts = json.loads((world.base_lock / "base.json").read_text())["facts"]

    assert facts["sites"] == [{"path": SITE, "python": "3.12"}]


def test_pips_no_index_keeps_the_resolver_off_every_index(world: World) -> None:
    # `six` is on the public index and in no folder that pip's configuration names
    (world.root / "images/demo/requirements.in").write_text("rayish\nsix\n")

    assert relock(world) == 3
