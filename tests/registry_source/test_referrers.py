from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from imagegate.errors import FetchError, ImageError
from imagegate.oci.digest import Digest
from imagegate.sources.registry import fallback_tag
from tests.registry import FOREVER, LoopbackRegistry
from tests.registry_source.support import ManualClock, client, digest, sink

if TYPE_CHECKING:
    from tests.images import BuiltImage

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
EMPTY = b"{}"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"


@pytest.fixture(params=["api", "fallback"])
def stored(
    registry: LoopbackRegistry, image: BuiltImage, request: pytest.FixtureRequest
) -> LoopbackRegistry:
    registry.referrers_api = request.param == "api"
    registry.add("team/app", image)
    registry.add_blob("team/app", EMPTY)
    return registry


def referrer(subject: BuiltImage, number: int = 0, **more: Any) -> bytes:
    empty = {
        "mediaType": "application/vnd.oci.empty.v1+json",
        "digest": str(digest(EMPTY)),
        "size": len(EMPTY),
    }
    document = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": BUNDLE,
        "config": empty,
        "layers": [empty],
        "subject": subject.descriptor(),
        "annotations": {"number": str(number)},
        **more,
    }
    return json.dumps(
        {name: value for name, value in document.items() if value is not None}
    ).encode()


def test_a_referrer_is_listed_with_type_and_annotations(
    stored: LoopbackRegistry, image: BuiltImage
) -> None:
    to = sink(client(stored))
    content = referrer(image)
    pushed = to.push_referrer(content, OCI_MANIFEST)
    (listed,) = to.referrers(Digest.parse(image.digest))
    assert pushed == listed
    assert listed.digest == digest(content)
    assert listed.size == len(content)
    assert listed.artifact_type == BUNDLE
    assert listed.annotations == {"number": "0"}


def test_without_an_artifact_type_the_configs_type_counts(
    stored: LoopbackRegistry, image: BuiltImage
) -> None:
    # distribution-spec, "Listing Referrers": artifactType, else the config's media type
    to = sink(client(stored))
    to.push_referrer(referrer(image, artifactType=None), OCI_MANIFEST)
    (listed,) = to.referrers(Digest.parse(image.digest))
    assert listed.artifact_type == "application/vnd.oci.empty.v1+json"


@pytest.mark.parametrize("filtered_there", [True, False])
@pytest.mark.parametrize("page", [1, 2, 100])
def test_all_pages_are_read_and_filtered_wherever_the_filter_works(
    stored: LoopbackRegistry, image: BuiltImage, page: int, filtered_there: bool
) -> None:
    stored.referrers_page, stored.referrers_filter = page, filtered_there
    to = sink(client(stored))
    types = ["application/one", "application/two", "application/one"]
    for number, artifact_type in enumerate(types):
        to.push_referrer(referrer(image, number, artifactType=artifact_type), OCI_MANIFEST)
    subject = Digest.parse(image.digest)
    assert len(to.referrers(subject)) == 3
    found = to.referrers(subject, "application/one")
    assert [(one.annotations or {})["number"] for one in found] == ["0", "2"]
    assert to.referrers(subject, "application/three") == ()


def test_nothing_refers_to_what_nobody_referred_to(
    stored: LoopbackRegistry, image: BuiltImage
) -> None:
    assert sink(client(stored)).referrers(Digest.parse(image.digest)) == ()


def test_only_a_registry_that_does_not_confirm_gets_a_fallback_index(
    stored: LoopbackRegistry, image: BuiltImage
) -> None:
    sink(client(stored)).push_referrer(referrer(image), OCI_MANIFEST)
    tag = f"sha256-{image.digest.removeprefix('sha256:')}"
    assert fallback_tag(Digest.parse(image.digest)) == tag
    assert (tag in stored.tags.get("team/app", {})) == (not stored.referrers_api)


def test_pushing_again_changes_nothing(stored: LoopbackRegistry, image: BuiltImage) -> None:
    to = sink(client(stored))
    for _ in range(2):
        to.push_referrer(referrer(image), OCI_MANIFEST)
    assert len(to.referrers(Digest.parse(image.digest))) == 1


def test_writers_at_the_same_time_lose_nothing(stored: LoopbackRegistry, image: BuiltImage) -> None:
    def write(number: int) -> None:
        sink(client(stored)).push_referrer(referrer(image, number), OCI_MANIFEST)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(16)))
    found = sink(client(stored)).referrers(Digest.parse(image.digest))
    assert {(one.annotations or {})["number"] for one in found} == {str(n) for n in range(16)}


