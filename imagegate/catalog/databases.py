"""Databases of lines and stanzas, entry by entry: accounts, dpkg's packages and its diversions.

A step that installs a package or adds a user writes such a file anew. What matters is which
entries differ, not which bytes.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from imagegate.catalog.collect import Interest, WholeText
from imagegate.facts import DatabaseEntry
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from imagegate.catalog.collect import Collector
    from imagegate.rootfs import Node

# passwd(5), group(5), shadow(5), gshadow(5), subuid(5), subgid(5); each has a backup with `-`
ACCOUNTS = ("etc/passwd", "etc/group", "etc/shadow", "etc/gshadow", "etc/subuid", "etc/subgid")
_ACCOUNT = re.compile(rf"(?:{'|'.join(ACCOUNTS)})-?")
# dpkg(1), FILES; the backup is of the state before the last change
STATUS = re.compile(r"var/lib/dpkg/status(?:-old)?|var/lib/dpkg/status\.d/[^/]+(?<!\.md5sums)")
DIVERSIONS = re.compile(r"var/lib/dpkg/diversions(?:-old)?")
_STATE = re.compile(r"Status:.*\n", re.IGNORECASE)
_PACKAGE = re.compile(r"^Package:[ \t]*(\S+)", re.MULTILINE | re.IGNORECASE)
_ARCHITECTURE = re.compile(r"^Architecture:[ \t]*(\S+)", re.MULTILINE | re.IGNORECASE)

INTERESTS = (
    Interest(
        name="database",
        pattern=re.compile(f"{_ACCOUNT.pattern}|{STATUS.pattern}|{DIVERSIONS.pattern}"),
        marks=("etc/", "var/lib/dpkg/"),
        keep=WholeText,
    ),
)


def is_database(path: str) -> bool:
    """Say whether a file is compared entry by entry."""
    return any(form.fullmatch(path) for form in (_ACCOUNT, STATUS, DIVERSIONS))


def main_of(path: str) -> str:
    """Return the database that a backup is of, the path itself for any other."""
    if _ACCOUNT.fullmatch(path):
        return path.removesuffix("-")
    return path.removesuffix("-old") if path.startswith("var/lib/dpkg/") else path


def entries_of(path: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield key and text of each entry of a database.

    A key that stands twice is yielded twice; an entry without one has the key ``""``. Of dpkg's
    stanzas the state is left out, which the packages' own comparison has.
    """
    if _ACCOUNT.fullmatch(path):
        for line in text.splitlines():
            if line.strip():
                yield line.partition(":")[0], line
    elif DIVERSIONS.fullmatch(path):
        lines = text.splitlines()
        for start in range(0, len(lines), 3):
            yield lines[start], "\n".join(lines[start : start + 3])
    else:
        for part in re.split(r"\n[ \t]*\n", text):
            if part.strip():
                stanza = part.strip("\n") + "\n"
                name, architecture = _PACKAGE.search(stanza), _ARCHITECTURE.search(stanza)
                key = f"{name[1]}:{architecture[1] if architecture else ''}" if name else ""
                yield key, _STATE.sub("", stanza, count=1)


def digest_of(text: str) -> str:
    """Name an entry's text; what accounts have of secrets is not kept otherwise."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def text_of(collector: Collector, node: Node) -> str | None:
    """Return a database's text, ``None`` where its bytes were not read."""
    content = collector.extract("database", node) if node.kind is Kind.FILE else None
    return None if content is None else content.decode("utf-8", "surrogateescape")


def database_entries(collector: Collector, nodes: Iterable[Node]) -> tuple[DatabaseEntry, ...]:
    """Read every entry of the databases among some nodes."""
    found: set[DatabaseEntry] = set()
    for node in nodes:
        if not is_database(node.path):
            continue
        for key, text in entries_of(node.path, text_of(collector, node) or ""):
            found.add(DatabaseEntry(path=node.path, key=key, digest=digest_of(text)))
    return tuple(sorted(found))
