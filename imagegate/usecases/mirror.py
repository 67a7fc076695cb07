"""``imagegate mirror``: copy a recipe's base by digest to a registry of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.errors import BlobMissing, LockError, UsageError
from imagegate.oci.documents import Descriptor, Index, parse_document
from imagegate.oci.image import is_index, parse_manifest
from imagegate.oci.reference import Reference
from imagegate.sources.registry import (
    PushedBlob,
    RegistryClient,
    RegistrySink,
    RegistrySource,
    push_image,
)
from imagegate.usecases.bases import base_location
from imagegate.usecases.transfer import Moved, same_registry, wire_received

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.oci.digest import Digest
    from imagegate.oci.image import ImageSource
    from imagegate.usecases.invocation import Invocation
    from imagegate.usecases.transfer import Destination

# an index of indexes is legal; deeper nesting has no use and may be a cycle
_INDEX_DEPTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOutcome:
    """What mirroring did.

    Attributes:
        reference: where the base is now, under the digest that it always had.
        moved: what went over the wire.
    """

    reference: Reference
    moved: Moved


def mirror_base(call: Invocation, name: str, *, to: Destination, base: str | None) -> MirrorOutcome:
    """Copy what the recipe's base digest names, byte for byte.

    Where the digest is an index's, everything that the index lists is copied: it could not be
    served under the same digest otherwise.

    Args:
        call: where the recipe is.
        name: the recipe.
        to: the repository to copy to, and the tag if one was chosen.
        base: where the base's bytes are; where the recipe says if ``None``.

    Raises:
        UsageError: the recipe has no base, or the named image is only part of it.
        LockError: the named image is another one.
        BlobMissing: something that has to be copied is not there.
        DigestMismatch: bytes are not those of their digest, or the registry changes them.
        FetchError: a registry refuses or fails.
    """
    recipe = call.workspace.recipe(name)
    if recipe.base is None or recipe.base.digest is None:
        raise UsageError(f"the recipe `{name}` starts from scratch; it has no base to mirror")
    digest = recipe.base.digest
    source = call.open(base or base_location(call.workspace, recipe), recipe.platform)
    client, sink = to.open(call.connection)
    tag = to.tag_for(digest, "base")
    call.reporter.say(f"mirroring {digest} to {to.repository.name}:{tag}")
    if source.image.digest == digest:
        near = same_registry(source, to.repository.registry)
        done = push_image(sink, source.image, [source], mount_from=[near] if near else [], tag=tag)
        blobs = done.blobs
    elif source.image.index_digest == digest:
        blobs = _mirror_index(source, digest, sink, to, tag)
    else:
        raise LockError(
            f"the base is not the one that the recipe pins: recipe={digest} "
            f"found={source.image.digest} in {source.image.location}",
            hint="name the pinned one with `--base`",
        )
    moved = Moved(
        sent=client.traffic.sent,
        received=client.traffic.received + wire_received(source),
        blobs=blobs,
    )
    repository = to.repository
    return MirrorOutcome(
        reference=Reference(repository.registry, repository.repository, tag, digest), moved=moved
    )


def _mirror_index(
    source: ImageSource, digest: Digest, sink: RegistrySink, to: Destination, tag: str
) -> tuple[PushedBlob, ...]:
    if not isinstance(source, RegistrySource):
        raise UsageError(
            f"the pinned digest is an index's, and {source.image.location} gives one platform only",
            hint="name the registry that serves the index with `--base`",
        )
    near = same_registry(source, to.repository.registry)
    tree = _Tree(source.client, source.reference.repository, sink, near)
    blobs = tuple(tree.copy(digest, _INDEX_DEPTH))
    root = source.client.manifest(source.reference.repository, digest)
    sink.tag(tag, root.content, root.media_type)
    return blobs


@dataclass(frozen=True, slots=True)
class _Tree:
    """Copies a manifest or index with all that it names; what is named goes first."""

    client: RegistryClient
    repository: str
    sink: RegistrySink
    near: str | None

    def copy(self, digest: Digest, depth: int) -> Iterator[PushedBlob]:
        """Copy what a digest names.

        Raises:
            BlobMissing: indexes are nested without end, or something is not there.
        """
        found = self.client.manifest(self.repository, digest)
        what = f"the manifest {digest} of `{self.repository}`"
        if is_index(found.content, found.media_type, what):
            if depth == 0:
                raise BlobMissing(f"{what} is an index nested too deep or in itself")
            for entry in parse_document(Index, found.content, what).manifests:
                yield from self.copy(entry.digest, depth - 1)
        else:
            manifest = parse_manifest(found.content, what)
            for descriptor in (*manifest.layers, manifest.config):
                yield self._blob(descriptor)
        self.sink.put_manifest(found.content, found.media_type)

    def _blob(self, descriptor: Descriptor) -> PushedBlob:
        how = self.sink.push_blob(
            digest=descriptor.digest,
            size=descriptor.size,
            open_stream=lambda: self.client.open_blob(
                self.repository, descriptor.digest, descriptor.size
            ),
            mount_from=[self.near] if self.near else [],
        )
        return PushedBlob(digest=descriptor.digest, size=descriptor.size, how=how)
