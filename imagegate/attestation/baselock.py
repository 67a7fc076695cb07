"""A published base lock: the artifact in the registry, and the statement that is signed of it.

The artifact refers to the base's manifest (``subject``) and holds each file of the base lock as a
layer with its name as title, so that any OCI client lists and fetches it. The statement's subject
is the artifact's manifest; its predicate says which base, revision and platform it is of, and the
digest of the base lock, which covers every file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imagegate.attestation.statement import Subject, compact_json, make_statement
from imagegate.errors import AttestationError, LockError
from imagegate.lock.base import BASE, BASE_FILES
from imagegate.oci.digest import Digest
from imagegate.oci.documents import OCI_MANIFEST, DigestField, Manifest, parse_document, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.attestation.statement import ReadStatement, Statement
    from imagegate.lock import BaseLock

ARTIFACT = "application/vnd.imagegate.base-lock.v1"
PREDICATE_TYPE = "https://pypi.org/project/imagegate/base-lock/v1"
EMPTY = b"{}"
_EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
_TITLE = "org.opencontainers.image.title"
_TYPES = {
    ".json": "application/json",
    ".txt": "text/plain",
    ".zst": "application/vnd.imagegate.path-index.v2",
}
# the index of three million paths
FILE_LIMIT = 512 << 20


class _Predicate(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    base: DigestField
    lock: DigestField
    revision: int
    catalog: str
    platform: str
    form: Literal[2] = Field(default=2)


def artifact_manifest(lock: BaseLock, files: Mapping[str, bytes], subject_type: str) -> bytes:
    """Write the artifact's manifest; the same base lock gives the same bytes.

    Args:
        lock: the base lock.
        files: its files.
        subject_type: media type of the base's manifest.
    """
    layers = [
        {
            "mediaType": _TYPES[f".{name.rpartition('.')[2]}"],
            "digest": str(Digest.of(files[name])),
            "size": len(files[name]),
            "annotations": {_TITLE: name},
        }
        for name in BASE_FILES
        if name in files
    ]
    document = lock.document
    return compact_json(
        {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "artifactType": ARTIFACT,
            "config": {
                "mediaType": _EMPTY_TYPE,
                "digest": str(Digest.of(EMPTY)),
                "size": len(EMPTY),
            },
            "layers": layers,
            "subject": {
                "mediaType": subject_type,
                "digest": str(lock.base),
                "size": len(lock.manifest_bytes),
            },
            "annotations": {
                "imagegate.base-lock": str(lock.digest),
                "imagegate.platform": document.platform,
                "imagegate.revision": str(document.revision),
            },
        }
    )


def artifact_statement(lock: BaseLock, repository: str, manifest: bytes) -> Statement:
    """State what an artifact is: a base lock of this base, revision and platform."""
    document = lock.document
    return make_statement(
        Subject(repository=repository, digest=Digest.of(manifest)),
        PREDICATE_TYPE,
        {
            "form": 2,
            "base": str(lock.base),
            "lock": str(lock.digest),
            "revision": document.revision,
            "catalog": document.catalog,
            "platform": document.platform,
        },
    )


def artifact_files(manifest: bytes, base: Digest, where: str) -> dict[str, tuple[Digest, int]]:
    """Read an artifact's manifest: file name to digest and size.

    Raises:
        AttestationError: it is of another form, or refers to another image than `base`.
    """
    document = parse_json(manifest, where)
    if document.get("artifactType") != ARTIFACT:
        raise AttestationError(f"{where}: it is `{document.get('artifactType')}`")
    subject = document.get("subject")
    if not isinstance(subject, dict) or subject.get("digest") != str(base):
        raise AttestationError(f"{where}: it refers to another image than {base}")
    found: dict[str, tuple[Digest, int]] = {}
    for layer in parse_document(Manifest, manifest, where).layers:
        name = (layer.annotations or {}).get(_TITLE, "")
        if name not in BASE_FILES or name in found:
            raise AttestationError(f"{where}: it holds `{name}`, which no base lock has")
        if layer.size > FILE_LIMIT:
            raise AttestationError(f"{where}: `{name}` has {layer.size} bytes")
        found[name] = (layer.digest, layer.size)
    if BASE not in found:
        raise AttestationError(f"{where}: it holds no `{BASE}`")
    return found


def require_statement(
    statement: ReadStatement, *, base: Digest, artifact: Digest | None, where: str
) -> Digest:
    """Require that a signed statement is of this base; returns the base lock's digest.

    Raises:
        AttestationError: it is of another artifact, base or revision than expected.
    """
    if artifact is not None and artifact not in statement.subjects:
        raise AttestationError(f"{where}: it is about another artifact than {artifact}")
    try:
        found = _Predicate.model_validate_json(statement.predicate)
    except ValidationError as error:
        raise AttestationError(f"{where}: its predicate is of another form") from error
    if found.base != base:
        raise AttestationError(f"{where}: it is about the base {found.base}, not {base}")
    return found.lock


def require_stated(lock: BaseLock, stated: Digest, where: str) -> None:
    """Require that a base lock is the one that was signed.

    Raises:
        LockError: it is another one.
    """
    if lock.digest != stated:
        raise LockError(
            f"`{where}` is not the base lock that was signed: signed={stated} found={lock.digest}",
            hint="pull it again, or read the base: `imagegate base read`",
        )
