"""``imagegate promote --to``: pushed by digest, read back, tagged, and only then published."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from imagegate.errors import BlobMissing, DigestMismatch
from imagegate.usecases.promote import PromoteOutcome, Push, promote_recipe
from imagegate.usecases.transfer import Destination
from imagegate.workspace import Workspace
from tests.calls import calling
from tests.images import write_layout
from tests.registry import FOREVER, LoopbackRegistry
from tests.registry_source.support import ManualClock
from tests.world import World


def promote(world: World, to: str, base: str | None = None) -> PromoteOutcome:
    return promote_recipe(
        calling(Workspace(world.root), now=datetime(2026, 11, 29, tzinfo=UTC), clock=ManualClock()),
        "demo",
        image=None,
        promoted_by="somebody",
        push=Push(to=Destination.parse(to), base=base),
    )


def profile(world: World) -> dict[str, str]:
    lines = (world.root / "profiles/demo.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def base_digests(world: World) -> set[str]:
    return {layer["digest"] for layer in json.loads(world.base.manifest)["layers"]}


def test_the_manifest_arrives_byte_for_byte_and_the_profile_names_it_there(
    homed: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    image = homed.image()

    assert homed.run("promote", "demo", "--to", f"{registry.netloc}/team/app") == 0

    assert registry.manifests["team/app"][image.digest][0] == image.manifest
    # the tag belongs to this digest alone, so that a later promotion does not unhook it
    assert registry.tags["team/app"] == {f"demo-{image.digest[7:19]}": image.digest}
    assert profile(homed)["IMAGE"] == f"{registry.netloc}/team/app@{image.digest}"
    assert f"pushed    {registry.netloc}/team/app:demo-{image.digest[7:19]}" in (
        capsys.readouterr().out
    )


def test_a_chosen_tag_is_set(homed: World, registry: LoopbackRegistry) -> None:
    promote(homed, f"{registry.netloc}/team/app:live")

    assert registry.tags["team/app"] == {"live": homed.image().digest}


def test_within_one_registry_no_byte_of_the_base_moves_and_the_tool_says_what_did(
    homed: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert homed.run("promote", "demo", "--to", f"{registry.netloc}/team/app") == 0

    image = homed.image()
    moved = set(registry.served) | set(registry.received)
    assert not moved & base_digests(homed)
    added = [len(blob) for name, blob in image.blobs.items() if name not in {*base_digests(homed)}]
    # blobs once, the manifest twice: under its digest and under its tag
    sent = sum(added) + len(image.manifest)
    assert f"moved     {sent} bytes sent, " in capsys.readouterr().out


def test_a_base_that_is_named_in_the_same_registry_is_mounted_from_there(
    world: World, registry: LoopbackRegistry
) -> None:
    """The recipe's own base is elsewhere; a mirror of it stands where the image goes."""
    mirror = f"{registry.netloc}/team/base@{world.base.digest}"

    outcome = promote(world, f"{registry.netloc}/team/app", base=mirror)

    assert outcome.moved is not None
    assert outcome.moved.count("mounted") == len(base_digests(world))
    assert not (set(registry.served) | set(registry.received)) & base_digests(world)


def test_into_another_registry_the_bases_layers_are_copied(
    homed: World, registry: LoopbackRegistry
) -> None:
    with LoopbackRegistry().running() as other:
        outcome = promote(homed, f"{other.netloc}/team/app")

        blobs = other.blobs["team/app"]
    assert base_digests(homed) <= set(blobs)
    assert outcome.moved is not None
    assert outcome.moved.count("uploaded") == len(outcome.moved.blobs)
    # once each, out of the base's repository
    assert {name: registry.served[name] for name in base_digests(homed)} == {
        name: len(homed.base.blobs[name]) for name in base_digests(homed)
    }


def test_a_layout_gives_the_bases_layers_where_the_registry_has_none(
    world: World, registry: LoopbackRegistry
) -> None:
    promote(world, f"{registry.netloc}/team/app", base=f"oci:{world.base_layout}")

    assert base_digests(world) <= set(registry.blobs["team/app"])


def test_the_build_of_the_bases_own_recipe_gives_its_layers(
    world: World, registry: LoopbackRegistry
) -> None:
    """``[base] recipe``: the base is composed in this workspace, its layout lies beside."""
    path = world.root / "images/demo/image.toml"
    path.write_text(path.read_text().replace("[base]\n", '[base]\nrecipe = "under"\n'))
    (world.root / "images/under").mkdir()
    (world.root / "images/under/image.toml").write_text("")
    write_layout(world.root / "build/under", world.base)
    assert world.run("lock", "demo") == 0
    assert world.run("build", "demo") == 0

    promote(world, f"{registry.netloc}/team/app")

    assert base_digests(world) <= set(registry.blobs["team/app"])


