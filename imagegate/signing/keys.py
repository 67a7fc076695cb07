"""Keys out of files: Ed25519 and ECDSA over P-256, as PKCS#8 or in cosign's encrypted form."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from imagegate.errors import AttestationError, UsageError
from imagegate.localfiles import open_regular, read_regular
from imagegate.oci.digest import Digest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

    PrivateKey = Ed25519PrivateKey | EllipticCurvePrivateKey
    PublicKey = Ed25519PublicKey | EllipticCurvePublicKey

Algorithm = Literal["ed25519", "ecdsa-p256"]
# a key file is small; whatever is larger is none
_KEY_LIMIT = 64 << 10
_COSIGN_MARKERS = (b"ENCRYPTED SIGSTORE PRIVATE KEY", b"ENCRYPTED COSIGN PRIVATE KEY")


class Signer(Protocol):
    """Signs bytes; the same bytes get the same signature."""

    @property
    def verifier(self) -> Verifier:
        """What verifies its signatures."""

    def sign(self, content: bytes) -> bytes:
        """Sign `content`."""


class Verifier(Protocol):
    """Verifies signatures of one key."""

    @property
    def hint(self) -> str:
        """The key's name in a Sigstore bundle."""

    @property
    def fingerprint(self) -> Digest:
        """Digest of the public key's DER form."""

    def verify(self, signature: bytes, content: bytes) -> bool:
        """Say whether `signature` is the key's over `content`."""


@runtime_checkable
class BundleSigner(Protocol):
    """Signs statements without a key of one's own, each into a whole Sigstore bundle."""

    def bundles(self, payloads: Sequence[bytes]) -> tuple[list[bytes], Verifier]:
        """Sign statements; returns a bundle each, and what verifies the signatures in them.

        Raises:
            AttestationError: there is no identity any more, no certificate or no log entry.
        """


class KeyVerifier:
    """A public key."""

    def __init__(self, key: PublicKey) -> None:
        self._key = key

    @classmethod
    def of(cls, key: object) -> KeyVerifier:
        """Take a key of a certificate.

        Raises:
            AttestationError: it is of a kind that is not used here.
        """
        return cls(_usable_public(key, "the certificate's key"))

    @property
    def fingerprint(self) -> Digest:
        """Digest of the key's SubjectPublicKeyInfo."""
        return Digest.of(self._der())

    @property
    def hint(self) -> str:
        """Base64 of the fingerprint, as cosign writes it."""
        return base64.b64encode(hashlib.sha256(self._der()).digest()).decode()

    @property
    def pem(self) -> bytes:
        """The key as PEM."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def verify(self, signature: bytes, content: bytes) -> bool:
        """Say whether `signature` is this key's over `content`."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
        from cryptography.hazmat.primitives.hashes import SHA256

        try:
            if isinstance(self._key, EllipticCurvePublicKey):
                self._key.verify(signature, content, ECDSA(SHA256()))
            else:
                self._key.verify(signature, content)
        except InvalidSignature:
            return False
        return True

    def _der(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


class KeySigner:
    """A private key; its text form shows nothing of it."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key

    @property
    def verifier(self) -> KeyVerifier:
        """The public half."""
        return KeyVerifier(self._key.public_key())

    @property
    def pem(self) -> bytes:
        """The key as unencrypted PKCS#8 PEM."""
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, content: bytes) -> bytes:
        """Sign `content`; ECDSA takes its nonce from key and content (RFC 6979)."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.hashes import SHA256

        if isinstance(self._key, EllipticCurvePrivateKey):
            return self._key.sign(content, ECDSA(SHA256(), deterministic_signing=True))
        return self._key.sign(content)

    def __repr__(self) -> str:
        return f"KeySigner({self.verifier.fingerprint})"


def generate(algorithm: Algorithm) -> KeySigner:
    """Make a new key."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if algorithm == "ed25519":
        return KeySigner(Ed25519PrivateKey.generate())
    return KeySigner(generate_private_key(SECP256R1()))


