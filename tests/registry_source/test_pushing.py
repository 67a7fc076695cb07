from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, BinaryIO

import pytest

from imagegate.errors import BlobMissing, DigestMismatch, FetchError, ImageError
from imagegate.oci.image import assemble
from imagegate.sources import open_image
from imagegate.sources.registry import push_image
from tests.images import ImageBuilder, write_classic_archive, write_layout
from tests.registry import FOREVER, LoopbackRegistry
from tests.registry_source.support import ManualClock, client, digest, noise, sink, source

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.oci.image import Layer
    from imagegate.sources.registry import PushedImage, RegistrySink
    from tests.images import BuiltImage

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
BLOB = noise(2500)


def push(to: RegistrySink, content: bytes, mount_from: tuple[str, ...] = ()) -> str:
    return to.push_blob(
        digest=digest(content),
        size=len(content),
        open_stream=lambda: io.BytesIO(content),
        mount_from=mount_from,
    )


def push_all(
    to: RegistrySink, image: BuiltImage, tag: str = "v1", mount_from: tuple[str, ...] = ()
) -> PushedImage:
    """What a promotion does: blobs, the manifest by digest, the tag last."""
    held = io.BytesIO
    found = assemble(
        location="the test's image", manifest_bytes=image.manifest, config_bytes=image.config
    )

    class Memory:
        image = found

        def open_layer(self, layer: Layer) -> BinaryIO:
            return held(image.layers[layer.number - 1])

        def has_layer(self, layer: Layer) -> bool:
            return layer in found.layers

    return push_image(to, found, [Memory()], mount_from=mount_from, tag=tag)


def patches(registry: LoopbackRegistry) -> list[str | None]:
    return [
        one.headers.get("content-range") for one in registry.seen if one.route == "upload.patch"
    ]


def test_what_was_pushed_is_read_back_unchanged(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    push_all(sink(client(registry)), image)
    assert registry.manifests["team/app"][image.digest] == (image.manifest, OCI_MANIFEST)
    found = source(client(registry), f"{registry.netloc}/team/app:v1")
    assert found.image.manifest_bytes == image.manifest


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 2000, 2500])
def test_blobs_of_any_size_arrive(registry: LoopbackRegistry, size: int) -> None:
    content = noise(size)
    assert push(sink(client(registry)), content) == "uploaded"
    assert registry.blobs["team/app"][str(digest(content))] == content


def test_a_large_blob_goes_in_chunks_and_its_location_is_followed(
    registry: LoopbackRegistry,
) -> None:
    push(sink(client(registry)), BLOB)
    assert patches(registry) == ["0-999", "1000-1999", "2000-2499"]
    # the location carries a query that has to be kept beside the digest
    put = next(one.path for one in registry.seen if one.route == "upload.put")
    assert put.endswith(f"?_state=opaque&digest={digest(BLOB)}")


def test_the_smallest_chunk_that_a_registry_takes_is_kept(registry: LoopbackRegistry) -> None:
    # distribution-spec: OCI-Chunk-Min-Length
    registry.chunk_minimum = 2000
    push(sink(client(registry)), BLOB)
    assert patches(registry) == ["0-1999", "2000-2499"]


def test_no_byte_is_sent_of_a_blob_that_is_there_or_can_be_mounted(
    registry: LoopbackRegistry,
) -> None:
    through = client(registry)
    registry.add_blob("team/base", BLOB)
    assert push(sink(through), BLOB, ("team/none", "team/base")) == "mounted"
    assert push(sink(through), BLOB) == "present"
    assert through.traffic.sent == 0
    assert not registry.received
    assert not registry.uploads, "the upload that a declined mount began is cancelled"


def test_a_blob_that_cannot_be_mounted_is_sent(registry: LoopbackRegistry) -> None:
    through = client(registry)
    assert push(sink(through), BLOB, ("team/none",)) == "uploaded"
    assert through.traffic.sent == len(BLOB)


def test_a_cut_upload_goes_on_where_it_broke(
    registry: LoopbackRegistry, clock: ManualClock
) -> None:
    registry.lies.cut_upload_after = [300, 200]
    through = client(registry, clock)
    push(sink(through), BLOB)
    assert registry.blobs["team/app"][str(digest(BLOB))] == BLOB
    assert patches(registry) == ["0-999", "300-999", "500-999", "1000-1999", "2000-2499"]


def test_a_chunk_may_break_as_often_as_each_break_leaves_something_behind(
    registry: LoopbackRegistry, clock: ManualClock
) -> None:
    registry.lies.cut_upload_after = [100] * 9
    push(sink(client(registry, clock)), BLOB)
    assert registry.requests["upload.post"] == 1
    assert registry.received[str(digest(BLOB))] == len(BLOB)


