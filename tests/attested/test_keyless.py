"""Signing with the identity of a CI job: found or said to be absent, sent as Sigstore asks, kept."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from sigstore.models import Bundle, ClientTrustConfig
from sigstore.verify import Verifier
from sigstore.verify.policy import Identity

from imagegate.attestation.statement import SIGNATURE_TYPE, SUMMARY_TYPE
from imagegate.cli import run
from imagegate.signing.forms import BUNDLE
from imagegate.signing.layout import LayoutStore
from tests.attested.cases import Judged
from tests.attested.peers import cosigns, run as run_program
from tests.attested.sigstore_site import IDENTITY, ISSUER, SigstoreSite
from tests.registry_source.peers import docker_registry
from tests.workspaces import Built

# what the ambient detection of other CIs looks at too (pypi.org/project/id)
_AMBIENT = (
    "GITHUB_ACTIONS",
    "BUILDKITE",
    "GITLAB_CI",
    "CIRCLECI",
    "GOOGLE_APPLICATION_CREDENTIALS",
)


@pytest.fixture
def root(built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*_AMBIENT, "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "workspace"
    shutil.copytree(built.root, folder)
    return folder


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, root: Path) -> Iterator[SigstoreSite]:
    """A job with ``id-token: write`` whose Sigstore is on loopback."""
    with SigstoreSite().running() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        (root.parent / "trust.json").write_text(json.dumps(running.trust_config))
        yield running


def _promote(root: Path) -> int:
    trust = str(root.parent / "trust.json")
    arguments = ["promote", "served", "--keyless", "--trust-config", trust, "-w", str(root)]
    return run(arguments)


def _bundles(root: Path, judged: Judged) -> dict[str, bytes]:
    store = LayoutStore(root / "build/served")
    found = {}
    for descriptor in store.referrers(judged.subject.digest, BUNDLE):
        manifest = json.loads(store.find_manifest(descriptor.digest) or b"")
        (layer,) = manifest["layers"]
        blob = root / "build/served/blobs/sha256" / layer["digest"].removeprefix("sha256:")
        found[manifest["annotations"]["dev.sigstore.bundle.predicateType"]] = blob.read_bytes()
    return found


def test_without_the_extra_the_message_names_it_and_nothing_is_judged(root: Path) -> None:
    # an interpreter in which the package cannot be imported
    program = (
        "import sys; sys.modules['sigstore'] = None; sys.modules['sigstore.oidc'] = None\n"
        "from imagegate.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "promote", "served", "--keyless", "-w", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "needs the package `sigstore`" in done.stderr
    assert "imagegate[keyless]" in done.stderr
    assert done.stdout == ""


def test_outside_a_ci_the_message_says_what_is_missing_and_nothing_is_published(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["promote", "served", "--keyless", "-w", str(root)]) == 3
    said = capsys.readouterr()
    assert "nothing around this process hands one out" in said.err
    assert "id-token: write" in said.err
    assert said.out == ""
    assert not (root / "profiles").exists()


def test_a_job_without_the_permission_is_told_which(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # docs.github.com: without `id-token: write` the two variables of the token service are not set
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert run(["promote", "served", "--keyless", "-w", str(root)]) == 3
    assert "permissions: id-token: write" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--keyless", "--sign", "k.key"], "give one"),
        (["--trust-config", __file__], "about `--keyless`"),
        (["--keyless", "--rollback"], "nothing is signed"),
    ],
)
def test_contradicting_options_are_refused(
    root: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["promote", "served", "-w", str(root), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_trust_configuration_that_is_none_is_refused(
    site: SigstoreSite, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.url
    (root.parent / "trust.json").write_text("{}")
    assert _promote(root) == 3
    assert "cannot be used" in capsys.readouterr().err
    assert not (root / "profiles").exists()


def test_every_statement_becomes_a_bundle_that_sigstore_verifies_for_the_jobs_identity(
    site: SigstoreSite, root: Path, judged: Judged
) -> None:
    assert _promote(root) == 0

    bundles = _bundles(root, judged)
    assert {SIGNATURE_TYPE, SUMMARY_TYPE} < set(bundles)
    assert len(bundles) == 6
    config = ClientTrustConfig.from_json(json.dumps(site.trust_config))
    verifier = Verifier(trusted_root=config.trusted_root)
    for kind, content in bundles.items():
        document = json.loads(content)
        assert document["mediaType"] == BUNDLE
        bundle = Bundle.from_json(content)
        policy = Identity(identity=IDENTITY, issuer=ISSUER)
        payload_type, payload = verifier.verify_dsse(bundle, policy)
        assert payload_type == "application/vnd.in-toto+json"
        statement = json.loads(payload)
        assert statement["predicateType"] == kind
        assert statement["subject"][0]["digest"] == {"sha256": judged.subject.digest.encoded}
    assert (root / "profiles/served.env").is_file()


def test_what_is_asked_of_the_ca_and_the_log_is_what_their_interfaces_say(
    site: SigstoreSite, root: Path
) -> None:
    assert _promote(root) == 0

    paths = [target.partition("?")[0] for target, _, _ in site.requests]
    # the token is had before anything is judged and again before it is used; one certificate
    assert paths[:3] == ["/token", "/token", "/api/v2/signingCert"]
    assert paths[3:] == ["/api/v1/log/entries"] * 6
    _, headers, body = site.requests[2]
    scheme, _, token = headers["Authorization"].partition(" ")
    assert scheme == "Bearer"
    claims = token.split(".")[1]
    claims += "=" * (-len(claims) % 4)
    assert json.loads(base64.urlsafe_b64decode(claims))["aud"] == "sigstore"
    request = x509.load_pem_x509_csr(base64.b64decode(body["certificateSigningRequest"]))
    assert request.is_signature_valid


@pytest.mark.parametrize("refused", ["/token", "/api/v2/signingCert", "/api/v1/log/entries"])
def test_a_refusal_on_the_way_publishes_nothing_and_tells_no_token(
    site: SigstoreSite,
    root: Path,
    judged: Judged,
    refused: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site.refuse.add(refused)
    before = (root / "build/served/index.json").read_bytes()
    capsys.readouterr()

    assert _promote(root) == 3

    said = capsys.readouterr().err
    assert "hint:" in said
    assert "eyJ" not in said  # how every such token starts
    assert not (root / "profiles").exists()
    assert _bundles(root, judged) == {}
    index = json.loads((root / "build/served/index.json").read_bytes())
    assert len(index["manifests"]) == len(json.loads(before)["manifests"])


@pytest.mark.peers
def test_cosign_verifies_the_bundles_for_the_jobs_identity_and_for_no_other(
    site: SigstoreSite, root: Path, judged: Judged, tmp_path: Path
) -> None:
    cosign = cosigns()[-1]  # bundles as referrers are cosign 3's form
    home = tmp_path / "home"
    home.mkdir()
    (home / "root.json").write_text(json.dumps(site.trusted_root))
    folder = tmp_path / "registry"
    folder.mkdir()
    with docker_registry(folder) as registry:
        trust = ["--keyless", "--trust-config", str(root.parent / "trust.json")]
        to = ["--to", f"{registry}/team/served", "--base", f"oci:{root / 'base'}"]
        assert run(["promote", "served", "-w", str(root), *trust, *to]) == 0
        reference = f"{registry}/team/served@{judged.subject.digest}"
        for command in (["verify"], ["verify-attestation", "--type", SUMMARY_TYPE]):
            for identity, verified in ((IDENTITY, True), (IDENTITY + "x", False)):
                done = run_program(
                    home,
                    cosign,
                    *command,
                    "--allow-http-registry",
                    "--trusted-root",
                    str(home / "root.json"),
                    "--certificate-identity",
                    identity,
                    "--certificate-oidc-issuer",
                    ISSUER,
                    reference,
                    check=False,
                )
                assert (done.returncode == 0) == verified, done.stderr
