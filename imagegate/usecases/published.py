"""Base locks of others: published beside a base, signed, and taken where the signer is trusted."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from imagegate.attestation.baselock import (
    ARTIFACT,
    EMPTY,
    PREDICATE_TYPE,
    artifact_files,
    artifact_manifest,
    artifact_statement,
    require_stated,
    require_statement,
)
from imagegate.attestation.statement import (
    PAYLOAD_TYPE,
    Subject,
    compact_json,
    parse_envelope,
    parse_statement,
)
from imagegate.errors import (
    AttestationError,
    ImageError,
    ImagegateError,
    LockError,
    UsageError,
)
from imagegate.localfiles import read_regular_text
from imagegate.lock import BASE_FILES, STATEMENT, decode_base
from imagegate.oci.documents import OCI_MANIFEST, Descriptor, canonical_json, parse_json
from imagegate.signing.identity import IdentityVerifier, Trusted, read_identity
from imagegate.signing.keys import BundleSigner, KeyVerifier, parse_verifier, read_verifier
from imagegate.signing.publish import publish, publish_bundles
from imagegate.signing.registry import RegistryStore
from imagegate.signing.stored import bundles, envelopes
from imagegate.usecases.attest import timestamp
from imagegate.usecases.signed_base import named_signer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from imagegate.attestation.statement import Envelope, ReadStatement
    from imagegate.lock import BaseLock
    from imagegate.oci.digest import Digest
    from imagegate.oci.platform import Platform
    from imagegate.oci.reference import Reference
    from imagegate.signing.keys import Signer
    from imagegate.usecases.invocation import Invocation
    from imagegate.workspace import Workspace

TRUST_FILE = "locks/trust.toml"
_ARTIFACTS = 100


# --- whose base locks count


_Text = Annotated[str, Field(min_length=1)]


class _TrustedSigner(BaseModel):
    """A key, or an identity with its issuer."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    key: _Text | None = None
    identity: _Text | None = None
    issuer: _Text | None = None
    config: _Text | None = Field(default=None, alias="trust-config")

    @model_validator(mode="after")
    def _one_of_both(self) -> _TrustedSigner:
        by_identity = self.identity is not None and self.issuer is not None
        others = (self.identity, self.issuer, self.config)
        by_key = self.key is not None and others == (None, None, None)
        if by_key == (by_identity and self.key is None):
            raise ValueError("it is neither a key alone nor an identity with its issuer")
        return self

    def read(self, root: Path) -> Trusted:
        """Read the files that it names below the workspace."""
        if self.key is not None:
            return read_verifier(root / self.key)
        config = root / self.config if self.config is not None else None
        return read_identity(self.identity or "", self.issuer or "", config)


class _TrustDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    # an empty list would read as "nobody" and could be taken for "no restriction": it is neither
    trusted: Annotated[list[_TrustedSigner], Field(min_length=1)]


def trusted_signers(workspace: Workspace) -> tuple[Trusted, ...]:
    """Read the keys and identities that the workspace's committed file trusts; none without such a file.

    Raises:
        UsageError: the file cannot be used.
    """
    path = workspace.root / TRUST_FILE
    if not path.is_file():
        return ()
    try:
        values = tomllib.loads(read_regular_text(path))
        document = _TrustDocument.model_validate(values)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"`{TRUST_FILE}` is not valid TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"`{TRUST_FILE}`: `{place}`: {first['msg']}",
            hint='write `[[trusted]]` with `key = "FILE"`, a public key below the workspace, or '
            'with `identity = "…"` and `issuer = "https://…"`',
        ) from error
    return tuple(one.read(workspace.root) for one in document.trusted)


# --- publishing


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedBase:
    """Where a base lock was published.

    Attributes:
        reference: repository and digest of the artifact.
        size: bytes of its files.
        sent: bytes that went over the wire.
    """

    reference: str
    size: int
    sent: int


def push_base(
    call: Invocation, digest: Digest, *, to: Reference, signer: Signer | BundleSigner
) -> PushedBase:
    """Publish a base lock beside its base, signed.

    Args:
        call: where the base lock is.
        digest: of the base's manifest.
        to: the repository; the base itself need not be in it.
        signer: signs the artifact, and states what it is.

    Raises:
        LockError: there is no such base lock, or it was published by others.
        FetchError: the registry refuses or fails.
    """
    lock = call.workspace.base_lock(digest)
    if lock.statement:
        raise LockError(
            f"the lock of {digest} was published by others; only what was read here is published",
            hint="read the base yourself first: `imagegate base read REF --again`",
        )
    folder = call.workspace.base_folder(digest)
    files = {name: (folder / name).read_bytes() for name in BASE_FILES if (folder / name).is_file()}
    decode_base(files, str(folder))
    subject_type = lock.manifest.media_type or OCI_MANIFEST
    manifest = artifact_manifest(lock, files, subject_type)
    client = call.connection.client(to.registry)
    store = RegistryStore(client, to.repository)
    for content in (*files.values(), EMPTY):
        store.put_blob(content)
    pushed = store.push_referrer(manifest, OCI_MANIFEST)
    subject = Subject(repository=to.name, digest=pushed.digest)
    statement = artifact_statement(lock, to.name, manifest)
    created = timestamp(call.now)
    if isinstance(signer, BundleSigner):
        publish_bundles(store, subject, [statement], signer, created=created)
    else:
        publish(store, subject, [statement], signer, created=created)
    return PushedBase(
        reference=f"{to.name}@{pushed.digest}",
        size=sum(map(len, files.values())),
        sent=client.traffic.sent,
    )


