"""Locks: what a base holds and what a layer may add, as canonical files.

``lock.json`` is the table of contents: the digest of every other file over its canonical,
uncompressed content. The digest of ``lock.json`` without its own ``digest`` field is the lock's
digest; a file that was edited by hand no longer fits it.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imagegate.catalog import REVISION
from imagegate.errors import ImageError, LockError
from imagegate.facts import Facts
from imagegate.lock.pathindex import TextIndex, decode_index, encode_index
from imagegate.oci.digest import Digest
from imagegate.oci.documents import (
    DigestField,
    ImageConfig,
    Manifest,
    canonical_json,
    parse_document,
    parse_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from imagegate.rootfs import Node

CONTENTS = "lock.json"
BASE = "base.json"
FREEZE = "freeze.txt"
MANIFEST = "manifest.json"
CONFIG = "config.json"
FILES = "files.zst"
REQUIREMENTS = "requirements.txt"
LAYER = "layer.zst"
ASSETS = "assets.json"
# the OCI documents are the base's own bytes: their digest is given, their form is not ours
_VERBATIM = frozenset({MANIFEST, CONFIG})
_OF_BASE = (FREEZE, MANIFEST, CONFIG, FILES)
_OF_LAYER = (BASE, REQUIREMENTS, LAYER, ASSETS)
_ZSTD_LEVEL = 12
# a path takes about 150 bytes: room for three million of them
_INDEX_LIMIT = 512 << 20
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


class BaseDocument(BaseModel):
    """``base.json``: facts of the base.

    Attributes:
        image: the reference that was locked, ``None`` for an image from scratch.
        digest: digest of the base's manifest.
        index: digest of the index it was pinned by, where it was.
        platform: the base's platform.
        compressed: bytes of all its layers' blobs.
        facts: what was read out of it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str | None
    digest: DigestField | None
    index: DigestField | None
    platform: str
    compressed: Annotated[int, Field(ge=0)]
    facts: Facts


class ContentsDocument(BaseModel):
    """``lock.json``: which recipe the lock was made from, and the digest of its files.

    Attributes:
        recipe: digest of the recipe.
        requirements: digest of the lines of ``requirements.in``.
        files: digest of every other file, over its canonical content.
        wheel_sizes: bytes of each locked wheel, so that a download can say how much is left.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = Field(alias="schema")
    name: str
    recipe: DigestField
    requirements: DigestField
    files: dict[str, DigestField]
    wheel_sizes: dict[str, Annotated[int, Field(ge=0)]]
    digest: DigestField


class _AssetsDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    assets: tuple[LockedAsset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock that was read and found whole.

    Attributes:
        digest: digest of its table of contents.
        manifest_bytes: the base's manifest, ``None`` for an image from scratch.
        config_bytes: the base's config, likewise.
        files: the base's paths; empty for an image from scratch.
        layer: the paths that the locked wheels install.
    """

    contents: ContentsDocument
    base: BaseDocument
    freeze: str
    manifest_bytes: bytes | None
    config_bytes: bytes | None
    files: TextIndex
    wheels: tuple[LockedWheel, ...]
    layer: TextIndex
    assets: tuple[LockedAsset, ...]

    @property
    def digest(self) -> Digest:
        """The lock's digest."""
        return self.contents.digest

    @property
    def manifest(self) -> Manifest | None:
        """The base's manifest, parsed."""
        if self.manifest_bytes is None:
            return None
        return parse_document(Manifest, self.manifest_bytes, "the locked manifest")

    @property
    def config(self) -> ImageConfig | None:
        """The base's config, parsed."""
        if self.config_bytes is None:
            return None
        return parse_document(ImageConfig, self.config_bytes, "the locked config")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockParts:
    """What a lock is made of, before it is encoded."""

    name: str
    recipe: Digest
    requirements_in: Digest
    base: BaseDocument
    freeze: str = ""
    manifest_bytes: bytes | None = None
    config_bytes: bytes | None = None
    files: Iterable[Node] = ()
    owners: Mapping[str, str] = field(default_factory=dict)
    wheels: Iterable[LockedWheel] = ()
    wheel_sizes: Mapping[str, int] = field(default_factory=dict)
    layer: Iterable[Node] = ()
    assets: Iterable[LockedAsset] = ()


