"""Base locks: what one base holds, once for all recipes that stand on it.

``base.json`` holds the facts and is the table of contents: the digest of every other file over
its canonical, uncompressed content. The digest over ``base.json`` without its own ``digest`` is
the base lock's digest. Nothing in it depends on a recipe, on where the base was read, or on who
read it: everybody who reads the same bytes writes the same files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from imagegate.catalog import CATALOGS, REVISION as CATALOG_DIGEST
from imagegate.errors import LockError
from imagegate.facts import Facts
from imagegate.lock.blocks import BlockIndex
from imagegate.lock.sealed import index_file, require_files, seal, text_file, unseal, validate
from imagegate.oci.digest import Digest
from imagegate.oci.documents import DigestField, ImageConfig, Manifest, parse_document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.lock.sealed import FileContent

BASE = "base.json"
FREEZE = "freeze.txt"
MANIFEST = "manifest.json"
CONFIG = "config.json"
FILES = "files.zst"
OPTIONS = "options.json"
# the envelope of who published it, where it was not read here
STATEMENT = "statement.json"
_ALWAYS = frozenset({FREEZE, MANIFEST, CONFIG, FILES})
BASE_FILES = (BASE, FREEZE, MANIFEST, CONFIG, FILES, OPTIONS)
# rises with the revision of every single catalog, so that a program knows which of two is the
# newer; what is read itself is told by the catalog's own digest
REVISION = sum(catalog.revision for catalog in CATALOGS)


class BaseDocument(BaseModel):
    """``base.json``.

    Attributes:
        revision: the number of the catalog's revision.
        catalog: its digest: which facts are read, and how.
        base: digest of the base's manifest.
        platform: the base's platform.
        compressed: bytes of all its layers' blobs.
        facts: what was read out of it.
        files: digest of every other file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[2] = Field(alias="schema")
    revision: int
    catalog: str
    base: DigestField
    platform: str
    compressed: Annotated[int, Field(ge=0)]
    facts: Facts
    files: dict[str, DigestField]
    digest: DigestField


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseParts:
    """What a base lock is made of, before it is encoded.

    Attributes:
        manifest_bytes: the base's manifest, verbatim.
        config_bytes: the base's config, verbatim.
        platform: the base's platform.
        compressed: bytes of all its layers' blobs.
        facts: what was read out of it.
        freeze: what ``pip freeze`` prints of it.
        files: its paths, encoded by :func:`imagegate.lock.blocks.encode_index`.
        options: the serving options of its programs, empty where it has none.
    """

    manifest_bytes: bytes
    config_bytes: bytes
    platform: str
    compressed: int
    facts: Facts
    freeze: str
    files: bytes
    options: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseLock:
    """A base lock that was read and found whole.

    Attributes:
        files: the base's paths, read by the block.
        statement: the envelope of who published it; empty where it was read from the base's bytes.
    """

    document: BaseDocument
    manifest_bytes: bytes
    config_bytes: bytes
    freeze: str
    files: BlockIndex
    options: bytes = b""
    statement: bytes = b""

    @property
    def digest(self) -> Digest:
        """The base lock's digest."""
        return self.document.digest

    @property
    def base(self) -> Digest:
        """Digest of the base's manifest."""
        return self.document.base

    @property
    def manifest(self) -> Manifest:
        """The base's manifest, parsed."""
        return parse_document(Manifest, self.manifest_bytes, "the locked manifest")

    @property
    def config(self) -> ImageConfig:
        """The base's config, parsed."""
        return parse_document(ImageConfig, self.config_bytes, "the locked config")