@pytest.fixture
def without_api(registry: LoopbackRegistry, image: BuiltImage) -> LoopbackRegistry:
    registry.referrers_api = False
    registry.add("team/app", image)
    registry.add_blob("team/app", EMPTY)
    return registry


def test_an_entry_that_another_writer_replaces_is_added_again(
    without_api: LoopbackRegistry, image: BuiltImage
) -> None:
    without_api.lies.fallback_races = 2
    to = sink(client(without_api))
    pushed = to.push_referrer(referrer(image), OCI_MANIFEST)
    found = to.referrers(Digest.parse(image.digest))
    assert pushed in found
    assert len(found) == 3, "the other writer's entries stay"


def test_an_entry_that_is_replaced_each_time_is_reported(
    without_api: LoopbackRegistry, image: BuiltImage
) -> None:
    without_api.lies.fallback_races = FOREVER
    with pytest.raises(FetchError, match="does not keep the entry"):
        sink(client(without_api)).push_referrer(referrer(image), OCI_MANIFEST)


def test_what_others_wrote_into_the_index_stays_word_for_word(
    without_api: LoopbackRegistry, image: BuiltImage
) -> None:
    entry = {"mediaType": OCI_MANIFEST, "digest": f"sha256:{'1' * 64}", "size": 7, "x-new": [1]}
    index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry], "x-index": {"a": 1}}
    tag = fallback_tag(Digest.parse(image.digest))
    without_api.add_manifest("team/app", index, OCI_INDEX, tag)
    sink(client(without_api)).push_referrer(referrer(image), OCI_MANIFEST)
    written = json.loads(without_api.manifests["team/app"][without_api.tags["team/app"][tag]][0])
    assert written["manifests"][0] == entry
    assert written["x-index"] == {"a": 1}
    assert len(written["manifests"]) == 2


def test_something_else_under_the_fallback_tag_is_not_overwritten(
    without_api: LoopbackRegistry, image: BuiltImage
) -> None:
    tag = fallback_tag(Digest.parse(image.digest))
    without_api.add("team/app", image, tag)
    with pytest.raises(ImageError, match="referrers index"):
        sink(client(without_api)).push_referrer(referrer(image), OCI_MANIFEST)
    assert without_api.tags["team/app"][tag] == image.digest


@pytest.mark.parametrize("vague", ["application/vnd.oci.empty.v1+json", None])
def test_where_an_entry_says_too_little_the_manifest_is_asked(
    without_api: LoopbackRegistry, image: BuiltImage, vague: str | None
) -> None:
    # cosign 3 writes the empty type into every entry of the fallback index
    content = referrer(image)
    without_api.add_manifest("team/app", content, OCI_MANIFEST)
    entry: dict[str, Any] = {
        "mediaType": OCI_MANIFEST,
        "digest": str(digest(content)),
        "size": len(content),
    }
    if vague:
        entry["artifactType"] = vague
    index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]}
    without_api.add_manifest("team/app", index, OCI_INDEX, fallback_tag(Digest.parse(image.digest)))
    to = sink(client(without_api))
    assert [one.digest for one in to.referrers(Digest.parse(image.digest), BUNDLE)] == [
        digest(content)
    ]
    assert to.referrers(Digest.parse(image.digest), "application/other") == ()


def test_a_listing_that_fails_is_not_an_empty_one(
    stored: LoopbackRegistry, image: BuiltImage, clock: ManualClock
) -> None:
    stored.fail("referrers.get", 500, times=FOREVER)
    with pytest.raises(FetchError, match="answers 500"):
        sink(client(stored, clock)).referrers(Digest.parse(image.digest))
    stored.failures.clear()
    stored.fail("referrers.get", 200, body=b"<html>", times=FOREVER)
    with pytest.raises(ImageError, match="not valid JSON"):
        sink(client(stored, clock)).referrers(Digest.parse(image.digest))


def test_a_page_that_is_missing_is_not_the_end(
    registry: LoopbackRegistry, image: BuiltImage
) -> None:
    registry.add("team/app", image)
    registry.add_blob("team/app", EMPTY)
    registry.referrers_page = 1
    to = sink(client(registry))
    for number in range(3):
        to.push_referrer(referrer(image, number), OCI_MANIFEST)
    registry.fail("referrers.get", 404, after=1, times=FOREVER)
    with pytest.raises(FetchError, match="answers 404"):
        to.referrers(Digest.parse(image.digest))


def test_a_manifest_without_a_subject_is_not_a_referrer(
    stored: LoopbackRegistry, image: BuiltImage
) -> None:
    with pytest.raises(ImageError, match="names no subject"):
        sink(client(stored)).push_referrer(image.manifest, OCI_MANIFEST)
