"""COPY coverage of a project: reads context, Dockerfiles and git, writes the repair."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from imagegate.coverage.dockerfile import parse_dockerfile
from imagegate.coverage.evaluate import Base, Build, FilteredContext
from imagegate.coverage.gopath import BadPatternError, clean, inside, match
from imagegate.coverage.ignorefile import NO_IGNORE_FILE, IgnoreFile, candidates, read_ignore_file
from imagegate.coverage.profiles import Family, Profile, find_profile
from imagegate.coverage.render import FileReport
from imagegate.coverage.repair import propose
from imagegate.coverage.tree import (
    Context,
    Kind,
    LinkLoopError,
    Node,
    directory,
    file,
    link,
    lookup,
    resolve,
    special,
    walk,
)
from imagegate.coverage.verdict import Asset, Judgement, judge
from imagegate.coverage.walk import ContextFilter, Decision
from imagegate.errors import CoverageError, ImagegateError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

_LFS_HEADER = b"version https://git-lfs.github.com/spec/v1"
_LFS_LARGEST = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to judge.

    Attributes:
        dockerfiles: paths as the user wrote them.
        context: the build context.
        recipes: globs of recipe folders, relative to the context.
        expects: pairs of templates (context path, image path) with ``{model}`` in both.
        target: the stage to build, or ``None`` for the last.
        build_args: values of ``--build-arg``.
        build_contexts: named contexts.
        builders: names of profiles.
        run_keeps: image paths that no RUN touches.
        bases: base images that are known, by the name in FROM.
    """

    dockerfiles: tuple[Path, ...]
    context: Path
    recipes: tuple[str, ...] = ()
    expects: tuple[tuple[str, str], ...] = ()
    target: str | None = None
    build_args: Mapping[str, str] = field(default_factory=dict)
    build_contexts: Mapping[str, Path] = field(default_factory=dict)
    builders: tuple[str, ...] = ("buildkit",)
    run_keeps: tuple[str, ...] = ()
    bases: Mapping[str, Base] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One line of ``--list-context``.

    Attributes:
        path: path in the context; a directory that is not entered ends with ``/``.
        state: ``sent``, ``dropped`` or ``empty``.
        by: the line that decided, ``path:line`` with its text, or an empty string.
    """

    path: str
    state: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _GitState:
    tracked: frozenset[str]
    untracked: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Texts:
    """The files that were read for one Dockerfile: their bytes and where they lie."""

    contents: dict[str, bytes] = field(default_factory=dict)
    places: dict[str, Path] = field(default_factory=dict)


def check_coverage(request: Request, *, fix: bool = False) -> tuple[FileReport, ...]:
    """Judge every Dockerfile of `request`.

    Args:
        request: what to judge.
        fix: write the edits that cover what is not covered, and judge again.

    Raises:
        CoverageError: a file, a context or the recipes cannot be used.
    """
    context = read_context(request.context)
    assets = find_assets(request, context)
    return tuple(
        _check_one(request, dockerfile, context, assets, fix=fix)
        for dockerfile in request.dockerfiles
    )


def _check_one(
    request: Request, dockerfile: Path, context: Context, assets: list[Asset], *, fix: bool
) -> FileReport:
    texts = _Texts()
    judgements = [
        judge(_build(request, dockerfile, context, find_profile(name), texts), assets)
        for name in request.builders
    ]
    left_out = _left_out(judgements)
    judgements = [_without(judgement, left_out) for judgement in judgements]
    if not judgements[0].verdicts:
        raise CoverageError("every file of the recipes is git-ignored and none is copied")
    label = _label(dockerfile)
    if all(judgement.covered for judgement in judgements):
        return FileReport(
            dockerfile=label, judgements=tuple(judgements), left_out=tuple(sorted(left_out))
        )
    repair = propose(judgements, texts.contents)
    if fix:
        for path, text in repair.texts.items():
            write_atomically(texts.places[path], text)
        judgements = list(repair.judgements)
    return FileReport(
        dockerfile=label,
        judgements=tuple(judgements),
        edits=repair.edits,
        written=fix,
        left_out=tuple(sorted(left_out)),
    )


def _left_out(judgements: list[Judgement]) -> set[str]:
    """Return git-ignored files that no builder copies: they are neither kept nor wanted."""
    wanted = {
        verdict.asset.path
        for judgement in judgements
        for verdict in judgement.verdicts
        if not verdict.asset.gitignored or verdict.found
    }
    return {verdict.asset.path for verdict in judgements[0].verdicts} - wanted


def _without(judgement: Judgement, paths: set[str]) -> Judgement:
    if not paths:
        return judgement
    kept = tuple(verdict for verdict in judgement.verdicts if verdict.asset.path not in paths)
    return replace(judgement, verdicts=kept)


def list_context(request: Request) -> Iterator[tuple[str, Sent]]:
    """Yield what each builder sends and drops, as (builder, line), in path order.

    Raises:
        CoverageError: a file or the context cannot be used.
    """
    context = read_context(request.context)
    for dockerfile in request.dockerfiles:
        for name in request.builders:
            profile = find_profile(name)
            ignore = ignore_for(request, dockerfile, profile)
            rules = ContextFilter(ignore, profile)
            rules.send(context.root)  # a broken line is heard of before anything is printed
            for path, node, decision in rules.decisions(context.root):
                yield name, _sent(path, node, decision, ignore)


def _sent(path: str, node: Node, decision: Decision, ignore: IgnoreFile) -> Sent:
    by = ""
    if decision.rule is not None:
        line = decision.rule.line
        by = f"{ignore.path}:{line} `{ignore.written(line).strip()}`"
    state = "empty" if decision.emptied else "sent" if decision.kept else "dropped"
    return Sent(path=path + "/" if node.kind is Kind.DIRECTORY else path, state=state, by=by)


# -- reading


def read_context(folder: Path, name: str = "") -> Context:
    """Read the names, kinds and sizes of a context; contents are read when they are asked for.

    Raises:
        CoverageError: `folder` is no readable directory.
    """
    if not folder.is_dir():
        raise CoverageError(
            f"no build context `{folder}`", hint="give the folder that the builder is given"
        )
    root = directory()
    try:
        _scan(os.fspath(folder), root)
    except OSError as unreadable:
        raise CoverageError(f"the context cannot be read: {unreadable}") from unreadable

    def open_file(path: str) -> BinaryIO:
        try:
            return (folder / path).open("rb")
        except OSError as unreadable:
            raise CoverageError(f"`{path}` of the context: {unreadable.strerror}") from unreadable

    return Context(root=root, open=open_file, name=name, location=str(folder))


def _scan(top: str, root: Node) -> None:
    waiting = [(top, root)]
    while waiting:
        folder, node = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    node.children[entry.name] = link(os.fsdecode(Path(entry.path).readlink()))
                elif entry.is_dir(follow_symlinks=False):
                    child = node.children[entry.name] = directory()
                    waiting.append((entry.path, child))
                elif entry.is_file(follow_symlinks=False):
                    node.children[entry.name] = file(size=entry.stat(follow_symlinks=False).st_size)
                else:
                    node.children[entry.name] = special()


def _build(
    request: Request, dockerfile: Path, context: Context, profile: Profile, texts: _Texts
) -> Build:
    label = _label(dockerfile)
    content = _read(dockerfile, f"no Dockerfile `{dockerfile}`")
    texts.contents[label] = content
    texts.places[label] = dockerfile
    return Build(
        dockerfile=parse_dockerfile(content, label),
        dockerfile_path=_in_context(request, dockerfile),
        profile=profile,
        main=FilteredContext(
            context=context, ignore=ignore_for(request, dockerfile, profile, texts)
        ),
        named={
            name: FilteredContext(
                context=read_context(folder, name), ignore=_root_ignore(folder, profile)
            )
            for name, folder in request.build_contexts.items()
        },
        build_args=request.build_args,
        args_complete=False,
        target=request.target,
        bases=request.bases,
        run_keeps=request.run_keeps,
    )


def _label(path: Path) -> str:
    return clean(path.as_posix())


def _read(path: Path, missing: str) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as absent:
        raise CoverageError(missing) from absent
    except OSError as unreadable:
        raise CoverageError(f"`{path}` cannot be read: {unreadable}") from unreadable


def _in_context(request: Request, dockerfile: Path) -> str:
    """Return the Dockerfile's path relative to the context root, empty when it is outside."""
    try:
        return dockerfile.absolute().resolve().relative_to(request.context.resolve()).as_posix()
    except ValueError:
        return ""


