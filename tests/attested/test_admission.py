"""Policies made from a published profile: cosign obeys them, clusters' schemas accept them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from ruamel.yaml import YAML

from imagegate import __version__
from imagegate.admission import Engine, Gated, render
from imagegate.attestation.statement import SUMMARY_TYPE, make_statement
from imagegate.checks.image import CHECKS
from imagegate.cli import run as imagegate
from imagegate.oci.digest import Digest
from imagegate.signing.keys import generate, write_pair
from tests.attested.peers import OFFLINE, cosigns, run
from tests.attested.test_stored_verdicts import Scene

if TYPE_CHECKING:
    from pathlib import Path

    from tests.attested.cases import Judged

_REPOSITORY = "registry.example/team/served"


class Published:
    """An image in a layout with a signed summary that a test may change, and the policy for it."""

    def __init__(self, judged: Judged, root: Path) -> None:
        self.scene = Scene(judged, root / "scene", generate("ecdsa-p256"))
        self.home = root
        write_pair(self.scene.signer, root / "k.key", root / "k.pub")
        self.scene.store.mark_image(self.scene.subject.digest)
        self.lock = judged.evidence.lock.digest

    def policy(self, engine: Engine, **changes: Any) -> str:
        values = {
            "key": (self.home / "k.pub").read_text(),
            "checks": [check.id for check in CHECKS],
            "version": __version__,
            **changes,
        }
        lock = values.pop("lock", self.lock)
        gated = Gated(profile="served", repository=_REPOSITORY, lock=lock)
        return render(engine, [gated], **values)

    def sign(self, signer: Any = None, **changes: Any) -> None:
        """Sign the summary of a passed verdict with some fields of the predicate replaced."""
        summary = json.loads(self.scene.judged.statements()["summary"].payload)
        predicate = {**summary["predicate"], **changes}
        predicate = {name: value for name, value in predicate.items() if value is not None}
        self.scene.put(make_statement(self.scene.subject, SUMMARY_TYPE, predicate), signer=signer)

    def admitted(self, cosign: str, **changes: Any) -> bool:
        policy = self.home / "policy.cue"
        policy.write_text(self.policy(Engine.COSIGN, **changes))
        done = run(
            self.home,
            cosign,
            "verify-attestation",
            "--local-image",
            *OFFLINE,
            "--key",
            str(self.home / "k.pub"),
            "--type",
            SUMMARY_TYPE,
            "--policy",
            str(policy),
            str(self.scene.layout),
            check=False,
        )
        self.said = done.stderr
        return done.returncode == 0


@pytest.fixture
def published(judged: Judged, tmp_path: Path) -> Published:
    return Published(judged, tmp_path)


@pytest.mark.peers
@pytest.mark.parametrize("cosign", cosigns())
def test_cosign_admits_what_passed(published: Published, cosign: str) -> None:
    published.sign()
    assert published.admitted(cosign), published.said
    assert published.admitted(cosign, not_before="2026-11-29T12:00:00Z")


@pytest.mark.peers
@pytest.mark.parametrize("cosign", cosigns())
def test_cosign_refuses_what_nobody_signed(published: Published, cosign: str) -> None:
    assert not published.admitted(cosign)
    published.sign(generate("ecdsa-p256"))
    assert not published.admitted(cosign)


@pytest.mark.peers
@pytest.mark.parametrize("cosign", cosigns())
def test_cosign_refuses_what_is_outdated(published: Published, cosign: str) -> None:
    published.sign()
    assert not published.admitted(cosign, not_before="2026-11-29T12:00:01Z")
    assert not published.admitted(cosign, lock=Digest.of(b"a newer lock"))
    # a check that the verdict's imagegate did not have yet
    newer = [*(check.id for check in CHECKS), "python.newer"]
    assert not published.admitted(cosign, checks=newer)


@pytest.mark.peers
@pytest.mark.parametrize("cosign", cosigns())
@pytest.mark.parametrize(
    "changes",
    [
        {"verificationResult": "FAILED"},
        {"verificationResult": None},
        {"verifier": {"id": "pkg:pypi/another"}},
        {"verifier": None},
        {"policy": {"digest": {}}},
        {"policy": None},
        {"verifiedLevels": ["SLSA_BUILD_LEVEL_UNEVALUATED"]},
        {"verifiedLevels": []},
        {"verifiedLevels": None},
        {"timeVerified": None},
    ],
    ids=json.dumps,
)
def test_cosign_refuses_a_summary_that_says_less(
    published: Published, cosign: str, changes: dict[str, Any]
) -> None:
    """A field that is not there would be filled in by a policy that does not require it."""
    published.sign(**changes)
    assert not published.admitted(cosign, not_before="2020-01-01T00:00:00Z")


@pytest.mark.peers
def test_kyvernos_published_schema_accepts_its_policy(published: Published) -> None:
    document = YAML(typ="safe").load(
        published.policy(Engine.KYVERNO, not_before="2026-11-29T12:00:00Z")
    )
    module = os.environ["IMAGEGATE_KYVERNO"]
    script = (
        f"const m = require({json.dumps(module + '/policies.kyverno.io/v1')});"
        "const d = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        "new m.ImageValidatingPolicy(d).validate(); console.log('valid');"
    )

    def validate(what: object) -> subprocess.CompletedProcess[str]:
        node = str(shutil.which("node"))
        return subprocess.run(
            [node, "-e", script],
            input=json.dumps(what),
            capture_output=True,
            text=True,
            check=False,
        )

    assert validate(document).stdout == "valid\n"
    broken = {**document, "spec": {**document["spec"], "validations": "all of them"}}
    assert "validations" in validate(broken).stderr


@pytest.mark.parametrize("engine", [Engine.KYVERNO, Engine.POLICY_CONTROLLER])
def test_a_clusters_policy_holds_key_lock_and_every_check(
    published: Published, engine: Engine
) -> None:
    text = published.policy(engine, not_before="2026-11-29T12:00:00Z")
    (document,) = YAML(typ="safe").load_all(text)
    assert document["metadata"]["name"] == "imagegate-served"
    flat = json.dumps(document)
    assert published.lock.encoded in flat
    for check in CHECKS:
        assert f"IMAGEGATE_{check.id.upper().replace('.', '_')}" in flat
    spec = document["spec"]
    key = (
        spec["attestors"][0]["cosign"]["key"]["data"]
        if engine is Engine.KYVERNO
        else spec["authorities"][0]["key"]["data"]
    )
    assert key == (published.home / "k.pub").read_text()
    globs = spec["matchImageReferences"] if engine is Engine.KYVERNO else spec["images"]
    # not `team/served*`, which is `team/served-elsewhere` too
    assert [one["glob"] for one in globs] == [
        _REPOSITORY,
        f"{_REPOSITORY}:*",
        f"{_REPOSITORY}@*",
    ]


def test_the_cue_inside_of_a_cluster_policy_is_the_one_that_cosign_is_tested_with(
    published: Published,
) -> None:
    (document,) = YAML(typ="safe").load_all(published.policy(Engine.POLICY_CONTROLLER))
    policy = document["spec"]["authorities"][0]["attestations"][0]["policy"]
    assert policy["type"] == "cue"
    assert published.policy(Engine.COSIGN).endswith(policy["data"])


def test_the_command_reads_the_published_profile(
    published: Published, capsys: pytest.CaptureFixture[str]
) -> None:
    root = published.scene.workspace.root
    arguments = ["admission", "cosign", "served", "--key", str(published.home / "k.pub")]
    assert imagegate([*arguments, "-w", str(root)]) == 3
    assert "served" in capsys.readouterr().err
    assert imagegate(["promote", "served", "-w", str(root)]) == 0
    capsys.readouterr()
    assert imagegate([*arguments, "--not-before", "2026-11-29", "-w", str(root)]) == 0
    out = capsys.readouterr().out
    assert published.lock.encoded in out
    assert 'timeVerified!: >="2026-11-29T00:00:00Z"' in out
    assert imagegate([*arguments, "other", "-w", str(root)]) == 2  # one file a profile
