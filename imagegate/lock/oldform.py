"""Locks of the first form, which held base and layer in one folder: read to be moved over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from imagegate.catalog import REVISION as CATALOG_DIGEST
from imagegate.errors import LockError
from imagegate.facts import Facts
from imagegate.lock.base import BaseParts
from imagegate.lock.blocks import encode_index
from imagegate.lock.layered import (
    CONTENTS,
    LockedAsset,
    LockedWheel,
    decode_assets,
    decode_requirements as _wheels,
)
from imagegate.lock.lines import parse_line
from imagegate.lock.sealed import plain, unpack, unseal, validate
from imagegate.oci.digest import Digest
from imagegate.oci.documents import DigestField, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.lock.sealed import FileContent
    from imagegate.rootfs import Node

_HEADER = "#imagegate-index-1"
_LIMIT = 512 << 20
_PACKED = frozenset({"files.zst", "layer.zst"})


class _Contents(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = Field(alias="schema")
    name: str
    recipe: DigestField
    requirements: DigestField
    files: dict[str, DigestField]
    wheel_sizes: dict[str, int]
    digest: DigestField


class _Base(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str | None
    digest: DigestField | None
    index: DigestField | None
    platform: str
    compressed: int
    facts: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class OldLock:
    """A lock of the first form.

    Attributes:
        recipe: digest of the recipe that it was made from.
        requirements: digest of its requirements.
        image: the base's reference.
        index: digest of the index that the base was pinned by.
        base: the base's part; ``None`` for an image from scratch.
    """

    recipe: Digest
    requirements: Digest
    image: str | None
    index: Digest | None
    base: BaseParts | None
    wheels: tuple[LockedWheel, ...]
    wheel_sizes: Mapping[str, int]
    layer: tuple[Node, ...]
    assets: tuple[LockedAsset, ...]


def is_old_form(files: Mapping[str, FileContent]) -> bool:
    """Say whether a folder holds a lock of the first form."""
    raw = files.get(CONTENTS)
    if not isinstance(raw, bytes):
        return False
    try:
        return parse_json(raw, CONTENTS).get("schema") == 1
    except Exception:  # noqa: BLE001 - whatever it is, it is not that
        return False


def decode_old(name: str, files: Mapping[str, bytes], where: str) -> OldLock:
    """Read a lock of the first form.

    Raises:
        LockError: it is damaged, edited, another recipe's, or holds other facts than are compared.
    """
    hint = f"run `imagegate lock {name}`"
    contents = validate(
        _Contents, unseal(files[CONTENTS], f"{where}/{CONTENTS}", hint), f"{where}/{CONTENTS}", hint
    )
    if contents.name != name:
        raise LockError(f"`{where}` is the lock of another recipe: found=`{contents.name}`")
    canonical = {
        file: _canonical(file, files.get(file), digest, where)
        for file, digest in contents.files.items()
    }
    document = parse_json(canonical["base.json"], f"`{where}/base.json`")
    revision: Any = document.pop("catalog", 1)
    if revision != CATALOG_DIGEST:
        raise LockError(
            f"`{where}/base.json` holds other facts than are compared: "
            f"expected={CATALOG_DIGEST} found={revision}",
            hint=hint,
        )
    base = validate(_Base, document, f"{where}/base.json", hint)
    return OldLock(
        recipe=contents.recipe,
        requirements=contents.requirements,
        image=base.image,
        index=base.index,
        base=_base_parts(base, canonical, where) if base.digest is not None else None,
        wheels=_wheels(canonical["requirements.txt"], f"{where}/requirements.txt"),
        wheel_sizes=contents.wheel_sizes,
        layer=_nodes(canonical["layer.zst"], f"{where}/layer.zst"),
        assets=decode_assets(canonical["assets.json"], f"{where}/assets.json"),
    )


def _base_parts(base: _Base, canonical: Mapping[str, bytes], where: str) -> BaseParts:
    return BaseParts(
        manifest_bytes=canonical["manifest.json"],
        config_bytes=canonical["config.json"],
        platform=base.platform,
        compressed=base.compressed,
        facts=base.facts,
        freeze=canonical["freeze.txt"].decode("utf-8", "surrogateescape"),
        files=encode_index(_nodes(canonical["files.zst"], f"{where}/files.zst")),
    )


def _canonical(file: str, raw: bytes | None, expected: Digest, where: str) -> bytes:
    if raw is None:
        raise LockError(f"`{where}/{file}` is missing")
    forms = [unpack(raw, f"{where}/{file}", _LIMIT)] if file in _PACKED else [plain(raw), raw]
    for form in forms:
        if Digest.of(form) == expected:
            return form
    raise LockError(
        f"`{where}/{file}` was changed by hand: locked={expected} found={Digest.of(forms[0])}"
    )


def _nodes(text: bytes, where: str) -> tuple[Node, ...]:
    lines = text.decode("utf-8").split("\n")
    if lines[0] != _HEADER or lines[-1] != "":
        raise LockError(f"`{where}` is not a path index of the first form")
    return tuple(map(parse_line, lines[1:-1]))
