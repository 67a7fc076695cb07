"""An image in a registry: its documents read at once, its layers only when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from imagegate.errors import BlobMissing, DigestMismatch, UsageError
from imagegate.oci.blob import read_document
from imagegate.oci.documents import (
    DOCUMENT_LIMIT,
    INDEX_TYPES,
    MANIFEST_TYPES,
    OCI_INDEX,
    OCI_MANIFEST,
    Descriptor,
    Index,
    parse_json,
)
from imagegate.oci.image import Image, Layer, assemble, is_index, parse_manifest, select
from imagegate.oci.reference import Reference

if TYPE_CHECKING:
    from imagegate.oci.digest import Digest
    from imagegate.oci.platform import Platform
    from imagegate.sources.connection import Connection
    from imagegate.sources.registry.client import RegistryClient

_TRANSPORT = "docker://"


class RegistrySource:
    """One image of a repository.

    A tag is resolved once, here; everything after that goes by digest. Where a reference has
    both, the digest rules and the tag is not looked at.

    Args:
        client: of the reference's registry.
        reference: what to read.
        platform: what to choose where an index has several.

    Raises:
        BlobMissing: the manifest or config is not there.
        ImageError: what is there is no image, or is damaged.
        FetchError: the registry refuses or fails.
    """

    def __init__(
        self, client: RegistryClient, reference: Reference, *, platform: Platform | None = None
    ) -> None:
        self._client = client
        self._repository = reference.repository
        self._documents: dict[Digest, bytes] = {}
        root = self._root(reference)
        self._reference = Reference(
            reference.registry, reference.repository, reference.tag, root.digest
        )
        location = f"`{self._reference}`"
        chosen, through = select(
            Index.model_validate({"schemaVersion": 2, "manifests": [root]}),
            read=self._document,
            platform=platform,
            digest=root.digest,
            location=location,
        )
        manifest_bytes = self._document(chosen)
        what = f"the manifest {chosen.digest} in {location}"
        manifest = parse_manifest(manifest_bytes, what, chosen.media_type)
        self._image = assemble(
            location=location,
            manifest_bytes=manifest_bytes,
            config_bytes=self._config(manifest.config),
            index_digest=through,
        )

    @property
    def image(self) -> Image:
        """The chosen image."""
        return self._image

    @property
    def client(self) -> RegistryClient:
        """The registry's client, which counts what went over the wire."""
        return self._client

    @property
    def reference(self) -> Reference:
        """The reference as it was given, with the digest that it led to."""
        return self._reference

    def open_layer(self, layer: Layer) -> BinaryIO:
        """Open the layer's blob; a connection that breaks is resumed.

        Raises:
            BlobMissing: the repository does not hold it.
            FetchError: the registry refuses or fails.
        """
        if layer.descriptor is None:
            raise BlobMissing(f"{layer.label} has no descriptor to be fetched by")
        try:
            return self._client.open_blob(
                self._repository, layer.descriptor.digest, layer.descriptor.size
            )
        except BlobMissing as error:
            hint = error.hint
            if layer.descriptor.urls:
                hint = "it is a foreign layer, which is kept elsewhere; put it into the registry"
            raise BlobMissing(f"{layer.label}: {error.message}", hint=hint) from error

    def has_layer(self, layer: Layer) -> bool:
        """Say whether the repository holds the layer's blob.

        Raises:
            FetchError: the registry refuses or fails.
        """
        return layer.descriptor is not None and self._client.has_blob(
            self._repository, layer.descriptor.digest
        )

    def _root(self, reference: Reference) -> Descriptor:
        """Fetch what the reference leads to, and keep it: a tag is read once."""
        name = reference.digest or reference.tag or "latest"
        found = self._client.manifest(reference.repository, name)
        self._documents[found.digest] = found.content
        what = f"the manifest `{found.digest}` of `{reference.name}`"
        media_type = parse_json(found.content, what).get("mediaType") or found.media_type
        if is_index(found.content, found.media_type, what):
            media_type = media_type if media_type in INDEX_TYPES else OCI_INDEX
        elif media_type not in MANIFEST_TYPES:
            media_type = OCI_MANIFEST
        return Descriptor.model_validate(
            {
                "mediaType": media_type,
                "digest": str(found.digest),
                "size": len(found.content),
            }
        )

    def _document(self, descriptor: Descriptor) -> bytes:
        content = self._documents.get(descriptor.digest)
        if content is None:
            content = self._client.manifest(self._repository, descriptor.digest).content
            self._documents[descriptor.digest] = content
        if len(content) != descriptor.size:
            raise DigestMismatch(
                f"the manifest {descriptor.digest} of `{self._reference.name}` has another size "
                f"than its index says: index={descriptor.size} found={len(content)}"
            )
        return content

    def _config(self, descriptor: Descriptor) -> bytes:
        return read_document(
            self._client.open_blob(self._repository, descriptor.digest, descriptor.size),
            what=f"the config {descriptor.digest} of `{self._reference}`",
            digest=descriptor.digest,
            size=descriptor.size,
            limit=DOCUMENT_LIMIT,
        )


def registry_reference(location: str) -> Reference | None:
    """Read a location as one in a registry.

    ``docker://NAME[:TAG][@DIGEST]`` always is one; without the transport, only what names its
    registry and its digest is, so that a mistyped path is not asked for in a registry.

    Returns:
        The reference, or ``None`` where the location is of another kind.

    Raises:
        UsageError: ``docker://`` is followed by no reference.
    """
    if location.startswith(_TRANSPORT):
        return Reference.parse(location.removeprefix(_TRANSPORT))
    if "@" not in location:
        return None
    try:
        reference = Reference.parse_pinned(location)
    except UsageError:
        return None
    return reference if location.startswith(f"{reference.registry}/") else None


def open_registry_image(reference: Reference, connection: Connection) -> RegistrySource:
    """Open an image in a registry; a tag is resolved once.

    Raises:
        BlobMissing: the manifest or config is not there.
        ImageError: what is there is no image, or is damaged.
        FetchError: the registry refuses or fails.
    """
    client = connection.client(reference.registry)
    return RegistrySource(client, reference, platform=connection.platform)
