"""``imagegate mirror``: the base in a registry of one's own, under the digest it always had."""

from __future__ import annotations

import json

import pytest

from tests.images import ImageBuilder
from tests.registry import LoopbackRegistry
from tests.world import World, pin

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
ARM = {"os": "linux", "architecture": "arm64"}
AMD = {"os": "linux", "architecture": "amd64"}


def test_a_base_is_copied_byte_for_byte_and_can_be_locked_from_there(
    homed: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = homed.base.digest
    with LoopbackRegistry().running() as own:
        assert homed.run("mirror", "demo", "--to", f"{own.netloc}/own/base") == 0

        assert own.manifests["own/base"][digest][0] == homed.base.manifest
        assert own.tags["own/base"] == {f"base-{digest[7:19]}": digest}
        out = capsys.readouterr().out
        assert f"mirrored  {own.netloc}/own/base:base-{digest[7:19]}@{digest}" in out
        assert homed.run("verify", "demo", "--image", f"oci:{homed.layout}") == 0
        assert homed.run("lock", "demo", "--base", f"{own.netloc}/own/base@{digest}") == 0
    assert sum(registry.served.values()) > 0


def test_an_index_is_copied_with_everything_that_it_lists(
    world: World, registry: LoopbackRegistry
) -> None:
    """The platform's manifest alone could not be served under the index's digest."""
    other = ImageBuilder(architecture="amd64").layer({"amd": "64"}).build()
    registry.add("team/base", other)
    listed = [world.base.descriptor(platform=ARM), other.descriptor(platform=AMD)]
    index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": listed}
    reference = registry.add_manifest("team/base", index, OCI_INDEX)
    pin(world, reference)
    with LoopbackRegistry().running() as own:
        assert world.run("mirror", "demo", "--to", f"{own.netloc}/own/base:v1") == 0

        digest = reference.partition("@")[2]
        assert own.tags["own/base"] == {"v1": digest}
        assert json.loads(own.manifests["own/base"][digest][0]) == index
        assert {*world.base.blobs, *other.blobs} <= {
            *own.blobs["own/base"],
            *own.manifests["own/base"],
        }


def test_within_one_registry_everything_is_mounted(
    homed: World, registry: LoopbackRegistry
) -> None:
    assert homed.run("mirror", "demo", "--to", f"{registry.netloc}/own/base") == 0

    layers = {layer["digest"] for layer in json.loads(homed.base.manifest)["layers"]}
    assert not layers & {*registry.served, *registry.received}


def test_another_image_than_the_pinned_one_is_not_mirrored(
    homed: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    other = registry.add("team/base", ImageBuilder().layer({"other": "x"}).build())

    to = f"{registry.netloc}/own/base"
    assert homed.run("mirror", "demo", "--to", to, "--base", other) == 3

    assert "recipe=" in capsys.readouterr().err
    assert "own/base" not in registry.tags


def test_a_layout_cannot_give_an_index(
    world: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    """A source that chose one platform would leave the others out of an index it cannot serve."""
    reference = registry.add_manifest(
        "team/base",
        {
            "schemaVersion": 2,
            "mediaType": OCI_INDEX,
            "manifests": [world.base.descriptor(platform=ARM)],
        },
        OCI_INDEX,
    )
    pin(world, reference)

    to = f"{registry.netloc}/own/base"
    base = f"oci:{world.base_layout}"
    assert world.run("mirror", "demo", "--to", to, "--base", base) == 3

    assert "found=" in capsys.readouterr().err


def test_a_recipe_from_scratch_has_no_base_to_mirror(world: World) -> None:
    path = world.root / "images/demo/image.toml"
    text = path.read_text()
    head, _, rest = text.partition("[base]\n")
    path.write_text(
        f"{head}[base]\nscratch = true\n{rest.partition('[python]')[1]}"
        + rest.partition("[python]")[2]
    )

    assert world.run("mirror", "demo", "--to", "127.0.0.1:1/own/base") == 2
