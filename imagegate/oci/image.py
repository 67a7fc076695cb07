"""An image as every medium delivers it, and the two methods that a medium has to supply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol

from imagegate.errors import BlobMissing, ImageError
from imagegate.foreign.credentials import redact
from imagegate.oci.digest import Digest
from imagegate.oci.documents import (
    CONFIG_TYPES,
    INDEX_TYPES,
    MANIFEST_TYPES,
    Descriptor,
    HistoryEntry,
    ImageConfig,
    Index,
    Manifest,
    is_layer,
    layer_compression,
    parse_document,
    parse_json,
)
from imagegate.oci.layer import LayerBlob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from imagegate.oci.platform import Platform

# an index of an index of an index is legal; deeper nesting has no use and may be a cycle
_INDEX_DEPTH = 4
_MANIFESTS_OR_INDEXES = MANIFEST_TYPES | INDEX_TYPES
_SCHEMA1 = ("application/vnd.docker.distribution.manifest.v1+json", "prettyjws")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer: where it stands, what its bytes must be, and which step made it.

    Attributes:
        number: position from the bottom, counted from 1.
        diff_id: digest of the uncompressed tar as the config claims it.
        descriptor: the manifest's descriptor, ``None`` where the medium has no manifest.
        created_by: the history's text for the step, its credentials hidden, ``""`` where there is
            none.
    """

    number: int
    diff_id: Digest
    descriptor: Descriptor | None
    created_by: str

    @property
    def label(self) -> str:
        """How messages name the layer."""
        digest = self.descriptor.digest if self.descriptor else self.diff_id
        return f"layer {self.number} ({digest.algorithm}:{digest.short}…)"

    @property
    def blob(self) -> LayerBlob:
        """What the layer's bytes must be."""
        return LayerBlob(
            what=self.label,
            digest=self.descriptor.digest if self.descriptor else None,
            size=self.descriptor.size if self.descriptor else None,
            diff_id=self.diff_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image for one platform.

    Attributes:
        location: where it was found, for messages.
        manifest_bytes: the manifest verbatim, ``None`` where the medium has none (a classic
            docker archive); such an image has no digest and cannot be promoted.
        config_bytes: the config verbatim.
        index_digest: digest of the index through which the manifest was chosen, if any.
    """

    location: str
    manifest_bytes: bytes | None
    manifest: Manifest | None
    config_bytes: bytes
    config: ImageConfig
    layers: tuple[Layer, ...]
    index_digest: Digest | None = None

    @property
    def digest(self) -> Digest | None:
        """Digest of the manifest's bytes."""
        return None if self.manifest_bytes is None else Digest.of(self.manifest_bytes)

    @property
    def config_digest(self) -> Digest:
        """Digest of the config's bytes, which engines without a manifest know the image by."""
        return Digest.of(self.config_bytes)


class ImageSource(Protocol):
    """A medium that holds one chosen image."""

    @property
    def image(self) -> Image:
        """The image, its documents verified."""

    def open_layer(self, layer: Layer) -> BinaryIO:
        """Open the layer's blob; what is read is verified by the reader.

        Raises:
            BlobMissing: the medium does not hold the blob.
        """

    def has_layer(self, layer: Layer) -> bool:
        """Say whether the layer's blob can be opened."""


def assemble(
    *,
    location: str,
    manifest_bytes: bytes,
    config_bytes: bytes,
    index_digest: Digest | None = None,
) -> Image:
    """Build an image from the verified bytes of its manifest and config.

    Raises:
        ImageError: a document is malformed, or manifest and config disagree on the layers.
    """
    manifest = parse_manifest(manifest_bytes, f"the manifest in {location}")
    if manifest.config.media_type not in CONFIG_TYPES:
        raise ImageError(
            f"{location} is not a container image: its config is `{manifest.config.media_type}`"
        )
    config = parse_document(ImageConfig, config_bytes, f"the config in {location}")
    for descriptor in manifest.layers:
        layer_compression(descriptor.media_type)
    return Image(
        location=location,
        manifest_bytes=manifest_bytes,
        manifest=manifest,
        config_bytes=config_bytes,
        config=config,
        layers=tuple(layers_of(config, manifest.layers, location)),
        index_digest=index_digest,
    )


def layers_of(
    config: ImageConfig, descriptors: Iterable[Descriptor | None], location: str
) -> Iterator[Layer]:
    """Join descriptors, diff ids and history steps.

    Raises:
        ImageError: their numbers differ.
    """
    found = list(descriptors)
    diff_ids = config.rootfs.diff_ids
    if len(found) != len(diff_ids):
        raise ImageError(
            f"manifest and config of {location} disagree: "
            f"manifest={len(found)} layers config={len(diff_ids)} diff ids"
        )
    # config.md, "history": entries with empty_layer have no layer; the others are in order
    steps = [step for step in config.history or () if not step.empty_layer]
    if len(steps) != len(diff_ids):
        steps = [HistoryEntry()] * len(diff_ids)
    for number, (descriptor, diff_id, step) in enumerate(
        zip(found, diff_ids, steps, strict=True), 1
    ):
        yield Layer(
            number=number,
            diff_id=diff_id,
            descriptor=descriptor,
            created_by=redact(step.created_by or step.comment or ""),
        )


def parse_manifest(content: bytes, what: str, served_as: str | None = None) -> Manifest:
    """Read an image manifest.

    Args:
        content: its bytes.
        what: how messages name it.
        served_as: the media type of the descriptor that led here, or of the answer's header.

    Raises:
        ImageError: it is malformed, an index, the retired schema 1, or served as something else
            than it says it is.
    """
    document = parse_json(content, what)
    media_type = _media_type(document, what)
    require_one_type(media_type, served_as, what)
    if document.get("schemaVersion") == 1 or _is_schema1(media_type):
        raise ImageError(
            f"{what} has the retired schema version 1, which names no config",
            hint="push the image again with a current tool; its digest will change",
        )
    if media_type is not None and media_type not in MANIFEST_TYPES:
        raise ImageError(f"{what} is `{media_type}`, not an image manifest")
    return parse_document(Manifest, content, what)


def is_index(content: bytes, media_type: str | None, what: str) -> bool:
    """Say whether a document is an index rather than a manifest.

    Args:
        content: the document's bytes.
        media_type: what it is served as, ``None`` where nothing says so.
        what: how messages name it.

    Raises:
        ImageError: it says it is something else than it is served as, or is both.
    """
    document = parse_json(content, what)
    stated = _media_type(document, what)
    require_one_type(stated, media_type, what)
    both = {"manifests"} & document.keys(), {"layers", "config"} & document.keys()
    if all(both):
        raise ImageError(
            f"{what} is ambiguous: `manifests` makes it an index, "
            f"`{min(both[1])}` an image manifest; readers take it differently"
        )
    if stated in _MANIFESTS_OR_INDEXES:
        return stated in INDEX_TYPES
    if media_type in _MANIFESTS_OR_INDEXES:
        return media_type in INDEX_TYPES
    return "manifests" in document


def require_one_type(stated: str | None, served_as: str | None, what: str) -> None:
    """Require that a document is served as what it says it is (manifest.md, "mediaType").

    A media type that is not a manifest's or index's, as ``application/json``, says nothing.

    Raises:
        ImageError: the two differ.
    """
    served = (served_as or "").partition(";")[0].strip().lower() or None
    if None not in (stated, served) and stated != served and served in _MANIFESTS_OR_INDEXES:
        raise ImageError(
            f"{what} is ambiguous: it says it is `{stated}` and is served as `{served}`; "
            "readers take it differently"
        )


def _media_type(document: dict[str, object], what: str) -> str | None:
    stated = document.get("mediaType")
    if stated is not None and not isinstance(stated, str):
        raise ImageError(f"{what} is malformed: `mediaType` is not text")
    return stated or None


def _is_schema1(media_type: str | None) -> bool:
    return any(part in (media_type or "") for part in _SCHEMA1)


def select(
    root: Index,
    *,
    read: Callable[[Descriptor], bytes],
    platform: Platform | None,
    digest: Digest | None,
    location: str,
) -> tuple[Descriptor, Digest | None]:
    """Choose one manifest in an index that may hold further indexes.

    Args:
        root: where to start.
        read: returns the verified bytes of a descriptor.
        platform: what to choose where several manifests stand side by side.
        digest: the manifest or index that the caller pinned.
        location: for messages.

    Returns:
        The manifest's descriptor and the digest of the index that was pinned on the way, if any.

    Raises:
        ImageError: no entry fits, or more than one does.
    """
    # image-index.md: media types that a reader does not know are ignored
    candidates = [
        found
        for found in _walk(root, read, digest)
        if (found[0].media_type in MANIFEST_TYPES or _is_schema1(found[0].media_type))
        and not (found[0].is_attestation and _is_no_image(found[0], read, location))
    ]
    if digest is not None:
        candidates = [found for found in candidates if digest in (found[0].digest, found[1])]
    if platform is not None and len(candidates) > 1:
        # of an entry without platform some readers ask the config, and may take it
        candidates = [
            found
            for found in candidates
            if found[0].platform is None or found[0].platform.normal == platform
        ] or candidates
    distinct = {found[0].digest: found for found in candidates}
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    wanted = f" {digest}" if digest else ""
    if not distinct:
        raise ImageError(f"{location} holds no image{wanted}", hint="list its index.json")
    listed = ", ".join(
        f"{found.digest} ({found.platform.normal if found.platform else 'no platform'})"
        for found, _ in distinct.values()
    )
    raise ImageError(
        f"{location} holds several images: {listed}",
        hint="choose one with `@sha256:…` or `--platform`",
    )


def _is_no_image(
    descriptor: Descriptor, read: Callable[[Descriptor], bytes], location: str
) -> bool:
    """Say whether an entry that calls itself an attestation or artifact is none that could run.

    Runtimes choose by platform, or by the config where there is none, and do not look at the
    artifact type or at annotations: only what they would not choose may be passed over.
    """
    if descriptor.platform is not None:
        normal = descriptor.platform
        return normal.os == normal.architecture == "unknown"
    try:
        content = read(descriptor)
    except BlobMissing:
        return True
    manifest = parse_manifest(content, f"the manifest {descriptor.digest} in {location}")
    return manifest.config.media_type not in CONFIG_TYPES or not all(
        is_layer(layer.media_type) for layer in manifest.layers
    )


def _walk(
    root: Index, read: Callable[[Descriptor], bytes], pinned: Digest | None
) -> Iterator[tuple[Descriptor, Digest | None]]:
    """Yield every manifest below an index, with the pinned index that it was found in, if any."""
    waiting: list[tuple[Index, Digest | None, int]] = [(root, None, _INDEX_DEPTH)]
    # an index that stands in several others is read once, or a few could stand for millions
    seen: set[tuple[Digest, Digest | None]] = set()
    while waiting:
        index, through, depth = waiting.pop()
        for descriptor in index.manifests:
            if descriptor.media_type not in INDEX_TYPES:
                yield descriptor, through
                continue
            inside = descriptor.digest if descriptor.digest == pinned else through
            if (descriptor.digest, inside) in seen:
                continue
            what = f"the index {descriptor.digest}"
            if depth == 0:
                raise ImageError(f"{what} is nested deeper than {_INDEX_DEPTH} indexes")
            seen.add((descriptor.digest, inside))
            content = read(descriptor)
            require_one_type(
                _media_type(parse_json(content, what), what), descriptor.media_type, what
            )
            nested = parse_document(Index, content, what)
            waiting.append((nested, inside, depth - 1))
