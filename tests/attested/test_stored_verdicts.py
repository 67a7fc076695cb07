"""A stored verdict counts only if everything about it is right; every attack is judged again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from imagegate.attestation.statement import SUMMARY_TYPE, Statement, Subject, make_statement
from imagegate.errors import RefusedError
from imagegate.oci.digest import Digest
from imagegate.signing.forms import (
    attestation_layer,
    bundle,
    bundle_manifest,
    classic_manifest,
    classic_tag,
    envelope_json,
    seal,
)
from imagegate.signing.keys import KeySigner, generate
from imagegate.signing.layout import LayoutStore
from imagegate.signing.publish import publish
from imagegate.sources import open_image
from imagegate.usecases.attest import Judgement, revisions, sign_verdict
from imagegate.usecases.attested import verify_attested
from imagegate.usecases.verify import verify_recipe
from imagegate.verdict import Acceptance, CheckReport, ImageVerdict, Severity
from imagegate.workspace import Workspace
from tests.attested.cases import Judged, with_failure
from tests.calls import calling
from tests.images import write_layout_archive

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Heard:
    """A reporter that remembers what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str, /) -> None:
        self.lines.append(text)

    def task(self, title: str, total: int | None) -> AbstractContextManager[Any]:
        from imagegate.usecases.ports import Silent

        return Silent().task(title, total)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class Scene:
    """A copy of the built workspace that a test may change, with a key."""

    def __init__(self, judged: Judged, root: Path, signer: KeySigner) -> None:
        shutil.copytree(judged.built.root, root, dirs_exist_ok=True)
        self.judged = judged
        self.workspace = Workspace(root)
        self.signer = signer
        self.layout = root / "build" / "served"
        self.store = LayoutStore(self.layout)

    @property
    def subject(self) -> Subject:
        return self.judged.subject

    def sign(self, at: datetime = NOW) -> None:
        sign_verdict(
            self.workspace,
            self.judged.judgement(at),
            store=self.store,
            signer=self.signer,
            reporter=Heard(),
        )

    def put(self, *statements: Statement, signer: KeySigner | None = None) -> None:
        """Store statements that this key, or another, signs, whatever they say."""
        publish(self.store, self.subject, statements, signer or self.signer, created="2026")

    def ask(
        self, *, now: datetime = NOW, signer: KeySigner | None = None
    ) -> tuple[ImageVerdict, Heard]:
        heard = Heard()
        verdict = verify_attested(
            calling(self.workspace, now=now, reporter=heard),
            "served",
            image=None,
            verifier=(signer or self.signer).verifier,
            max_age=WEEK,
        )
        return verdict, heard


@pytest.fixture
def scene(judged: Judged, tmp_path: Path) -> Scene:
    return Scene(judged, tmp_path / "scene", generate("ed25519"))


def _counts(heard: Heard) -> bool:
    """Whether a stored verdict was taken; otherwise the image was judged from its bytes."""
    taken = "was judged at" in heard.text
    assert taken != ("judged from its bytes" in heard.text or "do not count" in heard.text)
    return taken


def _changed(statement: Statement, **changes: object) -> Statement:
    """The same statement with some fields of its predicate changed."""
    document = json.loads(statement.payload)
    document["predicate"].update(changes)
    return Statement(predicate_type=statement.predicate_type, payload=json.dumps(document).encode())


def test_what_was_signed_counts_without_reading_a_layer(scene: Scene) -> None:
    scene.sign()
    for blob in (scene.layout / "blobs" / "sha256").iterdir():
        if blob.name in {
            layer.blob.digest.encoded for layer in scene.judged.evidence.added if layer.blob.digest
        }:
            blob.unlink()
    verdict, heard = scene.ask()
    assert _counts(heard)
    assert verdict == scene.judged.verdict


