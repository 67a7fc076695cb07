"""COPY and ADD as BuildKit does them (``solver/llbsolver/file`` and ``fsutil/copy``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.coverage.building.archives import list_members
from imagegate.coverage.building.placing import (
    BuildFailureError,
    Job,
    document_node,
    follow,
    image_node,
    make_directories,
    member_nodes,
    put,
    put_into,
    refuse_uncertain,
)
from imagegate.coverage.golang.paths import (
    BadPatternError,
    base,
    check,
    clean,
    has_wildcards,
    inside,
    join,
    match,
    split,
    split_wildcards,
)
from imagegate.coverage.sending.client import Grammar
from imagegate.coverage.sending.patterns import Rule, compile_rule
from imagegate.coverage.tree import Kind, Node, directory, lookup, walk

if TYPE_CHECKING:
    from collections.abc import Sequence


def copy(job: Job, image: Node) -> None:
    """Do the job on the stage's tree `image`.

    Raises:
        BuildFailureError: the build fails here.
        NotKnownError: the result depends on something unknown.
    """
    if job.link and job.frontend.merges_links:
        layer = directory()
        _copy_all(job, layer)
        _merge(image, layer)
        return
    _copy_all(job, image)


def _copy_all(job: Job, image: Node) -> None:
    for written in job.sources:
        pattern, source = _pivot(job, written)
        include = _rules((pattern,)) if pattern else ()
        if pattern and not has_wildcards(written):
            _require(job, join("/", source, pattern)[1:])
        exclude = _rules(job.excludes)
        if (include or exclude) and not inside(source):
            _check_links(job.source.root, include, exclude)
        for found in _resolve_wildcards(job.source.root, inside(source)):
            if job.unpacks and _unpack(job, found, image):
                continue
            _copy_one(job, found, image, include, exclude)
    for name, content in job.documents:
        _copy_document(job, name, content, image)


def _pivot(job: Job, written: str) -> tuple[str, str]:
    """Split a ``--parents`` source at ``/./``; without one the pivot is the root."""
    if not job.parents:
        return "", written
    parent, found, pattern = written.partition("/./")
    return (inside(pattern), parent) if found else (inside(written), "/")


def _require(job: Job, path: str) -> None:
    """``RequiredPaths``: a ``--parents`` source without wildcards has to exist."""
    if lookup(job.source.root, path) is None:
        raise BuildFailureError(f"`/{path}`: not found", source=path)


def _check_links(root: Node, include: Sequence[Rule], exclude: Sequence[Rule]) -> None:
    """With patterns BuildKit hashes each entry of the root, and a dangling link has no hash.

    Links further down are not hashed so (moby/buildkit#4946).
    """
    for name, node in root.children.items():
        if node.kind is not Kind.LINK or lookup(root, follow(root, name)) is not None:
            continue
        if (not include or _judge(include, name, _NO)[0]) and not _judge(exclude, name, _NO)[0]:
            raise BuildFailureError(f"`/{name}`: not found", source=name)


def _rules(patterns: Sequence[str]) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    for pattern in patterns:
        try:
            rule = compile_rule(pattern, 0, Grammar.MOBY)
        except BadPatternError as refused:
            raise BuildFailureError(f"`{pattern}` is not a valid pattern: {refused}") from refused
        if rule is not None:
            rules.append(rule)
    return tuple(rules)


def _resolve_wildcards(root: Node, path: str) -> list[str]:
    """``ResolveWildcards``: the fixed part is resolved, links in the rest are not followed."""
    fixed, pattern = split_wildcards(path)
    if not pattern:
        return [path]
    # the cache key is computed first and matches what is there (``cache/contenthash``, `path.Match`)
    try:
        check(f"/{path}")
    except BadPatternError as refused:
        if not root.children:
            return []
        raise BuildFailureError(f"`{path}`: syntax error in pattern", source=path) from refused
    start = follow(root, fixed)
    folder = lookup(root, start)
    if folder is None:
        raise BuildFailureError(f"`/{start}`: no such file or directory", source=start)
    found: list[str] = []
    _match_below(folder, start, "", pattern, found)
    return found


def _match_below(node: Node, start: str, relative: str, pattern: str, found: list[str]) -> None:
    for name in sorted(node.children):
        path = f"{relative}/{name}" if relative else name
        child = node.children[name]
        if match(pattern, path):
            found.append(f"{start}/{path}" if start else path)
        elif child.kind is Kind.DIRECTORY and path.count("/") < pattern.count("/"):
            _match_below(child, start, path, pattern, found)


def _target(job: Job, image: Node, written: str, *, is_directory: bool) -> str:
    """Return where a source goes; what has to exist for it is made (``prepareTargetDir``)."""
    destination = job.destination
    above, last = split(destination)
    ensured = above if last not in ("", ".") and not job.into_directory else destination
    make_directories(image, follow(image, inside(ensured)))
    target = follow(image, inside(clean(destination)))
    existing = lookup(image, target)
    if not is_directory and existing is not None and existing.kind is Kind.DIRECTORY:
        target = f"{target}/{base(written)}" if target else base(written)
    new_directory = is_directory and existing is None
    make_directories(image, target if new_directory else split(target)[0].rstrip("/"))
    return target


def _copy_one(
    job: Job, written: str, image: Node, include: Sequence[Rule], exclude: Sequence[Rule]
) -> None:
    root = job.source.root
    path = follow(root, written)
    node = lookup(root, path)
    if node is None:
        raise BuildFailureError(f"`/{written}`: not found", source=path)
    target = _target(job, image, written, is_directory=node.kind is Kind.DIRECTORY)
    if node.kind is Kind.DIRECTORY:
        copier = _Copier(job, image, include, exclude)
        copier.directory(node, path, target)
        return
    _replace(image, target, image_node(job, node, path))


def _replace(image: Node, target: str, node: Node) -> None:
    _refuse_directory(lookup(image, target), target)
    put(image, target, node)


def _refuse_directory(existing: Node | None, target: str) -> None:
    if existing is not None and existing.kind is Kind.DIRECTORY:
        refuse_uncertain(existing)
        raise BuildFailureError(f"cannot replace the directory `/{target}` with a file")


class _Copier:
    """Copies a directory's entries, with ``--parents`` and ``--exclude`` patterns."""

    def __init__(
        self, job: Job, image: Node, include: Sequence[Rule], exclude: Sequence[Rule]
    ) -> None:
        self._job = job
        self._image = image
        self._include = include
        self._exclude = exclude
        self._excepts = any(rule.exception for rule in exclude)
        self._root = self._goal = ""

    def directory(self, node: Node, path: str, target: str) -> None:
        """Copy the contents of the directory `node` at `path` of the source to `target`."""
        self._root, self._goal = path, target
        self._make(target)
        self._entries(node, "", (_NO, _NO))

    def _entries(
        self, node: Node, relative: str, inherited: tuple[frozenset[int], frozenset[int]]
    ) -> None:
        target = join(self._goal, relative)
        path = join(self._root, relative)
        included, excluded = inherited
        here: Node | None = None
        for name in sorted(node.children):
            child = node.children[name]
            inner = f"{relative}/{name}" if relative else name
            keep, holds = _judge(self._include, inner, included) if self._include else (True, _NO)
            dropped, drops = _judge(self._exclude, inner, excluded)
            wanted = keep and not dropped
            goal = f"{target}/{name}" if target else name
            origin = f"{path}/{name}" if path else name
            if child.kind is not Kind.DIRECTORY:
                if wanted:
                    here = here or self._make(target)
                    _refuse_directory(here.children.get(name), goal)
                    put_into(here, name, image_node(self._job, child, origin))
                continue
            if wanted:
                self._make(goal)
            if not dropped or self._excepts:
                self._entries(child, inner, (holds, drops))

    def _make(self, path: str) -> Node:
        """Directories in an image are merged; anything else in their place is an error."""
        here = self._image
        for part in path.split("/") if path else ():
            child = here.children.get(part)
            if child is None:
                child = here.children[part] = directory()
            if child.kind is not Kind.DIRECTORY:
                refuse_uncertain(child)
                raise BuildFailureError(f"cannot copy to the non-directory `/{path}`")
            here = child
        return here


_NO: frozenset[int] = frozenset()


def _judge(
    rules: Sequence[Rule], path: str, inherited: frozenset[int]
) -> tuple[bool, frozenset[int]]:
    """``MatchesUsingParentResults`` of the patterns of a flag."""
    matched: list[int] = []
    result = False
    for number, rule in enumerate(rules):
        if number not in inherited:
            if rule.exception != result:
                continue
            try:
                if not rule.matches(path):
                    continue
            except BadPatternError as refused:
                raise BuildFailureError(f"`{rule}`: {refused}") from refused
        matched.append(number)
        result = not rule.exception
    return result, frozenset(matched)


def _copy_document(job: Job, name: str, content: str, image: Node) -> None:
    if "/" in name:
        raise BuildFailureError(f"heredoc `{name}`: no such file or directory")
    target = _target(job, image, name, is_directory=False)
    _replace(image, target, document_node(job, content))


def _unpack(job: Job, written: str, image: Node) -> bool:
    """ADD: unpack a local archive into the destination; tell whether it was one."""
    root, context = job.source.root, job.source.context
    path = follow(root, written)
    node = lookup(root, path)
    if node is None or node.kind is not Kind.FILE or context is None or node.emptied:
        return False
    climbing = job.frontend.refuses_climbing_members
    members = list_members(context, path, refuses_climbing=climbing)
    if members is None:
        return False
    target = follow(image, inside(job.destination))
    make_directories(image, target)
    unpack_members(job, image, target, path, members)
    return True


def unpack_members(job: Job, image: Node, target: str, path: str, members: dict[str, Node]) -> None:
    """Place archive members; directories merge, anything else replaces what is there."""
    for member, node in member_nodes(job, path, members):
        goal = f"{target}/{member}" if target else member
        existing = lookup(image, goal)
        merges = existing is not None and existing.kind is Kind.DIRECTORY
        if node.kind is Kind.DIRECTORY and merges:
            continue
        make_directories(image, split(goal)[0].rstrip("/"))
        put(image, goal, node)


def _merge(image: Node, layer: Node) -> None:
    """``--link``: lay a finished layer over the image, as a union file system does."""
    for path, node in walk(layer):
        existing = lookup(image, path)
        if node.kind is not Kind.DIRECTORY:
            put(image, path, node)
        elif existing is not None and existing.kind is Kind.DIRECTORY:
            continue
        else:
            put(image, path, directory())