def encode_base(parts: BaseParts) -> dict[str, bytes]:
    """Write a base lock: file name to bytes. The same parts give the same bytes."""
    files: dict[str, bytes] = {
        MANIFEST: parts.manifest_bytes,
        CONFIG: parts.config_bytes,
        FREEZE: parts.freeze.encode("utf-8", "surrogateescape"),
        **({OPTIONS: parts.options} if parts.options else {}),
    }
    digests = {name: str(Digest.of(content)) for name, content in files.items()}
    digests[FILES] = str(decode_files(parts.files).digest)
    document = BaseDocument.model_construct(
        schema_version=2,
        revision=REVISION,
        catalog=CATALOG_DIGEST,
        base=Digest.of(parts.manifest_bytes),
        platform=parts.platform,
        compressed=parts.compressed,
        facts=parts.facts,
    )
    # what is absent is left out: most facts of most files are
    written = document.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {**files, FILES: parts.files, BASE: seal({**written, "files": digests})}


def decode_files(content: bytes) -> BlockIndex:
    """Open the paths of a base lock that is being written."""
    from imagegate.lock.blocks import InMemory

    return BlockIndex(InMemory(content), FILES)


def decode_base(files: Mapping[str, FileContent], where: str) -> BaseLock:
    """Read a base lock and require that its files fit its table of contents.

    Args:
        files: file name to content, as they lie in the folder.
        where: the folder, for messages.

    Raises:
        LockError: a file is missing, empty, unreadable or edited, or it is of another revision.
    """
    hint = "restore it from version control; base locks are written by `imagegate` alone"
    raw = files.get(BASE)
    if not isinstance(raw, bytes):
        raise LockError(f"`{where}` has no `{BASE}`: this is not a base lock", hint=hint)
    found = unseal(raw, f"{where}/{BASE}", hint)
    require_revision(found.get("revision"), found.get("catalog"), where)
    document = validate(BaseDocument, found, f"{where}/{BASE}", hint)
    listed = document.files
    require_files(_ALWAYS, listed.keys() - {OPTIONS}, where)
    texts = {
        name: text_file(name, files.get(name), digest, where=where, hint=hint)
        for name, digest in listed.items()
        if name != FILES
    }
    if Digest.of(texts[MANIFEST], document.base.algorithm) != document.base:
        raise LockError(
            f"`{where}/{MANIFEST}` is not the manifest {document.base} that `{BASE}` names",
            hint=hint,
        )
    index = index_file(FILES, files.get(FILES), listed[FILES], where=where, hint=hint)
    if len(index) == 0:
        raise LockError(
            f"`{where}/{FILES}` lists no path: a base without files cannot be judged by"
        )
    statement = files.get(STATEMENT, b"")
    lock = BaseLock(
        document=document,
        manifest_bytes=texts[MANIFEST],
        config_bytes=texts[CONFIG],
        freeze=texts[FREEZE].decode("utf-8", "surrogateescape"),
        files=index,
        options=texts.get(OPTIONS, b""),
        statement=statement if isinstance(statement, bytes) else b"",
    )
    manifest, config = lock.manifest, lock.config
    if Digest.of(lock.config_bytes, manifest.config.digest.algorithm) != manifest.config.digest:
        raise LockError(f"`{where}/{CONFIG}` is not the config that `{MANIFEST}` names", hint=hint)
    if len(manifest.layers) != len(config.rootfs.diff_ids):
        raise LockError("the locked manifest and config disagree on the number of layers")
    return lock


class OlderRevisionError(LockError):
    """A base lock holds fewer facts than are compared: the base has to be read again."""


def require_revision(found: object, catalog: object, where: str) -> None:
    """Require that a base lock holds the facts that this program compares.

    Raises:
        OlderRevisionError: it holds fewer.
        LockError: it is of a newer program, or says none.
    """
    if not isinstance(found, int):
        raise LockError(f"`{where}/{BASE}` names no revision", hint="read the base again")
    if found > REVISION:
        raise LockError(
            f"`{where}` was written by a newer imagegate: "
            f"its revision is {found}, this program knows {REVISION}",
            hint="use that version or a later one",
        )
    if (found, catalog) != (REVISION, CATALOG_DIGEST):
        raise OlderRevisionError(
            f"`{where}` holds other facts than are compared: expected=revision {REVISION} "
            f"({CATALOG_DIGEST}) found=revision {found} ({catalog})",
            hint="run `imagegate lock`, which reads the base again",
        )
