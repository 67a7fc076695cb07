"""What commands that push to a registry share: where to, where layers come from, what it moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from imagegate.errors import BlobMissing, ImagegateError, UsageError
from imagegate.oci.reference import Reference
from imagegate.sources import open_image
from imagegate.sources.registry import RegistrySink, RegistrySource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from imagegate.oci.digest import Digest
    from imagegate.oci.image import Image, ImageSource, Layer
    from imagegate.recipe import Recipe
    from imagegate.sources.connection import Connection
    from imagegate.sources.registry import PushedBlob, RegistryClient
    from imagegate.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A repository to push to, and the tag that keeps a manifest from being collected there."""

    repository: Reference
    tag: str | None

    @classmethod
    def parse(cls, text: str) -> Destination:
        """Read ``registry/repository[:tag]``.

        Raises:
            UsageError: it names no registry, or a digest, which is the image's own to have.
        """
        reference = Reference.parse(text.removeprefix("docker://"))
        if reference.digest is not None:
            raise UsageError(
                f"`{text}` names a digest; the image brings its own",
                hint="write `registry/repository` or `registry/repository:tag`",
            )
        return cls(
            repository=Reference(reference.registry, reference.repository), tag=reference.tag
        )

    def tag_for(self, digest: Digest, prefix: str) -> str:
        """Return the chosen tag, or one that belongs to this digest alone and so never moves."""
        return self.tag or f"{prefix}-{digest.short}"

    def open(self, connection: Connection) -> tuple[RegistryClient, RegistrySink]:
        """Connect to the registry; the client counts what goes over the wire."""
        client = connection.client(self.repository.registry)
        return client, RegistrySink(client, self.repository.repository)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a transfer moved, in bytes of HTTP bodies, and how each blob came to its place.

    Attributes:
        sent: to the destination.
        received: from the destination and from where layers were copied.
        blobs: every blob with how it came there.
    """

    sent: int
    received: int
    blobs: tuple[PushedBlob, ...]

    def count(self, how: str) -> int:
        """Return how many blobs came to their place in one way."""
        return sum(blob.how == how for blob in self.blobs)


class LayerSources:
    """Everything that may hold an image's layers, opened only when a layer has to be sent.

    Args:
        first: what the image was read from.
        locations: further places in the order in which they are tried.
        connection: how registries are spoken to, and the image's platform.
        folder: what a relative location is relative to.
    """

    def __init__(
        self,
        first: ImageSource,
        locations: tuple[str, ...],
        *,
        connection: Connection,
        folder: Path,
    ) -> None:
        self._first = first
        self._locations = locations
        self._connection = connection
        self._folder = folder
        self._opened: dict[str, ImageSource | ImagegateError] = {}

    @property
    def image(self) -> Image:
        """The image whose layers are looked for."""
        return self._first.image

    @property
    def received(self) -> int:
        """Bytes that registries sent."""
        opened = (self._first, *self._opened.values())
        return sum(wire_received(source) for source in opened)

    def has_layer(self, _layer: Layer) -> bool:
        """Say yes: whether a layer is anywhere shows when it is opened, with a reason if not."""
        return True

    def open_layer(self, layer: Layer) -> BinaryIO:
        """Open a layer where it is found first.

        Raises:
            BlobMissing: it is nowhere; names every place that was looked at.
        """
        if self._first.has_layer(layer):
            return self._first.open_layer(layer)
        looked = [f"{self._first.image.location}: not there"]
        for location in self._locations:
            source = self._open(location)
            if isinstance(source, ImagegateError):
                looked.append(f"`{location}`: {source.message}")
            elif source.has_layer(layer):
                return source.open_layer(layer)
            else:
                looked.append(f"`{location}`: not there")
        assert layer.descriptor is not None
        raise BlobMissing(
            f"layer {layer.number} ({layer.descriptor.digest}, {layer.descriptor.size} bytes) has "
            f"to be sent and is nowhere: {'; '.join(looked)}",
            hint="say with `--base REF` which layout, archive or registry holds the base's layers",
        )

    def _open(self, location: str) -> ImageSource | ImagegateError:
        if location not in self._opened:
            try:
                self._opened[location] = open_image(location, self._connection, folder=self._folder)
            except ImagegateError as error:
                # another place may have the layer; the reason is told if none does
                self._opened[location] = error
        return self._opened[location]


def base_locations(workspace: Workspace, recipe: Recipe, chosen: str | None) -> Iterator[str]:
    """Say where the base's layers may be, nearest first.

    Args:
        workspace: where a base that was built here lies.
        recipe: whose base.
        chosen: what the caller named.
    """
    if chosen is not None:
        yield chosen
    if recipe.base is None:
        return
    made_here = recipe.document.base.recipe
    if made_here is not None and workspace.layout(made_here).is_dir():
        yield f"oci:{workspace.relative(workspace.layout(made_here))}"
    yield f"docker://{recipe.base}"


def wire_received(source: object) -> int:
    """Return how many bytes a registry sent for a source; other media send none."""
    return source.client.traffic.received if isinstance(source, RegistrySource) else 0


def same_registry(source: object, registry: str) -> str | None:
    """Return the repository that a source reads from, if it is one of this registry."""
    if not isinstance(source, RegistrySource) or source.reference.registry != registry:
        return None
    return source.reference.repository
