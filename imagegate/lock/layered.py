"""What a recipe adds to its base, and both together.

``lock.json`` is the table of contents: it names the base's lock by digest and holds the digest of
every file beside it. The digest of ``lock.json`` without its own ``digest`` is the lock's digest,
and so covers the base too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, Field

from imagegate.catalog import no_facts
from imagegate.errors import ImageError, LockError
from imagegate.lock.blocks import BlockIndex, InMemory, encode_index
from imagegate.lock.sealed import index_file, require_files, seal, text_file, unseal, validate
from imagegate.oci.digest import Digest
from imagegate.oci.documents import DigestField, canonical_json, parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from imagegate.facts import Facts
    from imagegate.lock.base import BaseLock
    from imagegate.lock.sealed import FileContent
    from imagegate.oci.documents import ImageConfig, Manifest
    from imagegate.rootfs import Node

CONTENTS = "lock.json"
REQUIREMENTS = "requirements.txt"
LAYER = "layer.zst"
ASSETS = "assets.json"
OPTIONS = "options.json"
LOCK_FILES = (CONTENTS, REQUIREMENTS, LAYER, ASSETS, OPTIONS)
_ALWAYS = frozenset({REQUIREMENTS, LAYER, ASSETS})
_WHEEL_LINE = re.compile(
    r"(?P<name>[a-z0-9-]+)==(?P<version>[^\s;]+) --hash=sha256:(?P<sha256>[0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LockedWheel:
    """One added distribution: a name (PEP 503), a version and the one wheel that is installed."""

    name: str
    version: str
    sha256: str

    @property
    def requirement(self) -> str:
        """The line of ``requirements.txt``, in pip's hash-checking form."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.name}=={self.version}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LockedAsset:
    """One asset of a model recipe.

    Attributes:
        model: the model it belongs to.
        source: path below the recipe's folder, ``recipes/<model>/…``.
        target: path in the image, without leading slash.
    """

    model: str
    source: str
    target: str
    size: int
    sha256: str


class BaseName(BaseModel):
    """Which base a recipe stands on.

    Attributes:
        image: the reference as the recipe has it.
        digest: digest of the base's manifest.
        index: digest of the index that the recipe pins, or that the manifest was chosen through.
        lock: digest of the base's lock.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str
    digest: DigestField
    index: DigestField | None = None
    lock: DigestField


class ContentsDocument(BaseModel):
    """``lock.json``: which recipe the lock was made from, and the digest of its files.

    Attributes:
        recipe: digest of the recipe.
        made_of: what the recipe says of what the image is made of, so that a change can be told.
        requirements: digest of the lines of ``requirements.in``.
        requested: these lines.
        platform: the image's platform.
        base: the base, ``None`` for an image from scratch.
        files: digest of every other file, over its canonical content.
        wheel_sizes: bytes of each locked wheel, so that a download can say how much is left.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[2] = Field(alias="schema")
    name: str
    recipe: DigestField
    made_of: dict[str, Any]
    requirements: DigestField
    requested: tuple[str, ...]
    platform: str
    base: BaseName | None
    files: dict[str, DigestField]
    wheel_sizes: dict[str, Annotated[int, Field(ge=0)]]
    digest: DigestField


