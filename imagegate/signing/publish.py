"""Signing an image and its statements, and keeping both forms beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from imagegate.attestation.statement import SIGNATURE_TYPE, compact_json, make_statement
from imagegate.errors import AttestationError, BlobMissing, DigestMismatch, FetchError
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
    from imagegate.signing.keys import BundleSigner, Signer, Verifier
    from imagegate.signing.store import ArtifactStore

# how often a tag is written again that another writer replaced; each round saves one more
_WRITES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What was written for one manifest or index.

    Attributes:
        subject: the manifest or index.
        signature: digest of the ``.sig`` manifest, ``None`` where only bundles were written.
        attestation: digest of the ``.att`` manifest, ``None`` without statements or likewise.
        bundles: digests of the referrers, the image signature's first.
    """

    subject: Digest
    signature: Digest | None
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
    # an image signature in a bundle is a statement without a predicate (cosign 3)
    own = make_statement(subject, SIGNATURE_TYPE, {})
    sealed = [(statement, seal(statement, signer)) for statement in statements]
    bundles = [
        (statement.predicate_type, bundle(envelope, signer.verifier.hint))
        for statement, envelope in [(own, seal(own, signer)), *sealed]
    ]
    written = _Written(store)
    published = []
    for target in _targets(subject):
        described = _described(store, target)
        payload = simple_signing_payload(subject.repository, target)
        signature = written.append(
            target, "sig", [(payload, signature_layer(payload, signer.sign(payload)))]
        )
        envelopes = [(envelope_json(e), s.predicate_type) for s, e in sealed]
        attestation = None
        if envelopes:
            layers = [(content, attestation_layer(content, kind)) for content, kind in envelopes]
            attestation = written.append(target, "att", layers)
        published.append(
            Published(
                subject=target,
                signature=signature,
                attestation=attestation,
                bundles=tuple(written.refer(bundles, described, created=created)),
            )
        )
    written.settle()
    return tuple(published)


def publish_bundles(
    store: ArtifactStore,
    subject: Subject,
    statements: Sequence[Statement],
    signer: BundleSigner,
    *,
    created: str,
) -> tuple[tuple[Published, ...], Verifier]:
    """Sign an image and its statements without a key of one's own, as bundles alone.

    The classic tags have no place for what proves whose such a signature is.

    Args:
        store: where the image is.
        subject: the image; where it was pinned through an index, that is signed too.
        statements: what is stated of it.
        signer: makes a bundle of each statement.
        created: when, RFC 3339 in UTC.

    Returns:
        What was written, and what verifies its signatures.

    Raises:
        AttestationError: the signer gets no certificate or no log entry.
        BlobMissing: the store does not hold the image's manifest.
        FetchError: another writer keeps replacing what is written.
    """
    described = [(target, _described(store, target)) for target in _targets(subject)]
    stated = [make_statement(subject, SIGNATURE_TYPE, {}), *statements]
    contents, verifier = signer.bundles([statement.payload for statement in stated])
    bundles = [
        (statement.predicate_type, content)
        for statement, content in zip(stated, contents, strict=True)
    ]
    written = _Written(store)
    published = tuple(
        Published(
            subject=target,
            signature=None,
            attestation=None,
            bundles=tuple(written.refer(bundles, descriptor, created=created)),
        )
        for target, descriptor in described
    )
    written.settle()
    return published, verifier


def _targets(subject: Subject) -> list[Digest]:
    return [subject.digest] + ([subject.index] if subject.index is not None else [])


def _described(store: ArtifactStore, target: Digest) -> dict[str, object]:
    """Describe the manifest that artifacts refer to."""
    manifest = store.find_manifest(target)
    if manifest is None:
        raise BlobMissing(f"{target} is not there to be signed", hint="push the image first")
    return {
        "mediaType": media_type_of(manifest),
        "digest": str(target),
        "size": len(manifest),
    }


