"""COPY and ADD as buildah does them (``add.go`` and ``copier``).

The ignore file is not applied to a context beforehand: each source is judged by its path, and a
directory source while it is walked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from imagegate.coverage.building.archives import list_members
from imagegate.coverage.building.copy_buildkit import unpack_members
from imagegate.coverage.building.globs import extended_glob, go_glob, lstat
from imagegate.coverage.building.placing import (
    BuildFailureError,
    Job,
    Placed,
    document_node,
    follow,
    image_node,
    make_directories,
    put,
    refuse_uncertain,
)
from imagegate.coverage.golang.paths import (
    base,
    clean,
    inside,
    join,
    split,
)
from imagegate.coverage.sending.ignorefile import IgnoreFile, IgnoreLine
from imagegate.coverage.sending.walk import ContextFilter, WalkState
from imagegate.coverage.tree import (
    Kind,
    Node,
    directory,
    lookup,
    walk,
)

_MAX_LINKS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Copier:
    """What buildah's copier does with globs.

    Attributes:
        deep_globs: ``**`` in a source is any depth.
        globs_again: the name that a glob matched is taken for a glob once more.
    """

    deep_globs: bool = False
    globs_again: bool = False


@dataclass(slots=True, kw_only=True)
class _Plan:
    """Where the files of one instruction go.

    Attributes:
        folder: the directory they are put into.
        rename: the name that every file gets, or an empty string.
        counts_directories: a directory counts as copied even when nothing in it is.
    """

    folder: str
    rename: str
    counts_directories: bool


def copy(job: Job, image: Node, copier: Copier) -> None:
    """Do the job on the stage's tree `image`.

    Raises:
        BuildFailureError: the build fails here.
        NotKnownError: the result depends on something unknown.
    """
    for name, content in job.documents:
        _copy_document(job, name, content, image)
    if not job.sources:
        return
    found = {written: _stat(job, written, copier) for written in job.sources}
    if not any(found.values()):
        raise BuildFailureError("no items matching the sources", source=job.sources[0])
    work = _Work(job=job, image=image, plan=_plan(job, found, image), ignore=_filter(job))
    for written in job.sources:
        items = found[written]
        copied = 0
        for item in items or ():
            globbed = _globbed_again(job, item, copier)
            if work.plan.rename and len(globbed) > 1:
                raise BuildFailureError(f"`{written}`: one name for {len(globbed)} files")
            for again in globbed:
                copied += _copy_item(work, written, again)
        if items and not copied:
            raise BuildFailureError(
                f"no items matching `{written}` copied ({len(items)} filtered out)",
                source=items[0],
            )


def _globbed_again(job: Job, item: str, copier: Copier) -> list[str]:
    """``copier.Get`` of older versions takes the name that a glob matched for a glob itself."""
    if not copier.globs_again:
        return [item]
    found = go_glob(job.source.root, item)
    if not found:
        raise BuildFailureError(f"globs [/{item}] matched nothing", source=item)
    return found


def _filter(job: Job) -> ContextFilter:
    """The context's ignore lines with the values of ``--exclude`` behind them."""
    known = job.source.filter
    lines = known.ignore.lines if known else ()
    path = known.ignore.path if known else None
    extra = tuple(
        IgnoreLine(number=0, written=pattern, pattern=pattern) for pattern in job.excludes
    )
    if known and not extra:
        return known
    return ContextFilter(IgnoreFile(path=path, lines=(*lines, *extra)), job.client)


def _stat(job: Job, written: str, copier: Copier) -> list[str] | None:
    """Return what a source matches; ``None`` for a glob without a match, which is no error yet."""
    path = clean("/" + written)[1:]
    found = extended_glob(job.source.root, path, deep=copier.deep_globs)
    if found:
        return found
    if any(character in path for character in "*?["):
        return None
    raise BuildFailureError(f"`{written}`: no such file or directory", source=path)


