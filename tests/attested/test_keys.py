"""Keys come from files that nobody else can read, and sign the same bytes the same way."""

from __future__ import annotations

import stat
import subprocess
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from imagegate.cli import run
from imagegate.errors import AttestationError, UsageError
from imagegate.signing.keys import Algorithm, generate, read_signer, read_verifier, write_pair

if TYPE_CHECKING:
    from pathlib import Path

ALGORITHMS: tuple[Algorithm, ...] = ("ed25519", "ecdsa-p256")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signature_is_the_same_twice_and_holds_for_its_bytes_and_key_alone(
    algorithm: Algorithm,
) -> None:
    signer, other = generate(algorithm), generate(algorithm)
    signature = signer.sign(b"content")
    assert signature == signer.sign(b"content")
    assert signer.verifier.verify(signature, b"content")
    assert not signer.verifier.verify(signature, b"Content")
    assert not signer.verifier.verify(b"", b"content")
    assert not other.verifier.verify(signature, b"content")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_keygen_writes_a_pair_that_only_its_owner_can_use(
    tmp_path: Path, algorithm: Algorithm
) -> None:
    assert run(["keygen", str(tmp_path / "release"), "--algorithm", algorithm]) == 0
    key, public = tmp_path / "release.key", tmp_path / "release.pub"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    signature = read_signer(key).sign(b"x")
    assert read_verifier(public).verify(signature, b"x")


def test_keygen_never_replaces_a_key(tmp_path: Path) -> None:
    prefix = tmp_path / "release"
    assert run(["keygen", str(prefix)]) == 0
    before = (tmp_path / "release.key").read_bytes()
    assert run(["keygen", str(prefix)]) == 2
    assert (tmp_path / "release.key").read_bytes() == before


def test_keygen_shows_nothing_of_the_private_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["keygen", str(tmp_path / "release")])
    shown = "".join(capsys.readouterr())
    secret = (tmp_path / "release.key").read_text().splitlines()[1]
    assert secret not in shown
    assert secret not in repr(read_signer(tmp_path / "release.key"))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o601])
def test_a_key_that_others_can_get_at_is_refused(tmp_path: Path, mode: int) -> None:
    key = tmp_path / "k.key"
    write_pair(generate("ed25519"), key, tmp_path / "k.pub")
    key.chmod(mode)
    with pytest.raises(AttestationError, match="others than the owner") as raised:
        read_signer(key)
    assert raised.value.hint is not None
    assert "chmod 600" in raised.value.hint


def _private(path: Path, content: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    # neither is what this tool, or cosign by default, signs with
    others: list[rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey] = [
        rsa.generate_private_key(public_exponent=65537, key_size=2048),
        ec.generate_private_key(ec.SECP384R1()),
    ]
    for number, other in enumerate(others):
        pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        public = other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        with pytest.raises(AttestationError, match="neither Ed25519 nor ECDSA"):
            read_signer(_private(tmp_path / f"{number}.key", pem))
        with pytest.raises(AttestationError, match="neither Ed25519 nor ECDSA"):
            read_verifier(_private(tmp_path / f"{number}.pub", public))


def test_an_encrypted_key_needs_its_own_passphrase(tmp_path: Path) -> None:
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"right")
    )
    key = _private(tmp_path / "k.key", pem)
    assert read_signer(key, passphrase=b"right").sign(b"x")
    for wrong in (b"wrong", None):
        with pytest.raises(AttestationError, match="passphrase"):
            read_signer(key, passphrase=wrong)


def test_what_is_no_key_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the key"):
        read_signer(tmp_path / "absent.key")
    with pytest.raises(AttestationError, match="no private key"):
        read_signer(_private(tmp_path / "k.key", b"not a key"))
    write_pair(generate("ed25519"), tmp_path / "a.key", tmp_path / "a.pub")
    with pytest.raises(AttestationError, match="no public key") as raised:
        read_verifier(tmp_path / "a.key")
    assert raised.value.hint == "give the public half, `*.pub`"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_openssl_agrees_on_the_signature(tmp_path: Path, algorithm: Algorithm) -> None:
    signer = generate(algorithm)
    write_pair(signer, tmp_path / "k.key", tmp_path / "k.pub")
    (tmp_path / "content").write_bytes(b"content")
    (tmp_path / "signature").write_bytes(signer.sign(b"content"))
    raw = ["-rawin"] if algorithm == "ed25519" else ["-rawin", "-digest", "sha256"]
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "k.pub", *raw]
    verified = subprocess.run(
        [*command, "-in", "content", "-sigfile", "signature"], cwd=tmp_path, check=False
    )
    assert verified.returncode == 0
