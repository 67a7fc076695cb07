"""A whole image into a repository: blobs, then its manifest as it is, then its tag."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from imagegate.errors import BlobMissing, ImageError
from imagegate.oci.documents import OCI_MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from imagegate.oci.digest import Digest
    from imagegate.oci.image import Image, ImageSource, Layer
    from imagegate.sources.registry.sink import Pushed, RegistrySink


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedBlob:
    """One blob and how it came into the repository; only ``uploaded`` moved its bytes."""

    digest: Digest
    size: int
    how: Pushed


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedImage:
    """What a push did.

    Attributes:
        digest: of the manifest, read back from the registry.
        blobs: the layers in their order, then the config.
    """

    digest: Digest
    blobs: tuple[PushedBlob, ...]

    @property
    def uploaded(self) -> int:
        """Bytes of blobs that went over the wire."""
        return sum(blob.size for blob in self.blobs if blob.how == "uploaded")


def push_image(
    sink: RegistrySink,
    image: Image,
    sources: Sequence[ImageSource],
    *,
    mount_from: Iterable[str] = (),
    tag: str | None = None,
) -> PushedImage:
    """Push an image with the bytes that it has.

    The tag is set last, when the registry has served the manifest back: a push that fails leaves
    no tag, and the next one finds the blobs that arrived.

    Args:
        sink: where to.
        image: what to push.
        sources: media that hold its layers; a layer is read from the first that has it, and only
            where it can neither be found in the repository nor be mounted into it.
        mount_from: repositories of the same registry that may hold layers, the base's above all.
        tag: keeps the manifest from being collected.

    Raises:
        ImageError: the image has no manifest, so it has no digest that could be pushed.
        BlobMissing: no source holds a layer that has to be sent.
        DigestMismatch: bytes are not what the manifest says, or the registry changes them.
        FetchError: the registry refuses or fails.
    """
    manifest, content = image.manifest, image.manifest_bytes
    if manifest is None or content is None:
        raise ImageError(
            f"{image.location} has no manifest and so no digest to be pushed under",
            hint="push from an OCI layout, a registry, or docker's containerd store",
        )
    repositories = tuple(mount_from)
    blobs = []
    for layer in image.layers:
        assert layer.descriptor is not None
        digest, size = layer.descriptor.digest, layer.descriptor.size
        opener = _Opener(layer, sources, image.location)
        how = sink.push_blob(digest=digest, size=size, open_stream=opener, mount_from=repositories)
        blobs.append(PushedBlob(digest=digest, size=size, how=how))
    how = sink.push_blob(
        digest=manifest.config.digest,
        size=manifest.config.size,
        open_stream=lambda: io.BytesIO(image.config_bytes),
    )
    blobs.append(PushedBlob(digest=manifest.config.digest, size=manifest.config.size, how=how))
    # manifest.md: a manifest that states no media type is an OCI one
    media_type = manifest.media_type or OCI_MANIFEST
    pushed = sink.put_manifest(content, media_type)
    if tag is not None:
        sink.tag(tag, content, media_type)
    return PushedImage(digest=pushed, blobs=tuple(blobs))


@dataclass(frozen=True, slots=True)
class _Opener:
    """Opens a layer in the first source that has it."""

    layer: Layer
    sources: Sequence[ImageSource]
    location: str

    def __call__(self) -> BinaryIO:
        for source in self.sources:
            if source.has_layer(self.layer):
                return source.open_layer(self.layer)
        raise BlobMissing(
            f"{self.layer.label} of {self.location} is in none of the sources",
            hint="give the registry that holds the base; its layers have to come from somewhere",
        )
