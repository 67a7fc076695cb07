"""JSON that every reader takes alike, or an error: the one reader for foreign documents.

Go's ``encoding/json``, which most container tools read with, takes the last of equal names, and
matches names to fields whatever their case; other readers take the first, or only the exact one.
RFC 8259 leaves open what equal names, lone surrogates and numbers beyond a double mean. All of
these are refused here; I-JSON (RFC 7493) is the profile that this follows.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from math import isfinite
from typing import TYPE_CHECKING, Any

from imagegate.errors import ImageError, ImagegateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# manifests are small; the distribution spec lets registries refuse more than 4 MiB
JSON_LIMIT = 16 << 20
# Go reads 10,000 levels, Python as many as its stack holds; no document in use has thirty
_DEPTH = 100
# RFC 7493, 2.2, allows what a double holds exactly; sizes are Go's int64
_LARGEST = (1 << 63) - 1
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(
    content: bytes,
    what: str,
    *,
    limit: int = JSON_LIMIT,
    error: type[ImagegateError] = ImageError,
    own: bool = False,
) -> Any:  # noqa: ANN401 - the caller checks it against its model
    """Read one JSON value.

    Args:
        content: the document's bytes.
        what: how messages name it; no message holds the document's values.
        limit: the largest size in bytes.
        error: what is raised.
        own: this project's own document, which holds half surrogates where a path is not UTF-8.

    Raises:
        ImagegateError: as `error`: too large or too deep, not UTF-8, not JSON, or readable as
            different documents.
    """
    if len(content) > limit:
        raise error(f"{what} has {len(content)} bytes; such a document has at most {limit}")
    try:
        _require_depth(content)
        value = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=int if own else _whole,
        )
        if not own and _SURROGATE.search(content):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as problem:
        raise error(f"{what} is not valid JSON: byte {problem.start} is not UTF-8") from problem
    except UnicodeEncodeError as problem:
        raise error(
            f"{what} is not valid JSON: a text holds half of a surrogate pair, which some readers "
            "replace"
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise error(f"{what} is not valid JSON: {problem}") from problem
    return value


def read_object(
    content: bytes,
    what: str,
    *,
    limit: int = JSON_LIMIT,
    error: type[ImagegateError] = ImageError,
    own: bool = False,
) -> dict[str, Any]:
    """Read one JSON object; see :func:`read_json`.

    Raises:
        ImagegateError: as `error`.
    """
    value = read_json(content, what, limit=limit, error=error, own=own)
    if not isinstance(value, dict):
        raise error(f"{what} is not a JSON object")
    return value


def require_exact_names(value: Mapping[str, object], known: Iterable[str]) -> None:
    """Refuse a known name in another case: Go's reader, and so a container tool, takes it for it.

    Raises:
        ValueError: there is one.
    """
    exact = {name.casefold(): name for name in known}
    for name in value:
        if exact.get(name.casefold(), name) != name:
            raise ValueError(
                f"`{name}` stands for `{exact[name.casefold()]}`; readers take it differently"
            )


def _require_depth(content: bytes) -> None:
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(content):
        mark = content[found.start()]
        if mark in b"[{":
            depth += 1
            if depth > _DEPTH:
                raise ValueError(f"it is nested deeper than {_DEPTH} levels")
        elif mark in b"]}":
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that stands twice: two readers could see two different documents."""
    result = dict(pairs)
    if len(result) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(
            f"the name `{twice}` stands twice in one object: some readers take the first value, "
            "some the last"
        )
    return result


def _no_constant(name: str) -> None:
    """Refuse ``NaN`` and the infinities, which JSON (RFC 8259) does not have."""
    raise ValueError(f"`{name}` is not a JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"the number `{text[:40]}` is too large")
    return value


def _whole(text: str) -> int:
    value = int(text) if len(text) <= 20 else _LARGEST + 1
    if abs(value) > _LARGEST:
        raise ValueError(f"the number `{text[:40]}` is too large")
    return value
