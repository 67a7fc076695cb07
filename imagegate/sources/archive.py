"""``docker save`` archives: the containerd store's (an OCI layout in a tar) and the classic form.

The outer tar is only a container of named files here: whatever is taken from it is verified by
digest, and what is missing is an error, so a damaged outer tar cannot shorten a list.
"""

from __future__ import annotations

import io
import os
import posixpath
from typing import TYPE_CHECKING, BinaryIO, cast

from pydantic import ValidationError

from imagegate.errors import BlobMissing, ImageError
from imagegate.localfiles import open_regular
from imagegate.oci.blob import read_document
from imagegate.oci.digest import Digest
from imagegate.oci.documents import DOCUMENT_LIMIT, ImageConfig, SavedImage, parse_document
from imagegate.oci.image import Image, ImageSource, Layer, layers_of
from imagegate.oci.strictjson import read_json
from imagegate.oci.tar import Kind
from imagegate.oci.tarindex import Member, locate_members
from imagegate.sources.layout import LayoutSource
from imagegate.sources.members import require_one_reading

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.oci.platform import Platform

# a hop from link to link in a classic archive, where equal layers are stored once
_LINK_LIMIT = 8


class _File(io.FileIO):
    """A file that closes with its last reader: neither source nor layer stream owns it alone."""

    def __del__(self) -> None:
        self.close()


class _Section(io.RawIOBase):
    """One member's bytes; reads by position, so that several can be read side by side."""

    def __init__(self, file: _File, start: int, size: int) -> None:
        super().__init__()
        self._file = file
        self._at = start
        self._end = start + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        wanted = min(self._end - self._at, memoryview(buffer).nbytes)
        chunk = os.pread(self._file.fileno(), wanted, self._at)
        buffer[: len(chunk)] = chunk
        self._at += len(chunk)
        return len(chunk)


class Archive:
    """The files of an uncompressed tar, opened by name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with open_regular(path) as opened:
                self._file = _File(os.dup(opened.fileno()))
            size = self._file.seek(0, io.SEEK_END)
            self._file.seek(0)
            found = list(locate_members(cast("BinaryIO", self._file), size))
        except OSError as error:
            raise ImageError(f"cannot read `{path}`: {error.strerror}") from error
        except ImageError as error:
            raise ImageError(
                f"`{path}` is not an uncompressed tar archive: {error.message}",
                hint="`docker save` writes one; unpack a compressed archive first",
            ) from error
        try:
            self._members = require_one_reading(found)
        except ImageError as error:
            raise ImageError(
                f"the archive `{path}` is ambiguous: {error.message}",
                hint="save the image again; `docker save`, `podman save` and skopeo write no such",
            ) from error

    def open(self, name: str) -> BinaryIO | None:
        """Open the file, following links inside the archive, or return ``None``."""
        member = self._member(name)
        if member is None:
            return None
        return cast("BinaryIO", _Section(self._file, member.offset, member.size))

    def exists(self, name: str) -> bool:
        """Say whether there is such a file."""
        return self._member(name) is not None

    def _member(self, name: str) -> Member | None:
        name = _inside(name)
        for _ in range(_LINK_LIMIT):
            member = self._members.get(name)
            if member is None or member.kind is Kind.FILE:
                return member
            if member.kind is Kind.SYMLINK:
                name = _inside(posixpath.join(posixpath.dirname(name), member.target))
            elif member.kind is Kind.HARDLINK:
                name = member.target
            else:
                return None
        raise ImageError(f"`{name}` in `{self._path}` is a link in a circle")


def _inside(name: str) -> str:
    """Normalise a name; the archive's root has nothing above it."""
    return posixpath.normpath(f"/{name}").lstrip("/")


class ClassicArchiveSource:
    """An image of a classic archive: a config and tars, but no manifest and so no digest."""

    def __init__(self, archive: Archive, location: str) -> None:
        self._archive = archive
        self._location = location
        saved = _saved(archive, location)
        config_bytes = _read_config(archive, saved, location)
        config = parse_document(ImageConfig, config_bytes, f"`{saved.config}` in {location}")
        layers = tuple(layers_of(config, [None] * len(saved.layers), location))
        self._names = dict(zip(layers, saved.layers, strict=True))
        self._image = Image(
            location=location,
            manifest_bytes=None,
            manifest=None,
            config_bytes=config_bytes,
            config=config,
            layers=layers,
        )

    @property
    def image(self) -> Image:
        """The archive's image."""
        return self._image

    def open_layer(self, layer: Layer) -> BinaryIO:
        """Open the layer's tar.

        Raises:
            BlobMissing: the archive does not hold it.
        """
        stream = self._archive.open(self._names[layer])
        if stream is None:
            raise BlobMissing(f"`{self._names[layer]}` ({layer.label}) is not in {self._location}")
        return stream

    def has_layer(self, layer: Layer) -> bool:
        """Say whether the archive holds the layer's tar."""
        return self._archive.exists(self._names[layer])


