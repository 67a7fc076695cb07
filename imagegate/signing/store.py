"""Where signatures and statements are kept: beside the image, in a registry or a layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from imagegate.oci.digest import Digest
    from imagegate.oci.documents import Descriptor


class ArtifactStore(Protocol):
    """One repository, as far as small artifacts need it."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Keep other writers out, as far as the medium can: at least this process's."""

    def pause(self) -> bool:
        """Wait until other writers that read before the last write have written.

        Returns:
            Whether there can be such writers, so that it is worth looking again.
        """

    def find_manifest(self, name: Digest | str) -> bytes | None:
        """Return a manifest or index by digest, verified, or by tag; ``None`` for none."""

    def read_blob(self, descriptor: Descriptor) -> bytes:
        """Return a small blob, its digest and size verified.

        Raises:
            BlobMissing: there is none.
            DigestMismatch: it has other bytes.
        """

    def put_blob(self, content: bytes) -> Digest:
        """Store a blob, unless it is there."""

    def put_manifest(self, content: bytes, media_type: str) -> Digest:
        """Store a manifest without a tag."""

    def tag(self, tag: str, content: bytes, media_type: str) -> Digest:
        """Let a tag lead to a manifest that is stored."""

    def push_referrer(self, content: bytes, media_type: str) -> Descriptor:
        """Store a manifest that names a ``subject`` so that it is found by it."""

    def referrers(
        self, subject: Digest, artifact_type: str | None = None
    ) -> tuple[Descriptor, ...]:
        """List what refers to a manifest."""