def test_a_layer_that_is_nowhere_is_named_with_every_place_that_was_asked(
    homed: World, registry: LoopbackRegistry, tmp_path: Path
) -> None:
    registry.lies.forget_blob = base_digests(homed)
    missing = json.loads(homed.base.manifest)["layers"][0]["digest"]
    write_layout(tmp_path / "thin", homed.base, without=tuple(base_digests(homed)))
    with LoopbackRegistry().running() as other, pytest.raises(BlobMissing) as caught:
        promote(homed, f"{other.netloc}/team/app", base=f"oci:{tmp_path / 'thin'}")

    said = caught.value.message
    assert missing in said
    assert "build/demo" in said
    assert f"oci:{tmp_path / 'thin'}" in said
    assert f"{registry.netloc}/team/base" in said
    assert "--base" in (caught.value.hint or "")


def test_a_base_registry_that_refuses_is_told_with_the_missing_layer(
    homed: World, registry: LoopbackRegistry
) -> None:
    registry.fail("manifest.get", 403, times=FOREVER)
    with LoopbackRegistry().running() as other, pytest.raises(BlobMissing) as caught:
        promote(homed, f"{other.netloc}/team/app")
    assert f"{registry.netloc}/team/base" in caught.value.message
    assert "403" in caught.value.message


@pytest.mark.parametrize("to", ["team/app@sha256:" + "0" * 64, "Bad Repo", "host:1/x:bad tag"])
def test_a_destination_that_cannot_be_meant_is_a_usage_error(world: World, to: str) -> None:
    assert world.run("promote", "demo", "--to", to) == 2


def test_what_did_not_pass_is_not_pushed(homed: World, registry: LoopbackRegistry) -> None:
    (homed.root / "images/demo/recipes/alpha/template.jinja").write_text("changed after locking")

    assert homed.run("promote", "demo", "--to", f"{registry.netloc}/team/app") == 1

    assert "team/app" not in registry.blobs
    assert "team/app" not in registry.manifests


def test_a_tag_that_moves_while_it_is_set_publishes_nothing(
    homed: World, registry: LoopbackRegistry
) -> None:
    registry.lies.moving = {"live": [homed.base.digest]}
    registry.manifests["team/app"] = dict(registry.manifests["team/base"])

    with pytest.raises(DigestMismatch, match="live"):
        promote(homed, f"{registry.netloc}/team/app:live")

    assert not (homed.root / "profiles/demo.env").exists()


def test_a_tag_that_moves_between_judging_and_publishing_does_not_change_what_is_published(
    homed: World, registry: LoopbackRegistry
) -> None:
    """yerzhansa/enduragent#890, jfrog/jfrog-cli#2211: all goes by the digest read first."""
    image = homed.image()
    registry.add("team/candidate", image, "next")
    registry.manifests["team/candidate"].update(registry.manifests["team/base"])
    registry.lies.moving = {"next": [image.digest, homed.base.digest]}

    assert (
        homed.run(
            *("promote", "demo", "--image", f"docker://{registry.netloc}/team/candidate:next"),
            *("--to", f"{registry.netloc}/team/app"),
        )
        == 0
    )

    assert profile(homed)["IMAGE"] == f"{registry.netloc}/team/app@{image.digest}"
    assert set(registry.tags["team/app"].values()) == {image.digest}


def test_a_base_whose_registry_serves_other_bytes_is_not_copied(
    homed: World, registry: LoopbackRegistry
) -> None:
    name = json.loads(homed.base.manifest)["layers"][0]["digest"]
    registry.lies.blobs[name] = b"x" * len(homed.base.blobs[name])
    with LoopbackRegistry().running() as other, pytest.raises(DigestMismatch, match=name[7:19]):
        promote(homed, f"{other.netloc}/team/app")
    assert "team/app" not in other.tags
    assert not (homed.root / "profiles/demo.env").exists()


def test_a_profile_that_cannot_be_written_stays_and_the_next_run_publishes(
    homed: World, registry: LoopbackRegistry
) -> None:
    (homed.root / "profiles").write_text("a file where the folder should be")

    assert homed.run("promote", "demo", "--to", f"{registry.netloc}/team/app") == 3

    (homed.root / "profiles").unlink()
    registry.received.clear()
    assert homed.run("promote", "demo", "--to", f"{registry.netloc}/team/app") == 0
    assert not set(registry.received) & set(homed.image().blobs), "blobs were there already"


def test_verifying_by_registry_moves_little_more_than_the_added_layers(
    homed: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    image = homed.image()
    reference = registry.add("team/app", image)
    shutil.rmtree(homed.layout)
    registry.seen.clear()
    capsys.readouterr()

    assert homed.run("verify", "demo", "--image", reference) == 0

    assert not set(registry.served) & base_digests(homed)
    served = sum(registry.served.values()) + len(image.manifest)
    # manifest, blobs and the answer `{}` to the question whether a registry is there
    assert f"the registry sent {served + 2} bytes in " in capsys.readouterr().err
