"""What can be said of a file of a project, and a project's files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from imagegate.coverage.tree import Kind, LinkLoopError, Node, lookup, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The file is in the wheel.

    Attributes:
        place: its path below the site directory.
        reason: the rule, one clause.
    """

    place: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPacked:
    """The file is not in the wheel; `reason` says which rule would bring it."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTold:
    """The text does not say whether the file is in the wheel; `reason` says why."""

    reason: str


Answer = Packed | NotPacked | NotTold


class Backend(Protocol):
    """The rules of one build backend for one project."""

    def answer(self, path: str) -> Answer:
        """Say what becomes of the file at `path` of the project."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of a project.

    Attributes:
        root: its tree.
        open: opens the file at a path of the project.
    """

    root: Node
    open: Callable[[str], BinaryIO]

    def node(self, path: str) -> Node | None:
        """Return what is at `path`, links followed."""
        try:
            return lookup(self.root, resolve(self.root, path))
        except LinkLoopError:
            return None

    def is_file(self, path: str) -> bool:
        """Tell whether there is a regular file at `path`."""
        node = self.node(path)
        return node is not None and node.kind is Kind.FILE

    def is_folder(self, path: str) -> bool:
        """Tell whether there is a folder at `path`."""
        node = self.node(path)
        return node is not None and node.kind is Kind.DIRECTORY

    def text(self, path: str) -> str | None:
        """Return the text of a file; ``None`` where there is none or it is not UTF-8."""
        if not self.is_file(path):
            return None
        with self.open(path) as opened:
            content = opened.read()
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None

    def names(self, path: str = "") -> Iterator[tuple[str, Node]]:
        """Yield the entries of the folder at `path`."""
        node = self.node(path)
        if node is not None and node.kind is Kind.DIRECTORY:
            yield from node.children.items()


def parents(path: str) -> Iterator[str]:
    """Yield the folders above `path`, the nearest first; the root is ``""``."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
    if path:
        yield ""


def below(path: str, folder: str) -> str | None:
    """Return `path` relative to `folder`, or ``None`` if it is not below it."""
    if not folder or folder == ".":
        return path
    return path[len(folder) + 1 :] if path.startswith(f"{folder}/") else None


def glob_matches(pattern: str, path: str) -> bool:
    """Match as Python's ``glob`` with ``recursive=True``: ``*`` stays inside a name."""
    return re.fullmatch(glob_regexp(pattern), path) is not None


def glob_regexp(pattern: str) -> str:
    """Return the regular expression of a glob in which ``**/`` is any number of folders."""
    out: list[str] = []
    position = 0
    while position < len(pattern):
        if pattern.startswith("**/", position):
            out.append("(?:[^/]+/)*")
            position += 3
            continue
        if pattern.startswith("**", position):
            out.append(".*")
            position += 2
            continue
        character = pattern[position]
        position += 1
        if character == "*":
            out.append("[^/]*")
        elif character == "?":
            out.append("[^/]")
        elif character == "[" and "]" in pattern[position + 1 :]:
            end = pattern.index("]", position + 1)
            inner = pattern[position:end].replace("\\", "\\\\")
            out.append(f"[{'^' + inner[1:] if inner[0] == '!' else inner}]")
            position = end + 1
        else:
            out.append(re.escape(character))
    return "".join(out)


def ignore_matches(patterns: Iterable[str], path: str) -> bool:
    """Match as ``.gitignore`` lines do: the last that matches counts, ``!`` takes back.

    Source: gitignore(5), "Pattern format"; hatchling reads its patterns so.
    """
    matched = False
    for written in patterns:
        pattern = written.removeprefix("!")
        rooted = "/" in pattern.rstrip("/")
        core = glob_regexp(pattern.strip("/"))
        regexp = (
            f"{'' if rooted else '(?:.*/)?'}{core}{'/.*' if pattern.endswith('/') else '(?:/.*)?'}"
        )
        if re.fullmatch(regexp, path):
            matched = not written.startswith("!")
    return matched
