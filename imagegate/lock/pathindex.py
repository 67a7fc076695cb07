"""The path index of a lock: sorted lines of tab-separated columns.

The last column is the file capabilities in hex, then ``;name=hex`` for each other attribute.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from imagegate.errors import LockError
from imagegate.oci.tar import Kind
from imagegate.rootfs import Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_INDEX_HEADER = "#imagegate-index-1"


class TextIndex:
    """A path index over sorted text lines; a line is parsed when it is asked for."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[Node]:
        return map(_parse_line, self._lines)

    def owners(self) -> Counter[str]:
        """Count the paths that each owner claims."""
        found = (line.split("\t", 7)[6] for line in self._lines)
        return Counter(_unescape(owner) for owner in found if owner)

    def get(self, path: str) -> Node | None:
        """Return what stands at exactly this path."""
        start = f"{_escape(path)}\t"
        position = bisect_left(self._lines, start)
        if position < len(self._lines) and self._lines[position].startswith(start):
            return _parse_line(self._lines[position])
        return None

    def under(self, path: str) -> Iterator[Node]:
        """Yield everything below a directory, in order of path."""
        prefix = f"{_escape(path)}/" if path else ""
        for position in range(bisect_left(self._lines, prefix), len(self._lines)):
            if not self._lines[position].startswith(prefix):
                return
            yield _parse_line(self._lines[position])

    def matching(self, pattern: re.Pattern[str]) -> Iterator[Node]:
        """Yield everything whose whole path fits a pattern, in order of path."""
        for line in self._lines:
            path = line[: line.index("\t")]
            if pattern.fullmatch(path if "\\" not in path else _unescape(path)):
                yield _parse_line(line)


def encode_index(nodes: Iterable[Node], owners: Mapping[str, str] | None = None) -> bytes:
    """Write an index; the order of `nodes` does not matter.

    Args:
        nodes: what is at each path.
        owners: who claims a path, where the nodes themselves do not say.
    """
    known = owners if owners is not None else {}
    lines = sorted(_format_line(node, known.get(node.path, node.owner)) for node in nodes)
    text = "\n".join([_INDEX_HEADER, *lines]) + "\n"
    return text.encode()


def decode_index(content: bytes, where: str) -> TextIndex:
    """Read an index.

    Raises:
        LockError: it is no index, or its lines are not sorted.
    """
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise LockError(f"`{where}` is not UTF-8 text") from error
    if lines[0] != _INDEX_HEADER or lines[-1] != "":
        raise LockError(f"`{where}` is not a path index of this version", hint="lock again")
    lines = lines[1:-1]
    # look-ups halve the list; out of order, they would miss paths
    if any(one >= other for one, other in pairwise(lines)):
        raise LockError(f"the lines of `{where}` are not in order", hint="lock again")
    return TextIndex(lines)


def _format_line(node: Node, owner: str) -> str:
    return "\t".join(
        (
            _escape(node.path),
            node.kind.value,
            f"{node.mode:o}",
            f"{node.uid}:{node.gid}",
            str(node.size),
            node.sha256,
            _escape(owner),
            _escape(node.target),
            ";".join((node.capabilities, *(f"{_escape_name(n)}={v}" for n, v in node.attributes))),
        )
    )


def _parse_line(line: str) -> Node:
    try:
        path, kind, mode, owner_ids, size, sha256, owner, target, attributes = line.split("\t")
        capabilities, *others = attributes.split(";")
        uid, _, gid = owner_ids.partition(":")
        return Node(
            path=_unescape(path),
            kind=Kind(kind),
            mode=int(mode, 8),
            uid=int(uid),
            gid=int(gid),
            size=int(size),
            sha256=sha256,
            owner=_unescape(owner),
            target=_unescape(target),
            capabilities=capabilities,
            attributes=tuple(map(_parse_attribute, others)),
        )
    except ValueError as error:
        raise LockError(f"a line of the path index is malformed: `{line[:120]}`") from error


def _escape_name(name: str) -> str:
    return _escape(name).replace(";", r"\x3b")


def _parse_attribute(text: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not equals:
        raise ValueError(text)
    return _unescape(name), value


_SPECIAL = re.compile(r"[\x00-\x1f\x7f\\\udc80-\udcff]")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})")


def _escape(text: str) -> str:
    r"""Write control characters, backslashes and bytes that are no UTF-8 as ``\xNN``/``\uNNNN``."""
    if not _SPECIAL.search(text):
        return text
    return _SPECIAL.sub(
        lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", text
    )


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda m: chr(int(m[1] or m[2], 16)), text)
