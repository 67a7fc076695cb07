"""A Python project -> the rules of its build backend."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from imagegate.coverage.packages.answer import (
    Answer,
    Backend,
    Folder,
    NotPacked,
    NotTold,
    Packed,
    below,
    glob_matches,
    ignore_matches,
)
from imagegate.coverage.packages.setup import setuptools_backend

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from imagegate.coverage.tree import Node

# what no backend packs, whatever is asked for
_NEVER = re.compile(r"(?:.*/)?(?:__pycache__/.*|[^/]*\.py[cod])")


class Project:
    """A folder that pip can install.

    Attributes:
        backend: the build backend's name.
    """

    def __init__(self, backend: str, rules: Backend) -> None:
        self.backend = backend
        self._rules = rules

    def answer(self, path: str) -> Answer:
        """Say whether the file at `path` of the project is in its wheel, and where."""
        if _NEVER.fullmatch(path):
            return NotPacked(reason="compiled files are not packed")
        return self._rules.answer(path)


def read_project(root: Node, open_file: Callable[[str], BinaryIO]) -> Project | None:
    """Read a project's rules.

    Args:
        root: the project's folder.
        open_file: opens a file of it by its path in the folder.

    Returns:
        ``None`` where the folder has neither ``pyproject.toml`` nor ``setup.py`` or ``setup.cfg``.
    """
    folder = Folder(root, open_file)
    text = folder.text("pyproject.toml")
    if text is None and not (folder.is_file("setup.py") or folder.is_file("setup.cfg")):
        return None
    try:
        document: dict[str, Any] = tomllib.loads(text) if text is not None else {}
    except tomllib.TOMLDecodeError as broken:
        return Project("", _Unread(f"pyproject.toml is not valid TOML: {broken}"))
    system = _table(document, "build-system")
    # PEP 518: without a build-system table setuptools builds
    named = str(system.get("build-backend", "setuptools.build_meta:__legacy__"))
    module = named.partition(":")[0]
    if "backend-path" in system:
        return Project(module, _Unread("the project brings its build backend along"))
    readers: dict[str, Callable[[Folder, dict[str, Any]], Backend]] = {
        "setuptools.build_meta": setuptools_backend,
        "hatchling.build": _hatchling,
        "poetry.core.masonry.api": _poetry,
        "flit_core.buildapi": _flit,
        "uv_build": _uv,
    }
    reader = readers.get(module)
    if reader is None:
        return Project(module, _Unread(f"the rules of the build backend `{module}` are not read"))
    return Project(module, reader(folder, document))


def _table(document: object, *keys: str) -> dict[str, Any]:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


class _Unread:
    def __init__(self, reason: str) -> None:
        self._reason = reason

    def answer(self, _path: str) -> Answer:
        """Say that nothing is known."""
        return NotTold(reason=self._reason)


def _module_name(document: dict[str, Any], *more: object) -> str:
    names = [name for name in (*more, _table(document, "project").get("name")) if name]
    return re.sub(r"[-.]+", "_", str(names[0])) if names else ""


def _module_folder(folder: Folder, name: str) -> str | None:
    """Return the folder of the import package `name`: beside pyproject.toml or below ``src``."""
    path = name.replace(".", "/")
    found = (place for place in (f"src/{path}", path) if name and folder.is_folder(place))
    return next(found, None)


class _WholeFolders:
    """Everything below some folders is packed, but for what is excluded."""

    def __init__(self, folders: dict[str, str], excluded: list[str], said: str) -> None:
        """Take folders with the path that each has below the site directory."""
        self._folders = folders
        self._excluded = excluded
        self._said = said

    def answer(self, path: str) -> Answer:
        for folder, place in self._folders.items():
            inner = "" if path == folder else below(path, folder)
            if inner is None:
                continue
            if ignore_matches(self._excluded, path):
                return NotPacked(reason=f"{self._said} excludes it")
            return Packed(
                place="/".join(part for part in (place, inner) if part),
                reason=f"{self._said} packs `{folder}`",
            )
        listed = ", ".join(f"`{folder}`" for folder in self._folders) or "nothing"
        return NotPacked(reason=f"{self._said} packs {listed}")


def _flit(folder: Folder, document: dict[str, Any]) -> Backend:
    """Source: flit.pypa.io, "How Flit builds": every file of the module's folder is included."""
    name = _table(document, "tool", "flit", "module").get("name")
    module = _module_name(document, name)
    found = _module_folder(folder, module)
    if found is None:
        return _Unread(f"there is no folder of the module `{module}`")
    return _WholeFolders({found: module.replace(".", "/")}, [], "flit")


def _uv(folder: Folder, document: dict[str, Any]) -> Backend:
    """Source: docs.astral.sh/uv, "The uv build backend", "File inclusion and exclusion"."""
    table = _table(document, "tool", "uv", "build-backend")
    modules = _texts(table.get("module-name")) or [_module_name(document).lower()]
    root = str(table.get("module-root", "src")).strip("/")
    folders = {
        "/".join(part for part in (root, module.replace(".", "/")) if part): module.replace(
            ".", "/"
        )
        for module in modules
    }
    if not all(folder.is_folder(path) for path in folders):
        return _Unread(f"there is no folder `{min(folders)}`")
    return _WholeFolders(folders, _texts(table.get("wheel-exclude")), "uv_build")


