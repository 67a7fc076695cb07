"""cosign verifies a published base lock; oras and crane list it, and fetch its files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagegate.attestation.baselock import ARTIFACT, PREDICATE_TYPE
from imagegate.oci.digest import Digest
from imagegate.signing.keys import generate, write_pair
from imagegate.usecases.published import push_base
from imagegate.usecases.transfer import Destination
from imagegate.workspace import Workspace
from tests.attested.peers import OFFLINE, cosigns, run
from tests.calls import calling
from tests.registry import LoopbackRegistry
from tests.world import World

pytestmark = pytest.mark.peers


@pytest.fixture
def pushed(world: World, tmp_path: Path) -> Iterator[tuple[LoopbackRegistry, str, str, Path]]:
    """A registry that runs, the base, the artifact, and a folder with the public key."""
    with LoopbackRegistry().running() as registry:
        registry.add("team/base", world.base)
        signer = generate("ecdsa-p256")
        write_pair(signer, tmp_path / "k.key", tmp_path / "k.pub")
        made = push_base(
            calling(Workspace(world.root)),
            Digest.parse(world.base.digest),
            to=Destination.parse(f"{registry.netloc}/team/base").repository,
            signer=signer,
        )
        base = f"{registry.netloc}/team/base@{world.base.digest}"
        yield registry, base, made.reference, tmp_path


@pytest.mark.parametrize("cosign", cosigns())
def test_cosign_verifies_the_artifact_and_what_is_stated_of_it(
    pushed: tuple[LoopbackRegistry, str, str, Path], cosign: str
) -> None:
    _, _, artifact, folder = pushed
    key = ("--key", str(folder / "k.pub"), *OFFLINE, "--allow-http-registry")
    assert run(folder, cosign, "verify", *key, artifact).returncode == 0
    done = run(folder, cosign, "verify-attestation", *key, "--type", PREDICATE_TYPE, artifact)
    assert done.returncode == 0
    wrong = generate("ecdsa-p256")
    write_pair(wrong, folder / "w.key", folder / "w.pub")
    other = ("--key", str(folder / "w.pub"), *OFFLINE, "--allow-http-registry")
    assert run(folder, cosign, "verify", *other, artifact, check=False).returncode != 0


def test_oras_discovers_it_below_the_base_and_pulls_its_files(
    pushed: tuple[LoopbackRegistry, str, str, Path], world: World
) -> None:
    _, base, artifact, folder = pushed
    found = run(folder, "oras", "discover", "--plain-http", "--format", "json", base).stdout
    assert ARTIFACT in found
    assert artifact.partition("@")[2] in found
    run(folder, "oras", "pull", "--plain-http", "-o", str(folder / "out"), artifact)
    for path in (folder / "out").iterdir():
        assert path.read_bytes() == (world.base_lock / path.name).read_bytes()
    assert (folder / "out/base.json").exists()


def test_crane_reads_its_manifest(pushed: tuple[LoopbackRegistry, str, str, Path]) -> None:
    _, base, artifact, folder = pushed
    document = json.loads(run(folder, "crane", "manifest", "--insecure", artifact).stdout)
    assert document["artifactType"] == ARTIFACT
    assert document["subject"]["digest"] == base.partition("@")[2]