def test_it_counts_from_either_form_alone(scene: Scene) -> None:
    """Bundles by referrer must not hide the classic `.att` (conforma/cli#3185)."""
    scene.sign()
    index = scene.layout / "index.json"
    everything = json.loads(index.read_text())
    for suffix in (".att", "bundle"):
        kept = [
            entry
            for entry in everything["manifests"]
            if (suffix == "bundle") == ("artifactType" in entry)
            or "image" in entry["annotations"].get("kind", "")
        ]
        assert 1 < len(kept) < len(everything["manifests"])
        index.write_text(json.dumps({**everything, "manifests": kept}))
        assert _counts(scene.ask()[1])


def test_nothing_stored_is_judged_from_bytes(scene: Scene) -> None:
    verdict, heard = scene.ask()
    assert not _counts(heard)
    assert verdict.passed


def test_an_archive_keeps_no_verdict_and_is_judged_from_bytes(scene: Scene, tmp_path: Path) -> None:
    scene.sign()
    archive = write_layout_archive(tmp_path / "image.tar", scene.layout)
    heard = Heard()
    verdict = verify_attested(
        calling(scene.workspace, now=NOW, reporter=heard),
        "served",
        image=f"oci-archive:{archive}",
        verifier=scene.signer.verifier,
        max_age=WEEK,
    )
    assert not _counts(heard)
    assert verdict.passed


def test_a_failed_verdict_cannot_be_signed(scene: Scene) -> None:
    with pytest.raises(RefusedError, match="did not pass"):
        sign_verdict(
            scene.workspace,
            Judgement.now(with_failure(scene.judged.verdict), scene.judged.evidence, NOW),
            store=scene.store,
            signer=scene.signer,
            reporter=Heard(),
        )
    assert scene.store.referrers(scene.subject.digest) == ()


# --- attacks


def _forge(scene: Scene, statements: dict[str, Statement]) -> None:
    """Put right statements beside the image with a signature that is none (conforma/cli#3489)."""

    class NoSigner:
        verifier = scene.signer.verifier

        def sign(self, _content: bytes) -> bytes:
            return b"\0" * 64

    envelopes = [(seal(s, NoSigner()), s.predicate_type) for s in statements.values()]
    layers = []
    for envelope, kind in envelopes:
        content = envelope_json(envelope)
        scene.store.put_blob(content)
        layers.append(attestation_layer(content, kind))
        wrapped = bundle(envelope, scene.signer.verifier.hint)
        scene.store.put_blob(wrapped)
        descriptor = {"mediaType": MANIFEST, "digest": str(scene.subject.digest), "size": 1}
        scene.store.push_referrer(
            bundle_manifest(wrapped, kind, descriptor, created="2026"), MANIFEST
        )
    manifest, config = classic_manifest(layers)
    scene.store.put_blob(config)
    scene.store.tag(classic_tag(scene.subject.digest, "att"), manifest, MANIFEST)


def test_a_summary_with_the_right_subject_and_no_signature_does_not_count(scene: Scene) -> None:
    _forge(scene, scene.judged.statements(at="2026-11-29T12:00:00Z"))
    _, heard = scene.ask()
    assert not _counts(heard)
    assert heard.text.count("is not signed by the key") == 10  # five statements in two forms


def test_a_summary_by_another_key_does_not_count(scene: Scene) -> None:
    scene.sign()
    assert not _counts(scene.ask(signer=generate("ed25519"))[1])
    assert not _counts(scene.ask(signer=generate("ecdsa-p256"))[1])


def test_a_changed_payload_does_not_count(scene: Scene) -> None:
    scene.sign()
    blobs = scene.layout / "blobs" / "sha256"
    hit = 0
    for blob in blobs.iterdir():
        content = blob.read_bytes()
        if content.startswith(b'{"payload"') or b'"dsseEnvelope"' in content:
            # one bit of the signed text, whatever the digest says then
            at = content.index(b'"payload":"') + 40
            blob.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            hit += 1
    assert hit == 11
    assert not _counts(scene.ask()[1])


