"""``imagegate promote``: publishes what passed, and nothing else, in one step."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from imagegate.profile import ProfileStore, PublishedState
from tests.images import write_classic_archive
from tests.world import World


def env_file(world: World) -> Path:
    return world.root / "profiles" / "demo.env"


def state(number: int) -> PublishedState:
    return PublishedState(
        env={"IMAGE": f"localhost/demo@sha256:{number:064d}"},
        settings={},
        verdict=f"sha256:{number:064d}",
        promoted_at="2026-11-29T00:00:00Z",
        promoted_by="somebody",
    )


def test_a_passing_image_is_published_with_its_pins(world: World) -> None:
    assert world.run("promote", "demo") == 0

    values = dict(line.split("=", 1) for line in env_file(world).read_text().splitlines())
    lock = json.loads((world.lock / "lock.json").read_text())["digest"]
    image = world.image().digest
    assert values.pop("VERDICT").startswith("sha256:")
    assert values == {
        "IMAGEGATE_PROFILE": "demo",
        "IMAGE": f"localhost/demo@{image}",
        # image-spec, config.md, "ImageID": the digest of the config
        "IMAGE_ID": f"sha256:{hashlib.sha256(world.image().config).hexdigest()}",
        "IMAGE_DIGEST": image,
        "IMAGE_PLATFORM": "linux/arm64",
        "BASE_DIGEST": world.base.digest,
        "LOCK_DIGEST": lock,
        "NCCL_VERSION": "2.30.7+cuda13.3",
        "TORCH_VERSION": "2.13.0+cu130",
        "FLASHINFER_VERSION": "0.6.18",
        "MAX_JOBS": "16",
    }


def test_what_no_env_file_can_hold_goes_into_the_json(world: World) -> None:
    assert world.run("promote", "demo") == 0

    history = json.loads((world.root / "profiles/demo.json").read_text())
    assert history["states"][0]["settings"] == {"flags": ["--limit-mm-per-prompt", '{"image": 0}']}


def test_the_named_verdict_is_kept_beside_the_profile(world: World) -> None:
    from tests.images import digest

    assert world.run("promote", "demo") == 0

    values = dict(line.split("=", 1) for line in env_file(world).read_text().splitlines())
    path = world.root / "profiles/verdicts" / f"{values['VERDICT'].replace(':', '-')}.json"
    assert digest(path.read_bytes()) == values["VERDICT"]
    assert json.loads(path.read_text())["verdict"] == "PASSED"


def test_a_failing_image_is_not_published_and_the_old_profile_stays(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert world.run("promote", "demo") == 0
    before = {
        path: path.read_bytes() for path in env_file(world).parent.rglob("*.*") if path.is_file()
    }
    (world.root / "images/demo/recipes/alpha/template.jinja").write_text("changed after locking")
    capsys.readouterr()

    assert world.run("promote", "demo") == 1

    said = capsys.readouterr()
    assert "the profile is left as it was" in said.err
    assert "lock.fresh/asset-changed" in said.out
    after = {
        path: path.read_bytes() for path in env_file(world).parent.rglob("*.*") if path.is_file()
    }
    assert after == before


def test_promotion_judges_from_bytes_and_not_from_the_builds_report(world: World) -> None:
    layer = max((world.layout / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    layer.write_bytes(layer.read_bytes()[:-1])

    assert world.run("promote", "demo") == 3
    assert not env_file(world).exists()


def test_an_image_without_a_manifest_digest_cannot_be_promoted(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = write_classic_archive(tmp_path / "image.tar", world.image())

    assert world.run("promote", "demo", "--image", f"docker-archive:{archive}") == 1

    assert "there is no digest to promote" in capsys.readouterr().err
    assert not env_file(world).exists()


def test_rollback_publishes_the_state_before(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    for number in (1, 2, 3):
        store.publish("demo", state(number), b"{}")

    def back() -> PublishedState:
        return store.rollback("demo", at="2026-11-30T00:00:00Z", by="another", why="it hangs")

    assert back() == state(2)
    assert store.current("demo").env == state(2).env
    assert back() == state(1)
    assert (tmp_path / "demo.env").read_text() == f"IMAGE=localhost/demo@sha256:{1:064d}\n"


def test_after_a_promotion_that_followed_a_rollback_the_way_back_leads_to_what_was_served(
    tmp_path: Path,
) -> None:
    store = ProfileStore(tmp_path)
    for number in (1, 2):
        store.publish("demo", state(number), b"{}")
    store.rollback("demo", at="2026-11-30T00:00:00Z", by="another")
    store.publish("demo", state(3), b"{}")

    # 2 was taken back on purpose
    assert store.rollback("demo", at="2026-12-01T00:00:00Z", by="another").env == state(1).env


def test_the_same_image_promoted_twice_is_no_state_to_go_back_to(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    for number in (1, 2, 2):
        store.publish("demo", state(number), b"{}")

    assert store.rollback("demo", at="2026-11-30T00:00:00Z", by="another") == state(1)


def test_a_state_that_never_reached_launchers_is_no_state_to_go_back_to(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    store.publish("demo", state(1), b"{}")
    published = (tmp_path / "demo.env").read_bytes()
    store.publish("demo", state(2), b"{}")
    (tmp_path / "demo.env").write_bytes(published)  # as after a crash between the two files
    store.publish("demo", state(3), b"{}")

    assert store.rollback("demo", at="2026-11-30T00:00:00Z", by="another") == state(1)


def test_the_history_says_who_when_and_why_of_promotions_and_rollbacks(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert world.run("promote", "demo", "--why", "first release") == 0
    toml = world.root / "images/demo/image.toml"
    toml.write_text(toml.read_text().replace('MAX_JOBS = "16"', 'MAX_JOBS = "8"'))
    # docs.github.com, "Default environment variables": who started the workflow
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_ACTOR", "octocat")
    assert world.run("promote", "demo", "--why", "fewer jobs") == 0
    assert world.run("promote", "demo", "--rollback", "--why", "out of memory") == 0
    capsys.readouterr()

    assert world.run("profile", "show", "demo", "--history") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("sha256:")[2][64:] for line in lines] == [
        " by octocat: out of memory",
        " by octocat: fewer jobs",
        " by ann: first release",
    ]
    assert [line.split()[1] for line in lines] == ["rolled", "promoted", "promoted"]

    assert world.run("profile", "show", "demo") == 0
    said = capsys.readouterr()
    assert "by octocat: out of memory" in said.err
    assert said.out == env_file(world).read_text()
    assert "MAX_JOBS=16" in said.out
    kept = json.loads((world.root / "profiles/demo.json").read_text())["states"][0]
    assert (kept["promoted_by"], kept["why"], kept["rollback"]) == (
        "octocat",
        "out of memory",
        True,
    )


def test_a_reason_of_two_lines_is_refused_before_anything_is_judged(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert world.run("promote", "demo", "--why", "one\nMAX_JOBS=1") == 2
    assert "one line" in capsys.readouterr().err
    assert not env_file(world).exists()


def test_rollback_without_a_profile_names_it(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert world.run("promote", "demo", "--rollback") == 3
    assert "there is no profile `demo`" in capsys.readouterr().err

    assert world.run("promote", "demo") == 0
    assert world.run("promote", "demo", "--rollback") == 3
    assert "no earlier state" in capsys.readouterr().err


def test_an_edited_profile_is_told_as_such(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert world.run("promote", "demo") == 0
    env_file(world).write_text("IMAGE=localhost/demo:latest\n")
    capsys.readouterr()

    assert world.run("promote", "demo", "--rollback") == 3

    assert "not a state that a promotion published" in capsys.readouterr().err


def test_a_state_that_never_reached_the_env_file_is_not_current(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    store.publish("demo", state(1), b"{}")
    published = (tmp_path / "demo.env").read_bytes()
    store.publish("demo", state(2), b"{}")
    (tmp_path / "demo.env").write_bytes(published)  # as after a crash between the two files

    assert store.current("demo") == state(1)


@pytest.mark.parametrize("value", ["a b", "$HOME", 'say "x"', "it's", "a#b", "a\nb", "back\\slash"])
def test_a_value_that_launchers_read_differently_is_refused(value: str, tmp_path: Path) -> None:
    from imagegate.errors import ProfileError

    with pytest.raises(ProfileError, match="not read alike"):
        ProfileStore(tmp_path).publish(
            "demo", state(1).model_copy(update={"env": {"FLAGS": value}}), b"{}"
        )
    assert not (tmp_path / "demo.env").exists()


def test_sh_and_make_read_the_same_values(world: World, tmp_path: Path) -> None:
    assert world.run("promote", "demo") == 0
    path = env_file(world)
    expected = dict(line.split("=", 1) for line in path.read_text().splitlines())
    names = " ".join(expected)

    script = f'set -a; . "{path}"; for name in {names}; do eval "echo $name=\\$$name"; done'
    by_sh = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    makefile = tmp_path / "Makefile"
    makefile.write_text(
        f"include {path}\nall:\n" + "".join(f"\t@echo {n}=$({n})\n" for n in expected)
    )
    make = shutil.which("make")
    assert make is not None
    by_make = subprocess.run(
        [make, "-sf", makefile], capture_output=True, text=True, check=True
    ).stdout

    for said in (by_sh, by_make):
        assert dict(line.split("=", 1) for line in said.splitlines()) == expected
