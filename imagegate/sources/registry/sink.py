"""A repository to push to: blobs, manifests as they are, tags last, referrers."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Literal

from imagegate.errors import BlobMissing, DigestMismatch, FetchError, ImageError
from imagegate.oci.digest import Digest
from imagegate.oci.documents import Descriptor, parse_json
from imagegate.sources.registry.answers import (
    UNKNOWN_CODES,
    check_digest_header,
    error_codes,
    registry_words,
    verify,
)
from imagegate.sources.registry.authorization import Access
from imagegate.sources.registry.referrers import (
    artifact_type_of,
    list_referrers,
    record_referrer,
)
from imagegate.sources.registry.upload import CHUNK, mount_blob, upload_blob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from imagegate.sources.registry.client import RegistryClient
    from imagegate.sources.registry.wire import Answer

Pushed = Literal["present", "mounted", "uploaded"]


class RegistrySink:
    """Writes into one repository.

    Args:
        client: of the registry.
        repository: without registry, tag and digest.
        chunk: bytes that an upload sends at once and holds in memory.
    """

    def __init__(self, client: RegistryClient, repository: str, *, chunk: int = CHUNK) -> None:
        self._client = client
        self._repository = repository
        self._chunk = chunk

    @property
    def name(self) -> str:
        """Registry and repository."""
        return f"{self._client.registry}/{self._repository}"

    def has_blob(self, digest: Digest) -> bool:
        """Say whether the repository holds a blob.

        Raises:
            FetchError: the registry refuses or fails.
        """
        return self._client.has_blob(self._repository, digest)

    def push_blob(
        self,
        *,
        digest: Digest,
        size: int,
        open_stream: Callable[[], BinaryIO],
        mount_from: Iterable[str] = (),
    ) -> Pushed:
        """Bring a blob into the repository with as few bytes as possible.

        Args:
            digest: what its bytes are.
            size: in bytes.
            open_stream: opens it at its start; called only where it must be sent.
            mount_from: repositories of the same registry that may hold it.

        Returns:
            ``present`` and ``mounted`` moved no byte of it.

        Raises:
            DigestMismatch: the stream has other bytes, or the registry received others.
            FetchError: the registry refuses or fails.
        """
        if self.has_blob(digest):
            return "present"
        for source in mount_from:
            if source != self._repository and mount_blob(
                self._client, self._repository, digest, source
            ):
                return "mounted"
        upload_blob(
            self._client,
            self._repository,
            digest=digest,
            size=size,
            open_stream=open_stream,
            chunk=self._chunk,
        )
        return "uploaded"

    def put_manifest(self, content: bytes, media_type: str) -> Digest:
        """Push a manifest or index byte for byte, without a tag, and read it back.

        Returns:
            Its digest, under which the registry serves exactly these bytes.

        Raises:
            BlobMissing: the repository lacks something that the manifest names.
            DigestMismatch: the registry keeps or serves other bytes.
            FetchError: the registry refuses or fails.
        """
        digest = Digest.of(content)
        self._put(content, media_type, digest)
        self._read_back(digest, digest)
        return digest

    def tag(self, tag: str, content: bytes, media_type: str) -> Digest:
        """Let a tag lead to a manifest that was pushed by :meth:`put_manifest`, and read it back.

        Raises:
            DigestMismatch: the tag leads, or is moved at once, to other bytes.
            FetchError: the registry refuses or fails.
        """
        digest = Digest.of(content)
        self._put(content, media_type, tag)
        self._read_back(tag, digest)
        return digest

    def resolve(self, tag: str) -> Digest | None:
        """Say which digest a tag leads to now, ``None`` where there is no such tag.

        Raises:
            FetchError: the registry refuses or fails.
        """
        found = self._client.find_manifest(self._repository, tag)
        return found.digest if found is not None else None

    def referrers(
        self, subject: Digest, artifact_type: str | None = None
    ) -> tuple[Descriptor, ...]:
        """List what refers to a manifest; see :func:`list_referrers`.

        Raises:
            ImageError: the listing is malformed.
            FetchError: the registry refuses or fails.
        """
        return list_referrers(self._client, self._repository, subject, artifact_type)

    def push_referrer(self, content: bytes, media_type: str) -> Descriptor:
        """Push a manifest that names a ``subject``, so that it is found by that subject.

        Its blobs have to be there. Where the registry does not confirm with ``OCI-Subject`` that
        it lists referrers itself, the fallback index is kept.

        Returns:
            The descriptor under which it is listed.

        Raises:
            ImageError: the manifest names no subject.
            DigestMismatch: the registry keeps or serves other bytes.
            FetchError: the registry refuses or fails.
        """
        what = "the referrer to be pushed"
        document = parse_json(content, what)
        stated = document.get("subject")
        if not isinstance(stated, dict) or not isinstance(stated.get("digest"), str):
            raise ImageError(f"{what} names no subject")
        subject = Digest.parse(stated["digest"])
        digest = Digest.of(content)
        # descriptor.md and "Pushing Manifests with Subject": type and annotations are copied
        descriptor = Descriptor.model_validate(
            {
                "mediaType": media_type,
                "digest": str(digest),
                "size": len(content),
                "artifactType": artifact_type_of(content, what),
                "annotations": document.get("annotations"),
            }
        )
        answer = self._put(content, media_type, digest)
        self._read_back(digest, digest)
        if answer.headers.get("oci-subject") != str(subject):
            record_referrer(self._client, self._repository, subject, descriptor)
        return descriptor

    def _put(self, content: bytes, media_type: str, name: Digest | str) -> Answer:
        what = f"the manifest `{name}` of `{self.name}`"
        answer = self._client.call(
            "PUT",
            f"/v2/{self._repository}/manifests/{name}",
            Access(repository=self._repository, push=True),
            expect=(200, 201, 400, 404),
            headers={"Content-Type": media_type},
            body=content,
        )
        if answer.status in (200, 201):
            check_digest_header(answer, content, what)
            return answer
        if error_codes(answer) & UNKNOWN_CODES:
            raise BlobMissing(
                f"`{self.name}` lacks what {what} names{registry_words(answer)}",
                hint="push the blobs again; some registries clean up blobs without a manifest",
            )
        raise FetchError(f"`{self.name}` refuses {what}{registry_words(answer)}")

    def _read_back(self, name: Digest | str, digest: Digest) -> None:
        """Require that the registry serves what it was given."""
        what = f"the manifest `{name}` of `{self.name}`, just pushed,"
        found = self._client.find_manifest(self._repository, name)
        if found is None:
            raise DigestMismatch(
                f"{what} is not served: expected={digest} found=nothing",
                hint="the registry keeps another form of it; push to one that keeps bytes",
            )
        verify(found.content, digest, what)
