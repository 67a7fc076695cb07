"""Signing an image and its statements, and keeping both forms beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from imagegate.attestation.statement import SIGNATURE_TYPE, compact_json, make_statement
from imagegate.errors import AttestationError, BlobMissing, FetchError
from imagegate.oci.digest import Digest
from imagegate.oci.documents import OCI_MANIFEST, parse_json
from imagegate.signing.forms import (
    EMPTY_CONFIG,
    attestation_layer,
    bundle,
    bundle_manifest,
    classic_manifest,
    classic_tag,
    envelope_json,
    media_type_of,
    seal,
    signature_layer,
    simple_signing_payload,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.attestation.statement import Statement, Subject
    from imagegate.signing.keys import Signer
    from imagegate.signing.store import ArtifactStore

# another writer may replace a tag between reading and writing it
_WRITES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What was written for one manifest or index.

    Attributes:
        subject: the manifest or index.
        signature: digest of the ``.sig`` manifest.
        attestation: digest of the ``.att`` manifest, ``None`` without statements.
        bundles: digests of the referrers, the image signature's first.
    """

    subject: Digest
    signature: Digest
    attestation: Digest | None
    bundles: tuple[Digest, ...]


def publish(
    store: ArtifactStore,
    subject: Subject,
    statements: Sequence[Statement],
    signer: Signer,
    *,
    created: str,
) -> tuple[Published, ...]:
    """Sign an image and its statements in both forms.

    What others signed stays. The same arguments write the same bytes, so a second run after a
    crash completes the first. Nothing that is written here says that an image passed: a
    statement does, and its writer answers for it.

    Args:
        store: where the image is.
        subject: the image; where it was pinned through an index, that is signed too.
        statements: what is stated of it.
        signer: whose signature.
        created: when, RFC 3339 in UTC.

    Raises:
        BlobMissing: the store does not hold the image's manifest.
        FetchError: another writer keeps replacing what is written.
    """
    targets = [subject.digest] + ([subject.index] if subject.index is not None else [])
    sealed = [(statement, seal(statement, signer)) for statement in statements]
    published = []
    for target in targets:
        manifest = store.find_manifest(target)
        if manifest is None:
            raise BlobMissing(f"{target} is not there to be signed", hint="push the image first")
        payload = simple_signing_payload(subject.repository, target)
        signature = _append(
            store, target, "sig", [(payload, signature_layer(payload, signer.sign(payload)))]
        )
        envelopes = [(envelope_json(e), s.predicate_type) for s, e in sealed]
        attestation = None
        if envelopes:
            layers = [(content, attestation_layer(content, kind)) for content, kind in envelopes]
            attestation = _append(store, target, "att", layers)
        # an image signature in a bundle is a statement without a predicate (cosign 3)
        own = make_statement(subject, SIGNATURE_TYPE, {})
        descriptor = {
            "mediaType": media_type_of(manifest),
            "digest": str(target),
            "size": len(manifest),
        }
        bundles = [
            _refer(
                store,
                bundle(envelope, signer.verifier.hint),
                statement,
                descriptor,
                created=created,
            )
            for statement, envelope in [(own, seal(own, signer)), *sealed]
        ]
        published.append(
            Published(
                subject=target,
                signature=signature,
                attestation=attestation,
                bundles=tuple(bundles),
            )
        )
    return tuple(published)


def _refer(
    store: ArtifactStore,
    content: bytes,
    statement: Statement,
    subject: dict[str, object],
    *,
    created: str,
) -> Digest:
    store.put_blob(EMPTY_CONFIG)
    store.put_blob(content)
    manifest = bundle_manifest(content, statement.predicate_type, subject, created=created)
    return store.push_referrer(manifest, OCI_MANIFEST).digest


def _append(
    store: ArtifactStore, target: Digest, suffix: str, added: list[tuple[bytes, dict[str, object]]]
) -> Digest:
    """Add layers to a classic manifest unless they are there, and see that they stay."""
    for content, _ in added:
        store.put_blob(content)
    tag = classic_tag(target, suffix)
    # two keys' image signatures are over one payload: only their annotations tell them apart
    wanted = {compact_json(layer) for _, layer in added}
    for _ in range(_WRITES):
        with store.exclusive():
            present = _layers(store, tag)
            known = {compact_json(layer) for layer in present}
            layers = present + [layer for _, layer in added if compact_json(layer) not in known]
            manifest, config = classic_manifest(layers)
            store.put_blob(config)
            store.put_manifest(manifest, OCI_MANIFEST)
            store.tag(tag, manifest, OCI_MANIFEST)
        # a registry cannot say "only if unchanged": see that nobody else's write took its place
        if wanted <= {compact_json(layer) for layer in _layers(store, tag)}:
            return Digest.of(manifest)
    raise FetchError(
        f"the tag `{tag}` does not keep what is written",
        hint="another writer replaces it at the same time; run again",
    )


def _layers(store: ArtifactStore, tag: str) -> list[dict[str, Any]]:
    content = store.find_manifest(tag)
    if content is None:
        return []
    layers = parse_json(content, f"the manifest `{tag}`").get("layers")
    if not isinstance(layers, list):
        raise AttestationError(f"the manifest `{tag}` is not of cosign's form")
    return layers