class _AssetsDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    assets: tuple[LockedAsset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedBase:
    """The base as a recipe's lock has it.

    Attributes:
        image: the reference that was locked, ``None`` for an image from scratch.
        digest: digest of the base's manifest, likewise.
        index: digest of the index it was pinned by, where it was.
        platform: the platform.
        compressed: bytes of all its layers' blobs.
        facts: what was read out of it.
        published: whether its lock was published by others, and not read from its bytes here.
    """

    image: str | None
    digest: Digest | None
    index: Digest | None
    platform: str
    compressed: int
    facts: Facts
    published: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A recipe's lock with that of its base, read and found whole.

    Attributes:
        base: what the base holds.
        manifest_bytes: the base's manifest, ``None`` for an image from scratch.
        config_bytes: the base's config, likewise.
        freeze: what ``pip freeze`` prints of the base.
        files: the base's paths; empty for an image from scratch.
        layer: the paths that the locked wheels install.
        options: the serving options of programs that the layer brings, empty where there are none.
        base_options: those of the base's programs.
        based_on: the base's lock, ``None`` for an image from scratch.
    """

    contents: ContentsDocument
    base: LockedBase
    freeze: str
    manifest_bytes: bytes | None
    config_bytes: bytes | None
    files: BlockIndex
    wheels: tuple[LockedWheel, ...]
    layer: BlockIndex
    assets: tuple[LockedAsset, ...]
    options: bytes = b""
    base_options: bytes = b""
    based_on: BaseLock | None = None

    @property
    def digest(self) -> Digest:
        """The lock's digest."""
        return self.contents.digest

    @property
    def manifest(self) -> Manifest | None:
        """The base's manifest, parsed."""
        from imagegate.oci.documents import Manifest, parse_document

        if self.manifest_bytes is None:
            return None
        return parse_document(Manifest, self.manifest_bytes, "the locked manifest")

    @property
    def config(self) -> ImageConfig | None:
        """The base's config, parsed."""
        from imagegate.oci.documents import ImageConfig, parse_document

        if self.config_bytes is None:
            return None
        return parse_document(ImageConfig, self.config_bytes, "the locked config")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockParts:
    """What a recipe's lock is made of, before it is encoded."""

    name: str
    recipe: Digest
    requirements_in: Digest
    platform: str
    base: BaseName | None
    made_of: Mapping[str, Any] = field(default_factory=dict)
    requested: tuple[str, ...] = ()
    wheels: Iterable[LockedWheel] = ()
    wheel_sizes: Mapping[str, int] = field(default_factory=dict)
    layer: Iterable[Node] = ()
    assets: Iterable[LockedAsset] = ()
    options: bytes = b""


def encode_lock(parts: LockParts) -> dict[str, bytes]:
    """Write a recipe's lock: file name to bytes. The same parts give the same bytes."""
    files = {
        REQUIREMENTS: "".join(f"{w.requirement}\n" for w in sorted(parts.wheels)).encode(),
        ASSETS: canonical_json(
            _AssetsDocument(assets=tuple(sorted(parts.assets))).model_dump(mode="json")
        ),
        **({OPTIONS: parts.options} if parts.options else {}),
    }
    digests = {name: str(Digest.of(content)) for name, content in files.items()}
    layer = encode_index(parts.layer)
    digests[LAYER] = str(BlockIndex(InMemory(layer), LAYER).digest)
    contents = {
        "schema": 2,
        "name": parts.name,
        "recipe": str(parts.recipe),
        "made_of": dict(parts.made_of),
        "requirements": str(parts.requirements_in),
        "requested": list(parts.requested),
        "platform": parts.platform,
        "base": parts.base.model_dump(mode="json") if parts.base is not None else None,
        "files": digests,
        "wheel_sizes": dict(parts.wheel_sizes),
    }
    return {**files, LAYER: layer, CONTENTS: seal(contents)}


def named_base(name: str, files: Mapping[str, FileContent], where: str) -> BaseName | None:
    """Say which base a recipe's lock stands on; ``None`` where on none.

    Raises:
        LockError: it cannot be read.
    """
    return _contents(name, files, where).base


def decode_lock(
    name: str, files: Mapping[str, FileContent], where: str, base: BaseLock | None
) -> Lock:
    """Read a recipe's lock and require that its files fit its table of contents.

    Args:
        name: the recipe's name.
        files: file name to bytes, as they lie in the lock's folder.
        where: the folder, for messages.
        base: the lock of the base that :func:`named_base` names.

    Raises:
        LockError: a file is missing, empty, unreadable, edited, or of another recipe or base.
    """
    contents = _contents(name, files, where)
    hint = f"run `imagegate lock {name}`; locks are written by nothing else"
    _require_base(contents, base, where, name)
    listed = contents.files
    require_files(_ALWAYS, listed.keys() - {OPTIONS}, where)
    texts = {
        file: text_file(file, files.get(file), digest, where=where, hint=hint)
        for file, digest in listed.items()
        if file != LAYER
    }
    lock = Lock(
        contents=contents,
        base=_locked_base(contents, base),
        freeze=base.freeze if base is not None else "",
        manifest_bytes=base.manifest_bytes if base is not None else None,
        config_bytes=base.config_bytes if base is not None else None,
        files=base.files if base is not None else _NOTHING,
        wheels=decode_requirements(texts[REQUIREMENTS], f"{where}/{REQUIREMENTS}"),
        layer=index_file(LAYER, files.get(LAYER), listed[LAYER], where=where, hint=hint),
        assets=decode_assets(texts[ASSETS], f"{where}/{ASSETS}"),
        options=texts.get(OPTIONS, b""),
        base_options=base.options if base is not None else b"",
        based_on=base,
    )
    _require_substance(lock, where)
    return lock


_NOTHING = BlockIndex(InMemory(encode_index(())), "no base")


def _locked_base(contents: ContentsDocument, base: BaseLock | None) -> LockedBase:
    if base is None or contents.base is None:
        return LockedBase(
            image=None,
            digest=None,
            index=None,
            platform=contents.platform,
            compressed=0,
            facts=no_facts(),
        )
    return LockedBase(
        image=contents.base.image,
        digest=base.base,
        index=contents.base.index,
        platform=base.document.platform,
        compressed=base.document.compressed,
        facts=base.document.facts,
        published=bool(base.statement),
    )


def _require_base(contents: ContentsDocument, base: BaseLock | None, where: str, name: str) -> None:
    """Require the very base lock that the recipe was locked against."""
    expected = contents.base
    if (expected is None) != (base is None):
        raise LockError(f"`{where}/{CONTENTS}` and the base lock disagree on whether there is one")
    if expected is None or base is None:
        return
    if (expected.digest, expected.lock) != (base.base, base.digest):
        raise LockError(
            f"`{where}` was made against another lock of its base: "
            f"locked={expected.lock} found={base.digest}",
            hint=f"run `imagegate lock {name}`; the base itself need not be read",
        )
    if contents.platform != base.document.platform:
        raise LockError(
            f"`{where}` is for another platform than its base: "
            f"locked={contents.platform} found={base.document.platform}",
            hint=f"run `imagegate lock {name}`",
        )


def _contents(name: str, files: Mapping[str, FileContent], where: str) -> ContentsDocument:
    hint = f"run `imagegate lock {name}`"
    raw = files.get(CONTENTS)
    if not isinstance(raw, bytes):
        raise LockError(f"`{where}` has no `{CONTENTS}`: this is not a lock", hint=hint)
    found = unseal(raw, f"{where}/{CONTENTS}", hint)
    if found.get("schema") == 1:
        raise LockError(
            f"`{where}` is a lock of the form that held its base too",
            hint=f"run `imagegate lock {name}`, which moves it over",
        )
    contents = validate(ContentsDocument, found, f"{where}/{CONTENTS}", hint)
    if contents.name != name:
        raise LockError(
            f"`{where}` is the lock of another recipe: expected=`{name}` found=`{contents.name}`",
            hint=hint,
        )
    return contents


def decode_assets(content: bytes, where: str) -> tuple[LockedAsset, ...]:
    """Read the list of assets.

    Raises:
        LockError: it is malformed.
    """
    try:
        document = parse_json(content, f"`{where}`")
    except ImageError as error:
        raise LockError(error.message) from error
    return validate(_AssetsDocument, document, where, "lock again").assets


def _require_substance(lock: Lock, where: str) -> None:
    """Refuse a lock that would let everything pass because it holds nothing."""
    if not lock.wheels and not lock.assets:
        raise LockError(
            f"`{where}` adds neither distributions nor assets: there is nothing to build"
        )
    if lock.wheels and len(lock.layer) == 0:
        raise LockError(
            f"`{where}/{LAYER}` lists no path, but {len(lock.wheels)} wheels are locked"
        )


def decode_requirements(content: bytes, where: str) -> tuple[LockedWheel, ...]:
    """Read the locked wheels.

    Raises:
        LockError: a line is not in pip's hash-checking form, or they are not in order.
    """
    wheels: list[LockedWheel] = []
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        match = _WHEEL_LINE.fullmatch(line)
        if match is None or canonicalize_name(match["name"]) != match["name"]:
            raise LockError(
                f"`{where}` line {number} is not `name==version --hash=sha256:…`: `{line}`"
            )
        wheels.append(LockedWheel(**match.groupdict()))
    names = [wheel.name for wheel in wheels]
    if names != sorted(set(names)):
        raise LockError(f"`{where}` is not sorted, or names a distribution twice")
    return tuple(wheels)
