"""What git knows of the files of a context: asked once for each repository."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# gitdatamodel(7), "index": the mode of a submodule's entry
_GITLINK = "160000"
# githooks(5): git sets these for its hooks; they speak of the repository that is committed to,
# which need not be the one that a context lies in
_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """What git says of a folder.

    Attributes:
        tracked: files that git tracks, those of checked-out submodules included.
        untracked: files that it neither tracks nor was told to ignore.
        submodules: folders of submodules that are not checked out.
        refused: why git could not be asked, a sentence; empty where it answered.
        hint: what to do about it.
    """

    tracked: frozenset[str] = frozenset()
    untracked: frozenset[str] = frozenset()
    submodules: frozenset[str] = frozenset()
    refused: str = ""
    hint: str | None = None


class _RefusedError(Exception):
    """Git ended with an error; its last words."""


@dataclass(slots=True, kw_only=True)
class _Found:
    tracked: set[str] = field(default_factory=set)
    untracked: set[str] = field(default_factory=set)
    submodules: set[str] = field(default_factory=set)


def git_state(folder: Path, heads: Iterable[str]) -> GitState | None:
    """Ask git for the files of `folder` below `heads`.

    Args:
        folder: a build context.
        heads: folders and files relative to it; an empty one is all of it.

    Returns:
        ``None`` where `folder` is not in a work tree, which is no reason for doubt. A work tree of
        which git does not want to speak is a state with `GitState.refused`.
    """
    return Git({folder: tuple(heads)}).state(folder)


class Git:
    """What git knows of several contexts; every work tree is asked once."""

    def __init__(self, heads: Mapping[Path, Iterable[str]]) -> None:
        """Remember what will be asked for, the heads of each context."""
        self._heads: dict[Path, set[str]] = {}
        self._states: dict[Path, GitState] = {}
        for folder, below in heads.items():
            top = _work_tree(folder)
            if top is not None:
                prefix = folder.resolve().relative_to(top).as_posix()
                self._heads.setdefault(top, set()).update(
                    "/".join(part for part in (prefix, head) if part not in ("", "."))
                    for head in below
                )

    def state(self, folder: Path) -> GitState | None:
        """Return what git knows of a context, see `git_state`."""
        top = _work_tree(folder)
        if top is None:
            return None
        if top not in self._states:
            self._states[top] = _state(top, self._heads.get(top, {""}))
        state = self._states[top]
        prefix = folder.resolve().relative_to(top).as_posix()
        return state if prefix == "." else _below_prefix(state, prefix)


def _below_prefix(state: GitState, prefix: str) -> GitState:
    cut = len(prefix) + 1

    def inner(paths: frozenset[str]) -> frozenset[str]:
        return frozenset(path[cut:] for path in paths if path.startswith(f"{prefix}/"))

    return replace(
        state,
        tracked=inner(state.tracked),
        untracked=inner(state.untracked),
        submodules=inner(state.submodules),
    )


def _state(work_tree: Path, wanted: set[str]) -> GitState:
    paths = () if "" in wanted else tuple(sorted(wanted))
    found = _Found()
    try:
        _ask(work_tree, paths, "", found)
    except FileNotFoundError:
        return GitState(
            refused="git is not installed",
            hint="install git, or whether files are committed is not looked at",
        )
    except _RefusedError as refused:
        return GitState(refused=f"git says: {refused}", hint=_advice(work_tree))
    return GitState(
        tracked=frozenset(found.tracked),
        untracked=frozenset(found.untracked),
        submodules=frozenset(found.submodules),
    )


def _work_tree(folder: Path) -> Path | None:
    """Return the folder with the ``.git`` that git would find from `folder`."""
    here = folder.resolve()
    return next((above for above in (here, *here.parents) if (above / ".git").exists()), None)


def _advice(work_tree: Path) -> str | None:
    """Return what helps where the repository belongs to somebody else (git's CVE-2022-24765)."""
    try:
        owner = (work_tree / ".git").stat().st_uid
    except OSError:
        return None
    if owner == os.geteuid():
        return None
    return (
        f"`{work_tree}` belongs to another user, as in many container jobs: "
        f"`git config --global --add safe.directory {work_tree}`"
    )


def _ask(folder: Path, paths: tuple[str, ...], prefix: str, found: _Found) -> None:
    """Add what git knows of `folder`, which lies at `prefix` of the context."""
    asked = (*paths, *_maybe_submodules(folder, paths))
    for entry in _git(folder, "ls-files", "-z", "--stage", paths=asked):
        described, _, path = entry.partition("\t")
        if not described.startswith(_GITLINK):
            found.tracked.add(prefix + path)
        elif (folder / path / ".git").exists():
            whole = not paths or any(_below(path, above) for above in paths)
            inner = [below.removeprefix(f"{path}/") for below in paths if _below(below, path)]
            _ask(folder / path, () if whole else tuple(inner), f"{prefix}{path}/", found)
        else:
            found.submodules.add(prefix + path)
    others = _git(folder, "ls-files", "-z", "--others", "--exclude-standard", paths=paths)
    found.untracked.update(prefix + path for path in others)


def _below(path: str, above: str) -> bool:
    return f"{path}/".startswith(f"{above}/")


def _maybe_submodules(folder: Path, paths: tuple[str, ...]) -> list[str]:
    """Return folders above `paths` that may be submodules; git does not look into those."""
    above = {path[:end] for path in paths for end, char in enumerate(path) if char == "/"}
    return sorted(
        path
        for path in above
        if (folder / path).is_dir()
        and ((folder / path / ".git").exists() or not any((folder / path).iterdir()))
    )


def _git(folder: Path, *arguments: str, paths: tuple[str, ...]) -> Iterator[str]:
    """Run git and yield what it lists.

    Raises:
        _RefusedError: it ends with an error.
        FileNotFoundError: it is not installed.
    """
    done = subprocess.run(
        ["git", "--literal-pathspecs", "-C", os.fspath(folder), *arguments, "--", *paths],
        capture_output=True,
        check=False,
        env=_environment(folder),
    )
    if done.returncode != 0:
        lines = os.fsdecode(done.stderr).strip().splitlines()
        first = lines[0] if lines else f"exit code {done.returncode}"
        raise _RefusedError(first.removeprefix("fatal: "))
    return (os.fsdecode(name) for name in done.stdout.split(b"\0") if name)


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    index = kept.pop("GIT_INDEX_FILE", None)
    work_tree = _work_tree(folder)
    if index and work_tree is not None:
        # what is being committed counts, if it is committed to this very repository
        place = Path(index).absolute()
        if place.is_relative_to(work_tree / ".git"):
            kept["GIT_INDEX_FILE"] = str(place)
    return {**kept, "LC_ALL": "C"}