def test_a_passing_summary_of_another_lock_does_not_count(scene: Scene) -> None:
    statements = scene.judged.statements()
    policy = json.loads(statements["summary"].payload)["predicate"]["policy"]
    other = {**policy, "digest": {"sha256": "0" * 64}}
    scene.put(_changed(statements["summary"], policy=other), statements["result"])
    _, heard = scene.ask()
    assert not _counts(heard)
    assert "another lock" in heard.text


def test_a_passing_summary_of_another_recipe_does_not_count(scene: Scene) -> None:
    statements = scene.judged.statements()
    policy = json.loads(statements["summary"].payload)["predicate"]["policy"]
    for other in ({**policy, "annotations": {}}, {**policy, "uri": "pkg:pypi/imagegate#locks/x"}):
        scene.put(_changed(statements["summary"], policy=other), statements["result"])
    assert not _counts(scene.ask()[1])


def test_a_summary_of_the_lock_before_does_not_count_after_the_recipe_changed(
    scene: Scene,
) -> None:
    scene.sign()
    asset = scene.workspace.root / "images/served/recipes/glm53/serve.yaml"
    asset.write_text("tensor-parallel-size: 4\n")
    verdict, heard = scene.ask()
    assert not _counts(heard)
    assert "the assets changed" in heard.text
    assert not verdict.passed


def test_a_summary_does_not_count_after_the_policy_changed_without_a_new_lock(
    scene: Scene,
) -> None:
    scene.sign()
    toml = scene.workspace.root / "images/served/image.toml"
    toml.write_text(toml.read_text().replace('MAX_JOBS = "16"', 'MAX_JOBS = "8"'))
    verdict, heard = scene.ask()
    assert not _counts(heard)
    assert "another recipe" in heard.text
    assert verdict.passed


def test_a_summary_still_counts_after_a_comment_changed(scene: Scene) -> None:
    scene.sign()
    toml = scene.workspace.root / "images/served/image.toml"
    toml.write_text(f"# a comment\n{toml.read_text()}")
    assert _counts(scene.ask()[1])


@pytest.mark.parametrize(
    ("age", "counts"),
    [
        (timedelta(0), True),
        (WEEK, True),
        (WEEK + timedelta(seconds=1), False),
        (timedelta(minutes=-5), True),  # clocks of two machines
        (timedelta(minutes=-6), False),
    ],
)
def test_a_summary_counts_for_its_time_only(scene: Scene, age: timedelta, counts: bool) -> None:
    scene.sign()
    assert _counts(scene.ask(now=NOW + age)[1]) == counts


@pytest.mark.parametrize("time", ["yesterday", "2026-11-29T12:00:00", "", "2026-13-01T00:00:00Z"])
def test_a_summary_without_a_moment_does_not_count(scene: Scene, time: str) -> None:
    statements = scene.judged.statements()
    scene.put(_changed(statements["summary"], timeVerified=time), statements["result"])
    assert not _counts(scene.ask()[1])


def test_a_signature_by_the_right_key_over_another_predicate_type_does_not_count(
    scene: Scene,
) -> None:
    statements = scene.judged.statements()
    predicate = json.loads(statements["summary"].payload)["predicate"]
    for kind in (
        "https://slsa.dev/verification_summary/v0.2",
        "https://slsa.dev/provenance/v1",
        "https://example.com/verification_summary/v1",
    ):
        scene.put(make_statement(scene.subject, kind, predicate), statements["result"])
    _, heard = scene.ask()
    assert not _counts(heard)


def test_a_label_that_claims_the_right_predicate_type_changes_nothing(scene: Scene) -> None:
    statements = scene.judged.statements()
    predicate = json.loads(statements["summary"].payload)["predicate"]
    other = make_statement(scene.subject, "https://example.com/x", predicate)
    # the annotation beside the envelope is not signed
    scene.put(Statement(predicate_type=SUMMARY_TYPE, payload=other.payload), statements["result"])
    assert not _counts(scene.ask()[1])


