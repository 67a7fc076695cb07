"""The base that a recipe stands on: its lock where there is one, its bytes where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog import locked_facts
from imagegate.catalog.freeze import freeze
from imagegate.errors import AttestationError, ImageError, LockError, UsageError
from imagegate.lock import (
    BASE,
    BASE_FILES,
    STATEMENT,
    BaseName,
    BaseParts,
    OlderRevisionError,
    decode_base,
    encode_base,
)
from imagegate.lock.blocks import encode_index
from imagegate.oci.reference import Reference
from imagegate.reading.stacked import read_whole
from imagegate.report.text import format_bytes
from imagegate.usecases.signed_base import named_signer, require_signed_base
from imagegate.usecases.traffic import tell_traffic
from imagegate.workspace.atomic import write_folder
from imagegate.workspace.ownership import foreign_in_lock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imagegate.facts import Facts
    from imagegate.lock import BaseLock
    from imagegate.oci.digest import Digest
    from imagegate.oci.image import Image, ImageSource
    from imagegate.recipe import Recipe
    from imagegate.signing.identity import Trusted
    from imagegate.usecases.invocation import Invocation
    from imagegate.usecases.ports import Reporter
    from imagegate.usecases.published import TakenBase
    from imagegate.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ObtainedBase:
    """A base lock, and how it came.

    Attributes:
        lock: the base lock, of this catalog's revision.
        files: what is to be written; ``None`` where it is there already.
        index: digest of the index that leads to the base, where one is known.
        image: the reference that the recipe has, or shall have from now on.
        how: `locked` where it was there, `read` from the base's bytes, or `published` by others.
    """

    lock: BaseLock
    files: Mapping[str, bytes] | None
    index: Digest | None
    image: Reference
    how: str

    @property
    def name(self) -> BaseName:
        """What the recipe's lock says of it."""
        return BaseName(
            image=str(self.image),
            digest=self.lock.base,
            index=self.index,
            lock=self.lock.digest,
        )


def obtain_base(
    call: Invocation,
    recipe: Recipe,
    *,
    location: str | None = None,
    name_as: str | None = None,
    trusted: Sequence[Trusted] = (),
) -> ObtainedBase:
    """Return the lock of a recipe's base; its bytes are read only where there is none.

    Args:
        call: where the recipe is.
        recipe: whose base.
        location: where the base's bytes are; where the recipe says if ``None``.
        name_as: the name for another base that comes from a place without a name.
        trusted: whose published base locks count, beside those of the workspace's file.

    Raises:
        UsageError: the location cannot be used.
        LockError: the base there is another one, and is not to be adopted.
        ImageError: the base cannot be read.
    """
    assert recipe.base is not None
    pinned = recipe.base
    if location is None and name_as is None:
        manifest, index = _locked_under(call.workspace, pinned)
        found = _usable(call, manifest) if manifest is not None else None
        if found is not None:
            return ObtainedBase(lock=found, files=None, index=index, image=pinned, how="locked")
    if name_as is None and not _is_local(recipe):
        held = _held_by_engine(call, pinned, location)
        if held is not None:
            return held
    source = call.open(location or base_location(call.workspace, recipe), recipe.written_platform)
    image = source.image
    reference = _agree(recipe, image, location, name_as)
    digest = _require_lockable(recipe, image)
    index = image.index_digest or _known_index(call.workspace, digest, reference)
    found = _usable(call, digest)
    if found is not None:
        call.reporter.say(
            f"the base {digest} is locked already: none of its {format_bytes(_size(image))} are read"
        )
        return ObtainedBase(lock=found, files=None, index=index, image=reference, how="locked")
    taken = _taken(call, source, digest, trusted)
    if taken is not None:
        return ObtainedBase(
            lock=taken.lock, files=taken.files, index=index, image=reference, how="published"
        )
    call.reporter.say(f"reading the base {digest}: {format_bytes(_size(image))}")
    files = read_base(source, call.reporter)
    lock = decode_base(files, call.workspace.relative(call.workspace.base_folder(digest)))
    tell_traffic(source, call.reporter, layers="the base's layers", size=_size(image))
    return ObtainedBase(lock=lock, files=files, index=index, image=reference, how="read")


