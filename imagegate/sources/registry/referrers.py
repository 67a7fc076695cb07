"""What refers to a manifest (distribution-spec, "Listing Referrers" and "Pushing Manifests with Subject").

Registries without the referrers API are served by an index under the tag ``sha256-<hex>``, which
its writers have to keep: read, add, write, with no way to say "only if unchanged". Writers of one
process take turns; against others, each reads again what it wrote and adds its entry once more
where it got lost.
"""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin

from imagegate.errors import BlobMissing, FetchError, ImageError
from imagegate.oci.documents import (
    OCI_INDEX,
    Descriptor,
    Index,
    Manifest,
    parse_document,
    parse_json,
)
from imagegate.sources.registry.answers import (
    UNKNOWN_CODES,
    error_codes,
    failure,
    registry_words,
)
from imagegate.sources.registry.authorization import Access

if TYPE_CHECKING:
    from imagegate.oci.digest import Digest
    from imagegate.sources.registry.client import RegistryClient

# pages of a listing; a registry that never ends is reported
_PAGES = 1000
_WRITES = 5
_NEXT = re.compile(r"<([^>]*)>\s*;[^,]*\brel=\"?next\"?")
# what cosign 3 writes as the artifact type of every entry, whatever the artifact is
_VAGUE_TYPES = (None, "", "application/vnd.oci.empty.v1+json")

_turns: dict[str, threading.Lock] = {}
_turns_guard = threading.Lock()


def fallback_tag(subject: Digest) -> str:
    """The tag of the index that stands in for the API: ``sha256-<hex>``, at most 32 and 64 long."""
    return f"{subject.algorithm[:32]}-{subject.encoded[:64]}"


def list_referrers(
    client: RegistryClient, repository: str, subject: Digest, artifact_type: str | None = None
) -> tuple[Descriptor, ...]:
    """List the descriptors of all manifests that name `subject` as theirs.

    Args:
        client: of the registry.
        repository: in which they are.
        subject: digest of the manifest that they refer to.
        artifact_type: list those of one type only.

    Raises:
        ImageError: the listing is malformed.
        FetchError: the registry refuses or fails.
    """
    found = _from_api(client, repository, subject, artifact_type)
    if found is None:
        index = _fallback_index(client, repository, subject)
        entries = (
            parse_document(Index, index, _what(repository, subject)).manifests if index else ()
        )
        found = entries, False
    descriptors, filtered = found
    if artifact_type is None or filtered:
        return descriptors
    return tuple(
        descriptor
        for descriptor in descriptors
        if _artifact_type(client, repository, descriptor) == artifact_type
    )


def record_referrer(
    client: RegistryClient, repository: str, subject: Digest, descriptor: Descriptor
) -> None:
    """Add a pushed referrer to the fallback index, unless it is there.

    Raises:
        BlobMissing: the registry does not know what the index names.
        ImageError: something else than an index stands under the fallback tag.
        FetchError: the registry refuses or fails, or other writers keep removing the entry.
    """
    what = _what(repository, subject)
    entry = descriptor.model_dump(mode="json", by_alias=True, exclude_none=True)
    with _turn(f"{client.registry}/{repository}@{subject}"):
        for _ in range(_WRITES):
            content = _fallback_index(client, repository, subject)
            if content is not None and _lists(content, descriptor, what):
                return
            answer = client.call(
                "PUT",
                f"/v2/{repository}/manifests/{fallback_tag(subject)}",
                Access(repository=repository, push=True),
                expect=(200, 201, 400, 404),
                headers={"Content-Type": OCI_INDEX},
                body=_with_entry(content, entry, what),
            )
            if error_codes(answer) & UNKNOWN_CODES:
                raise BlobMissing(
                    f"{what} names a manifest that the registry does not have"
                    f"{registry_words(answer)}",
                    hint="push again; some registries do not know at once what they were given",
                )
            if answer.status not in (200, 201):
                raise failure("PUT", answer, client.clock)
        content = _fallback_index(client, repository, subject)
        if content is None or not _lists(content, descriptor, what):
            raise FetchError(
                f"{what} does not keep the entry for {descriptor.digest}",
                hint="another writer replaces it at the same time; run again",
            )


def _from_api(
    client: RegistryClient, repository: str, subject: Digest, artifact_type: str | None
) -> tuple[tuple[Descriptor, ...], bool] | None:
    """Ask the referrers API page by page; ``None`` where the registry has none."""
    query = f"?artifactType={quote(artifact_type, safe='')}" if artifact_type else ""
    target: str | None = f"/v2/{repository}/referrers/{subject}{query}"
    found: list[Descriptor] = []
    filtered = True
    for page in range(_PAGES):
        assert target is not None
        answer = client.call(
            "GET", target, Access(repository=repository), expect=(200, 404) if page == 0 else (200,)
        )
        if answer.status == 404:
            return None
        index = parse_document(Index, answer.content, f"the answer of `{answer.where}`")
        found += index.manifests
        applied = answer.headers.get("oci-filters-applied", "")
        filtered = filtered and "artifactType" in [name.strip() for name in applied.split(",")]
        following = _NEXT.search(answer.headers.get("link", ""))
        if following is None:
            return tuple(found), filtered
        target = urljoin(answer.where, following[1])
    raise FetchError(f"the referrers of {subject} in `{repository}` never end")


def _artifact_type(client: RegistryClient, repository: str, descriptor: Descriptor) -> str | None:
    """The type of an entry; the manifest's own word where the descriptor says nothing useful."""
    if descriptor.artifact_type not in _VAGUE_TYPES:
        return descriptor.artifact_type
    fetched = client.find_manifest(repository, descriptor.digest)
    if fetched is None:
        # a listing that outlived its manifest: there is nothing of that type to read
        return descriptor.artifact_type
    return artifact_type_of(fetched.content, f"the referrer {descriptor.digest}")


def artifact_type_of(content: bytes, what: str) -> str | None:
    """The ``artifactType`` of a manifest or index, or its config's type (manifest.md).

    Raises:
        ImageError: the document is malformed.
    """
    document = parse_json(content, what)
    if "manifests" in document:
        stated = document.get("artifactType")
        return stated if isinstance(stated, str) else None
    manifest = parse_document(Manifest, content, what)
    return manifest.artifact_type or manifest.config.media_type


def _fallback_index(client: RegistryClient, repository: str, subject: Digest) -> bytes | None:
    found = client.find_manifest(repository, fallback_tag(subject))
    return found.content if found is not None else None


def _lists(content: bytes, descriptor: Descriptor, what: str) -> bool:
    index = parse_document(Index, content, what)
    return any(entry.digest == descriptor.digest for entry in index.manifests)


def _with_entry(content: bytes | None, entry: dict[str, Any], what: str) -> bytes:
    """Append to the index as it was read: what others wrote into it stays."""
    document: dict[str, Any] = (
        {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}
        if content is None
        else parse_json(content, what)
    )
    if document.get("mediaType", OCI_INDEX) != OCI_INDEX or "manifests" not in document:
        raise ImageError(
            f"{what} is `{document.get('mediaType')}`, not an index",
            hint="the tag is reserved for referrers; give what stands there another one",
        )
    parse_document(Index, json.dumps(document).encode(), what)
    document["manifests"].append(entry)
    return json.dumps(document).encode()


def _turn(key: str) -> threading.Lock:
    with _turns_guard:
        return _turns.setdefault(key, threading.Lock())


def _what(repository: str, subject: Digest) -> str:
    return f"the referrers index `{repository}:{fallback_tag(subject)}`"
