"""Signatures and statements in an OCI image layout."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from imagegate.errors import BlobMissing, ImageError
from imagegate.localfiles import open_regular, read_regular
from imagegate.oci.blob import read_document
from imagegate.oci.digest import Digest
from imagegate.oci.documents import (
    DOCUMENT_LIMIT,
    OCI_INDEX,
    OCI_MANIFEST,
    REF_NAME,
    Descriptor,
    Index,
    Manifest,
    parse_document,
    parse_json,
)
from imagegate.workspace.atomic import write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# how cosign finds its parts in a layout (cosign, pkg/oci/layout)
KIND = "kind"
_KINDS = {".sig": "dev.cosignproject.cosign/sigs", ".att": "dev.cosignproject.cosign/atts"}
_IMAGE_KINDS = {
    OCI_MANIFEST: "dev.cosignproject.cosign/image",
    OCI_INDEX: "dev.cosignproject.cosign/imageIndex",
}


class LayoutStore:
    """A layout in a folder; its ``index.json`` is the list of tags and referrers.

    Writers of several processes take turns, and a crash leaves the old index or the new one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held = threading.local()

    def find_manifest(self, name: Digest | str) -> bytes | None:
        """Return a manifest or index by digest or tag.

        Raises:
            ImageError: the layout is damaged.
        """
        if isinstance(name, Digest):
            return self._document(name)
        for entry in self._index().manifests:
            if (entry.annotations or {}).get(REF_NAME) == name:
                return self._document(entry.digest)
        return None

    def read_blob(self, descriptor: Descriptor) -> bytes:
        """Return a small blob.

        Raises:
            BlobMissing: there is none.
            DigestMismatch: it has other bytes.
        """
        path = self._blob(descriptor.digest)
        try:
            stream = cast("BinaryIO", open_regular(path))
        except OSError as error:
            raise BlobMissing(f"the layout `{self._folder}` has no {descriptor.digest}") from error
        return read_document(
            stream,
            what=f"the blob {descriptor.digest}",
            digest=descriptor.digest,
            size=descriptor.size,
            limit=DOCUMENT_LIMIT,
        )

    def put_blob(self, content: bytes) -> Digest:
        """Store a blob, unless it is there with its bytes."""
        digest = Digest.of(content)
        path = self._blob(digest)
        if not path.is_file() or read_regular(path) != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, content)
        return digest

    def put_manifest(self, content: bytes, media_type: str) -> Digest:  # noqa: ARG002 - the protocol's
        """Store a manifest; it is listed when it gets a tag or a subject."""
        return self.put_blob(content)

    def tag(self, tag: str, content: bytes, media_type: str) -> Digest:
        """List a manifest under a tag, in place of what had the tag before."""
        digest = self.put_blob(content)
        annotations = {REF_NAME: tag}
        kind = next((kind for suffix, kind in _KINDS.items() if tag.endswith(suffix)), None)
        if kind is not None:
            annotations[KIND] = kind
        entry = {
            "mediaType": media_type,
            "digest": str(digest),
            "size": len(content),
            "annotations": annotations,
        }

        def replace(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
            # in its old place, so that the same content gives the same index
            tagged = [(e.get("annotations") or {}).get(REF_NAME) == tag for e in entries]
            if not any(tagged):
                return [*entries, entry]
            return [entry if is_it else e for e, is_it in zip(entries, tagged, strict=True)]

        self._change(replace)
        return digest

    def push_referrer(self, content: bytes, media_type: str) -> Descriptor:
        """List a manifest that names a subject.

        Raises:
            ImageError: it names none.
        """
        document = parse_json(content, "the referrer")
        if not isinstance(document.get("subject"), dict):
            raise ImageError("the referrer names no subject")
        digest = self.put_blob(content)
        entry = {
            "mediaType": media_type,
            "digest": str(digest),
            "size": len(content),
            "artifactType": document.get("artifactType"),
            "annotations": document.get("annotations") or {},
        }

        def add(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return (
                entries if any(e["digest"] == str(digest) for e in entries) else [*entries, entry]
            )

        self._change(add)
        return Descriptor.model_validate(entry)

    def referrers(
        self, subject: Digest, artifact_type: str | None = None
    ) -> tuple[Descriptor, ...]:
        """List what refers to a manifest, by the manifests' own words."""
        found = []
        for entry in self._index().manifests:
            if entry.media_type != OCI_MANIFEST:
                continue
            content = self._document(entry.digest)
            if content is None:
                continue
            document = parse_json(content, f"the manifest {entry.digest}")
            named = document.get("subject")
            if not isinstance(named, dict) or named.get("digest") != str(subject):
                continue
            manifest = parse_document(Manifest, content, f"the manifest {entry.digest}")
            stated = manifest.artifact_type or manifest.config.media_type
            if artifact_type in (None, stated):
                found.append(entry)
        return tuple(found)

    def mark_image(self, digest: Digest) -> None:
        """Mark the image's entry as cosign does, so that it verifies the layout without a registry."""

        def mark(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
            for entry in entries:
                kind = _IMAGE_KINDS.get(str(entry.get("mediaType")))
                if entry["digest"] == str(digest) and kind is not None:
                    entry["annotations"] = {**(entry.get("annotations") or {}), KIND: kind}
            return entries

        self._change(mark)

    def _change(self, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        with self.exclusive():
            path = self._folder / "index.json"
            before = read_regular(path)
            document = parse_json(before, f"`{path}`")
            document["manifests"] = change(list(document["manifests"]))
            after = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
            parse_document(Index, after, f"the new `{path}`")
            if after != before:
                write_file(path, after)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Let one writer at a time in, of all processes; the same thread may enter again."""
        if getattr(self._held, "depth", 0):
            yield
            return
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._held.depth = 1
            yield
        finally:
            self._held.depth = 0
            os.close(descriptor)

    def pause(self) -> bool:
        """Wait for nobody: writers take turns here, whatever process they are."""
        return False

    def _index(self) -> Index:
        path = self._folder / "index.json"
        try:
            content = read_regular(path)
        except OSError as error:
            raise ImageError(f"cannot read `{path}`: {error.strerror}") from error
        return parse_document(Index, content, f"`{path}`")

    def _document(self, digest: Digest) -> bytes | None:
        path = self._blob(digest)
        if not path.is_file():
            return None
        return read_document(
            cast("BinaryIO", open_regular(path)),
            what=f"the manifest {digest}",
            digest=digest,
            size=None,
            limit=DOCUMENT_LIMIT,
        )

    def _blob(self, digest: Digest) -> Path:
        return self._folder / "blobs" / digest.algorithm / digest.encoded
