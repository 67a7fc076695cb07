"""An image as one tar stream, as `docker load` and `podman load` take it.

Two forms: the OCI layout in a tar, which keeps the manifest and with it the image's digest
(containerd's store, podman), and docker's own form (moby, image/spec/v1.2), which docker's classic
store reads. Whatever is written is verified while it is sent; a blob with other bytes ends the
stream before it is whole.
"""

from __future__ import annotations

import json
import tarfile
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, Protocol

from imagegate.errors import DigestMismatch
from imagegate.oci.blob import CHUNK, VerifiedReader
from imagegate.oci.documents import OCI_INDEX, OCI_MANIFEST, layer_compression
from imagegate.oci.layer import decompressed
from imagegate.workspace.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from imagegate.oci.digest import Digest
    from imagegate.oci.image import Image, Layer

Form = Literal["oci", "docker"]


class Layers(Protocol):
    """Whatever opens an image's layers."""

    def open_layer(self, layer: Layer, /) -> BinaryIO:
        """Open a layer's blob."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """What is sent of an image, and how.

    Attributes:
        image: the image.
        form: the archive's.
        held: how many layers, from the bottom, the engine has; they are left out.
        inflate: write layers in zstd uncompressed, for engines that do not know it.
    """

    image: Image
    form: Form
    held: int = 0
    inflate: bool = False

    @property
    def sent(self) -> tuple[Layer, ...]:
        """The layers that go over."""
        return self.image.layers[self.held :]

    @property
    def size(self) -> int | None:
        """Bytes of the layers as they lie in the source, ``None`` where nothing says it."""
        sizes = [layer.descriptor.size if layer.descriptor else None for layer in self.sent]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None


def write_archive(
    sink: IO[bytes], sending: Sending, layers: Layers, *, advance: Callable[[int], object]
) -> None:
    """Write the archive; what makes it an image comes last, so that a part of it is none.

    Args:
        sink: written in order, from its beginning.
        sending: what.
        layers: opens the blobs.
        advance: called with the number of bytes of each piece of a layer.

    Raises:
        DigestMismatch: a blob has other bytes than the manifest or the config promises.
        BlobMissing: a layer is nowhere.
    """
    image = sending.image
    with tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT, bufsize=CHUNK) as tar:
        seen = set()
        for layer in sending.sent:
            name = _layer_name(layer, sending)
            if name not in seen:
                seen.add(name)
                _add_layer(tar, name, layer, layers.open_layer(layer), advance)
        config = _blob_name(image.config_digest)
        _add(tar, config, image.config_bytes)
        if sending.form == "oci":
            _add_layout(tar, image)
            return
        listed = {
            "Config": config,
            "RepoTags": None,
            "Layers": [_layer_name(layer, sending) for layer in image.layers],
        }
        _add(tar, "manifest.json", json.dumps([listed]).encode())


def _add_layout(tar: tarfile.TarFile, image: Image) -> None:
    assert image.manifest_bytes is not None
    assert image.manifest is not None
    assert image.digest is not None
    _add(tar, _blob_name(image.digest), image.manifest_bytes)
    _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
    platform = image.config.platform
    described = {"os": platform.os, "architecture": platform.architecture}
    if platform.variant:
        described["variant"] = platform.variant
    descriptor = {
        "mediaType": image.manifest.media_type or OCI_MANIFEST,
        "digest": str(image.digest),
        "size": len(image.manifest_bytes),
        "platform": described,
    }
    index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [descriptor]}
    _add(tar, "index.json", json.dumps(index).encode())


def _layer_name(layer: Layer, sending: Sending) -> str:
    if layer.descriptor is None or (sending.inflate and _is_zstd(layer)):
        return _blob_name(layer.diff_id)
    return _blob_name(layer.descriptor.digest)


def _is_zstd(layer: Layer) -> bool:
    assert layer.descriptor is not None
    return layer_compression(layer.descriptor.media_type) == "zstd"


def _blob_name(digest: Digest) -> str:
    return f"blobs/{digest.algorithm}/{digest.encoded}"


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, BytesIO(content))


def _add_layer(
    tar: tarfile.TarFile,
    name: str,
    layer: Layer,
    stream: BinaryIO,
    advance: Callable[[int], object],
) -> None:
    """Send one layer; an archive says a member's size first, so one of unknown size is spooled."""
    blob = layer.blob
    reader = VerifiedReader(
        stream, what=blob.what, digest=blob.digest, size=blob.size, progress=advance
    )
    info = tarfile.TarInfo(name)
    with reader, ExitStack() as held:
        if layer.descriptor is not None and name == _blob_name(layer.descriptor.digest):
            info.size = layer.descriptor.size
            # tarfile takes a short read for the end; a buffer reads on
            buffered = BufferedReader(reader, CHUNK)
            try:
                tar.addfile(info, buffered)
            except OSError as error:
                if str(error) != "unexpected end of data":  # tarfile's own, of a short source
                    raise
            buffered.detach()
            reader.finish()
            return
        spooled = held.enter_context(scratch_folder()) / "layer.tar"
        hasher = layer.diff_id.hasher()
        with Path(spooled).open("w+b") as file:
            for chunk in decompressed(reader, blob.what):
                hasher.update(chunk)
                file.write(chunk)
            reader.finish()
            if hasher.hexdigest() != layer.diff_id.encoded:
                raise DigestMismatch(
                    f"{blob.what} unpacks to other bytes than its diff id says: "
                    f"expected={layer.diff_id} found={layer.diff_id.algorithm}:{hasher.hexdigest()}"
                )
            info.size = file.tell()
            file.seek(0)
            tar.addfile(info, file)