def test_a_summary_of_a_foreign_manifest_does_not_count(scene: Scene) -> None:
    statements = scene.judged.statements()
    foreign = Subject(repository=scene.subject.repository, digest=Digest.of(b"foreign"))
    predicate = json.loads(statements["summary"].payload)["predicate"]
    scene.put(make_statement(foreign, SUMMARY_TYPE, predicate), statements["result"])
    _, heard = scene.ask()
    assert not _counts(heard)
    assert "about another image" in heard.text


@pytest.mark.parametrize(
    "changes",
    [
        {"verificationResult": "FAILED"},
        {"verificationResult": "passed"},
        {"verifiedLevels": ["SLSA_BUILD_LEVEL_UNEVALUATED"]},
        {"verifiedLevels": []},
        {"verifier": {"id": "https://example.com/other"}},
        {"resourceUri": "pkg:oci/other@sha256%3A00"},
        {"inputAttestations": []},
        {"inputAttestations": [{"digest": {"sha256": "0" * 64}}]},
        {"policy": {"digest": {}}},
        {"policy": None},
    ],
    ids=str,
)
def test_a_summary_that_says_less_than_passed_here_does_not_count(
    scene: Scene, changes: dict[str, object]
) -> None:
    statements = scene.judged.statements()
    scene.put(_changed(statements["summary"], **changes), statements["result"])
    assert not _counts(scene.ask()[1])


# --- the checks that a verdict was given by


def test_a_summary_of_an_older_imagegate_does_not_count(scene: Scene) -> None:
    """Row 19: a statement that does not say how strict its checks were."""
    statements = scene.judged.statements()
    policy = json.loads(statements["summary"].payload)["predicate"]["policy"]
    old = {**policy, "annotations": {"recipe": policy["annotations"]["recipe"]}}
    scene.put(_changed(statements["summary"], policy=old), statements["result"])
    _, heard = scene.ask()
    assert not _counts(heard)
    assert "expected=revisions found=nothing; an older imagegate gave it" in heard.text


@pytest.mark.parametrize("revision", ["older", "absent", "zero", "text"])
def test_one_laxer_check_is_enough(scene: Scene, revision: str) -> None:
    today = revisions()
    name = next(name for name, number in today.items() if number > 1)
    changed: dict[str, Any] = dict(today)
    if revision == "absent":
        del changed[name]
    else:
        changed[name] = {"older": today[name] - 1, "zero": 0, "text": str(today[name])}[revision]
    statements = scene.judged.statements(checks=changed)
    scene.put(statements["summary"], statements["result"])
    _, heard = scene.ask()
    assert not _counts(heard)
    if revision in ("older", "absent"):
        was = today[name] - 1 if revision == "older" else "nothing"
        assert f"expected={name} {today[name]} found={name} {was}" in heard.text


def test_a_stricter_gates_verdict_counts(scene: Scene) -> None:
    later = {name: number + 1 for name, number in revisions().items()}
    statements = scene.judged.statements(checks={**later, "not.yet": 1})
    scene.put(statements["summary"], statements["result"])
    assert _counts(scene.ask()[1])


# --- the details, where the summary is right: each guard alone


def _accepted(verdict: ImageVerdict, expires: date) -> ImageVerdict:
    """The same verdict with a failure that a waiver accepts until then."""
    failing = with_failure(verdict, message="moved", locked="1", found="2")
    accepted = Acceptance(reason="r", expires=expires, days_left=1)

    def waived(report: CheckReport) -> CheckReport:
        return replace(
            report,
            findings=tuple(
                replace(one, severity=Severity.WAIVED, accepted=accepted)
                if one.severity is Severity.FAIL
                else one
                for one in report.findings
            ),
        )

    return replace(failing, reports=tuple(map(waived, failing.reports)))