@pytest.mark.parametrize("arrived", [0, 1])
def test_a_range_that_says_one_byte_or_none_is_understood_as_either(
    registry: LoopbackRegistry, clock: ManualClock, arrived: int
) -> None:
    registry.lies.cut_upload_after = [arrived]
    push(sink(client(registry, clock)), BLOB)
    assert registry.blobs["team/app"][str(digest(BLOB))] == BLOB
    assert registry.requests["upload.post"] == 1


def test_an_upload_that_the_registry_lost_begins_again(
    registry: LoopbackRegistry, clock: ManualClock
) -> None:
    registry.lies.lose_uploads = 1
    push(sink(client(registry, clock)), BLOB)
    assert registry.requests["upload.post"] == 2
    assert registry.blobs["team/app"][str(digest(BLOB))] == BLOB


def test_an_upload_that_is_lost_each_time_is_reported(
    registry: LoopbackRegistry, clock: ManualClock
) -> None:
    registry.lies.lose_uploads = FOREVER
    with pytest.raises(FetchError, match="lost the upload"):
        push(sink(client(registry, clock)), BLOB)


@pytest.mark.parametrize("route", ["upload.patch", "upload.put", "upload.post", "manifest.put"])
def test_an_answer_that_is_lost_on_the_way_costs_nothing_but_a_question(
    registry: LoopbackRegistry, image: BuiltImage, clock: ManualClock, route: str
) -> None:
    registry.lies.drop_answer = [route]
    to = sink(client(registry, clock), chunk=100)
    push_all(to, image)
    assert registry.tags["team/app"]["v1"] == image.digest
    assert all(
        registry.received[name] == len(blob) for name, blob in registry.blobs["team/app"].items()
    )


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("route", ["upload.post", "upload.patch", "upload.put", "manifest.put"])
def test_a_failure_that_passes_is_waited_for(
    registry: LoopbackRegistry, image: BuiltImage, clock: ManualClock, route: str, status: int
) -> None:
    registry.fail(route, status, times=2)
    push_all(sink(client(registry, clock), chunk=100), image)
    assert registry.tags["team/app"]["v1"] == image.digest
    assert len(clock.slept) == 2


@pytest.mark.parametrize(
    ("status", "hint"), [(403, "right"), (405, "read-only"), (507, "no room"), (500, "log")]
)
@pytest.mark.parametrize("route", ["upload.post", "upload.patch", "upload.put", "manifest.put"])
def test_a_registry_that_takes_nothing_leaves_no_tag_and_a_second_run_finishes(
    registry: LoopbackRegistry,
    image: BuiltImage,
    clock: ManualClock,
    route: str,
    status: int,
    hint: str,
) -> None:
    registry.fail(route, status, times=FOREVER)
    to = sink(client(registry, clock), chunk=100)
    with pytest.raises(FetchError, match=f"answers {status}") as caught:
        push_all(to, image)
    assert caught.value.exit_code == 3
    assert hint in str(caught.value.hint)
    assert registry.tags.get("team/app", {}) == {}
    registry.failures.clear()
    before = registry.received.copy()
    push_all(to, image)
    assert registry.tags["team/app"]["v1"] == image.digest
    # what arrived in the first run is not sent again
    assert all(registry.received[name] == size for name, size in before.items())


