"""Verifying what was signed without a key: by the identity that Sigstore certified for the signer.

The steps are those of the Sigstore client specification, "Verification", and the library's: the
certificate chains to the instance's authority and was valid when it was used, its log entry is
there and consistent, and it is for exactly this identity of exactly this issuer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.errors import AttestationError, UsageError
from imagegate.localfiles import read_regular_text
from imagegate.signing.keyless import said, trust_config
from imagegate.signing.keys import KeyVerifier

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityVerifier:
    """An identity that counts.

    Attributes:
        identity: the certificate's subject alternative name, whole: an address or, of a CI job,
            the URI of its workflow with the reference that it ran for.
        issuer: URL of the OpenID Connect issuer that vouched for it.
        config: the Sigstore instance as text of a ClientTrustConfig v0.1; ``None`` for the public
            one.
    """

    identity: str
    issuer: str
    config: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """Name identity and issuer in one line."""
        return f"{self.identity} of {self.issuer}"

    def verify(self, bundle: bytes, *, offline: bool = False) -> tuple[str, bytes]:
        """Verify a Sigstore bundle with an envelope.

        Args:
            bundle: its JSON.
            offline: take the public instance's trusted root as this machine has it, without
                asking whether there is a newer one.

        Returns:
            Payload type and payload; nothing of them is judged.

        Raises:
            AttestationError: it is not signed by this identity, or cannot be verified.
        """
        try:
            from sigstore.models import Bundle
            from sigstore.verify import Verifier
            from sigstore.verify.policy import Identity
        except ImportError as error:
            raise AttestationError(
                "verifying an identity needs the package `sigstore`",
                hint="install `imagegate[keyless]`",
            ) from error
        config = trust_config(self.config, offline=offline)
        try:
            verifier = Verifier(trusted_root=config.trusted_root)
            policy = Identity(identity=self.identity, issuer=self.issuer)
            return verifier.verify_dsse(Bundle.from_json(bundle), policy)
        except Exception as error:  # its own tree does not cover what its parsers raise
            raise AttestationError(f"it is not signed by {self}: {said(error)}") from error


Trusted = KeyVerifier | IdentityVerifier


def read_identity(identity: str, issuer: str, config: Path | None) -> IdentityVerifier:
    """Take an identity, and read the Sigstore instance that certifies it.

    Raises:
        UsageError: one of them is empty, or the file cannot be read.
    """
    if not identity or not issuer.startswith(("https://", "http://")):
        raise UsageError(
            f"`{identity}` of `{issuer}` is not an identity and its issuer",
            hint="give both: the identity as the certificate has it, then the issuer's URL, for "
            "instance `https://token.actions.githubusercontent.com`",
        )
    if config is None:
        return IdentityVerifier(identity=identity, issuer=issuer)
    try:
        text = read_regular_text(config)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read the trust configuration `{config}`: {why}") from error
    return IdentityVerifier(identity=identity, issuer=issuer, config=text)