def _plan(job: Job, found: dict[str, list[str] | None], image: Node) -> _Plan:
    """Decide whether the destination is a directory or a new name (``Builder.Add``)."""
    destination = clean(job.destination)
    must_be_directory = (
        job.into_directory or len(job.sources) > 1 or destination == clean(job.workdir)
    )
    can_be_file = False
    if len(job.sources) == 1:
        first = next(iter(found.values()))
        kind, archive = _kind(job, first[0]) if first else (None, False)
        must_be_directory = must_be_directory or kind is Kind.DIRECTORY or archive
        can_be_file = kind is Kind.FILE
    target = follow(image, inside(destination))
    existing = lookup(image, target)
    folder, rename = target, ""
    above, name = split(inside(destination))
    if name and existing is None:
        dangling = lstat(image, inside(destination))
        if dangling is not None and dangling.kind is Kind.LINK:
            # something is there, it is no file: so a directory is made where the link leads
            must_be_directory = True
    if name and can_be_file:
        # a link at the destination is looked through, and replaced when a file takes its name
        written = lstat(image, inside(destination))
        if written is not None and written.kind is Kind.LINK and existing is not None:
            target = join(follow(image, above.rstrip("/")), name)
    if existing is None and not must_be_directory and can_be_file:
        folder, rename = split(target)[0].rstrip("/"), split(target)[1]
    elif existing is not None and existing.kind is not Kind.DIRECTORY:
        if must_be_directory:
            refuse_uncertain(existing)
            raise BuildFailureError(f"`{destination}` already exists but is not a directory")
        folder, rename = split(target)[0].rstrip("/"), split(target)[1]
    make_directories(image, folder)
    return _Plan(
        folder=folder,
        rename=rename,
        counts_directories=must_be_directory and not can_be_file,
    )


