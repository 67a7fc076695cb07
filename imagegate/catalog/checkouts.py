"""Working copies of git: what ``pip freeze`` says of an editable install that lies in one.

Only what pip asks git for is read: the commit that is checked out and the remotes
(gitrepository-layout(5), git-config(1)).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from imagegate.catalog.collect import Interest, WholeText
from imagegate.catalog.declaration import where_untouched
from imagegate.facts import Checkout
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from imagegate.catalog.collect import Collector
    from imagegate.rootfs import FileTree, Node

_FILE = re.compile(
    r"(?P<folder>(?:.*/)?\.git)/(?:HEAD|config|packed-refs|refs/(?:heads|tags|remotes)/.+)"
)
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SECTION = re.compile(r'\[\s*(?P<section>[\w.-]+)(?:\s+"(?P<name>(?:[^"\\]|\\.)*)")?\s*\]')
_PROGRAMS = ("usr/bin/git", "usr/local/bin/git", "bin/git")

INTERESTS = (Interest(name="git", pattern=_FILE, marks=(".git/",), keep=WholeText),)


def checkouts(
    tree: FileTree,
    collector: Collector,
    nodes: Iterable[Node],
    known: Mapping[str, Checkout] | None = None,
) -> tuple[Checkout, ...]:
    """Read the working copies that some of the given files belong to.

    Args:
        tree: the merged tree.
        collector: holds what was kept of the layers that were read.
        nodes: files that lie there, or that layers touched.
        known: what a lock says of each by its path; for files of layers that were not read.
    """
    folders = {match["folder"] for node in nodes if (match := _FILE.fullmatch(node.path))}
    found = (_read(tree, collector, folder, known or {}) for folder in sorted(folders))
    return tuple(checkout for checkout in found if checkout is not None)


def merged(
    base: tuple[Checkout, ...], added: tuple[Checkout, ...], tree: FileTree
) -> tuple[Checkout, ...]:
    """Take the base's copies that no layer touched, and all that were read.

    One of which a layer wrote a branch alone was read anew, and its HEAD is the base's.
    """
    anew = {one.path for one in added}
    return where_untouched((one for one in base if one.path not in anew), added, tree)


def _read(
    tree: FileTree, collector: Collector, folder: str, known: Mapping[str, Checkout]
) -> Checkout | None:
    head = tree.get(f"{folder}/HEAD")
    if head is None or head.kind is not Kind.FILE:
        return None
    before = known.get(head.path)
    text = _text(collector, head)
    reference = text.strip() if text is not None else (before.head if before else "")
    config = tree.get(f"{folder}/config")
    content = _text(collector, config) if config is not None else ""
    remotes = (
        tuple(_remotes(content)) if content is not None else (before.remotes if before else ())
    )
    commit = _commit(tree, collector, folder, reference)
    if commit is None:
        commit = before.commit if before is not None and before.head == reference else ""
    return Checkout(
        path=head.path,
        head=reference,
        commit=commit,
        remotes=remotes,
        local=tuple(
            url
            for line in remotes
            if (url := line.partition(" ")[2]).startswith("/") and tree.resolve(url) is not None
        ),
        owner=head.uid,
        program=any(tree.resolve(program) is not None for program in _PROGRAMS),
    )


def _text(collector: Collector, node: Node) -> str | None:
    content = collector.extract("git", node)
    return None if content is None else content.decode("utf-8", "replace")


def _commit(tree: FileTree, collector: Collector, folder: str, head: str) -> str | None:
    """Follow ``HEAD``; ``None`` where the file that says it lies in a layer that was not read."""
    if not head.startswith("ref:"):
        return head if _COMMIT.fullmatch(head) else ""
    name = head.removeprefix("ref:").strip()
    loose = tree.get(f"{folder}/{name}")
    if loose is not None:
        text = _text(collector, loose)
        return None if text is None else text.strip()
    packed = tree.get(f"{folder}/packed-refs")
    text = _text(collector, packed) if packed is not None else ""
    if text is None:
        return None
    lines = (line.split(" ", 1) for line in text.splitlines() if not line.startswith(("#", "^")))
    return next((line[0] for line in lines if len(line) == 2 and line[1].strip() == name), "")


def _remotes(text: str) -> Iterator[str]:
    """Yield name and address of each remote, in the file's order."""
    name = ""
    for line in text.splitlines():
        line = line.strip()
        section = _SECTION.match(line)
        if section is not None:
            remote = section["section"].lower() == "remote" and section["name"] is not None
            name = section["name"] if remote else ""
            line = line[section.end() :].strip()
        key, equals, value = line.partition("=")
        if name and equals and key.strip().lower() == "url":
            yield f"{name} {value.strip().strip(chr(34))}"
