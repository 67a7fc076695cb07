"""Tables of contents: what every file of a lock must be, and a digest over it all."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from imagegate.errors import ImageError, LockError
from imagegate.lock.blocks import BlockIndex, InMemory, RandomAccess
from imagegate.oci.digest import Digest
from imagegate.oci.documents import canonical_json, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Set as AbstractSet

    from imagegate.oci.digest import Digest as _Digest

FileContent = bytes | RandomAccess
_Document = TypeVar("_Document", bound=BaseModel)
_SEAL = "digest"


def seal(document: Mapping[str, Any]) -> bytes:
    """Write a table of contents with the digest of everything else in it."""
    return canonical_json({**document, _SEAL: str(Digest.of(canonical_json(dict(document))))})


def unseal(content: bytes, where: str, hint: str) -> dict[str, Any]:
    """Read a table of contents, and require that it is as it was written.

    Args:
        content: its bytes; line ends may have become CRLF.
        where: the file, for messages.
        hint: what to do about another one.

    Raises:
        LockError: it is not JSON, or was changed.
    """
    try:
        document = parse_json(plain(content), f"`{where}`")
    except ImageError as error:
        raise LockError(error.message, hint=hint) from error
    says = document.pop(_SEAL, None)
    found = Digest.of(canonical_json(document))
    if says != str(found):
        raise LockError(f"`{where}` was changed by hand: says={says} is={found}", hint=hint)
    return {**document, _SEAL: says}


def validate(
    model: type[_Document], document: Mapping[str, Any], where: str, hint: str
) -> _Document:
    """Take a document as a model.

    Raises:
        LockError: it is of another form; names the key.
    """
    try:
        # a path that is not UTF-8 is a lone surrogate here, which pydantic's own reader refuses
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise LockError(f"`{where}` is malformed: `{place}`: {first['msg']}", hint=hint) from error


def plain(content: bytes) -> bytes:
    """Undo what a checkout may have done; no canonical text has a carriage return."""
    return content.replace(b"\r\n", b"\n")


def require_files(expected: AbstractSet[str], listed: AbstractSet[str], where: str) -> None:
    """Require that a table of contents lists exactly the files that a lock has.

    Raises:
        LockError: it lists others.
    """
    if expected != listed:
        raise LockError(f"`{where}` lists other files than a lock has: {sorted(expected ^ listed)}")


def text_file(
    name: str, raw: FileContent | None, expected: _Digest, *, where: str, hint: str
) -> bytes:
    """Return a text file in the form that its digest is over.

    Raises:
        LockError: it is missing or was changed.
    """
    if not isinstance(raw, bytes):
        raise _missing(name, where)
    # the OCI documents are the base's own bytes, which may have carriage returns of their own
    for form in (plain(raw), raw):
        if Digest.of(form, expected.algorithm) == expected:
            return form
    raise _changed(name, expected, Digest.of(plain(raw), expected.algorithm), where, hint)


def index_file(
    name: str, raw: FileContent | None, expected: _Digest, *, where: str, hint: str
) -> BlockIndex:
    """Open an index and require that its table is the expected one.

    Raises:
        LockError: it is missing, damaged or was changed.
    """
    if raw is None:
        raise _missing(name, where)
    index = BlockIndex(InMemory(raw) if isinstance(raw, bytes) else raw, f"{where}/{name}")
    if index.digest != expected:
        raise _changed(name, expected, index.digest, where, hint)
    return index


def _missing(name: str, where: str) -> LockError:
    return LockError(
        f"`{where}/{name}` is missing", hint="restore it from version control, or lock again"
    )


def _changed(name: str, expected: _Digest, found: _Digest, where: str, hint: str) -> LockError:
    return LockError(
        f"`{where}/{name}` was changed by hand: locked={expected} found={found}", hint=hint
    )


def unpack(content: bytes, where: str, limit: int) -> bytes:
    """Unpack a zstd file of any number of frames.

    Raises:
        LockError: it is damaged, or unpacks to more than `limit` bytes.
    """
    from imagegate.oci.zstd import ZstdError, ZstdFile

    try:
        with ZstdFile(io.BytesIO(content)) as stream:
            text = stream.read(limit + 1)
    except (ZstdError, EOFError) as error:
        raise LockError(
            f"`{where}` is damaged: {error}", hint="restore it from version control"
        ) from error
    if len(text) > limit:
        raise LockError(f"`{where}` unpacks to more than {limit} bytes")
    return text