def _kind(job: Job, item: str) -> tuple[Kind | None, bool]:
    path = follow(job.source.root, item)
    node = lookup(job.source.root, path)
    if node is None:
        return None, False
    archive = False
    if job.unpacks and node.kind is Kind.FILE and job.source.context is not None:
        archive = list_members(job.source.context, path) is not None
    return node.kind, archive


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What all steps of one instruction share."""

    job: Job
    image: Node
    plan: _Plan
    ignore: ContextFilter


def _copy_item(work: _Work, written: str, item: str) -> int:
    """Copy one match of a source; return how many entries count as copied."""
    root = work.job.source.root
    counted = 0
    if not item:
        counted = 1
    elif work.ignore.matches(item):
        node = lookup(root, follow(root, item))
        is_directory = node is not None and node.kind is Kind.DIRECTORY
        if not is_directory or not _includes_anyway(work.ignore, item):
            return 0
    elif work.plan.counts_directories:
        counted = 1
    path = _dereference(work.job, item)
    node = lookup(root, path)
    if node is None:
        raise BuildFailureError(f"`{written}`: no such file or directory", source=path)
    found = Placed(node=node, path=path)
    if node.kind is Kind.DIRECTORY:
        return counted + _copy_directory(work, item, found)
    return counted + _copy_file(work, item, found)


def _includes_anyway(ignore: ContextFilter, path: str) -> bool:
    return any(
        rule.text.removeprefix("/").startswith(path + "/")
        for rule in ignore.rules
        if rule.exception
    )


def _dereference(job: Job, item: str) -> str:
    """Chase links of the last component, as ``checkLinks`` does."""
    root = job.source.root
    above, name = split(item)
    path = join(follow(root, above.rstrip("/")), name) if name else ""
    for _ in range(_MAX_LINKS):
        node = lookup(root, path)
        if node is None or node.kind is not Kind.LINK:
            return path
        raw = node.target if node.target.startswith("/") else join(split(path)[0], node.target)
        # the copier runs in a chroot: `..` at its root stays there
        above, name = split(inside(raw))
        path = join(follow(root, above.rstrip("/")), name) if name else ""
    raise BuildFailureError(f"`{item}`: too many links", source=item)


def _copy_file(work: _Work, item: str, found: Placed) -> int:
    job, image, plan = work.job, work.image, work.plan
    if work.ignore.matches(found.path):
        raise BuildFailureError(f"`{item}`: copied no items", source=found.path)
    context = job.source.context
    if job.unpacks and found.node.kind is Kind.FILE and context is not None:
        members = list_members(context, found.path)
        if members is not None:
            unpack_members(job, image, plan.folder, found.path, members)
            return len(members)
    kept = _kept_name(job, item) if job.parents else base(item)
    if plan.rename and "/" in kept:
        raise BuildFailureError("`--parents` needs a destination that ends with `/`")
    goal = join(plan.folder, plan.rename or kept)
    make_directories(image, split(goal)[0].rstrip("/"))
    put(image, goal, image_node(job, found.node, found.path))
    return 1


def _kept_name(job: Job, item: str) -> str:
    """``--parents``: the path below the ``/./`` pivot, or the whole path."""
    for written in job.sources:
        before, pivot, _ = written.partition("/./")
        prefix = inside(before)
        if pivot and (item + "/").startswith(prefix + "/"):
            return item[len(prefix) :].lstrip("/")
    return item


def _copy_directory(work: _Work, item: str, found: Placed) -> int:
    state = work.ignore.state_in(found.path)
    if work.plan.rename:
        return _copy_renamed(work, found, state)
    target = work.plan.folder
    if work.job.parents:
        linked = lstat(work.job.source.root, item)
        is_link = linked is not None and linked.kind is Kind.LINK
        target = join(target, _kept_name(work.job, found.path if is_link else item))
        make_directories(work.image, target)
    return _copy_entries(work, found, target, state)


def _copy_renamed(work: _Work, found: Placed, state: WalkState) -> int:
    """Give every entry of a directory one name, which works for a single entry only.

    It happens when a glob matches a file first and the destination does not exist.
    """
    scratch = directory()
    copied = _copy_entries(replace(work, image=scratch), found, "", state)
    if copied > 1:
        raise BuildFailureError(
            f"renamed {copied} items when 1 was expected: the destination needs a `/` at its end"
        )
    if copied:
        _, entry = list(walk(scratch))[-1]
        goal = join(work.plan.folder, work.plan.rename)
        if entry.kind is Kind.DIRECTORY:
            _make_over(work.image, goal)
        else:
            put(work.image, goal, entry)
    return copied


def _copy_entries(work: _Work, found: Placed, target: str, state: WalkState) -> int:
    """Copy what the ignore lines leave of a directory; return the number of entries."""
    copied = 0
    for name in sorted(found.node.children):
        child = found.node.children[name]
        origin = f"{found.path}/{name}" if found.path else name
        goal = f"{target}/{name}" if target else name
        excluded, below = work.ignore.step(origin, state)
        if child.kind is Kind.DIRECTORY:
            if excluded and not work.ignore.may_hold_exceptions(origin):
                continue
            if not excluded:
                _make_over(work.image, goal)
                copied += 1
            inner = Placed(node=child, path=origin)
            copied += _copy_entries(work, inner, goal, below())
        elif not excluded:
            make_directories(work.image, split(goal)[0].rstrip("/"))
            put(work.image, goal, image_node(work.job, child, origin))
            copied += 1
    return copied


def _make_over(image: Node, goal: str) -> None:
    """A directory merges with a directory and replaces anything else."""
    make_directories(image, split(goal)[0].rstrip("/"))
    existing = lookup(image, goal)
    if existing is None or existing.kind is not Kind.DIRECTORY:
        put(image, goal, directory())


def _copy_document(job: Job, name: str, content: str, image: Node) -> None:
    target = follow(image, inside(clean(job.destination)))
    existing = lookup(image, target)
    into = job.into_directory or (existing is not None and existing.kind is Kind.DIRECTORY)
    if into or len(job.documents) + len(job.sources) > 1:
        target = join(target, base(name))
    make_directories(image, split(target)[0].rstrip("/"))
    put(image, target, document_node(job, content))
