"""Writing a layer: entries to a tar, the tar to a compressed blob, both hashed on the way."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, BinaryIO

from imagegate.engines.compose.install import digest_stream, install_wheel
from imagegate.errors import FetchError, RecipeError
from imagegate.localfiles import read_regular
from imagegate.oci.digest import Digest
from imagegate.oci.gzipwrite import GzipWriter
from imagegate.oci.tar import Kind
from imagegate.oci.tarwrite import Header, TarWriter
from imagegate.rootfs import Node, PathIndex, ancestors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from imagegate.lock import LockedAsset, LockedWheel
    from imagegate.recipe import LinkEntry, Recipe


class BlobWriter:
    """Compresses into a file and knows digest, size and diff id at the end."""

    def __init__(self, stream: BinaryIO, *, threads: int) -> None:
        self._stream = stream
        self._diff = sha256()
        self._blob = sha256()
        self.size = 0
        self._gzip = GzipWriter(self._compressed, threads=threads)

    def write(self, chunk: bytes) -> None:
        """Take the next bytes of the tar."""
        self._diff.update(chunk)
        self._gzip.write(chunk)

    def finish(self) -> None:
        """End the compressed stream."""
        self._gzip.finish()

    def abort(self) -> None:
        """Stop the compressor's threads."""
        self._gzip.abort()

    @property
    def digest(self) -> Digest:
        """Digest of the compressed blob."""
        return Digest("sha256", self._blob.hexdigest())

    @property
    def diff_id(self) -> Digest:
        """Digest of the tar."""
        return Digest("sha256", self._diff.hexdigest())

    def _compressed(self, chunk: bytes) -> None:
        self._blob.update(chunk)
        self.size += len(chunk)
        self._stream.write(chunk)


class LayerWriter:
    """Writes files, links and the directories above them on top of what is below.

    Args:
        tar: where entries go.
        below: the base's paths. A directory that is there keeps its owner and mode: an entry
            with other attributes would change them in the merged tree.
    """

    def __init__(self, tar: TarWriter, below: PathIndex) -> None:
        self._tar = tar
        self._below = below
        self._written: set[str] = set()

    def file(self, path: str, mode: int, size: int) -> None:
        """Start a file; its bytes go to the tar writer."""
        self._place(path)
        self._tar.start(Header(path=path, kind=Kind.FILE, mode=mode, size=size))

    def link(self, path: str, target: str) -> None:
        """Write a symbolic link."""
        self._place(path)
        self._tar.start(Header(path=path, kind=Kind.SYMLINK, mode=0o777, target=target))

    def _place(self, path: str) -> None:
        if path in self._written:
            raise RecipeError(f"the layer would hold `{path}` twice")
        for directory in reversed(list(ancestors(path))):
            self._directory(directory)
        self._written.add(path)

    def _directory(self, path: str) -> None:
        if path in self._written:
            return
        below = self._below.get(path)
        if below is not None and below.kind is not Kind.DIRECTORY:
            raise RecipeError(
                f"the layer would write below `{path}`, which is not a directory in the base",
                hint="choose a path that does not lead through a link",
            )
        self._written.add(path)
        self._tar.start(
            Header(
                path=path,
                kind=Kind.DIRECTORY,
                mode=below.mode if below else 0o755,
                uid=below.uid if below else 0,
                gid=below.gid if below else 0,
            )
        )


class _WheelWriter:
    """Writes the files of one wheel that the index gives to it; each must be the indexed one."""

    def __init__(
        self, wheel: LockedWheel, index: Mapping[str, Node], layer: LayerWriter, tar: TarWriter
    ) -> None:
        self._wheel = wheel
        self._index = index
        self._layer = layer
        self._tar = tar

    def receive(self, path: str, mode: int, stream: BinaryIO, /) -> tuple[str, int]:
        node = self._index.get(path)
        if node is None:
            raise FetchError(f"{self._wheel.label} brings `{path}`, which the lock does not list")
        if node.owner != self._wheel.label:
            return digest_stream(stream)  # another wheel's file stands at this path
        self._layer.file(path, mode, node.size)
        digest, size = digest_stream(stream, self._tar.content)
        if (digest, size, mode) != (node.sha256, node.size, node.mode):
            raise FetchError(
                f"`{path}` of {self._wheel.label} is not the locked file: "
                f"locked={node.sha256} found={digest}",
                hint="the lock was made by another version of imagegate or installer; lock again",
            )
        return digest, size


def write_wheels(
    tar: TarWriter,
    below: PathIndex,
    recipe: Recipe,
    wheels: Iterable[tuple[LockedWheel, Path]],
    index: Mapping[str, Node],
    advance: Callable[[int], object],
) -> None:
    """Write the files of some wheels, in the order given."""
    layer = LayerWriter(tar, below)
    for wheel, path in wheels:
        receiver = _WheelWriter(wheel, index, layer, tar)
        install_wheel(path, recipe.python, wheel.name, receiver)
        advance(path.stat().st_size)
    tar.finish()


def write_assets(
    tar: TarWriter,
    below: PathIndex,
    assets: Iterable[tuple[LockedAsset, Path]],
    links: Iterable[LinkEntry],
) -> None:
    """Write model assets and the recipe's links, in order of path.

    Raises:
        RecipeError: an asset is not the locked one, or two things would share a path.
    """
    layer = LayerWriter(tar, below)
    entries: dict[str, tuple[LockedAsset, Path] | str] = {}
    for asset, path in assets:
        entries[asset.target] = (asset, path)
    for link in links:
        name = link.path.lstrip("/")
        if name in entries:
            raise RecipeError(f"the layer would hold `{name}` twice")
        entries[name] = link.target
    for name in sorted(entries):
        entry = entries[name]
        if isinstance(entry, str):
            layer.link(name, entry)
            continue
        asset, path = entry
        content = _asset(path, asset)
        if sha256(content).hexdigest() != asset.sha256:
            raise RecipeError(
                f"`{asset.source}` changed after it was locked",
                hint="lock again, then build",
            )
        layer.file(name, 0o644, len(content))
        tar.content(content)
    tar.finish()


def _asset(path: Path, asset: LockedAsset) -> bytes:
    """Read an asset; more bytes than were locked are as wrong as other ones.

    Raises:
        RecipeError: it cannot be read.
    """
    try:
        return read_regular(path, limit=asset.size + 1)
    except OSError as error:
        raise RecipeError(
            f"cannot read `{asset.source}`: {error.strerror}", hint="lock again, then build"
        ) from error
