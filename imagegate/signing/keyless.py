"""Signing without a key: a certificate for the identity that the CI hands out, through Sigstore.

The identity is an OpenID Connect token that the surroundings give (inside GitHub Actions: to jobs
with ``id-token: write``). Fulcio certifies a key that lives as long as this process for it, Rekor
logs what it signed. No browser is opened and nobody is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.errors import AttestationError
from imagegate.localfiles import read_regular_text
from imagegate.signing.keys import KeyVerifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sigstore.models import ClientTrustConfig
    from sigstore.oidc import IdentityToken

    from imagegate.signing.keys import Verifier


class KeylessSigner:
    """Signs as the workload that this process is.

    Args:
        trust: which Sigstore instance: its client trust configuration, Sigstore's public one if
            ``None``.

    Raises:
        AttestationError: `sigstore` is not installed, the surroundings hand out no identity, or
            the configuration cannot be used.
    """

    def __init__(self, trust: Path | None = None) -> None:
        self._trust = trust
        # asked now, so that a job without the right stops before anything is judged or pushed
        token = _ambient_token()
        self.identity = token.identity
        self.issuer = token.federated_issuer

    def bundles(self, payloads: Sequence[bytes]) -> tuple[list[bytes], Verifier]:
        """Sign in-toto statements with one certificate; see :class:`BundleSigner`.

        Returns:
            Sigstore bundles v0.3 with certificate and log entry, one a statement in their order;
            and the certificate's key.

        Raises:
            AttestationError: there is no identity any more, no certificate or no log entry.
        """
        from sigstore.dsse import Statement
        from sigstore.sign import SigningContext

        context = SigningContext.from_trust_config(_read_config(self._trust))
        # judging and pushing take longer than a token lives: it is asked for again
        token = _ambient_token()
        try:
            with context.signer(token, cache=True) as signer:
                made = [signer.sign_dsse(Statement(payload)) for payload in payloads]
        except Exception as error:  # its own tree does not cover what its clients raise
            raise AttestationError(
                f"Sigstore did not sign for `{token.identity}`: {said(error)}",
                hint="see https://status.sigstore.dev, and run again: nothing was published",
            ) from error
        key = made[0].signing_certificate.public_key()
        return [bundle.to_json().encode() for bundle in made], KeyVerifier.of(key)


def _ambient_token() -> IdentityToken:
    try:
        from sigstore.oidc import IdentityError, IdentityToken, detect_credential
    except ImportError as error:
        raise AttestationError(
            "signing without a key needs the package `sigstore`",
            hint="install `imagegate[keyless]`, or sign with `--sign KEYFILE`",
        ) from error
    try:
        text = detect_credential()
        if text is None:
            raise AttestationError(
                "there is no identity to sign with: nothing around this process hands one out",
                hint="run in a GitHub Actions job with `permissions: id-token: write`, "
                "or sign with `--sign KEYFILE`",
            )
        return IdentityToken(text)
    except IdentityError as error:
        raise AttestationError(
            f"the surroundings refuse an identity to sign with: {said(error)}",
            hint="the job needs `permissions: id-token: write`; "
            "a pull request from a fork does not get it",
        ) from error


def trust_config(
    text: str | None, *, where: str = "the Sigstore instance", offline: bool = False
) -> ClientTrustConfig:
    """Read which Sigstore instance is meant.

    Args:
        text: a ClientTrustConfig v0.1; ``None`` for the public instance.
        where: what the text was read from.
        offline: take the public instance's as this machine has it.

    Raises:
        AttestationError: it cannot be had or used.
    """
    from sigstore.errors import Error
    from sigstore.models import ClientTrustConfig

    try:
        if text is None:
            return ClientTrustConfig.production(offline=offline)
        return ClientTrustConfig.from_json(text)
    except (Error, ValueError, OSError) as error:
        named = where if text is not None else "Sigstore's public instance"
        raise AttestationError(
            f"the trust configuration of {named} cannot be used: {said(error)}",
            hint="it is fetched through TUF from `tuf-repo-cdn.sigstore.dev`"
            if text is None
            else "it has to be a ClientTrustConfig v0.1 as JSON",
        ) from error


def _read_config(path: Path | None) -> ClientTrustConfig:
    if path is None:
        return trust_config(None)
    try:
        text = read_regular_text(path)
    except (OSError, ValueError) as error:
        raise AttestationError(
            f"the trust configuration of `{path}` cannot be used: {said(error)}",
            hint="it has to be a ClientTrustConfig v0.1 as JSON",
        ) from error
    return trust_config(text, where=f"`{path}`")


def said(error: BaseException) -> str:
    """Tell what an error and its causes say, in one line and without what a token would be."""
    texts = [" ".join(str(one).split()) or type(one).__name__ for one in _causes(error)]
    return ": ".join(dict.fromkeys(texts))[:300]


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__