def write_pair(signer: KeySigner, private: Path, public: Path) -> None:
    """Write a key and its public half; nobody else may read the key, nothing is replaced.

    Raises:
        UsageError: one of the files exists.
    """
    made: list[Path] = []
    try:
        for path, mode, content in (
            (private, 0o600, signer.pem),
            (public, 0o644, signer.verifier.pem),
        ):
            # with its mode from the first moment on: a later chmod would leave a gap
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            made.append(path)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
    except BaseException as error:
        # half a pair is worse than none
        for path in made:
            path.unlink(missing_ok=True)
        if isinstance(error, FileExistsError):
            raise UsageError(
                f"`{error.filename}` exists", hint="name another file; a key is never replaced"
            ) from error
        raise


def read_signer(path: Path, *, passphrase: bytes | None = None) -> KeySigner:
    """Read a private key.

    Args:
        path: a file that only its owner can read: PKCS#8 or cosign's form, PEM.
        passphrase: where the key is encrypted.

    Raises:
        AttestationError: others can read the file, or it holds no key that can be used.
    """
    content = _read_private(path)
    if any(marker in content for marker in _COSIGN_MARKERS):
        from imagegate.signing.cosignkey import decrypt

        return KeySigner(_private_key(decrypt(content, passphrase, str(path)), None, path))
    return KeySigner(_private_key(content, passphrase, path))


def read_verifier(path: Path) -> KeyVerifier:
    """Read a public key.

    Raises:
        UsageError: there is no such file.
        AttestationError: it holds no public key that can be used.
    """
    try:
        content = read_regular(path)
    except OSError as error:
        raise UsageError(f"cannot read the key `{path}`: {error.strerror}") from error
    return parse_verifier(content, f"`{path}`")


def parse_verifier(content: bytes, what: str) -> KeyVerifier:
    """Read a public key from its PEM.

    Raises:
        AttestationError: it is not a usable public key.
    """
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(content)
    except (ValueError, TypeError) as error:
        hint = "give the public half, `*.pub`" if b"PRIVATE" in content else None
        raise AttestationError(f"{what} holds no public key as PEM", hint=hint) from error
    return KeyVerifier(_usable_public(key, f"the key {what}"))


def _read_private(path: Path) -> bytes:
    """Read the file whose mode was looked at, not one that took its place in between."""
    try:
        opened = open_regular(path)
    except OSError as error:
        raise UsageError(f"cannot read the key `{path}`: {error.strerror}") from error
    with opened as stream:
        status = os.fstat(stream.fileno())
        if status.st_mode & 0o077:
            raise AttestationError(
                f"others than the owner can get at the key `{path}`: "
                f"allowed=600 found={stat.S_IMODE(status.st_mode):o}",
                hint=f"run `chmod 600 {path}`, and think about who read it",
            )
        return stream.read(_KEY_LIMIT)


def _private_key(content: bytes, passphrase: bytes | None, path: Path) -> PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        load_der_private_key,
        load_pem_private_key,
    )

    load = load_pem_private_key if content.startswith(b"-----") else load_der_private_key
    try:
        key = load(content, passphrase)
    except TypeError as error:
        # cryptography says so when a passphrase is missing, and when there is one too many
        needed = "needs a passphrase" if passphrase is None else "is not encrypted"
        raise AttestationError(f"the key `{path}` {needed}") from error
    except ValueError as error:
        raise AttestationError(
            f"`{path}` holds no private key, or the passphrase is another"
        ) from error
    if isinstance(key, Ed25519PrivateKey):
        return key
    if isinstance(key, EllipticCurvePrivateKey) and isinstance(key.curve, SECP256R1):
        return key
    raise _unsupported(f"the key `{path}`")


def _usable_public(key: object, what: str) -> PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if isinstance(key, Ed25519PublicKey):
        return key
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return key
    raise _unsupported(what)


def _unsupported(what: str) -> AttestationError:
    return AttestationError(
        f"{what} is neither Ed25519 nor ECDSA over P-256", hint="run `imagegate keygen`"
    )
