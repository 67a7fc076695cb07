"""Signatures and statements in a registry's repository."""

from __future__ import annotations

import io
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from imagegate.oci.blob import read_document
from imagegate.oci.digest import Digest
from imagegate.oci.documents import DOCUMENT_LIMIT, Descriptor
from imagegate.sources.registry import RegistrySink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.sources.registry import RegistryClient

# writers of this process take turns; a registry has nothing that would keep others out
_TURN = threading.RLock()
# seconds that another machine's write may come after it has read, and how many of the slowest
# request that was seen here: its way to the registry may be longer than ours
_PAUSE = 0.5
_REQUESTS = 6


class RegistryStore:
    """One repository, read through its client and written through its sink.

    Args:
        client: of the registry.
        repository: without registry, tag and digest.
    """

    def __init__(self, client: RegistryClient, repository: str) -> None:
        self._client = client
        self._repository = repository
        self._sink = RegistrySink(client, repository)
        self._slowest = 0.0

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other writers of this process out."""
        with _TURN:
            yield

    def find_manifest(self, name: Digest | str) -> bytes | None:
        """Return a manifest or index by digest or tag, verified.

        Raises:
            DigestMismatch: the bytes are not those of the digest asked for or announced.
            FetchError: the registry refuses or fails.
        """
        with self._timed():
            found = self._client.find_manifest(self._repository, name)
        return found.content if found is not None else None

    def read_blob(self, descriptor: Descriptor) -> bytes:
        """Return a small blob.

        Raises:
            BlobMissing: there is none.
            DigestMismatch: it has other bytes.
            FetchError: the registry refuses or fails.
        """
        return read_document(
            self._client.open_blob(self._repository, descriptor.digest, descriptor.size),
            what=f"the blob {descriptor.digest}",
            digest=descriptor.digest,
            size=descriptor.size,
            limit=DOCUMENT_LIMIT,
        )

    def put_blob(self, content: bytes) -> Digest:
        """Store a blob, unless it is there.

        Raises:
            FetchError: the registry refuses or fails.
        """
        digest = Digest.of(content)
        self._sink.push_blob(
            digest=digest, size=len(content), open_stream=lambda: io.BytesIO(content)
        )
        return digest

    def put_manifest(self, content: bytes, media_type: str) -> Digest:
        """Store a manifest without a tag; see :meth:`RegistrySink.put_manifest`."""
        return self._sink.put_manifest(content, media_type)

    def tag(self, tag: str, content: bytes, media_type: str) -> Digest:
        """Let a tag lead to a manifest that is stored; see :meth:`RegistrySink.tag`."""
        with self._timed():
            return self._sink.tag(tag, content, media_type)

    def pause(self) -> bool:
        """Wait longer than a writer needs between reading a tag and writing it."""
        self._client.clock.sleep(max(_PAUSE, _REQUESTS * self._slowest))
        return True

    @contextmanager
    def _timed(self) -> Iterator[None]:
        before = self._client.clock.now()
        yield
        self._slowest = max(self._slowest, self._client.clock.now() - before)

    def push_referrer(self, content: bytes, media_type: str) -> Descriptor:
        """Store a manifest that names a subject; see :meth:`RegistrySink.push_referrer`."""
        return self._sink.push_referrer(content, media_type)

    def referrers(
        self, subject: Digest, artifact_type: str | None = None
    ) -> tuple[Descriptor, ...]:
        """List what refers to a manifest; see :meth:`RegistrySink.referrers`."""
        return self._sink.referrers(subject, artifact_type)