def ignore_for(
    request: Request, dockerfile: Path, profile: Profile, texts: _Texts | None = None
) -> IgnoreFile:
    """Return the ignore file that `profile` reads for `dockerfile`.

    Raises:
        CoverageError: it cannot be read.
    """
    texts = texts if texts is not None else _Texts()
    own = dockerfile.with_name(dockerfile.name + "\0")
    for candidate in candidates("\0", profile):
        place = (
            own.with_name(dockerfile.name + candidate.removeprefix("\0"))
            if candidate.startswith("\0")
            else request.context / candidate
        )
        found = _ignore_file(place, profile)
        if found is not None:
            texts.contents[_label(place)] = found
            texts.places[_label(place)] = place
            return read_ignore_file(found, _label(place), profile.reader)
    return NO_IGNORE_FILE


def _root_ignore(folder: Path, profile: Profile) -> IgnoreFile:
    for candidate in candidates("", profile):
        found = _ignore_file(folder / candidate, profile)
        if found is not None:
            return read_ignore_file(found, _label(folder / candidate), profile.reader)
    return NO_IGNORE_FILE


def _ignore_file(place: Path, profile: Profile) -> bytes | None:
    """Return the bytes of an ignore file; a folder of that name is none for BuildKit only."""
    if place.is_dir():
        if profile.family is Family.BUILDKIT:
            return None
        raise CoverageError(f"`{place}` is a folder", hint="this builder wants a file there")
    if not place.exists():
        return None
    return _read(place, f"no ignore file `{place}`")