def test_a_registry_that_rewrites_manifests_is_refused_before_a_tag_is_set(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    # promotion by rewriting gives a new, unsigned digest: opslane/opslane#186, ahliweb/awcms#749,
    # XBP-Europe/sagemath-mcp#131, omnigent-ai/omnigent#383
    registry.lies.rewrite = True
    with pytest.raises(DigestMismatch, match="announced under another digest"):
        push_all(sink(client(registry)), image)
    assert "team/app" not in registry.tags


def test_a_registry_that_rewrites_silently_is_refused_too(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    to = sink(client(registry))
    for blob in (image.config, *image.layers):
        push(to, blob)
    registry.fail("manifest.put", 201)
    with pytest.raises(DigestMismatch, match=f"not served: expected={image.digest} found=nothing"):
        to.put_manifest(image.manifest, OCI_MANIFEST)
    registry.add("team/app", image)
    registry.lies.manifests[image.digest] = json.dumps(
        json.loads(image.manifest), indent=1
    ).encode()
    with pytest.raises(
        DigestMismatch, match=f"has other bytes than asked for: expected={image.digest}"
    ):
        to.put_manifest(image.manifest, OCI_MANIFEST)


def test_a_tag_that_moves_at_once_is_reported(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    other = image.with_manifest(annotations={"by": "another writer"})
    registry.add("team/app", image)
    registry.add("team/app", other)
    registry.lies.moving["v1"] = [other.digest]
    with pytest.raises(DigestMismatch, match=f"expected={image.digest} found={other.digest}"):
        sink(client(registry)).tag("v1", image.manifest, OCI_MANIFEST)


def test_a_manifest_whose_blobs_are_gone_is_refused_by_name(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    with pytest.raises(BlobMissing, match="MANIFEST_BLOB_UNKNOWN"):
        sink(client(registry)).put_manifest(image.manifest, OCI_MANIFEST)


@pytest.mark.parametrize("sent", [BLOB + b"x", BLOB[:-1], b"z" + BLOB[1:]])
@pytest.mark.parametrize("chunk", [1000, 10_000])
def test_a_stream_with_other_bytes_than_its_digest_never_becomes_a_blob(
    registry: LoopbackRegistry, sent: bytes, chunk: int
) -> None:
    with pytest.raises(DigestMismatch, match="to be pushed"):
        sink(client(registry), chunk=chunk).push_blob(
            digest=digest(BLOB), size=len(BLOB), open_stream=lambda: io.BytesIO(sent)
        )
    assert registry.requests["upload.put"] == 0


def test_bytes_that_change_on_the_way_are_refused_by_the_registry(
    registry: LoopbackRegistry,
) -> None:
    body = b'{"errors":[{"code":"DIGEST_INVALID","message":"other bytes"}]}'
    registry.fail("upload.put", 400, body=body)
    with pytest.raises(DigestMismatch, match="received other bytes than were sent"):
        push(sink(client(registry)), BLOB)


def test_an_image_goes_from_one_registry_to_another_without_a_file_between(
    registry: LoopbackRegistry, image: BuiltImage, clock: ManualClock
) -> None:
    found = source(client(registry, clock), registry.add("team/app", image))
    registry.lies.cut_after = [40]
    pushed = push_image(sink(client(registry, clock), "mirror/app", chunk=64), found.image, [found])
    assert str(pushed.digest) == image.digest
    assert pushed.uploaded == sum(map(len, (*image.layers, image.config)))
    held = registry.blobs["mirror/app"]
    assert [held[str(digest(blob))] for blob in image.layers] == list(image.layers)


def test_a_promotion_beside_its_base_sends_the_added_layer_only(
    registry: LoopbackRegistry, tmp_path: Path
) -> None:
    base_builder = ImageBuilder().layer({"base": noise(50_000)})
    base = base_builder.build()
    image = base_builder.layer({"added": b"a"}).build()
    registry.add("team/base", base)
    # what a build leaves: a layout without the base's layers
    layout = write_layout(tmp_path / "built", image, without=(str(digest(base.layers[0])),))
    found = open_image(f"oci:{layout}")
    through = client(registry)
    pushed = push_image(sink(through), found.image, [found], mount_from=["team/base"], tag="v1")
    assert [blob.how for blob in pushed.blobs] == ["mounted", "uploaded", "uploaded"]
    added = len(image.layers[1]) + len(image.config)
    assert pushed.uploaded == added
    assert through.traffic.sent == added + 2 * len(image.manifest)
    assert registry.served[str(digest(base.layers[0]))] == 0
    assert registry.tags["team/app"] == {"v1": image.digest}


def test_a_base_in_another_registry_is_copied_from_there(
    registry: LoopbackRegistry, tmp_path: Path
) -> None:
    base_builder = ImageBuilder().layer({"base": noise(50_000)})
    base = base_builder.build()
    image = base_builder.layer({"added": b"a"}).build()
    layout = write_layout(tmp_path / "built", image, without=(str(digest(base.layers[0])),))
    found = open_image(f"oci:{layout}")
    with pytest.raises(BlobMissing, match=r"layer 1 .* is in none of the sources"):
        push_image(sink(client(registry)), found.image, [found], tag="v1")
    assert "team/app" not in registry.tags
    with LoopbackRegistry().running() as elsewhere:
        held = source(client(elsewhere), elsewhere.add("team/base", base))
        push_image(sink(client(registry)), found.image, [found, held], tag="v1")
    assert registry.tags["team/app"] == {"v1": image.digest}


def test_an_image_without_a_manifest_cannot_be_pushed(
    registry: LoopbackRegistry, image: BuiltImage, tmp_path: Path
) -> None:
    found = open_image(f"docker-archive:{write_classic_archive(tmp_path / 'saved.tar', image)}")
    with pytest.raises(ImageError, match="has no manifest and so no digest"):
        push_image(sink(client(registry)), found.image, [found], tag="v1")
    assert not registry.seen