def encode_lock(parts: LockParts) -> dict[str, bytes]:
    """Write a lock: file name to bytes. The same parts give the same bytes."""
    canonical: dict[str, bytes] = {
        # what is absent is left out: most facts of most files are
        BASE: canonical_json(
            {**parts.base.model_dump(mode="json", exclude_defaults=True), "catalog": REVISION}
        ),
        REQUIREMENTS: "".join(f"{w.requirement}\n" for w in sorted(parts.wheels)).encode(),
        LAYER: encode_index(parts.layer),
        ASSETS: canonical_json(
            _AssetsDocument(assets=tuple(sorted(parts.assets))).model_dump(mode="json")
        ),
    }
    if parts.manifest_bytes is not None and parts.config_bytes is not None:
        canonical[MANIFEST] = parts.manifest_bytes
        canonical[CONFIG] = parts.config_bytes
        canonical[FREEZE] = parts.freeze.encode("utf-8", "surrogateescape")
        canonical[FILES] = encode_index(parts.files, parts.owners)
    contents = {
        "schema": 1,
        "name": parts.name,
        "recipe": str(parts.recipe),
        "requirements": str(parts.requirements_in),
        "files": {name: str(Digest.of(content)) for name, content in canonical.items()},
        "wheel_sizes": dict(parts.wheel_sizes),
    }
    sealed = {**contents, "digest": str(Digest.of(canonical_json(contents)))}
    files = {
        name: _compress(content) if name in (FILES, LAYER) else content
        for name, content in canonical.items()
    }
    return {**files, CONTENTS: canonical_json(sealed)}


def decode_lock(name: str, files: Mapping[str, bytes], where: str) -> Lock:
    """Read a lock and require that its files fit its table of contents.

    Args:
        name: the recipe's name.
        files: file name to bytes, as they lie in the lock's folder.
        where: the folder, for messages.

    Raises:
        LockError: a file is missing, empty, unreadable, edited, or of another recipe.
    """
    contents = _contents(name, files, where)
    canonical: dict[str, bytes] = {}
    for file, expected in contents.files.items():
        forms = _canonical_forms(file, files.get(file), where)
        digests = {Digest.of(form): form for form in forms}
        if expected in digests:
            canonical[file] = digests[expected]
        else:
            found = next(iter(digests))
            raise LockError(
                f"`{where}/{file}` was changed by hand: locked={expected} found={found}",
                hint=f"run `imagegate lock {name}`; locks are written by nothing else",
            )
    has_base = MANIFEST in canonical
    expected_files = {*_OF_LAYER, *(_OF_BASE if has_base else ())}
    if set(canonical) != expected_files:
        raise LockError(
            f"`{where}` lists other files than a lock has: {sorted(set(canonical) ^ expected_files)}"
        )
    base = _base(canonical[BASE], where)
    if (base.digest is not None) != has_base:
        raise LockError(
            f"`{where}/{BASE}` and the locked manifest disagree on whether there is a base"
        )
    if has_base and Digest.of(canonical[MANIFEST], str(base.digest).split(":")[0]) != base.digest:
        raise LockError(
            f"`{where}/{MANIFEST}` is not the manifest {base.digest} that `{BASE}` names"
        )
    lock = Lock(
        contents=contents,
        base=base,
        freeze=canonical.get(FREEZE, b"").decode("utf-8", "surrogateescape"),
        manifest_bytes=canonical.get(MANIFEST),
        config_bytes=canonical.get(CONFIG),
        files=decode_index(canonical[FILES], f"{where}/{FILES}") if has_base else TextIndex(()),
        wheels=_decode_requirements(canonical[REQUIREMENTS], f"{where}/{REQUIREMENTS}"),
        layer=decode_index(canonical[LAYER], f"{where}/{LAYER}"),
        assets=_assets(canonical[ASSETS], where),
    )
    _require_substance(lock, where)
    return lock


