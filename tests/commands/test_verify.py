"""``imagegate verify``: locks that cannot be used, and input that cannot be understood."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.images import digest, write_layout
from tests.world import World


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def _empty(lock: Path) -> None:
    for path in lock.iterdir():
        path.unlink()


def base_of(lock: Path) -> Path:
    return next((lock.parent / "bases").iterdir())


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


UNUSABLE_LOCKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (shutil.rmtree, "does not exist"),
    "empty": (_empty, "is empty"),
    "without its contents": (lambda lock: (lock / "lock.json").unlink(), "has no `lock.json`"),
    "without one file": (
        lambda lock: (lock / "assets.json").unlink(),
        "`locks/demo/assets.json` is missing",
    ),
    "without its base": (lambda lock: shutil.rmtree(lock.parent / "bases"), "does not exist"),
    "without one file of the base": (
        lambda lock: (base_of(lock) / "freeze.txt").unlink(),
        "/freeze.txt` is missing",
    ),
    "without the base's paths": (
        lambda lock: (base_of(lock) / "files.zst").unlink(),
        "/files.zst` is missing",
    ),
    "requirements edited": (
        lambda lock: edit(lock / "requirements.txt", "2.60.0", "2.61.0"),
        "`locks/demo/requirements.txt` was changed by hand",
    ),
    "facts edited": (
        lambda lock: edit(base_of(lock) / "base.json", "3.13.3", "3.14.5"),
        "/base.json` was changed by hand",
    ),
    "contents edited": (
        lambda lock: edit(lock / "lock.json", '"name": "demo"', '"name": "other"'),
        "`locks/demo/lock.json` was changed by hand",
    ),
    "manifest replaced": (
        lambda lock: edit(base_of(lock) / "manifest.json", "schemaVersion", "schemaversion"),
        "/manifest.json` was changed by hand",
    ),
    "index damaged": (
        lambda lock: (lock / "layer.zst").write_bytes((lock / "layer.zst").read_bytes()[:-9]),
        "`locks/demo/layer.zst` is not a path index of this version, or it is damaged",
    ),
    "a block damaged": (
        lambda lock: flip(base_of(lock) / "files.zst", 20),
        "/files.zst` is damaged",
    ),
    "an emptied file": (lambda lock: (lock / "lock.json").write_bytes(b""), "is not valid JSON"),
}


@pytest.mark.parametrize("name", UNUSABLE_LOCKS)
def test_an_unusable_lock_is_an_error_and_never_a_pass(
    name: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, message = UNUSABLE_LOCKS[name]
    damage(world.lock)
    capsys.readouterr()

    for command in ("verify", "build", "promote"):
        assert world.run(command, "demo") == 3

    said = capsys.readouterr()
    assert message in said.err
    assert "hint:" in said.err
    assert said.out == ""


def test_the_lock_of_another_recipe_is_refused(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(world.root / "images/demo", world.root / "images/other")
    shutil.copytree(world.lock, world.root / "locks/other")

    assert world.run("verify", "other", "--image", f"oci:{world.layout}") == 3

    assert "expected=`other` found=`demo`" in capsys.readouterr().err


def test_a_crlf_checkout_of_the_lock_is_the_same_lock(world: World) -> None:
    for name in ("lock.json", "base.json", "freeze.txt", "requirements.txt", "assets.json"):
        path = (world.base_lock if name in ("base.json", "freeze.txt") else world.lock) / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))

    assert world.run("verify", "demo") == 0


STALE: dict[str, tuple[Callable[[World], object], str]] = {
    "recipe": (
        lambda w: edit(w.root / "images/demo/image.toml", 'glibc = "2.39"', 'glibc = "2.38"'),
        "lock.fresh/recipe-changed",
    ),
    "requirements": (
        lambda w: (w.root / "images/demo/requirements.in").write_text("rayish>2\n"),
        "lock.fresh/requirements-changed",
    ),
    "asset": (
        lambda w: (w.root / "images/demo/recipes/alpha/template.jinja").write_text("new"),
        "lock.fresh/asset-changed",
    ),
    "a new asset": (
        lambda w: (w.root / "images/demo/recipes/alpha/more").write_text("new"),
        "lock.fresh/asset-changed",
    ),
}


@pytest.mark.parametrize("name", STALE)
def test_a_stale_lock_fails_the_verdict_and_stops_a_build(
    name: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    change, code = STALE[name]
    change(world)
    capsys.readouterr()

    assert world.run("verify", "demo") == 1
    assert code in capsys.readouterr().out
    assert world.run("build", "demo") == 3
    assert "is stale" in capsys.readouterr().err


def test_the_recipes_base_has_to_be_the_locked_one(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(world.root / "images/demo/image.toml", world.base.digest, "sha256:" + "0" * 64)
    capsys.readouterr()

    assert world.run("verify", "demo", "--format", "json") == 1

    report = json.loads(capsys.readouterr().out)
    codes = [f["code"] for check in report["checks"] for f in check["findings"]]
    assert "base.digest/recipe-differs" in codes


def test_remarks_and_order_in_the_recipe_do_not_make_the_lock_stale(world: World) -> None:
    path = world.root / "images/demo/image.toml"
    path.write_text("# a remark\n" + path.read_text().replace('MAX_JOBS = "16"', 'MAX_JOBS = "8"'))

    assert world.run("verify", "demo") == 0


def test_everything_that_was_compared_can_be_read(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    assert world.run("verify", "demo", "--details") == 0

    text = capsys.readouterr().out
    assert "aiohttp: locked=3.13.3 found=3.13.3" in text
    assert "nccl by version string: 2.30.7+cuda13.3" in text
    assert "rayish==2.60.0: 10 of 10 files are the locked wheel's" in text


def test_all_recipes_are_judged_when_none_is_named(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    assert world.run("verify") == 0

    assert "PASSED    demo" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_a_damaged_added_layer_is_an_error(
    damage: str, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = world.image()
    name = digest(image.layers[-2])
    layout = write_layout(tmp_path / "image", image, without=(name,) if damage == "missing" else ())
    blob = layout / "blobs/sha256" / name[7:]
    content = bytearray(image.layers[-2])
    if damage == "truncated":
        blob.write_bytes(content[:-20])
    if damage == "flipped":
        content[len(content) // 2] ^= 1
        blob.write_bytes(content)
    capsys.readouterr()

    assert world.run("verify", "demo", "--image", f"oci:{layout}") == 3

    said = capsys.readouterr()
    assert "layer 3" in said.err
    assert said.out == ""


BAD_INPUT: dict[str, tuple[list[str], str]] = {
    "an unknown recipe": (["verify", "dema"], "did you mean `demo`?"),
    "a recipe far from any": (["verify", "zzz"], "the recipes here are: `demo`"),
    "an image that does not exist": (
        ["verify", "demo", "--image", "oci:nowhere"],
        "no image at `oci:nowhere`",
    ),
    "an image by a bad digest": (
        ["verify", "demo", "--image", "oci:.@sha256:12"],
        "64 lower-case hex digits",
    ),
    "an image for no single recipe": (
        ["verify", "--image", "oci:.", "demo", "demo"],
        "exactly one recipe",
    ),
    "an unknown option": (["verify", "demo", "--imagee", "x"], "No such option"),
    "an unknown format": (["verify", "demo", "--format", "yaml"], "is not one of"),
    "a misspelt command": (["verfy"], "Did you mean 'verify'?"),
    "an unknown check": (["explain", "python.pin"], "did you mean `python.pins`?"),
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_gets_one_clear_message_and_exit_code_2(
    name: str, world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from imagegate.cli import run

    arguments, message = BAD_INPUT[name]
    monkeypatch.chdir(world.root)
    capsys.readouterr()

    assert run(arguments) == 2

    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""


BAD_RECIPES: dict[str, tuple[str, str, str]] = {
    "a tag instead of a digest": ("@{digest}", ":latest", "names no digest"),
    "a short digest": ("{digest}", "sha256:12", "64 lower-case hex digits"),
    "an unknown key": ("[python]", "[python]\nversoin = 1", "unknown key `python.versoin`"),
    "a missing key": ('repository = "localhost/demo"', "", "the key `repository` is missing"),
    "broken TOML": ("[python]", "[python", "is not valid TOML"),
    "an unknown schema": ("schema = 1", "schema = 9", "`schema`"),
    "a platform that is none": ("linux/arm64", "arm64", "not a platform"),
    "a path that leaves the root": (
        'path = "/usr/local/cuda/',
        'path = "/usr/../',
        "without `.` and `..`",
    ),
    "a target that all models share": ("/{{model}}", "", "needs `{model}` once"),
    "a model without a folder": ('"beta"]', '"beta", "gamma"]', "does not hold: gamma"),
    "a folder that no model names": (', "beta"]', "]", "does not name: beta"),
    "a profile value that a shell would split": (
        'MAX_JOBS = "16"',
        'MAX_JOBS = "1 6"',
        "do not read alike",
    ),
}


@pytest.mark.parametrize("name", BAD_RECIPES)
def test_a_bad_recipe_is_named_with_the_key(
    name: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, message = BAD_RECIPES[name]
    path = world.root / "images/demo/image.toml"
    edit(path, old.format(digest=world.base.digest).replace("{{", "{").replace("}}", "}"), new)
    capsys.readouterr()

    assert world.run("verify", "demo") == 2

    said = capsys.readouterr().err
    assert message in said
    assert "images/demo" in said


BAD_REQUIREMENTS = {
    # pip-requirements-parser takes each of these without a word
    "numpy=2.2\n": "line 1",
    "rayish\n-r more.txt\n": "more.txt",
    "--index-url https://example.invalid/simple\nrayish\n": "options are not read here",
    "-e .\n": "line 1",
    "# nothing\n": "names no requirement",
    "rayish --hash=sha256:00\n": "line 1",
}


@pytest.mark.parametrize("text", BAD_REQUIREMENTS)
def test_requirements_that_are_not_understood_are_refused(
    text: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    (world.root / "images/demo/requirements.in").write_text(text)
    capsys.readouterr()

    assert world.run("verify", "demo") == 2

    assert BAD_REQUIREMENTS[text] in capsys.readouterr().err


def test_a_folder_that_is_no_workspace_is_told_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from imagegate.cli import run

    assert run(["verify", "--workspace", str(tmp_path)]) == 2

    assert "a workspace is a folder with `images/` and `locks/`" in capsys.readouterr().err
