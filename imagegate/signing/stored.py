"""What is signed by a key and kept beside an image, and whether a stored verdict counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imagegate.attestation.result import StoredResult, stored_result
from imagegate.attestation.statement import (
    ENVELOPE_LIMIT,
    PAYLOAD_TYPE,
    SUMMARY_TYPE,
    TEST_RESULT_TYPE,
    Envelope,
    ReadStatement,
    compact_json,
    parse_envelope,
    parse_statement,
)
from imagegate.attestation.summary import examine, is_failure
from imagegate.errors import AttestationError, ImageError
from imagegate.oci.documents import Manifest, parse_document, parse_json
from imagegate.signing.forms import BUNDLE, DSSE_ENVELOPE, classic_tag

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from imagegate.attestation.summary import Expectation
    from imagegate.oci.digest import Digest
    from imagegate.signing.keys import Verifier
    from imagegate.signing.store import ArtifactStore

# whoever can write beside the image can write many; a key's owner writes few
_ARTIFACTS = 1000


class _PublicKey(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    hint: str = ""


class _Material(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    public_key: _PublicKey | None = Field(default=None, alias="publicKey")


class _Bundle(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    media_type: str = Field(alias="mediaType")
    material: _Material = Field(alias="verificationMaterial")
    envelope: dict[str, object] = Field(alias="dsseEnvelope")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVerdict:
    """A stored verdict that counts.

    Attributes:
        result: the detailed verdict.
        verified_at: when it was given.
        where: what it was read from.
    """

    result: StoredResult
    verified_at: datetime
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What was found beside an image.

    Attributes:
        verdict: the newest that counts, ``None`` for none.
        reasons: why what else was there does not count.
    """

    verdict: StoredVerdict | None
    reasons: tuple[str, ...]


def look_up(store: ArtifactStore, verifier: Verifier, expected: Expectation) -> Lookup:
    """Look for a stored verdict that counts, in both forms.

    A summary counts if its signature is the key's, and if subject, predicate type, policy,
    checks and age are the expected ones; then the detailed verdict that it names has to be there,
    signed by the same key. One authentic failure under the same policy outweighs every pass.

    Raises:
        FetchError: the registry refuses or fails.
    """
    reasons: list[str] = []
    statements = list(_authentic(store, verifier, expected, reasons))
    details = {s.digest: s for _, s in statements if s.predicate_type == TEST_RESULT_TYPE}
    found: list[StoredVerdict] = []
    for where, statement in statements:
        if statement.predicate_type != SUMMARY_TYPE:
            continue
        if is_failure(statement, expected):
            return Lookup(verdict=None, reasons=(*reasons, f"{where}: it says FAILED"))
        try:
            found.append(_counted(where, statement, details, expected))
        except AttestationError as error:
            reasons.append(f"{where}: {error.message}")
    newest = max(found, key=lambda one: one.verified_at, default=None)
    return Lookup(verdict=newest, reasons=tuple(reasons))


def _counted(
    where: str,
    statement: ReadStatement,
    details: dict[Digest, ReadStatement],
    expected: Expectation,
) -> StoredVerdict:
    counted = examine(statement, expected)
    detail = details.get(counted.result)
    if detail is None or expected.subject.digest not in detail.subjects:
        raise AttestationError(f"the detailed verdict {counted.result} is not beside it")
    return StoredVerdict(result=stored_result(detail), verified_at=counted.verified_at, where=where)


def _authentic(
    store: ArtifactStore, verifier: Verifier, expected: Expectation, reasons: list[str]
) -> Iterator[tuple[str, ReadStatement]]:
    """Read every statement whose signature is the key's; say why others are left out."""
    subject = expected.subject
    targets = [subject.digest] + ([subject.index] if subject.index is not None else [])
    for target in targets:
        for where, envelope in envelopes(store, target, reasons):
            # SLSA, "Verifying VSAs", step 1: nothing is read out of a payload before this
            if envelope.payload_type != PAYLOAD_TYPE:
                reasons.append(f"{where}: its payload is `{envelope.payload_type}`")
            elif not any(verifier.verify(sig, envelope.signed) for sig in envelope.signatures):
                reasons.append(f"{where}: it is not signed by the key {verifier.fingerprint}")
            else:
                try:
                    yield where, parse_statement(envelope.payload, where)
                except AttestationError as error:
                    reasons.append(f"{where}: {error.message}")


