"""``docker save`` archives: the containerd store's (an OCI layout in a tar) and the classic form.

The outer tar is only a container of named files here: whatever is taken from it is verified by
digest, and what is missing is an error, so a damaged outer tar cannot shorten a list.
"""

from __future__ import annotations

import io
import os
import posixpath
from typing import TYPE_CHECKING, BinaryIO, cast

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from imagegate.errors import BlobMissing, ImageError
from imagegate.oci.blob import read_document
from imagegate.oci.digest import Digest
from imagegate.oci.documents import DOCUMENT_LIMIT, ImageConfig, parse_document
from imagegate.oci.image import Image, ImageSource, Layer, layers_of
from imagegate.oci.tar import Kind
from imagegate.oci.tarindex import Member, locate_members
from imagegate.sources.layout import LayoutSource

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.oci.platform import Platform

# a hop from link to link in a classic archive, where equal layers are stored once
_LINK_LIMIT = 8


class _SavedImage(BaseModel):
    """One entry of a classic archive's ``manifest.json`` (moby, image/spec/v1.2)."""

    config: str = Field(alias="Config")
    repo_tags: tuple[str, ...] | None = Field(default=None, alias="RepoTags")
    layers: tuple[str, ...] = Field(alias="Layers")


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
            self._file = _File(path)
            size = self._file.seek(0, io.SEEK_END)
            self._file.seek(0)
            # of two entries with one name the last counts, as for `docker load`
            found = locate_members(cast("BinaryIO", self._file), size)
            self._members = {member.path: member for member in found}
        except OSError as error:
            raise ImageError(f"cannot read `{path}`: {error.strerror}") from error
        except ImageError as error:
            raise ImageError(
                f"`{path}` is not an uncompressed tar archive: {error.message}",
                hint="`docker save` writes one; unpack a compressed archive first",
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
        saved = self._saved()
        config_bytes = self._read(saved.config)
        config = parse_document(ImageConfig, config_bytes, f"`{saved.config}` in {location}")
        layers = tuple(layers_of(config, [None] * len(saved.layers), location))
        self._names = dict(zip(layers, saved.layers, strict=True))
        name = posixpath.basename(saved.config).removesuffix(".json")
        if len(name) == 64 and name != Digest.of(config_bytes).encoded:
            raise ImageError(f"`{saved.config}` in {location} has other bytes than its name says")
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

    def _saved(self) -> _SavedImage:
        try:
            images = TypeAdapter(list[_SavedImage]).validate_json(self._read("manifest.json"))
        except ValidationError as error:
            raise ImageError(f"`manifest.json` in {self._location} is malformed") from error
        if len(images) != 1:
            tags = ", ".join(tag for image in images for tag in image.repo_tags or ("untagged",))
            raise ImageError(
                f"{self._location} holds {len(images)} images: {tags}",
                hint="save one image an archive",
            )
        return images[0]

    def _read(self, name: str) -> bytes:
        stream = self._archive.open(name)
        if stream is None:
            raise ImageError(f"{self._location} is no image archive: it has no `{name}`")
        return read_document(
            stream,
            what=f"`{name}` in {self._location}",
            digest=None,
            size=None,
            limit=DOCUMENT_LIMIT,
        )


def open_archive(
    path: Path, *, digest: Digest | None, platform: Platform | None, location: str | None = None
) -> ImageSource:
    """Open an image archive of either form.

    Args:
        path: where it is.
        digest: the manifest or index to choose, where the archive has more than one.
        platform: what to choose in an index of several platforms.
        location: how messages name it, where it is not a file of the caller's.

    Raises:
        ImageError: it is not an archive, or holds no such image.
    """
    archive = Archive(path)
    location = location or f"the archive `{path}`"
    if archive.exists("index.json") and archive.exists("oci-layout"):
        return LayoutSource(archive, location, digest=digest, platform=platform)
    if digest is not None:
        raise ImageError(
            f"{location} is of the classic form, which holds no manifest: {digest} cannot be looked up",
            hint="leave the digest out; layers are still verified by their diff ids",
        )
    return ClassicArchiveSource(archive, location)