def _saved(archive: Archive, location: str) -> SavedImage:
    """Read the one image that ``manifest.json`` names."""
    what = f"`manifest.json` in {location}"
    listed = read_json(_read(archive, "manifest.json", location), what)
    if not isinstance(listed, list):
        raise ImageError(f"{what} is not a list of images")
    images = []
    for entry in listed:
        try:
            images.append(SavedImage.model_validate(entry))
        except ValidationError as error:
            said = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise ImageError(f"{what} is malformed: {said}") from error
    if len(images) != 1:
        tags = ", ".join(tag for image in images for tag in image.repo_tags or ("untagged",))
        raise ImageError(
            f"{location} holds {len(images)} images: {tags}", hint="save one image an archive"
        )
    for name in (images[0].config, *images[0].layers):
        if name != _inside(name) or not name:
            raise ImageError(
                f"{what} names the file `{name}`: some loaders look for exactly this name, some "
                f"for `{_inside(name)}`"
            )
    return images[0]


def _read_config(archive: Archive, saved: SavedImage, location: str) -> bytes:
    content = _read(archive, saved.config, location)
    name = posixpath.basename(saved.config).removesuffix(".json")
    if len(name) == 64 and name != Digest.of(content).encoded:
        raise ImageError(f"`{saved.config}` in {location} has other bytes than its name says")
    return content


def _read(archive: Archive, name: str, location: str) -> bytes:
    stream = archive.open(name)
    if stream is None:
        raise ImageError(f"{location} is not an image archive: it has no `{name}`")
    return read_document(
        stream, what=f"`{name}` in {location}", digest=None, size=None, limit=DOCUMENT_LIMIT
    )


def _require_one_image(archive: Archive, image: Image, location: str) -> None:
    """Require that both lists of an archive name one image.

    containerd's store saves ``index.json`` and ``manifest.json`` side by side; docker's classic
    store and skopeo read the second alone, podman the first. Loaders compare each layer with the
    config's diff ids, so that equal configs are equal images; the names are compared all the same.

    Raises:
        ImageError: they differ.
    """
    saved = _saved(archive, location)
    content = _read_config(archive, saved, location)
    assert image.manifest is not None
    both = f"{location} is two images in one: `index.json` leads to"
    if content != image.config_bytes:
        raise ImageError(
            f"{both} the config {Digest.of(image.config_bytes)}, `manifest.json` to "
            f"{Digest.of(content)}; docker, podman and skopeo differ on which they load"
        )
    if len(saved.layers) != len(image.layers):
        raise ImageError(
            f"{both} {len(image.layers)} layers, `manifest.json` to {len(saved.layers)}"
        )
    for name, layer in zip(saved.layers, image.layers, strict=True):
        assert layer.descriptor is not None
        found = _blob_digest(name)
        if found is not None and found not in (layer.descriptor.digest, layer.diff_id):
            raise ImageError(
                f"{both} {layer.descriptor.digest} as layer {layer.number}, "
                f"`manifest.json` to {found}"
            )


def _blob_digest(name: str) -> Digest | None:
    """Return the digest that a blob's place in a layout stands for."""
    parts = name.split("/")
    if len(parts) != 3 or parts[0] != "blobs":
        return None
    return Digest.parse(f"{parts[1]}:{parts[2]}")


def open_archive(
    path: Path, *, digest: Digest | None, platform: Platform | None, location: str | None = None
) -> ImageSource:
    """Open an image archive of either form, or of both.

    Args:
        path: where it is.
        digest: the manifest or index to choose, where the archive has more than one.
        platform: what to choose in an index of several platforms.
        location: how messages name it, where it is not a file of the caller's.

    Raises:
        ImageError: it is not an archive, holds no such image, or is two images to two loaders.
    """
    archive = Archive(path)
    location = location or f"the archive `{path}`"
    layout = [archive.exists(name) for name in ("index.json", "oci-layout")]
    classic = archive.exists("manifest.json")
    if any(layout) and not all(layout):
        # podman and skopeo read an index alone, containerd asks for both
        there, missing = ("index.json", "oci-layout") if layout[0] else ("oci-layout", "index.json")
        raise ImageError(
            f"{location} is not an image archive: it has `{there}` and no `{missing}`; "
            "loaders differ on whether it is an OCI layout"
        )
    if all(layout):
        source = LayoutSource(archive, location, digest=digest, platform=platform)
        if classic:
            _require_one_image(archive, source.image, location)
        return source
    if digest is not None:
        raise ImageError(
            f"{location} is of the classic form, which holds no manifest: {digest} cannot be looked up",
            hint="leave the digest out; layers are still verified by their diff ids",
        )
    return ClassicArchiveSource(archive, location)
