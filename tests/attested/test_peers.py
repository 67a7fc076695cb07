"""cosign 2 and 3, oras and crane read what was written, and refuse what was changed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from imagegate.attestation.statement import (
    PROVENANCE_TYPE,
    SBOM_TYPE,
    SPDX_TYPE,
    SUMMARY_TYPE,
    TEST_RESULT_TYPE,
)
from imagegate.oci.digest import Digest
from imagegate.oci.reference import Reference
from imagegate.signing.keys import KeySigner, generate, read_signer, write_pair
from imagegate.signing.layout import LayoutStore
from imagegate.signing.publish import publish
from imagegate.signing.registry import RegistryStore
from imagegate.sources import open_image
from imagegate.sources.registry import RegistryClient, RegistrySink, push_image
from imagegate.usecases.attest import sign_verdict
from tests.attested.peers import OFFLINE, cosigns, run
from tests.attested.test_stored_verdicts import NOW, Heard, Scene
from tests.calls import calling
from tests.registry_source.peers import docker_registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.attested.cases import Judged

pytestmark = pytest.mark.peers

# what cosign calls each statement that a promotion writes
TYPES = {
    "slsaprovenance1": PROVENANCE_TYPE,
    "cyclonedx": SBOM_TYPE,
    "spdxjson": SPDX_TYPE,
    SUMMARY_TYPE: SUMMARY_TYPE,
    TEST_RESULT_TYPE: TEST_RESULT_TYPE,
}
ALGORITHMS = ("ed25519", "ecdsa-p256")


class Signed:
    """An image in docker-registry, signed by a key of one kind."""

    def __init__(self, scene: Scene, registry: str, home: Path) -> None:
        self.home = home
        self.client = RegistryClient(registry)
        self.repository = "team/served"
        self.store = RegistryStore(self.client, self.repository)
        self.scene = scene
        self.subject = replace(scene.subject, repository=f"{registry}/{self.repository}")
        self.reference = f"{registry}/{self.repository}@{self.subject.digest}"
        home.mkdir()
        write_pair(scene.signer, home / "k.key", home / "k.pub")
        write_pair(generate("ed25519"), home / "other.key", home / "other.pub")
        layout = open_image(f"oci:{scene.layout}")
        base = open_image(f"oci:{scene.workspace.root / 'base'}")
        push_image(
            RegistrySink(self.client, self.repository), layout.image, (layout, base), tag="v1"
        )
        self.sign()

    def sign(self) -> None:
        sign_verdict(
            self.scene.workspace,
            self.scene.judged.judgement(NOW),
            store=self.store,
            signer=self.scene.signer,
            reporter=Heard(),
        )

    def verify(
        self, cosign: str, *, key: str = "k.pub", kind: str | None = None, reference: str = ""
    ) -> tuple[bool, list[dict[str, Any]]]:
        command = ["verify"] if kind is None else ["verify-attestation", "--type", kind]
        done = run(
            self.home,
            cosign,
            *command,
            *OFFLINE,
            "--allow-http-registry",
            "--key",
            str(self.home / key),
            reference or self.reference,
            check=False,
        )
        text = done.stdout.strip()
        lines = [json.loads(line) for line in text.splitlines()] if done.returncode == 0 else []
        return done.returncode == 0, lines


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docker_registry(tmp_path_factory.mktemp("registry")) as name:
        yield name


@pytest.fixture(params=ALGORITHMS)
def signed(judged: Judged, registry: str, tmp_path: Path, request: pytest.FixtureRequest) -> Signed:
    scene = Scene(judged, tmp_path / "scene", generate(request.param))
    return Signed(scene, registry, tmp_path / "home")


@pytest.mark.parametrize("cosign", cosigns())
def test_cosign_verifies_the_signature_and_every_statement(signed: Signed, cosign: str) -> None:
    assert signed.verify(cosign)[0]
    for kind, predicate_type in TYPES.items():
        verified, envelopes = signed.verify(cosign, kind=kind)
        assert verified, kind
        payloads = [json.loads(base64.b64decode(one["payload"])) for one in envelopes]
        assert {payload["predicateType"] for payload in payloads} == {predicate_type}


@pytest.mark.parametrize("cosign", cosigns())
def test_cosign_refuses_another_key_and_a_statement_that_is_not_there(
    signed: Signed, cosign: str
) -> None:
    assert not signed.verify(cosign, key="other.pub")[0]
    for kind in TYPES:
        assert not signed.verify(cosign, key="other.pub", kind=kind)[0]
    assert not signed.verify(cosign, kind="vuln")[0]


@pytest.mark.parametrize("cosign", cosigns())
def test_cosign_refuses_statements_that_were_moved_to_another_image(
    signed: Signed, cosign: str
) -> None:
    """Another image in the same repository gets the first one's artifacts under its own tags."""
    manifest = signed.store.find_manifest(signed.subject.digest)
    assert manifest is not None
    other = json.dumps({**json.loads(manifest), "annotations": {"x": "y"}}).encode()
    media_type = "application/vnd.oci.image.manifest.v1+json"
    digest = signed.store.put_manifest(other, media_type)
    for suffix in ("sig", "att"):
        content = signed.store.find_manifest(f"sha256-{signed.subject.digest.encoded}.{suffix}")
        assert content is not None
        signed.store.tag(f"sha256-{digest.encoded}.{suffix}", content, media_type)
    reference = f"{signed.reference.partition('@')[0]}@{digest}"
    assert not signed.verify(cosign, reference=reference)[0]
    for kind in TYPES:
        assert not signed.verify(cosign, kind=kind, reference=reference)[0]


