"""Putting files into an image tree: what all builders share.

The three families differ in when a path becomes a directory and in what replaces what; these are
the primitives they are written with.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import inside, split
from imagegate.coverage.tree import (
    BaseDoubt,
    Context,
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
    from collections.abc import Mapping

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
    """What an instruction does depends on something that is not known; the message says on what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an instruction copies from.

    Attributes:
        root: the tree that the builder sees: what was sent, or a stage.
        context: the context it is, or ``None`` for a stage.
        filter: the ignore rules, where they apply while copying (buildah).
    """

    root: Node
    context: Context | None
    filter: ContextFilter | None = None


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
        BuildFailureError: a component is no directory.
        NotKnownError: a component may or may not be one.
    """
    here = root
    for part in path.split("/") if path else ():
        child = here.children.get(part)
        if child is None:
            child = here.children[part] = directory(doubt=here.doubt)
        elif child.kind is not Kind.DIRECTORY:
            if child.doubt:
                raise NotKnownError(child.doubt)
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


def exists_for_sure(root: Node, path: str) -> Node | None:
    """Return the node at `path`, or ``None`` when there is certainly none.

    Raises:
        NotKnownError: there may be something that is not known.
    """
    here = root
    for part in path.split("/") if path else ():
        if here.kind is not Kind.DIRECTORY:
            return None
        child = here.children.get(part)
        if child is None:
            if here.doubt:
                raise NotKnownError(f"whether `/{path}` exists is not known: {here.doubt}")
            return None
        here = child
    if here.doubt and here.kind is not Kind.DIRECTORY:
        raise NotKnownError(f"`/{path}` may be anything: {here.doubt}")
    return here


def require_certain(root: Node, written: str) -> None:
    """Make sure that what a source names in a stage does not hang on what is not known.

    Args:
        root: the stage's tree.
        written: a path or glob.

    Raises:
        NotKnownError: something that is not listed may be meant too.
    """
    here = root
    parts = inside(written).split("/") if inside(written) else []
    done = ""
    for number, part in enumerate(parts):
        if any(character in part for character in "*?["):
            rest = parts[number:]
            depth = None if "**" in rest else len(rest) - 1
            doubt = _doubt_in(here, depth)
            if doubt:
                raise NotKnownError(f"what `{written}` matches is not known: {doubt}")
            return
        known = exists_for_sure(root, follow(root, f"{done}/{part}".lstrip("/")))
        if known is None:
            return
        here, done = known, f"{done}/{part}".lstrip("/")


def _doubt_in(node: Node, depth: int | None) -> str | None:
    """Return the first doubt of a directory at most `depth` levels below `node`."""
    if node.kind is not Kind.DIRECTORY:
        return None
    if node.doubt:
        return node.doubt
    if depth == 0:
        return None
    below = None if depth is None else depth - 1
    doubts = (_doubt_in(child, below) for child in node.children.values())
    return next(filter(None, doubts), None)


def becloud(root: Node, path: str, doubt: str) -> None:
    """Mark everything at and below `path` as not certain, links on the way followed."""
    here = root
    try:
        path = resolve(root, path)
    except LinkLoopError:
        path = ""
    parts = path.split("/") if path else []
    for part in parts:
        child = here.children.get(part)
        if child is None or child.kind is not Kind.DIRECTORY:
            here.children[part] = directory(doubt=doubt)
            return
        here = child
    becloud_below(here, doubt)


def becloud_below(node: Node, doubt: str) -> None:
    """Mark everything below the directory `node` as not certain, and that there may be more."""
    if node.doubt is None or isinstance(node.doubt, BaseDoubt):
        node.doubt = doubt
    for name, child in node.children.items():
        if child.kind is Kind.DIRECTORY:
            becloud_below(child, doubt)
        elif not child.doubt:
            node.children[name] = Node(
                kind=child.kind,
                children=child.children,
                target=child.target,
                size=child.size,
                origin=child.origin,
                doubt=doubt,
                replaced=child.replaced,
            )


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