def _held_by_engine(
    call: Invocation, pinned: Reference, location: str | None
) -> ObtainedBase | None:
    """Ask an engine which digests it has an image under, before it saves gigabytes.

    Returns:
        The base's lock, where the engine's image is the pinned one and its lock is there already.

    Raises:
        LockError: the engine's image is known under digests, and the pinned one is none of them.
    """
    transport, _, name = (location or "").partition(":")
    if transport not in ("docker-daemon", "podman"):
        return None
    from imagegate.sources.daemon import describe_docker_image, describe_podman_image

    describe = describe_docker_image if transport == "docker-daemon" else describe_podman_image
    image = describe(name)
    if image is None or not image.digests or pinned.digest is None:
        return None  # whoever opens it says so
    if pinned.digest not in image.digests:
        found = ", ".join(map(str, sorted(image.digests)))
        raise LockError(
            f"`{location}` is not the base that the recipe pins: recipe={pinned.digest} "
            f"found={found}; nothing was read",
            hint="an engine knows an image by the digests that it was pulled under; pull the "
            "pinned one, or name a registry or a layout that has it",
        )
    manifest, index = _locked_under(call.workspace, pinned)
    lock = _usable(call, manifest) if manifest is not None else None
    if lock is None:
        return None
    return ObtainedBase(lock=lock, files=None, index=index, image=pinned, how="locked")


def _taken(
    call: Invocation,
    source: ImageSource,
    digest: Digest,
    trusted: Sequence[Trusted],
) -> TakenBase | None:
    """Take a published base lock, where the base is in a registry and a signer is trusted."""
    from imagegate.sources.registry import RegistrySource
    from imagegate.usecases.published import take_base, trusted_signers

    keys = (*trusted, *trusted_signers(call.workspace))
    if not keys or not isinstance(source, RegistrySource):
        return None
    try:
        taken = take_base(
            call, source.reference, digest, platform=source.image.config.platform, trusted=keys
        )
    except AttestationError as error:
        call.reporter.say(error.message)
        return None
    call.reporter.say(
        f"took the published lock of the base {digest}, signed by {named_signer(taken.signer)}: "
        f"{format_bytes(taken.received)} instead of {format_bytes(_size(source.image))}"
    )
    return taken


def write_base(workspace: Workspace, base: Digest, files: Mapping[str, bytes]) -> None:
    """Put a base lock in its place in one step."""
    foreign = foreign_in_lock((*BASE_FILES, STATEMENT), BASE)
    write_folder(workspace.base_folder(base), files, foreign)


def read_base(source: ImageSource, reporter: Reporter) -> dict[str, bytes]:
    """Read every layer of a base once, and return the files of its lock.

    Raises:
        ImageError: a layer is missing, damaged or not what it must be.
    """
    image = source.image
    assert image.manifest_bytes is not None
    compressed = _size(image)
    with reporter.task("reading the base", compressed) as task:
        whole = read_whole(source, task.advance)
    facts = whole.facts
    return encode_base(
        BaseParts(
            manifest_bytes=image.manifest_bytes,
            config_bytes=image.config_bytes,
            platform=str(image.config.platform),
            compressed=compressed,
            facts=locked_facts(facts),
            freeze=_freeze(facts),
            files=encode_index(whole.nodes, whole.owners),
            options=whole.options,
        )
    )


def _freeze(facts: Facts) -> str:
    """Write what pip would print for the interpreter that has the most distributions."""
    counts: dict[str, int] = {}
    for pin in facts.distributions:
        counts[pin.site] = counts.get(pin.site, 0) + 1
    versions = {site.path: site.python for site in facts.sites}
    fullest = max(sorted(counts), key=lambda site: counts[site], default="")
    python = versions.get(fullest, "")
    same = [site.path for site in facts.sites if site.python == python]
    return freeze(facts.distributions, python if "." in python else "3.12", same, facts.checkouts)


def base_location(workspace: Workspace, recipe: Recipe) -> str:
    """Say where the base's bytes are expected when nobody says."""
    assert recipe.base is not None
    made_here = recipe.document.base.recipe
    if made_here is None:
        return str(recipe.base)
    workspace.recipe_path(made_here)  # a name that is not a recipe is told as such
    layout = workspace.layout(made_here)
    if not layout.is_dir():
        raise UsageError(
            f"the base `{recipe.base.name}` is made by the recipe `{made_here}`, which is not built",
            hint=f"run `imagegate build {made_here}`, or name the base's bytes with `--base`",
        )
    return f"oci:{layout}"


