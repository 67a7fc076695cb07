"""The files that have to be in the image: on disk, in git, and where they belong."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from imagegate.asking.patterns import Pattern, parse_expectation, parse_pattern
from imagegate.coverage.outcome import Asset
from imagegate.coverage.tree import Context, Kind, LinkLoopError, Node, lookup, resolve
from imagegate.errors import CoverageError, UsageError

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping, Sequence

    from imagegate.asking.patterns import Expectation
    from imagegate.usecases.covering.git import GitState

# Git LFS specification, "The Pointer": a pointer is shorter than this
_LFS_HEADER = b"version https://git-lfs.github.com/spec/v1"
_LFS_LARGEST = 1024
# git's own files are nobody's asset: a repository's folder, a submodule's `.git` file
_GITS_OWN = ".git"
_NOT_INITIALISED = "a submodule that is not initialised: `git submodule update --init`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the patterns come to.

    Attributes:
        assets: the files, ordered by pattern and path.
        notes: what a pattern names and what is not judged, a sentence each.
    """

    assets: tuple[Asset, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """One file or folder that a pattern names.

    Attributes:
        shown: its path as it was matched.
        real: where it really lies, links followed.
        node: what is there; ``None`` where only git knows of it.
    """

    shown: str
    real: str
    node: Node | None


@dataclass(slots=True, kw_only=True)
class _Found:
    folders: dict[str, _Unit] = field(default_factory=dict)
    files: dict[str, _Unit] = field(default_factory=dict)


def heads(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the folders and files below which everything lies that `patterns` name.

    Raises:
        UsageError: a pattern cannot be read.
    """
    parsed = [pattern for written in patterns for pattern in parse_pattern(written)]
    return tuple(dict.fromkeys(pattern.head for pattern in parsed))


def find_assets(
    patterns: Sequence[str],
    expectations: Sequence[str],
    context: Context,
    git: GitState | None,
    *,
    exclude: Sequence[str] = (),
) -> Asked:
    """Find every file that `patterns` name, on disk and in git.

    Args:
        patterns: what is asked for, see `imagegate.asking.patterns`.
        expectations: where it has to end; where nothing is said, siblings tell.
        context: the build context.
        git: what git knows of it; one that was refused counts as none.
        exclude: patterns of what is not asked for after all.

    Raises:
        CoverageError: a pattern names nothing.
        UsageError: a pattern or an expectation cannot be read, or an expectation meets no asset.
    """
    known = git if git is not None and not git.refused else None
    places = [place for written in expectations for place in parse_expectation(written)]
    assets: dict[str, Asset] = {}
    notes: list[str] = []
    used: set[str] = set()
    unwanted = {written: parse_pattern(written) for written in exclude}
    left_out: set[str] = set()
    for written in dict.fromkeys(patterns):
        named = False
        for pattern in parse_pattern(written):
            for unit, inner, asset in _named(pattern, context, known, notes):
                named = True
                out = _excluded(unwanted, "/".join(part for part in (unit, inner) if part))
                if out:
                    left_out |= out
                    continue
                placed = replace(asset, expected=_goal(unit, inner, places, used))
                assets.setdefault(asset.path, placed)
        if not named:
            raise _nothing(written, context)
    if unmet := [written for written in exclude if written not in left_out]:
        raise UsageError(
            f"`{unmet[0]}` excludes no asset", hint="it is a path of the context that is asked for"
        )
    if not assets:
        raise UsageError("everything that is asked for is excluded")
    for place in places:
        if place.written not in used:
            raise UsageError(
                f"the expectation `{place.written}` speaks of no asset",
                hint="its left side is a path of the context that the patterns name",
            )
    return Asked(assets=tuple(assets.values()), notes=tuple(dict.fromkeys(notes)))


def _excluded(unwanted: Mapping[str, tuple[Pattern, ...]], path: str) -> set[str]:
    """Return which patterns take `path` out again."""
    return {
        written
        for written, patterns in unwanted.items()
        if any(pattern.unit_of(path) is not None for pattern in patterns)
    }


def _nothing(written: str, context: Context) -> CoverageError:
    return CoverageError(
        f"no recipe matches `{written}` in `{context.location}`: no file and no folder",
        hint="patterns are relative to the context: `recipes/*`, `examples/*.jinja`, `models.json`",
    )


def files_named(pattern: Pattern, context: Context) -> list[str]:
    """Return the paths of the files that a pattern names, in order; folders are left out."""
    return sorted(_on_disk(pattern, context).files)


# -- what a pattern names


def _named(
    pattern: Pattern, context: Context, git: GitState | None, notes: list[str]
) -> Iterator[tuple[str, str, Asset]]:
    """Yield what a pattern names, links not followed, the path below it, and the asset."""
    found = _on_disk(pattern, context)
    _in_git(pattern, git, found)
    worth = sum(_known(unit, git) for unit in found.folders.values())
    if worth and found.files and pattern.wild:
        # `recipes/*` means the recipes, and not the README beside them
        notes.append(_beside(pattern, found.files, worth))
        found.files.clear()
    if pattern.folders_only:
        found.files.clear()
    for unit in sorted(found.files.values(), key=lambda unit: unit.shown):
        yield _asset(pattern, context, git, unit, unit.real, single=True)
    for unit in sorted(found.folders.values(), key=lambda unit: unit.shown):
        yield from _members(pattern, context, git, unit, notes)


def _beside(pattern: Pattern, files: dict[str, _Unit], folders: int) -> str:
    names = sorted(files)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    listed = ", ".join(f"`{name}`" for name in names[:3])
    return (
        f"`{pattern.written}` names {folders} folders; the files beside them are not judged: "
        f"{listed}{more} (ask for them by their own pattern)"
    )


def _known(unit: _Unit, git: GitState | None) -> bool:
    """Tell whether a folder counts; one in which git knows of nothing, ``__pycache__``, does not."""
    if git is None or not unit.real:
        return True
    return any(
        path == unit.real or path.startswith(f"{unit.real}/")
        for paths in (git.tracked, git.untracked, git.submodules)
        for path in paths
    )


def _members(
    pattern: Pattern, context: Context, git: GitState | None, unit: _Unit, notes: list[str]
) -> Iterator[tuple[str, str, Asset]]:
    inner = {path for path, _ in _files(unit.node)} if unit.node is not None else set()
    prefix = f"{unit.real}/" if unit.real else ""
    submodules: set[str] = set()
    if git is not None:
        inner |= {path.removeprefix(prefix) for path in git.tracked if path.startswith(prefix)} - {
            ""
        }
        submodules = {
            path.removeprefix(prefix) if path != unit.real else ""
            for path in git.submodules
            if path.startswith(prefix) or path == unit.real
        }
    if not inner and not submodules:
        notes.append(f"`{unit.shown or '.'}` holds no file")
    for path in sorted(inner | submodules):
        yield _asset(
            pattern,
            context,
            git,
            unit,
            f"{prefix}{path}" if path else unit.real,
            submodule=path in submodules,
        )


def _files(node: Node, prefix: str = "") -> Iterator[tuple[str, Node]]:
    """Yield what is not a folder below `node`, without what is git's own."""
    for name, child in node.children.items():
        if name == _GITS_OWN:
            continue
        path = f"{prefix}{name}"
        if child.kind is Kind.DIRECTORY:
            yield from _files(child, f"{path}/")
        else:
            yield path, child


def _on_disk(pattern: Pattern, context: Context) -> _Found:
    found = _Found()
    for path in _walk(context.root, "", pattern.parts):
        try:
            real = resolve(context.root, path)
        except LinkLoopError:
            real = path
        node = lookup(context.root, real)
        if node is not None and node.kind is Kind.DIRECTORY:
            found.folders[path] = _Unit(shown=path, real=real, node=node)
        elif not pattern.deep:
            found.files[path] = _Unit(shown=path, real=path, node=node)
    return found


def _walk(node: Node, prefix: str, parts: tuple[re.Pattern[str] | None, ...]) -> Iterator[str]:
    """Yield every path below `node` that `parts` match; only folders that may hold one are read."""
    if not parts:
        yield prefix
        return
    test, *rest = parts
    if test is None:
        yield from _walk(node, prefix, tuple(rest))
    for name, child in node.children.items() if node.kind is Kind.DIRECTORY else ():
        if name == _GITS_OWN:
            continue
        path = f"{prefix}/{name}" if prefix else name
        if test is None:
            if child.kind is Kind.DIRECTORY:
                yield from _walk(child, path, parts)
        elif test.fullmatch(name):
            yield from _walk(child, path, tuple(rest))


def _in_git(pattern: Pattern, git: GitState | None, found: _Found) -> None:
    """Add what git tracks and what is not on disk."""
    if git is None:
        return
    for path in git.tracked:
        unit = pattern.unit_of(path)
        if unit is None or unit in found.folders or unit in found.files:
            continue
        kind = found.files if unit == path else found.folders
        if unit != path or not pattern.deep:
            kind[unit] = _Unit(shown=unit, real=unit, node=None)


# -- one asset


def _asset(
    pattern: Pattern,
    context: Context,
    git: GitState | None,
    unit: _Unit,
    path: str,
    *,
    single: bool = False,
    submodule: bool = False,
) -> tuple[str, str, Asset]:
    tracked = None if git is None else submodule or path in git.tracked
    inner = path.removeprefix(unit.real).lstrip("/")
    shown = "/".join(part for part in (unit.shown, inner) if part)
    tail = shown.removeprefix(f"{pattern.head}/") if pattern.head else shown
    return (
        unit.shown,
        inner,
        Asset(
            model=_model(pattern, unit, tail, single=single),
            path=path,
            folder=path.rpartition("/")[0] if single else unit.real,
            tail=tail,
            group=_group(pattern, tail),
            single=single,
            missing=_NOT_INITIALISED if submodule else "",
            tracked=tracked,
            gitignored=git is not None and not tracked and path not in git.untracked,
            pointer=is_pointer(context, path),
        ),
    )


def _group(pattern: Pattern, tail: str) -> str:
    """Name what goes to one place; the parts of a whole context may each go to their own."""
    if pattern.head or pattern.parts:
        return pattern.written
    return f"{pattern.written} {tail.partition('/')[0]}"


def _model(pattern: Pattern, unit: _Unit, tail: str, *, single: bool) -> str:
    """Name what the asset belongs to: the recipe's folder, or what the wildcard stands for."""
    if single or pattern.deep:
        return tail.partition("/")[0]
    return unit.shown.rpartition("/")[2]


def _goal(unit: str, inner: str, places: Sequence[Expectation], used: set[str]) -> str | None:
    """Return where an asset has to end, and write down which expectation says so.

    Raises:
        UsageError: there are expectations and none speaks of it.
    """
    for place in places:
        goal = place.place("/".join(part for part in (unit, inner) if part))
        if goal is not None:
            used.add(place.written)
            return goal
    if not places:
        return None
    sources = ", ".join(f"`{place.written}`" for place in places)
    raise UsageError(
        f"no expectation for `{unit or inner}`",
        hint=f"as soon as one is given, every asset needs one; there is {sources}",
    )


def is_pointer(context: Context, path: str) -> bool:
    """Say whether a context file is a Git LFS pointer and not what it points to."""
    node = lookup(context.root, path)
    small = node is not None and node.kind is Kind.FILE and node.size <= _LFS_LARGEST
    if not small:
        return False
    with context.open(path) as opened:
        return opened.read(len(_LFS_HEADER)) == _LFS_HEADER
