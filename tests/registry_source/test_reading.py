from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from imagegate.errors import BlobMissing, DigestMismatch, ImageError, UsageError
from imagegate.oci.layer import read_layer
from imagegate.oci.platform import Platform
from imagegate.sources import open_image
from imagegate.sources.registry import RegistrySource, registry_reference
from tests.images import BuiltImage, ImageBuilder
from tests.registry_source.support import ManualClock, client, layer_bytes, sink, source

if TYPE_CHECKING:
    from tests.registry import LoopbackRegistry

OCI_INDEX = "application/vnd.oci.image.index.v1+json"


def test_an_image_is_read_by_digest_with_its_bytes_unchanged(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    found = source(client(registry), registry.add("team/app", image))
    assert found.image.manifest_bytes == image.manifest
    assert found.image.config_bytes == image.config
    assert str(found.image.digest) == image.digest
    assert [layer_bytes(found, layer) for layer in found.image.layers] == list(image.layers)


def test_opening_moves_manifest_and_config_only_and_a_layer_costs_its_own_bytes(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    added = image.layers[1]
    found = source(client(registry), registry.add("team/app", image))
    assert found.client.traffic.received == len(image.manifest) + len(image.config) + len(b"{}")
    read_layer(found.open_layer(found.image.layers[1]), found.image.layers[1].blob)
    names = {name: size for name, size in registry.served.items() if size}
    assert names == {
        str(found.image.layers[1].blob.digest): len(added),
        json.loads(image.manifest)["config"]["digest"]: len(image.config),
    }


def test_a_tag_is_resolved_once_and_the_image_stays_the_same_when_it_moves(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    other = ImageBuilder().layer({"other": b"image"}).build()
    registry.add("team/app", image, "v1")
    registry.add("team/app", other)
    registry.lies.moving["v1"] = [image.digest, other.digest]
    found = source(client(registry), f"{registry.netloc}/team/app:v1")
    assert str(found.image.digest) == image.digest
    assert str(found.reference) == f"{registry.netloc}/team/app:v1@{image.digest}"
    assert [layer_bytes(found, layer) for layer in found.image.layers] == list(image.layers)
    assert registry.requests["manifest.get"] == 1
    assert str(sink(client(registry)).resolve("v1")) == other.digest


def test_where_tag_and_digest_stand_together_the_digest_rules(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    # bazelbuild/rules_docker#714: `name:tag@digest` ignores the tag
    other = ImageBuilder().layer({"other": b"image"}).build()
    registry.add("team/app", other, "v1")
    registry.add("team/app", image)
    found = source(client(registry), f"{registry.netloc}/team/app:v1@{image.digest}")
    assert str(found.image.digest) == image.digest


def test_an_index_is_followed_to_the_platform_and_its_digest_is_kept(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    other = ImageBuilder(architecture="amd64").layer({"other": b"image"}).build()
    for one in (image, other):
        registry.add("team/app", one)
    reference = registry.add_manifest(
        "team/app",
        {
            "schemaVersion": 2,
            "mediaType": OCI_INDEX,
            "manifests": [
                image.descriptor(platform={"os": "linux", "architecture": "arm64"}),
                other.descriptor(platform={"os": "linux", "architecture": "amd64"}),
            ],
        },
        OCI_INDEX,
    )
    found = source(client(registry), reference, Platform.parse("linux/arm64/v8"))
    assert str(found.image.digest) == image.digest
    assert str(found.image.index_digest) == reference.partition("@")[2]
    with pytest.raises(ImageError, match="several images"):
        source(client(registry), reference)


def test_an_index_that_lies_about_a_manifests_size_is_refused(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    # descriptor.md: content whose size differs from the descriptor's must not be trusted
    registry.add("team/app", image)
    entry = image.descriptor() | {"size": len(image.manifest) + 1}
    reference = registry.add_manifest(
        "team/app", {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]}, OCI_INDEX
    )
    with pytest.raises(DigestMismatch, match=rf"index=\d+ found={len(image.manifest)}"):
        source(client(registry), reference)


def test_a_manifest_with_other_bytes_than_its_digest_is_refused(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    reference = registry.add("team/app", image)
    registry.lies.manifests[image.digest] = image.manifest + b"\n"
    with pytest.raises(DigestMismatch, match=rf"expected={image.digest} found=sha256:"):
        source(client(registry), reference)


def test_a_digest_header_that_contradicts_the_bytes_is_refused(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    # distribution-spec: Docker-Content-Digest, if present, is the digest of the body
    registry.add("team/app", image, "v1")
    registry.lies.digest_header = "sha256:" + "0" * 64
    for reference in (
        f"{registry.netloc}/team/app:v1",
        f"{registry.netloc}/team/app@{image.digest}",
    ):
        with pytest.raises(DigestMismatch, match="announced=sha256:0000"):
            source(client(registry), reference)


def test_a_digest_header_of_another_algorithm_is_compared_in_that_algorithm(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    reference = registry.add("team/app", image)
    registry.lies.digest_header = "sha512:" + "0" * 128
    with pytest.raises(DigestMismatch, match="announced=sha512:0000"):
        source(client(registry), reference)


def test_a_config_with_other_bytes_is_refused(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    reference = registry.add("team/app", image)
    config = json.loads(image.manifest)["config"]["digest"]
    registry.lies.blobs[config] = image.config[:-1] + b" "
    with pytest.raises(DigestMismatch, match="the config"):
        source(client(registry), reference)


def test_a_layer_with_other_bytes_is_refused_by_its_reader(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    found = source(client(registry), registry.add("team/app", image))
    layer = found.image.layers[1]
    registry.lies.blobs[str(layer.blob.digest)] = image.layers[0]
    with pytest.raises(DigestMismatch):
        read_layer(found.open_layer(layer), layer.blob)


def test_a_longer_layer_is_refused_by_its_reader(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    found = source(client(registry), registry.add("team/app", image))
    layer = found.image.layers[1]
    registry.lies.blobs[str(layer.blob.digest)] = image.layers[1] + b"more"
    with pytest.raises(ImageError, match=r"more bytes than promised|bytes after the end"):
        read_layer(found.open_layer(layer), layer.blob)


def test_a_blob_that_is_labelled_as_gzip_is_still_read_as_the_bytes_that_it_is(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    # undoing Content-Encoding would change the bytes that the digest names
    found = source(client(registry), registry.add("team/app", image))
    registry.lies.encode = "label"
    layer = found.image.layers[0]
    assert layer_bytes(found, layer) == image.layers[0]


def test_a_blob_that_something_on_the_way_gzips_is_refused(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    found = source(client(registry), registry.add("team/app", image))
    registry.lies.encode = "apply"
    layer = found.image.layers[0]
    with pytest.raises(DigestMismatch):
        read_layer(found.open_layer(layer), layer.blob)


def test_a_manifest_that_something_on_the_way_gzips_is_refused_and_the_encoding_named(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    reference = registry.add("team/app", image)
    registry.lies.encode = "apply-manifest"
    with pytest.raises(DigestMismatch, match="content-encoding=gzip"):
        source(client(registry), reference)


def test_every_request_asks_for_bytes_as_they_are(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    found = source(client(registry), registry.add("team/app", image))
    layer_bytes(found, found.image.layers[0])
    assert {one.headers.get("accept-encoding") for one in registry.seen} == {"identity"}


def test_a_missing_manifest_config_or_layer_is_said_and_nothing_is_judged(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    reference = registry.add("team/app", image)
    with pytest.raises(BlobMissing, match="holds no manifest `none`"):
        source(client(registry), f"{registry.netloc}/team/app:none")
    found = source(client(registry), reference)
    layer = found.image.layers[0]
    assert found.has_layer(layer)
    registry.lies.forget_blob.add(str(layer.blob.digest))
    assert not found.has_layer(layer)
    with pytest.raises(BlobMissing, match=r"layer 1 \(sha256:"):
        found.open_layer(layer)
    registry.lies.forget_blob.add(json.loads(image.manifest)["config"]["digest"])
    with pytest.raises(BlobMissing):
        source(client(registry), reference)


def test_an_absent_foreign_layer_is_never_taken_for_an_empty_one(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    # google/go-containerregistry#1305, goharbor/harbor#9370
    layers = json.loads(image.manifest)["layers"]
    layers[0] |= {
        "mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        "urls": ["https://elsewhere.example/layer"],
    }
    foreign = image.with_manifest(layers=layers)
    found = source(client(registry), registry.add("team/app", foreign))
    registry.lies.forget_blob.add(layers[0]["digest"])
    with pytest.raises(BlobMissing) as caught:
        found.open_layer(found.image.layers[0])
    assert "foreign layer" in str(caught.value.hint)


def test_schema_1_is_refused_with_a_reason(registry: LoopbackRegistry) -> None:
    # google/go-containerregistry#377
    reference = registry.add_manifest(
        "team/app",
        {"schemaVersion": 1, "name": "team/app", "fsLayers": []},
        "application/vnd.docker.distribution.manifest.v1+prettyjws",
    )
    with pytest.raises(ImageError, match="schema version 1"):
        source(client(registry), reference)


def test_an_artifact_is_not_taken_for_an_image(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    config = json.loads(image.manifest)["config"] | {
        "mediaType": "application/vnd.oci.empty.v1+json"
    }
    reference = registry.add("team/app", image.with_manifest(config=config))
    with pytest.raises(ImageError, match="not a container image"):
        source(client(registry), reference)


def test_a_pinned_reference_is_opened_without_and_a_tag_with_a_transport(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    pinned = registry.add("team/app", image, "v1")
    for location in (pinned, f"docker://{pinned}", f"docker://{registry.netloc}/team/app:v1"):
        found = open_image(location)
        assert isinstance(found, RegistrySource)
        assert str(found.image.digest) == image.digest


@pytest.mark.parametrize(
    "location",
    [
        "registry.example/team/app:v1",
        "some/folder",
        f"some/folder@sha256:{'0' * 64}",
        "registry.example/team/app",
    ],
)
def test_what_names_no_registry_or_no_digest_is_not_asked_for_in_a_registry(location: str) -> None:
    assert registry_reference(location) is None
    with pytest.raises(UsageError, match="no image at"):
        open_image(location)


def test_layers_that_are_read_side_by_side_do_not_disturb_each_other(
    registry: LoopbackRegistry, image: BuiltImage, clock: ManualClock
) -> None:
    found = source(client(registry, clock), registry.add("team/app", image))
    streams = [found.open_layer(layer) for layer in found.image.layers]
    read = [b"", b""]
    while True:
        pieces = [stream.read(10) for stream in streams]
        if not any(pieces):
            break
        read = [before + piece for before, piece in zip(read, pieces, strict=True)]
    for stream in streams:
        stream.close()
    assert read == list(image.layers)
