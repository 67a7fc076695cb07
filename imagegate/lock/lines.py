"""The lines of a path index: tab-separated columns, one path each."""

from __future__ import annotations

import re

from imagegate.errors import LockError
from imagegate.oci.tar import Kind
from imagegate.rootfs import Node


def path_of(line: str) -> str:
    """Return the path of a line, escaped as it is there."""
    return line.partition("\t")[0]


def format_line(node: Node, owner: str) -> str:
    """Write what stands at a path, and who claims it."""
    return "\t".join(
        (
            escape(node.path),
            node.kind.value,
            f"{node.mode:o}",
            f"{node.uid}:{node.gid}",
            str(node.size),
            node.sha256,
            escape(owner),
            escape(node.target),
            ";".join((node.capabilities, *(f"{_escape_name(n)}={v}" for n, v in node.attributes))),
        )
    )


def parse_line(line: str) -> Node:
    """Read a line.

    Raises:
        LockError: it is malformed.
    """
    try:
        path, kind, mode, owner_ids, size, sha256, owner, target, attributes = line.split("\t")
        capabilities, *others = attributes.split(";")
        uid, _, gid = owner_ids.partition(":")
        return Node(
            path=unescape(path),
            kind=Kind(kind),
            mode=int(mode, 8),
            uid=int(uid),
            gid=int(gid),
            size=int(size),
            sha256=sha256,
            owner=unescape(owner),
            target=unescape(target),
            capabilities=capabilities,
            attributes=tuple(map(_parse_attribute, others)),
        )
    except ValueError as error:
        raise LockError(f"a line of the path index is malformed: `{line[:120]}`") from error


def _escape_name(name: str) -> str:
    return escape(name).replace(";", r"\x3b")


def _parse_attribute(text: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not equals:
        raise ValueError(text)
    return unescape(name), value


_SPECIAL = re.compile(r"[\x00-\x1f\x7f\\\udc80-\udcff]")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})")


def escape(text: str) -> str:
    r"""Write control characters, backslashes and bytes that are not UTF-8 as ``\xNN``/``\uNNNN``."""
    if not _SPECIAL.search(text):
        return text
    return _SPECIAL.sub(
        lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", text
    )


def unescape(text: str) -> str:
    """Undo :func:`escape`."""
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda m: chr(int(m[1] or m[2], 16)), text)
