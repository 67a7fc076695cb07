"""The two forms that registries keep signatures in: cosign's tags and OCI 1.1 referrers.

cosign, ``specs/SIGNATURE_SPEC.md`` and ``specs/BUNDLE_SPEC.md``; Sigstore bundle v0.3.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from imagegate.attestation.statement import PAYLOAD_TYPE, Envelope, compact_json
from imagegate.oci.digest import Digest
from imagegate.oci.documents import OCI_CONFIG, OCI_MANIFEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imagegate.attestation.statement import Statement
    from imagegate.signing.keys import Signer

SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"
DSSE_ENVELOPE = "application/vnd.dsse.envelope.v1+json"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature"
PREDICATE_ANNOTATION = "predicateType"
_EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
EMPTY_CONFIG = b"{}"


def classic_tag(subject: Digest, suffix: str) -> str:
    """Return the tag of ``sig`` or ``att`` for a manifest."""
    return f"{subject.algorithm}-{subject.encoded}.{suffix}"


def seal(statement: Statement, signer: Signer) -> Envelope:
    """Sign a statement (DSSE, protocol.md, "Signing")."""
    unsigned = Envelope(payload_type=PAYLOAD_TYPE, payload=statement.payload, signatures=(b"",))
    return Envelope(
        payload_type=PAYLOAD_TYPE,
        payload=statement.payload,
        signatures=(signer.sign(unsigned.signed),),
    )


def simple_signing_payload(repository: str, subject: Digest) -> bytes:
    """Write what a classic image signature is over."""
    return compact_json(
        {
            "critical": {
                "identity": {"docker-reference": repository},
                "image": {"docker-manifest-digest": str(subject)},
                "type": "cosign container image signature",
            },
            "optional": None,
        }
    )


def signature_layer(payload: bytes, signature: bytes) -> dict[str, object]:
    """Describe one signature in a ``.sig`` manifest."""
    annotations = {SIGNATURE_ANNOTATION: base64.b64encode(signature).decode()}
    return _described(SIMPLE_SIGNING, payload, annotations)


def attestation_layer(envelope: bytes, predicate_type: str) -> dict[str, object]:
    """Describe one envelope in an ``.att`` manifest."""
    annotations = {SIGNATURE_ANNOTATION: "", PREDICATE_ANNOTATION: predicate_type}
    return _described(DSSE_ENVELOPE, envelope, annotations)


def classic_manifest(layers: Sequence[Mapping[str, object]]) -> tuple[bytes, bytes]:
    """Write a ``.sig`` or ``.att`` manifest over its layers; returns manifest and config.

    The config is an image's whose diff ids are the layers, as cosign writes it.
    """
    config = compact_json(
        {
            "architecture": "",
            "config": {},
            "created": "0001-01-01T00:00:00Z",
            "history": [{"created": "0001-01-01T00:00:00Z"} for _ in layers],
            "os": "",
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
        }
    )
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": _described(OCI_CONFIG, config),
        "layers": list(layers),
    }
    return compact_json(manifest), config


def bundle(envelope: Envelope, hint: str) -> bytes:
    """Write a Sigstore bundle v0.3 with a key and without a log entry."""
    return compact_json(
        {
            "mediaType": BUNDLE,
            "verificationMaterial": {"publicKey": {"hint": hint}},
            "dsseEnvelope": envelope.document(),
        }
    )


def bundle_manifest(
    content: bytes, predicate_type: str, subject: Mapping[str, object], *, created: str
) -> bytes:
    """Write the referrer that holds one bundle.

    Args:
        content: the bundle.
        predicate_type: of the statement in it.
        subject: descriptor of the image's manifest or index.
        created: when, RFC 3339 in UTC.
    """
    return compact_json(
        {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "artifactType": BUNDLE,
            "config": _described(_EMPTY_TYPE, EMPTY_CONFIG),
            "layers": [_described(BUNDLE, content)],
            "subject": dict(subject),
            "annotations": {
                "dev.sigstore.bundle.content": "dsse-envelope",
                "dev.sigstore.bundle.predicateType": predicate_type,
                "org.opencontainers.image.created": created,
            },
        }
    )


def envelope_json(envelope: Envelope) -> bytes:
    """Write an envelope as an ``.att`` layer has it."""
    return compact_json(envelope.document())


def _described(
    media_type: str, content: bytes, annotations: Mapping[str, str] | None = None
) -> dict[str, object]:
    descriptor: dict[str, object] = {
        "mediaType": media_type,
        "digest": str(Digest.of(content)),
        "size": len(content),
    }
    if annotations:
        descriptor["annotations"] = dict(annotations)
    return descriptor


def media_type_of(manifest: bytes) -> str:
    """Return the media type that a manifest or index states of itself."""
    stated = json.loads(manifest).get("mediaType")
    return stated if isinstance(stated, str) else OCI_MANIFEST
