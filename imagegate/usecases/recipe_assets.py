"""The files of the recipes: on disk, in git, and where they belong in the image."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import BadPatternError, clean, inside, match
from imagegate.coverage.outcome import Asset
from imagegate.coverage.tree import (
    Context,
    Kind,
    LinkLoopError,
    Node,
    directory,
    lookup,
    resolve,
    walk,
)
from imagegate.errors import CoverageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from imagegate.usecases.coverage import Request

# Git LFS specification, "The Pointer": a pointer is shorter than this
_LFS_HEADER = b"version https://git-lfs.github.com/spec/v1"
_LFS_LARGEST = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _GitState:
    tracked: frozenset[str]
    untracked: frozenset[str]


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