# -- assets


def find_assets(request: Request, context: Context) -> list[Asset]:
    """Find the files of every recipe, on disk and in git.

    Raises:
        CoverageError: no recipe matches, or the ones that match hold no file.
    """
    git = _git_state(request.context)
    folders = _recipe_folders(request.recipes, context, git)
    assets: list[Asset] = []
    for folder in sorted(folders):
        real, node = folders[folder]
        on_disk = {inner for inner, child in walk(node) if child.kind is not Kind.DIRECTORY}
        prefix = f"{real}/"
        known = git.tracked if git else frozenset()
        in_git = {path.removeprefix(prefix) for path in known if path.startswith(prefix)}
        assets += [
            _asset(request, context, git, folder=folder, real=real, inner=inner)
            for inner in sorted(on_disk | in_git)
        ]
    if not assets:
        globs = ", ".join(f"`{glob}`" for glob in request.recipes)
        raise CoverageError(
            f"no recipe matches {globs} in `{request.context}`",
            hint="globs are relative to the context and match folders, e.g. `recipes/*`",
        )
    return assets


def _recipe_folders(
    globs: tuple[str, ...], context: Context, git: _GitState | None
) -> dict[str, tuple[str, Node]]:
    """Return recipe folders: the path as matched, where it really lies, and its tree."""
    found: dict[str, tuple[str, Node]] = {}
    for written in globs:
        glob = inside(written)
        for path in _matches(glob, context.root, git):
            try:
                real = resolve(context.root, path)
            except LinkLoopError:
                continue
            node = lookup(context.root, real)
            if node is None:
                found[path] = (path, directory())
            elif node.kind is Kind.DIRECTORY:
                found[path] = (real, node)
    return found