# --- taking


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBase:
    """A published base lock that counts.

    Attributes:
        files: what is to be written, with who said so.
        signer: fingerprint of the key, or the identity and its issuer.
        received: bytes that came over the wire.
    """

    lock: BaseLock
    files: Mapping[str, bytes]
    signer: str
    received: int


def take_base(
    call: Invocation,
    at: Reference,
    digest: Digest,
    *,
    platform: Platform | None,
    trusted: Sequence[Trusted],
) -> TakenBase:
    """Take a base lock that somebody published, if it is still valid.

    Args:
        call: how registries are spoken to.
        at: the repository.
        digest: of the base's manifest; a base lock is never an index's.
        platform: what the base has to be for, if that matters.
        trusted: the keys and identities of which one has to have signed it.

    Raises:
        AttestationError: none counts; says of each why not.
        FetchError: the registry refuses or fails.
    """
    if not trusted:
        raise UsageError(
            "no key is trusted, and no identity, so no published base lock can count",
            hint="give `--trust PUBLIC_KEY` or `--trust-identity IDENTITY ISSUER`, or name them "
            f"in `{TRUST_FILE}`",
        )
    client = call.connection.client(at.registry)
    store = RegistryStore(client, at.repository)
    reasons: list[str] = []
    for listed in store.referrers(digest, ARTIFACT)[:_ARTIFACTS]:
        where = f"the artifact {listed.digest}"
        try:
            found = _take(store, listed.digest, digest, platform, trusted)
        except (AttestationError, ImageError, LockError) as error:
            reasons.append(f"{where}: {error.message}")
            continue
        lock, files, signer = found
        return TakenBase(lock=lock, files=files, signer=signer, received=client.traffic.received)
    listed_reasons = "".join(f"\n  {reason}" for reason in reasons)
    raise AttestationError(
        f"no published lock of the base {digest} counts in `{at.name}`"
        + (f":{listed_reasons}" if reasons else ": there is none"),
        hint="read the base instead: `imagegate base read REF`",
    )


def _take(
    store: RegistryStore,
    artifact: Digest,
    base: Digest,
    platform: Platform | None,
    trusted: Sequence[Trusted],
) -> tuple[BaseLock, dict[str, bytes], str]:
    """Verify statement, artifact, files and base lock, in this order."""
    signed = _signed(store, artifact, base, trusted)
    manifest = store.find_manifest(artifact)
    if manifest is None:
        raise AttestationError("its manifest is gone")
    files: dict[str, bytes] = {}
    for name, (digest, size) in artifact_files(manifest, base, "its manifest").items():
        descriptor = Descriptor.model_validate(
            {"mediaType": "application/octet-stream", "digest": str(digest), "size": size}
        )
        files[name] = store.read_blob(descriptor)
    lock = decode_base(files, "the published base lock")
    require_stated(lock, signed.stated, "the published base lock")
    if lock.base != base:
        raise AttestationError(f"it is the lock of the base {lock.base}")
    for _ in lock.files.lines():
        pass  # every block is compared with its table once, before anything is written
    if platform is not None and lock.document.platform != str(platform):
        raise AttestationError(
            f"it is for another platform: expected={platform} found={lock.document.platform}"
        )
    statement = canonical_json(
        {
            "schema": "imagegate-base-statement-1",
            "artifact": str(artifact),
            **signed.kept,
        }
    )
    return lock, {**files, STATEMENT: statement}, signed.signer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signed:
    """What a trusted signer stated.

    Attributes:
        stated: digest of the base lock.
        signer: the key's fingerprint, or the identity and its issuer.
        kept: what proves it from now on.
    """

    stated: Digest
    signer: str
    kept: Mapping[str, object]


