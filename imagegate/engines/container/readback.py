"""What an engine built, as an OCI layout over the locked base.

An engine's store keeps layers unpacked and saves them as plain tars: its base layers have the
locked diff ids and other blob digests. The layout names the locked blobs in their place, so that
the image can be judged without reading the base and pushed without sending it. That is sound
whatever the engine holds: the written image *is* those blobs and the added layers, and it is this
image that is judged, by the config's diff ids among others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from imagegate.engines.compose.layers import BlobWriter
from imagegate.engines.container.secrets import Search
from imagegate.engines.layout import base_annotations, base_descriptor, write_layout
from imagegate.errors import DigestMismatch, RefusedError
from imagegate.oci.blob import CHUNK, VerifiedReader
from imagegate.oci.documents import OCI_LAYER_GZIP, parse_json
from imagegate.oci.layer import read_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from imagegate.engines.container.secrets import Secret
    from imagegate.lock import Lock
    from imagegate.oci.digest import Digest
    from imagegate.oci.image import ImageSource, Layer
    from imagegate.oci.tar import Sink
    from imagegate.recipe import Recipe

_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """What was written.

    Attributes:
        digest: of the manifest.
        base_layers: how many layers are the locked base's.
    """

    digest: Digest
    base_layers: int


def read_back(
    source: ImageSource,
    recipe: Recipe,
    lock: Lock,
    folder: Path,
    *,
    secrets: Sequence[Secret],
    threads: int,
    advance: Callable[[int], object],
) -> ReadBack:
    """Write an engine's image as a layout and require that it holds no build secret.

    Args:
        source: the image as the engine saved it.
        recipe: what it was built from.
        lock: names the base's layers.
        folder: an empty folder.
        secrets: what must not be found.
        threads: how many threads compress.
        advance: called with the bytes of the added layers.

    Raises:
        RefusedError: a secret is in a layer or in the config.
        DigestMismatch: a layer is not what the image's config says.
        ImageError: a layer is damaged.
    """
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    image = source.image
    _search_config(image.config_bytes, secrets)
    below = _base_layers(source, lock)
    layers: list[dict[str, Any]] = []
    if lock.manifest is not None:
        layers += [base_descriptor(descriptor) for descriptor in lock.manifest.layers[:below]]
    for layer in image.layers[below:]:
        _search_layer(source, layer, secrets)
        layers.append(_pack(source, layer, blobs, threads, advance))
    digest = write_layout(
        folder,
        recipe,
        config=image.config_bytes,
        layers=layers,
        annotations=base_annotations(recipe, lock),
    )
    return ReadBack(digest=digest, base_layers=below)


def _base_layers(source: ImageSource, lock: Lock) -> int:
    """Count the layers from the bottom whose diff ids are the locked base's; all or none."""
    if lock.config is None:
        return 0
    locked = lock.config.rootfs.diff_ids
    found = [layer.diff_id for layer in source.image.layers[: len(locked)]]
    return len(locked) if found == list(locked) else 0


def _pack(
    source: ImageSource, layer: Layer, blobs: Path, threads: int, advance: Callable[[int], object]
) -> dict[str, Any]:
    """Write a layer's blob: a plain tar compressed, a compressed one as it is."""
    unnamed = blobs / "layer.new"
    with (
        VerifiedReader(
            source.open_layer(layer),
            what=layer.label,
            digest=layer.blob.digest,
            size=layer.blob.size,
            progress=advance,
        ) as reader,
        unnamed.open("wb", buffering=1 << 20) as stream,
    ):
        if layer.descriptor is not None and reader.head(2) == _GZIP_MAGIC:
            _copy(reader, stream)
            reader.finish()
            digest, size = layer.descriptor.digest, layer.descriptor.size
        else:
            blob = BlobWriter(stream, threads=threads)
            try:
                while chunk := reader.read(CHUNK):
                    blob.write(chunk)
                blob.finish()
            finally:
                blob.abort()
            reader.finish()
            if blob.diff_id != layer.diff_id:
                raise DigestMismatch(
                    f"{layer.label} is not the layer that the engine's config names: "
                    f"expected={layer.diff_id} found={blob.diff_id}"
                )
            digest, size = blob.digest, blob.size
    unnamed.rename(blobs / digest.encoded)
    return {"mediaType": OCI_LAYER_GZIP, "digest": str(digest), "size": size}


def _copy(reader: VerifiedReader, stream: BinaryIO) -> None:
    while chunk := reader.read(CHUNK):
        stream.write(chunk)


def _search_config(config: bytes, secrets: Sequence[Secret]) -> None:
    """Look into every string of the config as it is, without JSON's escapes."""
    search = Search(secrets)
    waiting: list[object] = [parse_json(config, "the config of the built image")]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, str):
            search.write(f"{one}\0".encode())
    if search.found:
        raise RefusedError(
            f"the build secret `{min(search.found)}` is in the image's config: "
            "an ENV, a label or the text of a step",
            hint="mount it (`RUN --mount=type=secret`) and write its value nowhere",
        )


def _search_layer(source: ImageSource, layer: Layer, secrets: Sequence[Secret]) -> None:
    """Read a layer once, verified, and look into every file."""
    searches: dict[str, Search] = {}

    def want(path: str, _size: int, _head: bytes, /) -> Sink | None:
        searches[path] = Search(secrets)
        return searches[path]

    if not secrets:
        return
    reading = read_layer(source.open_layer(layer), layer.blob, want=want)
    places = {path: search.found for path, search in searches.items() if search.found}
    for entry in reading.entries:  # a name or a link's target can carry a value too
        search = Search(secrets)
        search.write(f"{entry.path}\0{entry.target}".encode())
        if search.found:
            places[entry.path] = search.found
    if places:
        path, found = min(places.items())
        raise RefusedError(
            f"the build secret `{min(found)}` is in `{path}` of {layer.label}: {layer.created_by}",
            hint="mount it (`RUN --mount=type=secret`) and copy it nowhere",
        )