OTHER = Digest.of(b"another")
GUARDS: dict[str, tuple[Callable[[ImageVerdict], ImageVerdict], str]] = {
    "another image": (lambda v: replace(v, image=OTHER), "another image"),
    "another lock": (lambda v: replace(v, lock=OTHER), "another lock"),
    "another base": (lambda v: replace(v, base=OTHER), "another base"),
    "another recipe": (lambda v: replace(v, subject="other"), "another recipe"),
    "another platform": (lambda v: replace(v, platform="linux/amd64"), "another platform"),
    "another policy": (lambda v: replace(v, policy=OTHER), "another policy"),
    "no policy": (lambda v: replace(v, policy=None), "another policy"),
    "a failure": (lambda v: with_failure(v, message="moved"), "another result"),
    "a check left out": (lambda v: replace(v, skipped=("base.digest",)), "another result"),
    "a check that did not run": (
        lambda v: replace(v, reports=v.reports[1:]),
        "another set of checks",
    ),
    "an expired waiver": (
        lambda v: _accepted(v, NOW.date() - timedelta(days=1)),
        "a waiver has expired",
    ),
}


@pytest.mark.parametrize("guard", GUARDS)
def test_details_that_say_something_else_do_not_count(scene: Scene, guard: str) -> None:
    change, said = GUARDS[guard]
    statements = scene.judged.statements(details=change(scene.judged.verdict))
    scene.put(statements["summary"], statements["result"])
    _, heard = scene.ask()
    assert not _counts(heard)
    assert said in heard.text
    assert "expected=" in heard.text or "today=" in heard.text


def test_a_waiver_counts_on_its_last_day(scene: Scene) -> None:
    statements = scene.judged.statements(details=_accepted(scene.judged.verdict, NOW.date()))
    scene.put(statements["summary"], statements["result"])
    assert _counts(scene.ask()[1])


def test_a_summary_without_its_details_does_not_count(scene: Scene) -> None:
    scene.put(scene.judged.statements()["summary"])
    _, heard = scene.ask()
    assert not _counts(heard)
    assert "detailed verdict" in heard.text


def test_an_authentic_failure_outweighs_every_pass(scene: Scene) -> None:
    scene.sign()
    assert _counts(scene.ask()[1])
    failed = scene.judged.statements(verdict=with_failure(scene.judged.verdict))
    scene.put(failed["summary"], failed["result"])
    _, heard = scene.ask()
    assert not _counts(heard)
    assert "it says FAILED" in heard.text


def test_garbage_beside_the_image_hides_no_verdict_and_stops_nothing(scene: Scene) -> None:
    scene.sign()
    descriptor = {"mediaType": MANIFEST, "digest": str(scene.subject.digest), "size": 1}
    for content in (b"", b"{}", b"[]", b'{"mediaType":1}', b"\xff"):
        scene.store.put_blob(content)
        scene.store.push_referrer(
            bundle_manifest(content, SUMMARY_TYPE, descriptor, created="2026"), MANIFEST
        )
    assert _counts(scene.ask()[1])


# --- indexes


def _wrap(scene: Scene, folder: Path) -> Digest:
    """Put the image into a new index, as ``imagetools create`` does (opslane/opslane#186)."""
    shutil.copytree(scene.layout, folder)
    manifest = (folder / "blobs/sha256" / scene.subject.digest.encoded).read_bytes()
    platform = {"os": "linux", "architecture": "arm64"}
    entry = {"mediaType": MANIFEST, "digest": str(scene.subject.digest), "size": len(manifest)}
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{**entry, "platform": platform}],
    }
    content = json.dumps(index).encode()
    digest = LayoutStore(folder).put_blob(content)
    listed = json.loads((folder / "index.json").read_text())
    others = [e for e in listed["manifests"] if e["digest"] != str(scene.subject.digest)]
    outer = {"mediaType": index["mediaType"], "digest": str(digest), "size": len(content)}
    (folder / "index.json").write_text(json.dumps({**listed, "manifests": [outer, *others]}))
    return digest


