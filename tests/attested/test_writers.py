"""Several writers beside one image lose nothing of each other's, whatever their turns are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from imagegate.errors import BlobMissing
from imagegate.oci.digest import Digest
from imagegate.oci.documents import OCI_INDEX, parse_json
from imagegate.signing.forms import classic_tag
from imagegate.signing.keys import KeySigner, generate
from imagegate.signing.publish import publish
from imagegate.signing.registry import RegistryStore
from imagegate.sources import open_image
from imagegate.sources.registry import RegistryClient, RegistrySink, fallback_tag, push_image
from tests.attested.cases import NOW, Judged
from tests.attested.test_stored_verdicts import Scene
from tests.registry import LoopbackRegistry
from tests.registry_source.support import ManualClock

REPOSITORY = "team/served"


class Site:
    """An image in a registry without the referrers API, and writers that come between."""

    def __init__(self, registry: LoopbackRegistry, scene: Scene) -> None:
        self.registry = registry
        self.scene = scene
        layout = open_image(f"oci:{scene.layout}")
        base = open_image(f"oci:{scene.workspace.root / 'base'}")
        push_image(RegistrySink(self.client(), REPOSITORY), layout.image, (layout, base))

    def client(self) -> RegistryClient:
        return RegistryClient(self.registry.netloc, clock=ManualClock())

    def write(self, store: RegistryStore, signer: KeySigner) -> None:
        statements = list(self.scene.judged.statements().values())
        publish(store, self.scene.subject, statements, signer, created=NOW)

    def layers(self, suffix: str) -> list[str]:
        content = RegistryStore(self.client(), REPOSITORY).find_manifest(
            classic_tag(self.subject, suffix)
        )
        return [json.dumps(layer) for layer in json.loads(content or b'{"layers":[]}')["layers"]]

    @property
    def subject(self) -> Digest:
        return self.scene.subject.digest

    def referrers(self) -> set[Digest]:
        store = RegistryStore(self.client(), REPOSITORY)
        return {one.digest for one in store.referrers(self.subject)}


class Slow(RegistryStore):
    """A store whose pause is the moment at which another machine's write arrives."""

    def __init__(self, client: RegistryClient, others: list[Callable[[], None]]) -> None:
        super().__init__(client, REPOSITORY)
        self._others = others

    def pause(self) -> bool:
        if self._others:
            self._others.pop(0)()
        return super().pause()


@pytest.fixture
def site(judged: Judged, tmp_path: Path) -> Iterator[Site]:
    registry = LoopbackRegistry(referrers_api=False)
    scene = Scene(judged, tmp_path / "scene", generate("ed25519"))
    with registry.running():
        yield Site(registry, scene)


def test_what_a_writer_that_had_read_before_replaces_is_written_again(site: Site) -> None:
    """Both read an empty tag; the other writes last, and what it wrote stays too."""
    store = RegistryStore(site.client(), REPOSITORY)
    other = generate("ed25519")
    stale = {}
    site.write(store, other)
    tags = [classic_tag(site.subject, "sig"), classic_tag(site.subject, "att")]
    for tag in (*tags, fallback_tag(site.subject)):
        stale[tag] = store.find_manifest(tag)
        del site.registry.tags[REPOSITORY][tag]

    def late() -> None:
        for tag, content in stale.items():
            assert content is not None
            kind = str(parse_json(content, tag)["mediaType"])
            site.registry.add_manifest(REPOSITORY, content, kind, tag)

    site.write(Slow(site.client(), [late]), site.scene.signer)

    for suffix, each in (("sig", 1), ("att", 5)):
        assert len(site.layers(suffix)) == 2 * each
        theirs = json.loads(stale[classic_tag(site.subject, suffix)] or b"")["layers"]
        assert {json.dumps(layer) for layer in theirs} <= set(site.layers(suffix))
    assert len(site.referrers()) == 2 * 6


def test_a_writer_that_comes_between_reading_and_writing_is_seen(site: Site) -> None:
    other = generate("ed25519")
    wrote: list[bool] = []

    class Between(RegistryStore):
        """Another machine writes its signature after this one read the tag the first time."""

        def put_manifest(self, content: bytes, media_type: str) -> Digest:
            if not wrote:
                wrote.append(True)
                site.write(RegistryStore(site.client(), REPOSITORY), other)
            return super().put_manifest(content, media_type)

    site.write(Between(site.client(), REPOSITORY), site.scene.signer)

    assert len(site.layers("sig")) == 2
    assert len(site.layers("att")) == 2 * 5
    assert len(site.referrers()) == 2 * 6


def test_one_that_keeps_replacing_what_is_written_ends_in_an_error(site: Site) -> None:
    from imagegate.errors import FetchError

    tag = fallback_tag(site.subject)

    def emptied() -> None:
        document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}
        site.registry.add_manifest(REPOSITORY, document, OCI_INDEX, tag)

    with pytest.raises(FetchError, match="does not keep what is written") as caught:
        site.write(Slow(site.client(), [emptied] * 1000), site.scene.signer)
    assert "run again" in (caught.value.hint or "")


def test_a_second_run_writes_no_tag_again(site: Site) -> None:
    site.write(RegistryStore(site.client(), REPOSITORY), site.scene.signer)
    before = dict(site.registry.tags[REPOSITORY])
    seen = len(site.registry.seen)

    site.write(RegistryStore(site.client(), REPOSITORY), site.scene.signer)

    assert site.registry.tags[REPOSITORY] == before
    written = {
        one.path.rpartition("/")[2]
        for one in site.registry.seen[seen:]
        if one.route == "manifest.put"
    }
    assert not {name for name in written if not name.startswith("sha256:")}


@pytest.mark.parametrize("after", range(15))
def test_a_blob_that_another_writer_stores_at_this_moment_is_waited_for(
    site: Site, after: int
) -> None:
    """docker-registry 2.8 on a file system: links are rewritten in place (its filesystem driver)."""
    body = json.dumps({"errors": [{"code": "MANIFEST_BLOB_UNKNOWN", "message": "blob unknown"}]})
    site.registry.fail("manifest.put", 400, after=after, body=body.encode())

    site.write(RegistryStore(site.client(), REPOSITORY), site.scene.signer)

    assert (len(site.layers("sig")), len(site.layers("att"))) == (1, 5)
    assert len(site.referrers()) == 6


def test_a_blob_that_never_comes_is_an_error(site: Site) -> None:
    body = json.dumps({"errors": [{"code": "MANIFEST_BLOB_UNKNOWN", "message": "blob unknown"}]})
    site.registry.fail("manifest.put", 400, times=1000, body=body.encode())

    with pytest.raises(BlobMissing, match="lacks what the manifest"):
        site.write(RegistryStore(site.client(), REPOSITORY), site.scene.signer)