def _hatchling(folder: Folder, document: dict[str, Any]) -> Backend:
    """Source: hatch.pypa.io, "Build configuration" and "Wheel builder"."""
    general = _table(document, "tool", "hatch", "build")
    wheel = _table(general, "targets", "wheel")

    def option(name: str) -> Any:  # noqa: ANN401
        return wheel.get(name, general.get(name))

    if general.get("hooks") or wheel.get("hooks"):
        return _Unread("a build hook of hatchling may add and remove files")
    forced = {
        str(source).strip("/"): str(place).strip("/")
        for source, place in (option("force-include") or {}).items()
    }
    excluded = _texts(option("exclude"))
    packages = [path.strip("/") for path in _texts(option("packages"))]
    only = [path.strip("/") for path in _texts(option("only-include"))]
    if option("sources") is not None:
        return _Unread("`sources` of hatchling moves files")
    if packages:
        folders = {path: path.rpartition("/")[2] for path in packages}
    elif only:
        folders = {path: path for path in only}
    elif option("include") is not None:
        return _HatchPatterns(_texts(option("include")), excluded, forced)
    else:
        name = _module_name(document)
        found = _module_folder(folder, name) or _module_folder(folder, name.lower())
        if found is None:
            return _Unread(f"there is no folder of the module `{name}`")
        folders = {found: found.rpartition("/")[2]}
    return _WholeFolders({**forced, **folders}, excluded, "hatchling")


class _HatchPatterns:
    def __init__(self, included: list[str], excluded: list[str], forced: dict[str, str]) -> None:
        self._included = included
        self._excluded = excluded
        self._forced = _WholeFolders(forced, [], "hatchling")

    def answer(self, path: str) -> Answer:
        forced = self._forced.answer(path)
        if isinstance(forced, Packed):
            return forced
        if not ignore_matches(self._included, path):
            return NotPacked(reason="`include` of hatchling does not name it")
        if ignore_matches(self._excluded, path):
            return NotPacked(reason="`exclude` of hatchling names it")
        return Packed(place=path, reason="`include` of hatchling names it")


def _poetry(folder: Folder, document: dict[str, Any]) -> Backend:
    """Source: python-poetry.org, "The pyproject.toml file": packages, include and exclude."""
    table = _table(document, "tool", "poetry")
    listed = table.get("packages")
    folders: dict[str, str] = {}
    if isinstance(listed, list):
        for package in listed:
            formats = _texts(package.get("format")) if isinstance(package, dict) else []
            include = (
                str(package.get("include", "")).strip("/") if isinstance(package, dict) else ""
            )
            if not include or any(character in include for character in "*?["):
                return _Unread("`packages` of poetry holds patterns")
            if formats and "wheel" not in formats:
                continue
            root = str(package.get("from", "")).strip("/")
            to = str(package.get("to", "")).strip("/")
            path = f"{root}/{include}" if root else include
            folders[path] = f"{to}/{include}" if to else include
    else:
        name = _module_name(document, table.get("name"))
        found = _module_folder(folder, name) or _module_folder(folder, name.lower())
        if found is None:
            return _Unread(f"there is no folder of the module `{name}`")
        folders[found] = found.removeprefix("src/")
    excluded = _poetry_paths(table.get("exclude"), wheel=True)
    return _Poetry(_WholeFolders(folders, [], "poetry"), table.get("include"), excluded)


def _poetry_paths(value: object, *, wheel: bool) -> list[str]:
    paths: list[str] = []
    for item in value if isinstance(value, list) else []:
        if isinstance(item, str):
            paths.append(item)
        elif isinstance(item, dict) and (
            not wheel or "wheel" in (_texts(item.get("format")) or ["wheel"])
        ):
            paths.append(str(item.get("path", "")))
    return paths


class _Poetry:
    def __init__(self, packages: Backend, include: object, excluded: list[str]) -> None:
        self._packages = packages
        self._include = include
        self._excluded = excluded

    def answer(self, path: str) -> Answer:
        if any(glob_matches(pattern, path) for pattern in self._excluded):
            return NotPacked(reason="`exclude` of poetry names it")
        found = self._packages.answer(path)
        if isinstance(found, Packed):
            return found
        for item in self._include if isinstance(self._include, list) else []:
            pattern = str(item.get("path", "")) if isinstance(item, dict) else str(item)
            if not glob_matches(pattern, path) and below(path, pattern.rstrip("/")) is None:
                continue
            formats = _texts(item.get("format")) if isinstance(item, dict) else []
            if "wheel" in formats:
                return Packed(place=path, reason="`include` of poetry names it")
            if not formats:
                return NotTold(
                    reason="`include` without `format` means the sdist alone since poetry 2"
                )
        return found