def test_a_summary_of_the_platforms_manifest_counts_where_an_index_is_pinned(
    scene: Scene, tmp_path: Path
) -> None:
    scene.sign()
    folder = tmp_path / "wrapped"
    index = _wrap(scene, folder)
    heard = Heard()
    verify_attested(
        calling(scene.workspace, now=NOW, reporter=heard),
        "served",
        image=f"oci:{folder}@{index}",
        verifier=scene.signer.verifier,
        max_age=WEEK,
    )
    assert _counts(heard)


def test_a_summary_of_the_index_alone_does_not_count_for_the_manifest(
    scene: Scene, tmp_path: Path
) -> None:
    folder = tmp_path / "wrapped"
    index = _wrap(scene, folder)
    statements = scene.judged.statements()
    predicate = json.loads(statements["summary"].payload)["predicate"]
    about_index = Subject(repository=scene.subject.repository, digest=index)
    store = LayoutStore(folder)
    signed = [
        make_statement(about_index, SUMMARY_TYPE, predicate),
        make_statement(
            about_index,
            statements["result"].predicate_type,
            json.loads(statements["result"].payload)["predicate"],
        ),
    ]
    publish(store, about_index, signed, scene.signer, created="2026")
    heard = Heard()
    verify_attested(
        calling(scene.workspace, now=NOW, reporter=heard),
        "served",
        image=f"oci:{folder}@{index}",
        verifier=scene.signer.verifier,
        max_age=WEEK,
    )
    assert not _counts(heard)


def test_a_signed_image_that_is_pinned_by_an_index_is_signed_under_both_digests(
    scene: Scene, tmp_path: Path
) -> None:
    folder = tmp_path / "wrapped"
    index = _wrap(scene, folder)
    location = f"oci:{folder}@{index}"
    verdict, evidence = verify_recipe(
        calling(scene.workspace, today=date(2026, 11, 29), reporter=Heard()),
        "served",
        image=location,
    )
    assert open_image(location).image.index_digest == index
    published = sign_verdict(
        scene.workspace,
        Judgement.now(verdict, evidence, NOW),
        store=LayoutStore(folder),
        signer=scene.signer,
        reporter=Heard(),
    )
    assert [one.subject for one in published] == [scene.subject.digest, index]


# --- writing


@pytest.mark.parametrize("algorithm", ["ed25519", "ecdsa-p256"])
def test_a_second_run_writes_the_same_bytes(judged: Judged, tmp_path: Path, algorithm: Any) -> None:
    scene = Scene(judged, tmp_path / "one", generate(algorithm))

    def files() -> dict[str, bytes]:
        found = sorted(path for path in scene.layout.rglob("*") if path.is_file())
        return {str(path.relative_to(scene.layout)): path.read_bytes() for path in found}

    scene.sign()
    first = files()
    scene.sign()
    assert files() == first


def test_what_another_key_signed_stays(scene: Scene) -> None:
    other = generate("ecdsa-p256")
    scene.put(*scene.judged.statements().values(), signer=other)
    scene.sign()
    assert _counts(scene.ask()[1])
    assert _counts(scene.ask(signer=other)[1])
    content = scene.store.find_manifest(classic_tag(scene.subject.digest, "sig"))
    assert content is not None
    assert len({json.dumps(layer) for layer in json.loads(content)["layers"]}) == 2


def test_a_signed_layout_still_holds_one_image(scene: Scene) -> None:
    scene.sign()
    assert open_image(f"oci:{scene.layout}").image.digest == scene.subject.digest


def test_writers_at_the_same_time_lose_nothing(scene: Scene) -> None:
    from concurrent.futures import ThreadPoolExecutor

    signers = [generate("ed25519") for _ in range(8)]
    statements = scene.judged.statements()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda signer: scene.put(*statements.values(), signer=signer), signers))
    assert len(scene.store.referrers(scene.subject.digest)) == 8 * 6
    content = scene.store.find_manifest(classic_tag(scene.subject.digest, "att"))
    assert content is not None
    assert len(json.loads(content)["layers"]) == 8 * 5
    for signer in signers:
        assert _counts(scene.ask(signer=signer)[1])