def _locked_under(workspace: Workspace, pinned: Reference) -> tuple[Digest | None, Digest | None]:
    """Find the base that a digest leads to: it is its own, or an index that some lock knows."""
    assert pinned.digest is not None
    if workspace.has_base(pinned.digest):
        return pinned.digest, _known_index(workspace, pinned.digest, pinned)
    for named in workspace.named_bases().values():
        if named is not None and named.index == pinned.digest:
            return named.digest, named.index
    return None, None


def _known_index(workspace: Workspace, digest: Digest, pinned: Reference) -> Digest | None:
    """Keep the index of a base whatever it is read from: a layout often has the manifest alone."""
    known = {
        named.index
        for named in workspace.named_bases().values()
        if named is not None and named.digest == digest and named.index is not None
    }
    if pinned.digest in known:
        return pinned.digest
    return min(known, default=None)


def _usable(call: Invocation, digest: Digest) -> BaseLock | None:
    """Return the base's lock if it is there and of this revision; says why not, where it is there."""
    workspace = call.workspace
    if not workspace.has_base(digest):
        return None
    try:
        lock = workspace.base_lock(digest)
        require_signed_base(workspace, lock)
    except OlderRevisionError as error:
        call.reporter.say(f"{error.message}: the base has to be read again")
        return None
    return lock


def _agree(recipe: Recipe, image: Image, location: str | None, name_as: str | None) -> Reference:
    """Compare the base with the recipe's; returns what the recipe shall say.

    Raises:
        LockError: it is another one, and nobody said that it shall be taken.
    """
    assert recipe.base is not None
    pinned = recipe.base
    named = _registry_name(location) or (_as_name(name_as) if name_as else None)
    if pinned.digest in (image.digest, image.index_digest):
        if named is None or (named.name == pinned.name and named.tag in (None, pinned.tag)):
            return pinned
        return Reference(named.registry, named.repository, named.tag, pinned.digest)
    if location is None or image.digest is None:
        raise LockError(
            f"the base is not the one that the recipe pins: "
            f"recipe={pinned.digest} found={image.digest} in {image.location}",
            hint=f"pin the new one: `imagegate lock {recipe.name} --base …`",
        )
    found = image.index_digest or image.digest
    if named is None and not _is_local(recipe):
        raise LockError(
            f"{image.location} holds another base than the recipe pins, and does not say under "
            f"which name it is published: recipe={pinned} found={found}",
            hint="if it shall be the base from now on, say where it is published: "
            f"`imagegate lock {recipe.name} --base {location} --name REGISTRY/REPOSITORY[:TAG]`",
        )
    if named is None:
        return Reference(pinned.registry, pinned.repository, None, found)
    return Reference(named.registry, named.repository, named.tag, found)


def _is_local(recipe: Recipe) -> bool:
    """Say whether the recipe's name for its base is one that no registry serves.

    That is what another recipe makes, what is named after this machine, and the digest of zeros
    that stands in a new recipe until its base is locked.
    """
    assert recipe.base is not None
    assert recipe.base.digest is not None
    return (
        recipe.document.base.recipe is not None
        or recipe.base.registry == "localhost"
        or not recipe.base.digest.encoded.strip("0")
    )


def _registry_name(location: str | None) -> Reference | None:
    """Return the reference that a location is, where it is one in a registry."""
    from imagegate.sources.registry import registry_reference

    return registry_reference(location) if location is not None else None


def _as_name(text: str) -> Reference:
    reference = Reference.parse(text.removeprefix("docker://"))
    if reference.digest is not None:
        raise UsageError(f"`--name {text}` names a digest; the base brings its own")
    return reference


def _require_lockable(recipe: Recipe, image: Image) -> Digest:
    """Require a digest and the recipe's platform, before anything is read."""
    if image.manifest_bytes is None or image.digest is None:
        raise ImageError(
            f"{image.location} holds no manifest, so the base has no digest to lock",
            hint="use an OCI layout, an archive of the containerd store, or a registry",
        )
    if recipe.written_platform not in (None, image.config.platform):
        raise ImageError(
            f"the base is for another platform: recipe={recipe.written_platform} found={image.config.platform}",
            hint=f'write `platform = "{image.config.platform}"`, or leave the key out: the base says it',
        )
    return image.digest


def _size(image: Image) -> int:
    return sum(layer.descriptor.size for layer in image.layers if layer.descriptor)
