"""Which image files are an asset: the same file on disk, or the same bytes."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import clean, inside
from imagegate.coverage.tree import Kind, lookup, walk

if TYPE_CHECKING:
    from typing import BinaryIO

    from imagegate.coverage.building.build import Build
    from imagegate.coverage.tree import Context, Node, Origin

_CHUNK = 1 << 20


class Identity:
    """Compares the files of an image with those of the main context."""

    def __init__(self, build: Build) -> None:
        self._main = build.main.context
        self._named = {name: known.context for name, known in build.named.items()}
        self._prefixes = {
            name: _prefix(self._main.location, context.location)
            for name, context in self._named.items()
        }
        self._same: dict[tuple[str, Origin], bool] = {}

    def main_path(self, origin: Origin) -> str | None:
        """Return the path in the main context that an image file comes from, or ``None``."""
        if origin.member or origin.inline is not None or origin.fetched:
            return None
        if not origin.context:
            return origin.path
        prefix = self._prefixes.get(origin.context)
        if prefix is None:
            return None
        path = inside(f"{prefix}/{origin.path}")
        return path if lookup(self._main.root, path) is not None else None

    def is_asset(self, path: str, origin: Origin) -> bool:
        """Say whether an image file is the context file at `path`."""
        return self.main_path(origin) == path

    def same_bytes(self, path: str, node: Node) -> bool:
        """Say whether an image file has the bytes of the context file at `path`."""
        origin = node.origin
        asset = lookup(self._main.root, path)
        if origin is None or asset is None or node.kind is not Kind.FILE:
            return False
        if origin.fetched or (origin.inline is None and asset.size != node.size):
            return False
        key = (path, origin)
        if key not in self._same:
            try:
                self._same[key] = self._compare(path, origin)
            except (OSError, tarfile.TarError, EOFError, KeyError):
                self._same[key] = False
        return self._same[key]

    def same_elsewhere(self, path: str, image: Node) -> tuple[str, Node] | None:
        """Return a file of the image with the name and the bytes of the context file at `path`."""
        name = path.rpartition("/")[2]
        asset = lookup(self._main.root, path)
        if asset is None or not asset.size:
            return None
        for place, node in walk(image):
            if place.rpartition("/")[2] == name and self.same_bytes(path, node):
                return place, node
        return None

    def _compare(self, path: str, origin: Origin) -> bool:
        with self._main.open(path) as asset:
            if origin.inline is not None:
                return asset.read() == origin.inline.encode("utf-8", "surrogateescape")
            if origin.emptied:
                return not asset.read(1)
            context = self._named.get(origin.context, self._main)
            if origin.member:
                return _equal(asset, _member(context, origin))
            with context.open(origin.path) as other:
                return _equal(asset, other)


def _prefix(main: str, named: str) -> str | None:
    """Return where the folder `named` lies in the folder `main`, ``""`` for the same one."""
    if not main or not named:
        return None
    outer, inner = clean(main), clean(named)
    if outer == inner:
        return ""
    if outer == ".":
        return None if inner.startswith(("/", "..")) else inner
    return inner.removeprefix(outer + "/") if inner.startswith(outer + "/") else None


def _member(context: Context, origin: Origin) -> BinaryIO:
    with context.open(origin.path) as opened, tarfile.open(fileobj=opened, mode="r:*") as archive:
        for member in archive:
            if inside(member.name) == origin.member and member.isfile():
                taken = archive.extractfile(member)
                if taken is not None:
                    return io.BytesIO(taken.read())
    raise KeyError(origin.member)


def _equal(one: BinaryIO, other: BinaryIO) -> bool:
    while True:
        left, right = one.read(_CHUNK), other.read(_CHUNK)
        if left != right:
            return False
        if not left:
            return True