class _Written:
    """What one run wrote; a registry's other writers may take it away, so it is looked after.

    A tag is read, extended and written again, and a registry cannot say "only if unchanged". A
    writer that read before us and writes after us drops what we added. So each looks again when
    such writers must have written, and adds its own once more to what is there then.
    """

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._layers: list[tuple[str, list[dict[str, object]]]] = []
        self._referrers: list[tuple[Digest, Digest, bytes]] = []

    def append(
        self, target: Digest, suffix: str, added: list[tuple[bytes, dict[str, object]]]
    ) -> Digest:
        """Add layers to a classic manifest; returns the manifest's digest."""
        for content, _ in added:
            self._store.put_blob(content)
        tag, layers = classic_tag(target, suffix), [layer for _, layer in added]
        self._layers.append((tag, layers))
        return _extend(self._store, tag, layers)

    def refer(
        self, bundles: Sequence[tuple[str, bytes]], subject: dict[str, object], *, created: str
    ) -> list[Digest]:
        """Add a referrer for each predicate type and bundle; returns the referrers' digests."""
        self._store.put_blob(EMPTY_CONFIG)
        digests = []
        for kind, content in bundles:
            self._store.put_blob(content)
            manifest = bundle_manifest(content, kind, subject, created=created)
            digests.append(self._store.push_referrer(manifest, OCI_MANIFEST).digest)
            self._referrers.append((Digest.parse(str(subject["digest"])), digests[-1], manifest))
        return digests

    def settle(self) -> None:
        """See that everything stays.

        Raises:
            FetchError: other writers keep removing it.
        """
        for _ in range(_WRITES):
            if not self._store.pause():
                return
            layers = [(tag, own) for tag, own in self._layers if _lost(self._store, tag, own)]
            listed = {
                target: {one.digest for one in self._store.referrers(target)}
                for target in {target for target, _, _ in self._referrers}
            }
            referrers = [
                manifest
                for target, digest, manifest in self._referrers
                if digest not in listed[target]
            ]
            if not layers and not referrers:
                return
            for tag, own in layers:
                _extend(self._store, tag, own)
            for manifest in referrers:
                self._store.push_referrer(manifest, OCI_MANIFEST)
        raise FetchError(
            "the registry does not keep what is written beside the image",
            hint="another writer replaces it at the same time; run again",
        )


def _extend(store: ArtifactStore, tag: str, added: Sequence[dict[str, object]]) -> Digest:
    """Add layers to what a tag leads to, unless they are there."""
    for _ in range(_WRITES):
        with store.exclusive():
            before = store.find_manifest(tag)
            present = _layers(before, tag)
            # two keys' image signatures are over one payload: only their annotations differ
            known = {compact_json(layer) for layer in present}
            layers = present + [layer for layer in added if compact_json(layer) not in known]
            manifest, config = classic_manifest(layers)
            if manifest == before:
                return Digest.of(manifest)
            store.put_blob(config)
            store.put_manifest(manifest, OCI_MANIFEST)
            # everything is there but the tag: between this look and its write lies one request
            if store.find_manifest(tag) != before:
                continue
            try:
                store.tag(tag, manifest, OCI_MANIFEST)
            except DigestMismatch:
                # it was moved at once: another writer's answer to what we both had read
                continue
        if not _lost(store, tag, added):
            return Digest.of(manifest)
    raise FetchError(
        f"the tag `{tag}` does not keep what is written",
        hint="another writer replaces it at the same time; run again",
    )


def _lost(store: ArtifactStore, tag: str, own: Sequence[dict[str, object]]) -> bool:
    present = {compact_json(layer) for layer in _layers(store.find_manifest(tag), tag)}
    return not {compact_json(layer) for layer in own} <= present


def _layers(content: bytes | None, tag: str) -> list[dict[str, Any]]:
    if content is None:
        return []
    layers = parse_json(content, f"the manifest `{tag}`").get("layers")
    if not isinstance(layers, list):
        raise AttestationError(f"the manifest `{tag}` is not of cosign's form")
    return layers
