"""Images built in memory: layers from a few lines, written as layout or archive.

The tars are written by the standard library, so that the reader under test is not compared with
a writer of the same hand.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from backports import zstd

if TYPE_CHECKING:
    from pathlib import Path

Compression = Literal["plain", "gzip", "gzip1", "gzip9", "zstd"]
_SUFFIX = {"plain": "", "gzip": "+gzip", "gzip1": "+gzip", "gzip9": "+gzip", "zstd": "+zstd"}


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class HardLink:
    """A hard link to another path of the image."""

    target: str


@dataclass(frozen=True)
class Directory:
    """A directory with an entry of its own."""

    mode: int = 0o755


@dataclass(frozen=True)
class File:
    """A file with other attributes than usual."""

    content: bytes
    mode: int = 0o644
    uid: int = 0
    pax: tuple[tuple[str, str], ...] = ()


Content = bytes | str | Link | HardLink | Directory | File
# a mapping keeps one entry a name; a list of pairs may repeat names and fixes the order
Layer = dict[str, Content] | list[tuple[str, Content]]


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def tar(layer: Layer, *, format: int = tarfile.PAX_FORMAT) -> bytes:  # noqa: A002 - tarfile's word
    """Write one layer as an uncompressed tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as archive:
        for name, content in layer.items() if isinstance(layer, dict) else layer:
            info = tarfile.TarInfo(name)
            stream = None
            if isinstance(content, str):
                content = content.encode()
            if isinstance(content, bytes):
                content = File(content)
            match content:
                case Link(target):
                    info.type, info.linkname = tarfile.SYMTYPE, target
                case HardLink(target):
                    info.type, info.linkname = tarfile.LNKTYPE, target
                case Directory(mode):
                    info.type, info.mode = tarfile.DIRTYPE, mode
                case File():
                    info.size, info.mode, info.uid = len(content.content), content.mode, content.uid
                    info.pax_headers = dict(content.pax)
                    stream = io.BytesIO(content.content)
            archive.addfile(info, stream)
    return buffer.getvalue()


def compress(content: bytes, how: Compression) -> bytes:
    if how == "plain":
        return content
    if how == "zstd":
        return zstd.compress(content)
    level = {"gzip": 6, "gzip1": 1, "gzip9": 9}[how]
    return gzip.compress(content, compresslevel=level, mtime=0)


@dataclass(frozen=True)
class BuiltImage:
    """An image as bytes: what a layout, an archive or a registry would hold."""

    manifest: bytes
    config: bytes
    layers: tuple[bytes, ...]
    tars: tuple[bytes, ...]
    media_type: str = "application/vnd.oci.image.manifest.v1+json"

    @property
    def digest(self) -> str:
        return digest(self.manifest)

    @property
    def blobs(self) -> dict[str, bytes]:
        return {digest(blob): blob for blob in (self.manifest, self.config, *self.layers)}

    def descriptor(self, **more: Any) -> dict[str, Any]:
        return {
            "mediaType": self.media_type,
            "digest": self.digest,
            "size": len(self.manifest),
            **more,
        }

    def with_manifest(self, **changes: Any) -> BuiltImage:
        """The same blobs under a manifest with some fields changed."""
        return replace(self, manifest=json.dumps({**json.loads(self.manifest), **changes}).encode())


@dataclass
class ImageBuilder:
    """Collects layers and settings, then builds."""

    compression: Compression = "gzip"
    architecture: str = "arm64"
    variant: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    layers: list[bytes] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    def layer(self, content: Layer | bytes, step: str = "RUN something") -> ImageBuilder:
        self.layers.append(content if isinstance(content, bytes) else tar(content))
        self.steps.append(step)
        return self

    def build(self) -> BuiltImage:
        blobs = tuple(compress(layer, self.compression) for layer in self.layers)
        config = {
            "os": "linux",
            "architecture": self.architecture,
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in self.layers]},
            "history": [{"created_by": step} for step in self.steps],
        }
        if self.variant:
            config["variant"] = self.variant
        config_bytes = json.dumps(config).encode()
        media_type = "application/vnd.oci.image.layer.v1.tar" + _SUFFIX[self.compression]
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": digest(config_bytes),
                "size": len(config_bytes),
            },
            "layers": [
                {"mediaType": media_type, "digest": digest(blob), "size": len(blob)}
                for blob in blobs
            ],
        }
        if self.annotations:
            manifest["annotations"] = self.annotations
        return BuiltImage(json.dumps(manifest).encode(), config_bytes, blobs, tuple(self.layers))


def write_layout(
    folder: Path,
    *images: BuiltImage,
    index: dict[str, Any] | None = None,
    extra: dict[str, bytes] | None = None,
    without: tuple[str, ...] = (),
) -> Path:
    """Write an OCI layout.

    Args:
        folder: where to.
        images: what it holds.
        index: the index, where it shall be another than one that lists the images.
        extra: further blobs by digest.
        without: digests of blobs that are left out.
    """
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    everything = {name: blob for image in images for name, blob in image.blobs.items()}
    for name, blob in {**everything, **(extra or {})}.items():
        if name not in without:
            (blobs / name.removeprefix("sha256:")).write_bytes(blob)
    listing = index or {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [image.descriptor() for image in images],
    }
    (folder / "index.json").write_text(json.dumps(listing))
    return folder


def write_classic_archive(path: Path, image: BuiltImage, tag: str = "test:latest") -> Path:
    """Write what ``docker save`` of the classic store writes: plain tars and a manifest.json."""
    config = digest(image.config).removeprefix("sha256:") + ".json"
    names = [f"{digest(layer).removeprefix('sha256:')}/layer.tar" for layer in image.tars]
    saved = [{"Config": config, "RepoTags": [tag], "Layers": names}]
    files: dict[str, Content] = {config: image.config}
    files.update(zip(names, image.tars, strict=True))
    files["manifest.json"] = json.dumps(saved)
    path.write_bytes(tar(files, format=tarfile.GNU_FORMAT))
    return path


def write_layout_archive(path: Path, folder: Path) -> Path:
    """Pack a layout as ``docker save`` of the containerd store does."""
    files: dict[str, Content] = {
        str(found.relative_to(folder)): found.read_bytes()
        for found in sorted(folder.rglob("*"))
        if found.is_file()
    }
    path.write_bytes(tar(files, format=tarfile.GNU_FORMAT))
    return path