def _signed(
    store: RegistryStore, artifact: Digest, base: Digest, trusted: Sequence[Trusted]
) -> _Signed:
    """Find a statement of the artifact that a trusted key or identity signed."""
    reasons: list[str] = []
    keys = [one for one in trusted if isinstance(one, KeyVerifier)]
    identities = [one for one in trusted if isinstance(one, IdentityVerifier)]
    for where, envelope in envelopes(store, artifact, reasons) if keys else ():
        key = next((key for key in keys if _is_by(envelope, key)), None)
        if key is None:
            reasons.append(f"{where}: it is not signed by a trusted key")
            continue
        statement = parse_statement(envelope.payload, where)
        if statement.predicate_type != PREDICATE_TYPE:
            continue
        return _Signed(
            stated=require_statement(statement, base=base, artifact=artifact, where=where),
            signer=str(key.fingerprint),
            kept={"key": key.pem.decode(), "envelope": envelope.document()},
        )
    for where, content in bundles(store, artifact, reasons) if identities else ():
        for identity in identities:
            try:
                found = _certified(content, identity, where)
            except AttestationError as error:
                reasons.append(f"{where}: {error.message}")
                continue
            if found.predicate_type != PREDICATE_TYPE:
                break
            return _Signed(
                stated=require_statement(found, base=base, artifact=artifact, where=where),
                signer=str(identity),
                kept={
                    "identity": identity.identity,
                    "issuer": identity.issuer,
                    "trustConfig": identity.config or "",
                    "bundle": content.decode(),
                },
            )
    raise AttestationError("; ".join(dict.fromkeys(reasons)) or "nobody signed it")


def _certified(
    bundle: bytes, identity: IdentityVerifier, where: str, *, offline: bool = False
) -> ReadStatement:
    """Read the statement of a bundle; nothing of it is read before its signer is verified."""
    kind, payload = identity.verify(bundle, offline=offline)
    if kind != PAYLOAD_TYPE:
        raise AttestationError(f"its payload is `{kind}`")
    return parse_statement(payload, where)


def _is_by(envelope: Envelope, key: KeyVerifier) -> bool:
    return envelope.payload_type == PAYLOAD_TYPE and any(
        key.verify(signature, envelope.signed) for signature in envelope.signatures
    )


# --- at every use


def require_signed(workspace: Workspace | None, lock: BaseLock | None, statement: bytes) -> str:
    """Compare a base lock that was taken with what was signed of it; returns the signer.

    Args:
        workspace: whose trusted keys have to have the signer among them, if it names any.
        lock: the base lock.
        statement: the envelope that lies beside it.

    Raises:
        LockError: the statement is damaged, not signed, of another base lock, or its signer is
            not trusted any more.
    """
    if not statement or lock is None:
        return ""
    trusted = trusted_signers(workspace) if workspace is not None else ()
    where = "statement.json"
    try:
        document = parse_json(statement, f"`{where}`")
        read = _kept_of_identity if "bundle" in document else _kept_of_key
        stated, signer, counts = read(document, trusted, where)
        found = require_statement(stated, base=lock.base, artifact=None, where=where)
    except ImagegateError as error:
        raise LockError(
            f"the statement of the base lock of {lock.base} cannot be used: {error.message}",
            hint="pull it again, or read the base: `imagegate base read`",
        ) from error
    require_stated(lock, found, f"the base lock of {lock.base}")
    if not counts:
        raise LockError(
            f"the base lock of {lock.base} was signed by {named_signer(signer)}, which "
            f"`{TRUST_FILE}` does not name",
            hint="pull it again with a trusted key or identity, or read the base: "
            "`imagegate base read`",
        )
    return signer


def _kept_of_key(
    document: Mapping[str, object], trusted: Sequence[Trusted], where: str
) -> tuple[ReadStatement, str, bool]:
    """Read what a key signed: the statement, the signer, and whether that is still trusted."""
    key = parse_verifier(str(document.get("key")).encode(), f"`{where}`")
    envelope = parse_envelope(compact_json(document.get("envelope")), where)
    if not _is_by(envelope, key):
        raise AttestationError(f"`{where}` is not signed by the key in it")
    known = {one.fingerprint for one in trusted if isinstance(one, KeyVerifier)}
    counts = not trusted or key.fingerprint in known
    return parse_statement(envelope.payload, where), str(key.fingerprint), counts


def _kept_of_identity(
    document: Mapping[str, object], trusted: Sequence[Trusted], where: str
) -> tuple[ReadStatement, str, bool]:
    """Read what an identity signed, likewise; the workspace's own instance goes before the kept."""
    kept = IdentityVerifier(
        identity=str(document.get("identity")),
        issuer=str(document.get("issuer")),
        config=str(document.get("trustConfig") or "") or None,
    )
    bundle = str(document.get("bundle")).encode()
    named = [
        one
        for one in trusted
        if isinstance(one, IdentityVerifier)
        and (one.identity, one.issuer) == (kept.identity, kept.issuer)
    ]
    for verifier in named[:-1]:
        try:
            return _certified(bundle, verifier, where, offline=True), str(kept), True
        except AttestationError:
            continue  # the same identity of another instance; the last one says why
    last = named[-1] if named else kept
    statement = _certified(bundle, last, where, offline=True)
    return statement, str(kept), bool(named) or not trusted