@pytest.mark.parametrize("cosign", cosigns())
def test_cosign_refuses_a_changed_payload(
    judged: Judged, registry: str, tmp_path: Path, cosign: str
) -> None:
    class Careless:
        """Signs, and then the payload is another."""

        def __init__(self, signer: KeySigner) -> None:
            self._signer = signer
            self.verifier = signer.verifier

        def sign(self, content: bytes) -> bytes:
            return self._signer.sign(content.replace(b"PASSED", b"FAILED").replace(b"docker-", b""))

    scene = Scene(judged, tmp_path / "scene", generate("ecdsa-p256"))
    home = tmp_path / "home"
    home.mkdir()
    write_pair(scene.signer, home / "k.key", home / "k.pub")
    layout = open_image(f"oci:{scene.layout}")
    base = open_image(f"oci:{scene.workspace.root / 'base'}")
    client = RegistryClient(registry)
    repository = f"changed/{Digest.of(cosign.encode()).short}"
    push_image(RegistrySink(client, repository), layout.image, (layout, base))
    statements = scene.judged.statements()
    publish(
        RegistryStore(client, repository),
        replace(scene.subject, repository=f"{registry}/{repository}"),
        [statements["summary"], statements["result"]],
        Careless(scene.signer),
        created="2026-11-29T12:00:00Z",
    )
    for command in (
        ["verify-attestation", "--type", SUMMARY_TYPE],
        ["verify-attestation", "--type", TEST_RESULT_TYPE],
    ):
        done = run(
            home,
            cosign,
            *command,
            *OFFLINE,
            "--allow-http-registry",
            "--key",
            str(home / "k.pub"),
            f"{registry}/{repository}@{scene.subject.digest}",
            check=False,
        )
        assert done.returncode != 0


def test_oras_and_crane_see_the_referrers(signed: Signed) -> None:
    found = json.loads(
        run(
            signed.home,
            "oras",
            "discover",
            "--plain-http",
            "--format",
            "json",
            signed.reference,
        ).stdout
    )
    listed = [entry["digest"] for entry in found.get("referrers", found.get("manifests", []))]
    stored = [str(one.digest) for one in signed.store.referrers(signed.subject.digest)]
    assert sorted(listed) == sorted(stored)
    assert len(listed) >= 5
    for digest in listed:
        reference = f"{signed.reference.partition('@')[0]}@{digest}"
        text = run(signed.home, "crane", "manifest", "--insecure", reference).stdout
        assert json.loads(text)["subject"]["digest"] == str(signed.subject.digest)


def test_the_registry_holds_the_same_bytes_after_a_second_run(signed: Signed) -> None:
    def artifacts() -> list[tuple[str, bytes | None]]:
        tags = [
            f"sha256-{signed.subject.digest.encoded}{suffix}" for suffix in ("", ".sig", ".att")
        ]
        return [(tag, signed.store.find_manifest(tag)) for tag in tags]

    first = artifacts()
    assert all(content for _, content in first)
    signed.sign()
    assert artifacts() == first


@pytest.mark.parametrize("cosign", cosigns())
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_cosign_verifies_a_layout_without_any_registry(
    judged: Judged, tmp_path: Path, cosign: str, algorithm: Any
) -> None:
    scene = Scene(judged, tmp_path / "scene", generate(algorithm))
    scene.sign()
    home = tmp_path / "home"
    home.mkdir()
    write_pair(scene.signer, home / "k.key", home / "k.pub")
    write_pair(generate(algorithm), home / "other.key", home / "other.pub")
    for kind in (None, *TYPES):
        command = ["verify"] if kind is None else ["verify-attestation", "--type", kind]
        for key, verified in (("k.pub", True), ("other.pub", False)):
            done = run(
                home,
                cosign,
                *command,
                *OFFLINE,
                "--local-image",
                "--key",
                str(home / key),
                str(scene.layout),
                check=False,
            )
            assert (done.returncode == 0) == verified, done.stderr