def envelopes(
    store: ArtifactStore, target: Digest, reasons: list[str]
) -> Iterator[tuple[str, Envelope]]:
    """Read the envelopes of both forms, whoever signed them; neither hides the other.

    Args:
        store: where they are.
        target: the manifest that they are about.
        reasons: takes why others are left out.
    """
    try:
        yield from _classic(store, target, reasons)
    except ImageError as error:
        reasons.append(f"the tag `{classic_tag(target, 'att')}`: {error.message}")
    for where, content in bundles(store, target, reasons):
        try:
            yield where, _enveloped(content, where)
        except (ImageError, AttestationError) as error:
            reasons.append(f"{where}: {error.message}")


def bundles(
    store: ArtifactStore, target: Digest, reasons: list[str]
) -> Iterator[tuple[str, bytes]]:
    """Read the Sigstore bundles that refer to a manifest, whoever signed them.

    Args:
        store: where they are.
        target: the manifest that they are about.
        reasons: takes why others are left out.
    """
    try:
        descriptors = store.referrers(target, BUNDLE)
    except ImageError as error:
        reasons.append(f"the referrers of {target}: {error.message}")
        return
    for descriptor in descriptors[:_ARTIFACTS]:
        where = f"the referrer {descriptor.digest}"
        try:
            content = store.find_manifest(descriptor.digest)
            if content is not None:
                yield where, _bundled(store, content, target, where)
        except (ImageError, AttestationError) as error:
            reasons.append(f"{where}: {error.message}")


def _classic(
    store: ArtifactStore, target: Digest, reasons: list[str]
) -> Iterator[tuple[str, Envelope]]:
    tag = classic_tag(target, "att")
    content = store.find_manifest(tag)
    if content is None:
        return
    manifest = parse_document(Manifest, content, f"the manifest `{tag}`")
    for number, layer in enumerate(manifest.layers[:_ARTIFACTS], 1):
        where = f"`{tag}` layer {number}"
        if layer.media_type != DSSE_ENVELOPE or layer.size > ENVELOPE_LIMIT:
            reasons.append(f"{where}: it is `{layer.media_type}` of {layer.size} bytes")
            continue
        try:
            yield where, parse_envelope(store.read_blob(layer), where)
        except (ImageError, AttestationError) as error:
            reasons.append(f"{where}: {error.message}")


def _bundled(store: ArtifactStore, content: bytes, target: Digest, where: str) -> bytes:
    """Read the one bundle that a referrer holds."""
    document = parse_json(content, where)
    named = document.get("subject")
    if not isinstance(named, dict) or named.get("digest") != str(target):
        raise AttestationError("it names another subject than it is listed under")
    manifest = parse_document(Manifest, content, where)
    if len(manifest.layers) != 1 or manifest.layers[0].size > ENVELOPE_LIMIT:
        raise AttestationError("it is not one bundle")
    return store.read_blob(manifest.layers[0])


def _enveloped(text: bytes, where: str) -> Envelope:
    """Read the envelope out of a bundle (Sigstore bundle; exactly one signature)."""
    try:
        found = _Bundle.model_validate(parse_json(text, where))
    except ValidationError as error:
        raise AttestationError("it is not a Sigstore bundle with an envelope") from error
    if not found.media_type.startswith("application/vnd.dev.sigstore.bundle"):
        raise AttestationError(f"it is `{found.media_type}`")
    envelope = parse_envelope(compact_json(found.envelope), where)
    if len(envelope.signatures) != 1:
        raise AttestationError(f"its envelope has {len(envelope.signatures)} signatures, not one")
    return envelope
