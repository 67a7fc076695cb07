"""OCI image layout (image-spec, image-layout.md) in a folder or inside an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from imagegate.errors import BlobMissing, ImageError
from imagegate.localfiles import open_regular
from imagegate.oci.blob import read_document
from imagegate.oci.documents import DOCUMENT_LIMIT, Descriptor, Index, parse_document, parse_json
from imagegate.oci.image import Image, Layer, assemble, parse_manifest, select

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.oci.digest import Digest
    from imagegate.oci.platform import Platform


class Files(Protocol):
    """Named files, as a folder or an archive holds them."""

    def open(self, name: str) -> BinaryIO | None:
        """Open the file, or return ``None`` where there is none."""

    def exists(self, name: str) -> bool:
        """Say whether there is such a file."""


class Folder:
    """Files in a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, name: str) -> BinaryIO | None:
        """Open the file, or return ``None`` where there is none."""
        try:
            return cast("BinaryIO", open_regular(self._path / name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ImageError(f"cannot read `{self._path / name}`: {error.strerror}") from error

    def exists(self, name: str) -> bool:
        """Say whether there is such a file."""
        return (self._path / name).is_file()


class LayoutSource:
    """One image of an OCI layout.

    Args:
        files: the layout's files.
        location: how messages name the layout.
        digest: the manifest or index to choose, where the layout has more than one.
        platform: what to choose in an index of several platforms.

    Raises:
        ImageError: the layout is broken or holds no such image.
    """

    def __init__(
        self, files: Files, location: str, *, digest: Digest | None, platform: Platform | None
    ) -> None:
        self._files = files
        self._location = location
        version = parse_json(self._document("oci-layout"), f"`oci-layout` in {location}")
        stated = version.get("imageLayoutVersion")
        # image-layout.md: a string; its major version is the one of the layout
        if not isinstance(stated, str) or stated.split(".")[0] != "1":
            raise ImageError(f"{location} has the unknown layout version {version!r}")
        index = parse_document(Index, self._document("index.json"), f"`index.json` in {location}")
        chosen, through = select(
            index, read=self._blob, platform=platform, digest=digest, location=location
        )
        manifest_bytes = self._blob(chosen)
        what = f"the manifest {chosen.digest} in {location}"
        manifest = parse_manifest(manifest_bytes, what, chosen.media_type)
        self._image = assemble(
            location=location,
            manifest_bytes=manifest_bytes,
            config_bytes=self._blob(manifest.config),
            index_digest=through,
        )

    @property
    def image(self) -> Image:
        """The chosen image."""
        return self._image

    def open_layer(self, layer: Layer) -> BinaryIO:
        """Open the layer's blob.

        Raises:
            BlobMissing: the layout does not hold it.
        """
        stream = self._files.open(_blob_name(layer)) if layer.descriptor else None
        if stream is None:
            raise BlobMissing(
                f"{layer.label} is not in {self._location}",
                hint="this layout may hold the added layers only; the base's have to come with it to be read",
            )
        return stream

    def has_layer(self, layer: Layer) -> bool:
        """Say whether the layout holds the layer's blob."""
        return layer.descriptor is not None and self._files.exists(_blob_name(layer))

    def _document(self, name: str) -> bytes:
        stream = self._files.open(name)
        if stream is None:
            raise ImageError(
                f"{self._location} is not an OCI layout: it has no `{name}`",
                hint="give the folder that holds `oci-layout` and `index.json`",
            )
        return read_document(
            stream,
            what=f"`{name}` in {self._location}",
            digest=None,
            size=None,
            limit=DOCUMENT_LIMIT,
        )

    def _blob(self, descriptor: Descriptor) -> bytes:
        digest = descriptor.digest
        stream = self._files.open(f"blobs/{digest.algorithm}/{digest.encoded}")
        if stream is None:
            raise BlobMissing(f"the blob {digest} is not in {self._location}")
        return read_document(
            stream,
            what=f"the blob {digest} in {self._location}",
            digest=digest,
            size=descriptor.size,
            limit=DOCUMENT_LIMIT,
        )


def _blob_name(layer: Layer) -> str:
    assert layer.descriptor is not None
    digest = layer.descriptor.digest
    return f"blobs/{digest.algorithm}/{digest.encoded}"