@pytest.mark.parametrize("cosign", cosigns())
def test_a_key_that_cosign_made_signs_here(tmp_path: Path, cosign: str) -> None:
    done = run(tmp_path, cosign, "generate-key-pair", "--output-key-prefix", str(tmp_path / "c"))
    assert done.returncode == 0
    signer = read_signer(tmp_path / "c.key", passphrase=b"throw-away")
    assert signer.verifier.pem.strip() == (tmp_path / "c.pub").read_bytes().strip()


def test_oras_sees_the_referrers_of_a_layout(judged: Judged, tmp_path: Path) -> None:
    scene = Scene(judged, tmp_path / "scene", generate("ed25519"))
    scene.sign()
    shutil.copytree(scene.layout, tmp_path / "layout")
    reference = f"{tmp_path / 'layout'}@{scene.subject.digest}"
    found = json.loads(
        run(tmp_path, "oras", "discover", "--oci-layout", "--format", "json", reference).stdout
    )
    listed = [entry["digest"] for entry in found.get("referrers", found.get("manifests", []))]
    stored = LayoutStore(scene.layout).referrers(scene.subject.digest)
    assert sorted(listed) == sorted(str(one.digest) for one in stored)


def test_a_verdict_stored_in_a_registry_counts(signed: Signed) -> None:
    from imagegate.usecases.attested import verify_attested
    from tests.attested.test_stored_verdicts import WEEK

    heard = Heard()
    verdict = verify_attested(
        calling(signed.scene.workspace, now=NOW, reporter=heard),
        "served",
        image=str(Reference.parse(signed.reference)),
        verifier=signed.scene.signer.verifier,
        max_age=WEEK,
    )
    assert "was judged at" in heard.text
    assert verdict == signed.scene.judged.verdict


def test_writers_at_the_same_time_lose_nothing_in_a_registry(
    judged: Judged, registry: str, tmp_path: Path
) -> None:
    scene = Scene(judged, tmp_path / "scene", generate("ed25519"))
    client = RegistryClient(registry)
    layout = open_image(f"oci:{scene.layout}")
    base = open_image(f"oci:{scene.workspace.root / 'base'}")
    push_image(RegistrySink(client, "team/busy"), layout.image, (layout, base))
    statements = list(scene.judged.statements().values())
    signers = [generate("ed25519") for _ in range(4)]

    def write(signer: KeySigner) -> None:
        store = RegistryStore(RegistryClient(registry), "team/busy")
        publish(store, scene.subject, statements, signer, created="2026-11-29T12:00:00Z")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, signers))
    store = RegistryStore(client, "team/busy")
    # the fallback index of a registry without the referrers API
    assert len(store.referrers(scene.subject.digest)) == 4 * 6
    for suffix, each in (("sig", 1), ("att", 5)):
        content = store.find_manifest(f"sha256-{scene.subject.digest.encoded}.{suffix}")
        assert content is not None
        assert len(json.loads(content)["layers"]) == 4 * each


def test_promotions_of_several_machines_at_once_lose_nothing_in_a_registry(
    judged: Judged, registry: str, tmp_path: Path
) -> None:
    """Processes of their own, each with a key and a workspace: nothing but the registry is shared."""
    scene = Scene(judged, tmp_path / "scene", generate("ed25519"))
    client = RegistryClient(registry)
    layout = open_image(f"oci:{scene.layout}")
    base = open_image(f"oci:{scene.workspace.root / 'base'}")
    push_image(RegistrySink(client, "team/crowded"), layout.image, (layout, base))
    image = f"{registry}/team/crowded@{scene.subject.digest}"
    machines = []
    for number in range(5):
        root = tmp_path / f"machine{number}"
        shutil.copytree(judged.built.root, root)
        key = tmp_path / f"{number}.key"
        write_pair(generate("ed25519"), key, tmp_path / f"{number}.pub")
        command = [sys.executable, "-m", "imagegate", "promote", "served", "--image", image]
        machines.append(
            subprocess.Popen(
                [*command, "--sign", str(key), "-w", str(root)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
    for machine in machines:
        _, said = machine.communicate()
        assert machine.returncode == 0, said
    store = RegistryStore(client, "team/crowded")
    assert len(store.referrers(scene.subject.digest)) == 5 * 6
    for suffix, each in (("sig", 1), ("att", 5)):
        content = store.find_manifest(f"sha256-{scene.subject.digest.encoded}.{suffix}")
        assert content is not None
        assert len(json.loads(content)["layers"]) == 5 * each