def _matches(glob: str, root: Node, git: _GitState | None) -> list[str]:
    depth = glob.count("/") + 1
    paths = {path for path, _ in _shallow(root, "", depth) if path.count("/") + 1 == depth}
    if git is not None:
        parts = (path.split("/") for path in git.tracked)
        paths |= {"/".join(part[:depth]) for part in parts if len(part) > depth}
    try:
        return sorted(path for path in paths if match(glob, path))
    except BadPatternError as refused:
        raise CoverageError(f"`{glob}` is no valid glob: {refused}") from refused


def _shallow(node: Node, prefix: str, depth: int) -> Iterator[tuple[str, Node]]:
    for name, child in node.children.items():
        path = f"{prefix}/{name}" if prefix else name
        yield path, child
        if depth > 1:
            yield from _shallow(child, path, depth - 1)


def _asset(
    request: Request,
    context: Context,
    git: _GitState | None,
    *,
    folder: str,
    real: str,
    inner: str,
) -> Asset:
    path = f"{real}/{inner}"
    model = folder.rpartition("/")[2]
    tracked = None if git is None else path in git.tracked
    return Asset(
        model=model,
        path=path,
        folder=real,
        expected=_expected(request, folder, model, inner),
        tracked=tracked,
        gitignored=git is not None and not tracked and path not in git.untracked,
        pointer=is_pointer(context, path),
    )


def is_pointer(context: Context, path: str) -> bool:
    """Say whether a context file is a Git LFS pointer and not what it points to."""
    node = lookup(context.root, path)
    small = node is not None and node.kind is Kind.FILE and node.size <= _LFS_LARGEST
    if not small:
        return False
    with context.open(path) as opened:
        return opened.read(len(_LFS_HEADER)) == _LFS_HEADER


def _expected(request: Request, folder: str, model: str, inner: str) -> str | None:
    for source, destination in request.expects:
        if inside(source.replace("{model}", model)) == folder:
            return clean(f"/{destination.replace('{model}', model)}/{inner}")
    if request.expects:
        templates = ", ".join(f"`{source}`" for source, _ in request.expects)
        raise UsageError(f"no expectation for `{folder}`", hint=f"`--expect` names {templates}")
    return None


def _git_state(folder: Path) -> _GitState | None:
    """Return what git knows of `folder`, or ``None`` outside a work tree."""
    tracked = _git(folder, "ls-files", "-z", "--recurse-submodules")
    if tracked is None:
        return None
    untracked = _git(folder, "ls-files", "-z", "--others", "--exclude-standard")
    return _GitState(tracked=frozenset(tracked), untracked=frozenset(untracked or ()))


def _git(folder: Path, *arguments: str) -> list[str] | None:
    try:
        done = subprocess.run(
            ["git", "-C", os.fspath(folder), *arguments], capture_output=True, check=False
        )
    except FileNotFoundError:
        return None
    if done.returncode != 0:
        return None
    return [name for name in os.fsdecode(done.stdout).split("\0") if name]


# -- writing


def write_atomically(place: Path, content: bytes) -> None:
    """Replace the file at `place`; its mode stays, and a reader never sees half of it.

    Raises:
        ImagegateError: it cannot be written.
    """
    goal = place.resolve()
    try:
        handle, name = tempfile.mkstemp(dir=goal.parent, prefix=f".{goal.name}.")
        try:
            with os.fdopen(handle, "wb") as opened:
                opened.write(content)
                opened.flush()
                os.fsync(opened.fileno())
            Path(name).chmod(goal.stat().st_mode & 0o7777)
            Path(name).replace(goal)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as failed:
        raise ImagegateError(f"`{place}` cannot be written: {failed}") from failed
