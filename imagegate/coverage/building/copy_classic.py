"""COPY and ADD as the classic builder does them (moby ``builder/dockerfile/copy.go``)."""

from __future__ import annotations

from imagegate.coverage.building.archives import list_members
from imagegate.coverage.building.copy_buildkit import unpack_members
from imagegate.coverage.building.placing import (
    BuildFailureError,
    Job,
    NotKnownError,
    follow,
    image_node,
    make_directories,
    put,
)
from imagegate.coverage.golang.paths import (
    BadPatternError,
    base,
    has_wildcards,
    inside,
    match,
    split,
)
from imagegate.coverage.tree import Kind, Node, directory, lookup, walk


def copy(job: Job, image: Node) -> None:
    """Do the job on the stage's tree `image`.

    Raises:
        BuildFailureError: the build fails here.
        NotKnownError: the result depends on something unknown.
    """
    found: list[str] = []
    for written in job.sources:
        found += _find(job, written)
    if not found:
        missing = job.sources[0] if job.sources else ""
        raise BuildFailureError("no source files were specified", source=missing)
    # looked at as it is written, before it is joined to the working directory
    if len(found) > 1 and not job.into_directory:
        raise BuildFailureError(
            "with more than one source the destination must be a directory and end with `/`"
        )
    for written in found:
        _copy_one(job, written, image)


def _find(job: Job, written: str) -> list[str]:
    root = job.source.root
    path = written.removeprefix("/").removeprefix("./")
    if has_wildcards(path):
        return [inner for inner, _ in walk(root) if _matches(path, inner)]
    if escapes(path):
        raise BuildFailureError(f"`{written}`: path outside the build context")
    real = follow(root, inside(path))
    if lookup(root, real) is None:
        raise BuildFailureError(
            f"`{written}`: file not found in build context or excluded by .dockerignore",
            source=real,
        )
    return [path]


def escapes(path: str) -> bool:
    """Tell whether `path` climbs above the root it starts from."""
    depth = 0
    for part in path.split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return True
    return False


def _matches(pattern: str, path: str) -> bool:
    try:
        return match(pattern, path)
    except BadPatternError:
        return False


def _copy_one(job: Job, written: str, image: Node) -> None:
    root = job.source.root
    path = follow(root, inside(written))
    node = lookup(root, path)
    if node is None:
        raise BuildFailureError(f"`{written}`: source path not found", source=path)
    target = follow(image, inside(job.destination))
    if node.kind is Kind.DIRECTORY:
        _copy_directory(job, node, path, image, target)
        return
    if job.unpacks and _unpack(job, node, path, image, target):
        return
    existing = lookup(image, target)
    into = existing is not None and existing.kind is Kind.DIRECTORY
    if into or job.destination.endswith("/"):
        name = base(written)
        if name == ".":
            raise NotKnownError(f"`{written}` is put in the place of the folder that it goes into")
        target = f"{target}/{name}" if target else name
    make_directories(image, split(target)[0].rstrip("/"))
    put(image, target, image_node(job, node, path))


def _copy_directory(job: Job, node: Node, path: str, image: Node, target: str) -> None:
    """The directory goes through a tar stream: directories merge, anything else is replaced."""
    make_directories(image, target)
    for inner, child in walk(node):
        goal = f"{target}/{inner}" if target else inner
        existing = lookup(image, goal)
        if child.kind is not Kind.DIRECTORY:
            origin = f"{path}/{inner}" if path else inner
            put(image, goal, image_node(job, child, origin))
        elif existing is None or existing.kind is not Kind.DIRECTORY:
            put(image, goal, directory())


def _unpack(job: Job, node: Node, path: str, image: Node, target: str) -> bool:
    context = job.source.context
    if context is None or node.kind is not Kind.FILE:
        return False
    climbing = job.frontend.refuses_climbing_members
    members = list_members(context, path, refuses_climbing=climbing)
    if members is None:
        return False
    make_directories(image, target)
    unpack_members(job, image, target, path, members)
    return True
