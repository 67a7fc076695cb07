"""in-toto Statement v1 and its DSSE envelope, as bytes in and bytes out."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imagegate.errors import AttestationError, ImageError
from imagegate.oci.digest import Digest
from imagegate.oci.documents import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
# an envelope of one image's statement; BuildKit caps an attestation at 40 MiB
ENVELOPE_LIMIT = 40 << 20

SUMMARY_TYPE = "https://slsa.dev/verification_summary/v1"
PROVENANCE_TYPE = "https://slsa.dev/provenance/v1"
TEST_RESULT_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
SBOM_TYPE = "https://cyclonedx.org/bom"
SPDX_TYPE = "https://spdx.dev/Document"
SIGNATURE_TYPE = "https://sigstore.dev/cosign/sign/v1"

# who writes these statements; a package URL is a URI, and it names what can be installed
TOOL = "pkg:pypi/imagegate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What statements are about.

    Attributes:
        repository: registry and repository, without tag and digest.
        digest: digest of the image's manifest.
        index: digest of the index that the image was pinned through, if any.
        architecture: the platform's architecture.
    """

    repository: str
    digest: Digest
    index: Digest | None = None
    architecture: str = ""

    @property
    def uri(self) -> str:
        """The image as a package URL of type ``oci``."""
        return image_purl(self.repository, self.digest, self.architecture)


def image_purl(repository: str, digest: Digest, architecture: str = "") -> str:
    """Name an image as a package URL (purl-spec, type ``oci``: digest as version)."""
    from urllib.parse import quote

    name = repository.rpartition("/")[2].lower()
    qualifiers = {"arch": architecture, "repository_url": repository}
    written = "&".join(
        f"{key}={quote(value, safe='/:')}" for key, value in qualifiers.items() if value
    )
    return f"pkg:oci/{name}@{quote(str(digest), safe='')}?{written}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement, as the bytes that are signed.

    Attributes:
        predicate_type: URI of what is stated.
        payload: the statement's JSON.
    """

    predicate_type: str
    payload: bytes

    @property
    def digest(self) -> Digest:
        """Digest of the payload."""
        return Digest.of(self.payload)


def make_statement(
    subject: Subject, predicate_type: str, predicate: Mapping[str, object]
) -> Statement:
    """Write a statement (in-toto Statement v1); the same arguments give the same bytes.

    Both the manifest and the index, where there is one, are subjects: a verifier matches any of
    them by its digest.
    """
    digests = [subject.digest] + ([subject.index] if subject.index is not None else [])
    document = {
        "_type": STATEMENT_TYPE,
        "subject": [
            {"name": subject.repository, "digest": digest_set(digest)} for digest in digests
        ],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    return Statement(predicate_type=predicate_type, payload=compact_json(document))


def digest_set(digest: Digest) -> dict[str, str]:
    """Write a digest as in-toto's DigestSet."""
    return {digest.algorithm: digest.encoded}


def compact_json(document: object) -> bytes:
    """Write JSON in the one form that signed documents have: sorted, without blanks."""
    text = json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace")


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Write what is signed (DSSE v1.0.2, protocol.md, "Signature Definition").

    ``PAE(type, body) = "DSSEv1" + SP + LEN(type) + SP + type + SP + LEN(body) + SP + body``
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


# --- envelopes


class _Signature(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    sig: str
    keyid: str = ""


class _Envelope(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    payload_type: str = Field(alias="payloadType")
    payload: str
    signatures: tuple[_Signature, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A DSSE envelope; nothing in it is trusted before a signature was verified.

    Attributes:
        payload_type: what the payload is said to be.
        payload: the signed bytes.
        signatures: raw signatures over the pre-authentication encoding.
    """

    payload_type: str
    payload: bytes
    signatures: tuple[bytes, ...]

    @property
    def signed(self) -> bytes:
        """What the signatures are over."""
        return pre_authentication_encoding(self.payload_type, self.payload)

    def document(self) -> dict[str, object]:
        """Write the envelope as a JSON document (DSSE, envelope.md)."""
        return {
            "payloadType": self.payload_type,
            "payload": base64.b64encode(self.payload).decode(),
            "signatures": [
                {"sig": base64.b64encode(signature).decode()} for signature in self.signatures
            ],
        }


def parse_envelope(content: bytes, what: str) -> Envelope:
    """Read an envelope.

    Raises:
        AttestationError: it is none, or has no signature.
    """
    try:
        found = _Envelope.model_validate(parse_json(content, what))
        # envelope.md: either alphabet of base64 is accepted
        payload = _decode(found.payload)
        signatures = tuple(_decode(signature.sig) for signature in found.signatures)
    except (ImageError, ValidationError, binascii.Error, ValueError) as error:
        raise AttestationError(f"{what} is not a DSSE envelope") from error
    if not signatures:
        raise AttestationError(f"{what} has no signature")
    return Envelope(payload_type=found.payload_type, payload=payload, signatures=signatures)


def _decode(text: str) -> bytes:
    return base64.b64decode(text.translate(str.maketrans("-_", "+/")), validate=True)


# --- reading a verified statement


class _ReadSubject(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str = ""
    digest: dict[str, str]


class _ReadStatement(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    type: str = Field(alias="_type")
    subject: tuple[_ReadSubject, ...]
    predicate_type: str = Field(alias="predicateType")
    predicate: dict[str, object] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStatement:
    """A statement as it was read out of a verified payload.

    Attributes:
        subjects: the digests that it is about.
        predicate: the predicate as JSON.
        digest: digest of the payload.
    """

    subjects: frozenset[Digest]
    predicate_type: str
    predicate: bytes
    digest: Digest


def parse_statement(payload: bytes, what: str) -> ReadStatement:
    """Read a statement whose signature was verified before.

    Raises:
        AttestationError: it is none, or of another version.
    """
    try:
        found = _ReadStatement.model_validate(parse_json(payload, what))
    except (ImageError, ValidationError) as error:
        raise AttestationError(f"{what} is not an in-toto statement") from error
    if found.type != STATEMENT_TYPE:
        raise AttestationError(f"{what} is `{found.type}`, not `{STATEMENT_TYPE}`")
    return ReadStatement(
        subjects=frozenset(_digests(found.subject, what)),
        predicate_type=found.predicate_type,
        predicate=compact_json(found.predicate),
        digest=Digest.of(payload),
    )


def _digests(subjects: Sequence[_ReadSubject], what: str) -> list[Digest]:
    try:
        return [
            Digest.parse(f"{algorithm}:{encoded}")
            for subject in subjects
            for algorithm, encoded in subject.digest.items()
            if algorithm in ("sha256", "sha384", "sha512")
        ]
    except ImageError as error:
        raise AttestationError(f"{what} names a malformed digest: {error.message}") from error