def _contents(name: str, files: Mapping[str, bytes], where: str) -> ContentsDocument:
    hint = f"run `imagegate lock {name}`"
    raw = files.get(CONTENTS)
    if raw is None:
        raise LockError(f"`{where}` has no `{CONTENTS}`: this is no lock", hint=hint)
    try:
        document = parse_json(raw, f"`{where}/{CONTENTS}`")
        contents = ContentsDocument.model_validate(document)
    except ImageError as error:
        raise LockError(error.message, hint=hint) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise LockError(
            f"`{where}/{CONTENTS}` is malformed: `{place}`: {first['msg']}", hint=hint
        ) from error
    del document["digest"]
    found = Digest.of(canonical_json(document))
    if found != contents.digest:
        raise LockError(
            f"`{where}/{CONTENTS}` was changed by hand: says={contents.digest} is={found}",
            hint=hint,
        )
    if contents.name != name:
        raise LockError(
            f"`{where}` is the lock of another recipe: expected=`{name}` found=`{contents.name}`",
            hint=hint,
        )
    return contents


def _canonical_forms(file: str, raw: bytes | None, where: str) -> tuple[bytes, ...]:
    """Bring a file's bytes into the form that its digest is over, or may be over."""
    if raw is None:
        raise LockError(
            f"`{where}/{file}` is missing", hint="restore it from version control, or lock again"
        )
    if file in (FILES, LAYER):
        return (_decompress(raw, f"{where}/{file}"),)
    # a checkout may have turned line ends into CRLF; no canonical text has a carriage return
    plain = raw.replace(b"\r\n", b"\n")
    return (raw, plain) if file in _VERBATIM else (plain,)


def _base(content: bytes, where: str) -> BaseDocument:
    hint = "it was written by another version of imagegate; lock again"
    try:
        document = parse_json(content, f"`{where}/{BASE}`")
    except ImageError as error:
        raise LockError(error.message, hint=hint) from error
    # a lock without a fact that checks compare would let everything of that kind pass
    catalog = document.pop("catalog", 1)
    if catalog != REVISION:
        raise LockError(
            f"`{where}/{BASE}` holds other facts than are compared: "
            f"expected=catalog {REVISION} found=catalog {catalog}",
            hint=hint,
        )
    try:
        # a path that is no UTF-8 is a lone surrogate here, which pydantic's own reader refuses
        return BaseDocument.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise LockError(
            f"`{where}/{BASE}` is malformed: `{place}`: {first['msg']}",
            hint=hint,
        ) from error


def _assets(content: bytes, where: str) -> tuple[LockedAsset, ...]:
    try:
        document = parse_json(content, f"`{where}/{ASSETS}`")
        return _AssetsDocument.model_validate(document).assets
    except ImageError as error:
        raise LockError(error.message) from error
    except ValidationError as error:
        raise LockError(f"`{where}/{ASSETS}` is malformed: {error.errors()[0]['msg']}") from error


def _require_substance(lock: Lock, where: str) -> None:
    """Refuse a lock that would let everything pass because it holds nothing."""
    if lock.base.digest is not None and len(lock.files) == 0:
        raise LockError(
            f"`{where}/{FILES}` lists no path: a base without files cannot be judged by"
        )
    if not lock.wheels and not lock.assets:
        raise LockError(
            f"`{where}` adds neither distributions nor assets: there is nothing to build"
        )
    if lock.wheels and len(lock.layer) == 0:
        raise LockError(
            f"`{where}/{LAYER}` lists no path, but {len(lock.wheels)} wheels are locked"
        )


def _decode_requirements(content: bytes, where: str) -> tuple[LockedWheel, ...]:
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


def _compress(content: bytes) -> bytes:
    from imagegate.oci.zstd import compress

    return compress(content, level=_ZSTD_LEVEL)


def _decompress(content: bytes, where: str) -> bytes:
    from imagegate.oci.zstd import ZstdError, ZstdFile

    try:
        with ZstdFile(io.BytesIO(content)) as stream:
            text = stream.read(_INDEX_LIMIT + 1)
    except (ZstdError, EOFError) as error:
        raise LockError(
            f"`{where}` is damaged: {error}", hint="restore it from version control"
        ) from error
    if len(text) > _INDEX_LIMIT:
        raise LockError(f"`{where}` unpacks to more than {_INDEX_LIMIT} bytes")
    return text
