"""Putting files into an image tree: what all builders share.

The three families differ in when a path becomes a directory and in what replaces what; these are
the primitives they are written with.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import split
from imagegate.coverage.tree import (
    Context,
    Doubt,
    Kind,
    LinkLoopError,
    Node,
    Origin,
    directory,
    file,
    link,
    lookup,
    resolve,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from imagegate.coverage.reading.frontend import Frontend
    from imagegate.coverage.sending.client import Client
    from imagegate.coverage.sending.walk import ContextFilter


class BuildFailureError(Exception):
    """The builder gives up at this instruction.

    Attributes:
        message: what is wrong.
        source: the context path that is missing, where one is.
    """

    def __init__(self, message: str, *, source: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.source = source


class NotKnownError(Exception):
    """What an instruction does depends on something that is not known; the message says on what.

    Attributes:
        anything: it may bring any file at all, not only those that it names.
    """

    def __init__(self, message: str, *, anything: bool = False) -> None:
        super().__init__(message)
        self.anything = anything


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an instruction copies from.

    Attributes:
        root: the tree that the builder sees: what was sent, or a stage.
        context: the context it is, or ``None`` for a stage.
        filter: the ignore rules, where they apply while copying (buildah).
        stage: number of the stage it is.
    """

    root: Node
    context: Context | None
    filter: ContextFilter | None = None
    stage: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One COPY or ADD, ready to be done.

    Attributes:
        line: line of the Dockerfile.
        sources: paths and globs.
        source: where they lie.
        documents: heredocs as (name, content).
        destination: absolute, with its trailing ``/`` or ``/.`` kept.
        into_directory: the destination is written as a directory.
        workdir: the working directory, absolute.
        add: it is ADD.
        unpacks: archives among the sources are unpacked.
        link: ``--link``.
        parents: ``--parents``.
        excludes: ``--exclude`` patterns.
        client: what filters contexts.
        frontend: what a Dockerfile may say.
    """

    line: int
    sources: tuple[str, ...]
    source: Source
    documents: tuple[tuple[str, str], ...] = ()
    destination: str
    into_directory: bool
    workdir: str = "/"
    add: bool = False
    unpacks: bool = False
    link: bool = False
    parents: bool = False
    excludes: tuple[str, ...] = ()
    client: Client = field(repr=False)
    frontend: Frontend = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A file of the source and the path it has there."""

    node: Node
    path: str


def follow(root: Node, path: str) -> str:
    """Resolve every link of `path` in `root`.

    Raises:
        BuildFailureError: the links lead in a circle.
    """
    try:
        return resolve(root, path)
    except LinkLoopError as circle:
        raise BuildFailureError(f"`{path}`: too many links") from circle


def image_node(job: Job, node: Node, path: str) -> Node:
    """Return what the file or link `node` at `path` of the source is in the image."""
    if node.kind is Kind.SPECIAL or node.kind is Kind.DIRECTORY:
        return node
    if node.origin is not None:
        origin = replace(node.origin, steps=(*node.origin.steps, job.line))
    else:
        name = job.source.context.name if job.source.context else ""
        origin = Origin(context=name, path=path, emptied=node.emptied, steps=(job.line,))
    return Node(
        kind=node.kind,
        children=node.children,
        target=node.target,
        size=node.size,
        origin=origin,
        doubt=node.doubt,
        replaced=node.replaced,
    )


def document_node(job: Job, content: str) -> Node:
    """Return the file that a heredoc makes."""
    origin = Origin(inline=content, steps=(job.line,))
    return file(size=len(content.encode("utf-8", "surrogateescape")), origin=origin)


def make_directories(root: Node, path: str) -> Node:
    """Make every missing directory on `path` and return the last one.

    Raises:
        BuildFailureError: a component is not a directory.
        NotKnownError: a component may or may not be one.
    """
    here = root
    for part in path.split("/") if path else ():
        child = here.children.get(part)
        if child is None:
            child = here.children[part] = directory()
        elif child.kind is not Kind.DIRECTORY:
            if child.doubt:
                raise NotKnownError(child.doubt.text)
            raise BuildFailureError(f"`/{path}`: `{part}` is not a directory")
        here = child
    return here


def put(root: Node, path: str, node: Node) -> None:
    """Put `node` at `path`, over whatever is there; the directory above has to exist."""
    above, name = split(path)
    parent = lookup(root, above.rstrip("/"))
    assert parent is not None
    put_into(parent, name, node)


def put_into(parent: Node, name: str, node: Node) -> None:
    """Put `node` into the directory `parent`; a file remembers whose place it took."""
    before = parent.children.get(name)
    if before is not None and before.origin is not None and node.origin is not None:
        node.replaced = (before.origin, *before.replaced, *node.replaced)
    parent.children[name] = node


def refuse_uncertain(node: Node) -> None:
    """Refuse to say that a build fails because of a node that a RUN may have made.

    Raises:
        NotKnownError: the node is such a one.
    """
    if node.doubt is not None:
        raise NotKnownError(node.doubt.text)


def lay_doubt(root: Node, path: str, doubt: Doubt) -> None:
    """Mark the files at and below `path` as perhaps overlaid; a doubt that is there stays."""
    node = lookup(root, path)
    if node is None:
        return
    if node.kind is Kind.DIRECTORY:
        for name in list(node.children):
            lay_doubt(root, f"{path}/{name}" if path else name, doubt)
    elif node.doubt is None:
        above, name = split(path)
        parent = lookup(root, above.rstrip("/"))
        assert parent is not None
        parent.children[name] = Node(
            kind=node.kind,
            children=node.children,
            target=node.target,
            size=node.size,
            origin=node.origin,
            doubt=doubt,
            replaced=node.replaced,
        )


@contextmanager
def mounting(root: Node, mounts: Sequence[tuple[str, Node]]) -> Iterator[None]:
    """Have `mounts` in the tree while a command runs; what they hide comes back."""
    hidden: list[tuple[Node, str, Node | None]] = []
    for target, node in mounts:
        above, name = split(follow(root, target))
        if not name:
            parent, children = root, dict(root.children)
            root.children.update(node.children if node.kind is Kind.DIRECTORY else {})
            hidden += [(parent, inner, children.get(inner)) for inner in node.children]
            continue
        try:
            parent = make_directories(root, above.rstrip("/"))
        except (BuildFailureError, NotKnownError):
            continue
        hidden.append((parent, name, parent.children.get(name)))
        parent.children[name] = node
    try:
        yield
    finally:
        for parent, name, before in reversed(hidden):
            if before is None:
                parent.children.pop(name, None)
            else:
                parent.children[name] = before


def member_nodes(job: Job, path: str, members: Mapping[str, Node]) -> list[tuple[str, Node]]:
    """Return archive members as image nodes, with the archive as their origin."""
    name = job.source.context.name if job.source.context else ""
    placed: list[tuple[str, Node]] = []
    for member, node in members.items():
        origin = Origin(context=name, path=path, member=member, steps=(job.line,))
        match node.kind:
            case Kind.FILE:
                placed.append((member, file(size=node.size, origin=origin)))
            case Kind.LINK:
                placed.append((member, link(node.target, origin=origin)))
            case _:
                placed.append((member, node))
    return placed
