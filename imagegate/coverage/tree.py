"""Trees of files: a build context, what is sent of it, and the file system of a stage.

File and link nodes are never changed after they are made, so trees share them; directories are
changed in place while a stage is evaluated, and are cloned where a stage starts from another.
Paths are relative to the tree's root, without a leading ``/``; the root itself is ``""``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

MAX_LINKS = 255


class Kind(Enum):
    """What a node is."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "symbolic link"
    SPECIAL = "special file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the bytes of an image file come from.

    Attributes:
        context: name of the context, empty for the main one.
        path: path in that context; empty for inline content.
        inline: the content of a heredoc, or ``None``.
        member: path inside the archive at `path` that ADD unpacked.
        emptied: the builder sends the file with 0 bytes (see `Client.opener_checks`).
        fetched: what ADD fetches it from, or what makes it, where it is not a context file.
        steps: Dockerfile lines of the instructions that carried the file, oldest first.
    """

    context: str = ""
    path: str = ""
    inline: str | None = None
    member: str = ""
    emptied: bool = False
    fetched: str = ""
    steps: tuple[int, ...] = ()


class Weight(Enum):
    """How much a doubt weighs."""

    MAYBE = "something else may have been laid over it"
    BY_RUN = "a RUN put it here"
    ALTERED = "a RUN names it, or a folder above it, in a way that may change it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why a node may not be in a real build what it is here.

    Attributes:
        weight: how much it weighs.
        line: the line of the Dockerfile that raises it.
        text: what may have happened, one clause.
    """

    weight: Weight
    line: int
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One file, directory or link.

    Attributes:
        kind: what it is.
        children: entries by name, of a directory.
        target: what a link points to, verbatim.
        size: bytes of a file.
        origin: where an image file comes from; ``None`` in a context.
        doubt: why it may not be so in a real build; ``None`` when it is certain.
        emptied: a context file of which a builder sends the name and no bytes.
        replaced: origins of the files that lay here before, latest first.
    """

    kind: Kind
    children: dict[str, Node] = field(default_factory=dict)
    target: str = ""
    size: int = 0
    origin: Origin | None = None
    doubt: Doubt | None = None
    emptied: bool = False
    replaced: tuple[Origin, ...] = ()


_NO_CHILDREN: dict[str, Node] = {}


def directory(*, doubt: Doubt | None = None) -> Node:
    """Return a new empty directory."""
    return Node(kind=Kind.DIRECTORY, doubt=doubt)


def file(*, size: int = 0, origin: Origin | None = None) -> Node:
    """Return a new regular file."""
    return Node(kind=Kind.FILE, children=_NO_CHILDREN, size=size, origin=origin)


def link(target: str, *, origin: Origin | None = None) -> Node:
    """Return a new symbolic link."""
    return Node(kind=Kind.LINK, children=_NO_CHILDREN, target=target, origin=origin)


def special() -> Node:
    """Return a device, pipe or socket."""
    return Node(kind=Kind.SPECIAL, children=_NO_CHILDREN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A build context as it lies on disk.

    Attributes:
        root: its tree.
        open: opens the file at a path; called only for files whose content decides something
            (archives named by ADD, pointers).
        name: empty for the main context, else its name in ``--build-context``.
        location: the folder it was read from, for messages.
    """

    root: Node
    open: Callable[[str], BinaryIO]
    name: str = ""
    location: str = ""


def build_tree(entries: dict[str, Node]) -> Node:
    """Build a tree from `entries` by path; missing directories are made."""
    root = directory()
    for path, node in entries.items():
        here = root
        *parents, name = path.split("/")
        for parent in parents:
            here = here.children.setdefault(parent, directory())
        here.children[name] = node
    return root


def lookup(root: Node, path: str) -> Node | None:
    """Return the node at `path` without following links, or ``None``."""
    node: Node | None = root
    for part in path.split("/") if path else ():
        node = node.children.get(part) if node is not None else None
    return node


def walk(root: Node, prefix: str = "") -> Iterator[tuple[str, Node]]:
    """Yield every node below `root` with its path, depth first, names sorted."""
    for name in sorted(root.children):
        node = root.children[name]
        path = f"{prefix}/{name}" if prefix else name
        yield path, node
        if node.children:
            yield from walk(node, path)


def clone(node: Node) -> Node:
    """Return a copy of `node` whose directories may be changed independently."""
    if node.kind is not Kind.DIRECTORY:
        return node
    return Node(
        kind=Kind.DIRECTORY,
        children={name: clone(child) for name, child in node.children.items()},
        doubt=node.doubt,
        origin=node.origin,
    )


class LinkLoopError(ValueError):
    """More symbolic links than an operating system follows."""


def resolve(root: Node, path: str) -> str:
    """Follow every link in `path` inside `root`, as containerd's ``fs.RootPath`` does.

    Links never lead out of the root, absolute ones start at it. Components that do not exist are
    kept as they are.

    Returns:
        A path without links.

    Raises:
        LinkLoopError: links lead in a circle.
    """
    done: list[str] = []
    waiting = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    followed = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            if done:
                done.pop()
            continue
        node = lookup(root, "/".join([*done, part]))
        if node is None or node.kind is not Kind.LINK:
            done.append(part)
            continue
        followed += 1
        if followed > MAX_LINKS:
            raise LinkLoopError(path)
        if node.target.startswith("/"):
            done.clear()
        waiting += [part for part in reversed(node.target.split("/")) if part not in ("", ".")]
    return "/".join(done)
