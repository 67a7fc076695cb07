"""What setuptools packs.

Source: setuptools.pypa.io, "Package Discovery and Namespace Packages", "Data Files Support",
"Controlling files in the distribution" (MANIFEST.in).
"""

from __future__ import annotations

import ast
import configparser
import fnmatch
import re
from dataclasses import dataclass, field
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
    parents,
)
from imagegate.coverage.packages.manifest import Manifest, parse_manifest
from imagegate.coverage.tree import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

# setuptools.discovery.FlatLayoutPackageFinder.DEFAULT_EXCLUDE
_FLAT_EXCLUDED = {
    "ci", "bin", "debian", "doc", "docs", "documentation", "manpages", "news", "newsfragments",
    "changelog", "test", "tests", "unit_test", "unit_tests", "example", "examples", "scripts",
    "tools", "util", "utils", "python", "build", "benchmark", "benchmarks", "exercise",
    "exercises", "htmlcov", "tasks", "fabfile", "site_scons", "node_modules",
}  # fmt: skip
# plugins that call everything that git tracks a file of the distribution
_OF_GIT = re.compile(r"setuptools[-_](?:scm|git|git-versioning)\b", re.IGNORECASE)


@dataclass(slots=True, kw_only=True)
class _Settings:
    """What the project's files say, unread parts included.

    Attributes:
        packages: names; ``None`` where they are found.
        find: whether they are found by `where`, `include`, `exclude`, and not automatically.
        where: the folder that packages are looked for in.
        namespaces: folders without ``__init__.py`` are packages.
        roots: ``package_dir``: folders by package, ``""`` for all others.
        data: globs of data by package, ``"*"`` or ``""`` for all.
        excluded: globs that are taken out again.
        include: ``include_package_data``.
        of_git: what git tracks is in the distribution.
        doubt: what is decided by a program.
    """

    packages: list[str] | None = None
    find: bool = False
    where: str = ""
    include_names: list[str] = field(default_factory=lambda: ["*"])
    exclude_names: list[str] = field(default_factory=list)
    namespaces: bool = True
    roots: dict[str, str] = field(default_factory=dict)
    data: dict[str, list[str]] = field(default_factory=dict)
    excluded: dict[str, list[str]] = field(default_factory=dict)
    include: bool = False
    of_git: bool = False
    doubt: str = ""


def setuptools_backend(folder: Folder, document: dict[str, Any]) -> Backend:
    """Return the rules of setuptools for a project."""
    settings = _Settings()
    _from_setup_cfg(folder.text("setup.cfg"), settings)
    _from_setup_py(folder.text("setup.py"), settings)
    _from_pyproject(document, settings)
    return _Setuptools(folder, settings, parse_manifest(folder.text("MANIFEST.in")))


# -- where it is said


def _from_pyproject(document: dict[str, Any], settings: _Settings) -> None:
    system = document.get("build-system")
    requires = system.get("requires") if isinstance(system, dict) else None
    settings.of_git |= isinstance(requires, list) and any(
        _OF_GIT.match(str(item)) for item in requires
    )
    tool = document.get("tool")
    table = tool.get("setuptools") if isinstance(tool, dict) else None
    table = table if isinstance(table, dict) else {}
    if "project" in document or table:
        # with pyproject.toml alone data is included unless it is switched off
        settings.include = settings.include or bool(table.get("include-package-data", True))
        if table.get("include-package-data") is False:
            settings.include = False
    packages = table.get("packages")
    if isinstance(packages, list):
        settings.packages = [str(name) for name in packages]
    elif isinstance(packages, dict) and isinstance(packages.get("find"), dict):
        find = packages["find"]
        where = find.get("where") or ["."]
        settings.find = True
        settings.where = _folder(where[0] if isinstance(where, list) else str(where))
        settings.include_names = [str(name) for name in find.get("include") or ["*"]]
        settings.exclude_names = [str(name) for name in find.get("exclude") or []]
        settings.namespaces = bool(find.get("namespaces", True))
        if isinstance(where, list) and len(where) > 1:
            settings.doubt = "packages are looked for in several folders"
    roots = table.get("package-dir")
    if isinstance(roots, dict):
        settings.roots = {str(name): _folder(str(path)) for name, path in roots.items()}
    for key, goal in (("package-data", settings.data), ("exclude-package-data", settings.excluded)):
        listed = table.get(key)
        if isinstance(listed, dict):
            goal.update(
                {str(name): [str(item) for item in globs] for name, globs in listed.items()}
            )


def _folder(path: str) -> str:
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def _from_setup_cfg(text: str | None, settings: _Settings) -> None:
    if text is None:
        return
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error:
        settings.doubt = "setup.cfg cannot be read"
        return
    if not parser.has_section("options"):
        return
    options = {key.replace("-", "_"): value for key, value in parser.items("options")}
    packages = options.get("packages", "").strip()
    if packages in {"find:", "find_namespace:"}:
        settings.find = True
        settings.namespaces = packages == "find_namespace:"
        found = (
            dict(parser.items("options.packages.find"))
            if parser.has_section("options.packages.find")
            else {}
        )
        settings.where = _folder(found.get("where", ""))
        settings.include_names = _listed(found.get("include", "")) or ["*"]
        settings.exclude_names = _listed(found.get("exclude", ""))
    elif packages:
        settings.packages = _listed(packages)
    for line in _listed(options.get("package_dir", "")):
        name, _, path = line.partition("=")
        settings.roots[name.strip()] = _folder(path.strip())
    settings.include = options.get("include_package_data", "").strip().lower() in {
        "1",
        "true",
        "yes",
    }
    for section, goal in (
        ("package_data", settings.data),
        ("exclude_package_data", settings.excluded),
    ):
        name = f"options.{section}"
        if parser.has_section(name):
            goal.update({key: _listed(value) for key, value in parser.items(name)})


def _listed(value: str) -> list[str]:
    return [item.strip() for item in re.split(r"[,\n]", value) if item.strip()]


def _from_setup_py(text: str | None, settings: _Settings) -> None:
    """Read the literal arguments of ``setup(...)``; what is computed is a doubt."""
    if text is None:
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        settings.doubt = "setup.py cannot be read"
        return
    calls = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _called(node) in {"setup", "setuptools.setup"}
    ]  # fmt: skip
    if len(calls) != 1:
        settings.doubt = "setup.py is a program"
        return
    for keyword in calls[0].keywords:
        if keyword.arg is None:
            settings.doubt = "setup.py computes its arguments"
        elif keyword.arg in _ARGUMENTS:
            _argument(keyword.arg, keyword.value, settings)


_ARGUMENTS = {
    "packages", "package_dir", "package_data", "exclude_package_data", "include_package_data",
    "setup_requires", "use_scm_version", "cmdclass", "data_files",
}  # fmt: skip


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func)


def _argument(name: str, value: ast.expr, settings: _Settings) -> None:
    if name == "packages" and isinstance(value, ast.Call):
        _finding(value, settings)
        return
    if name in {"cmdclass", "data_files"}:
        settings.doubt = settings.doubt or f"setup.py says `{name}`"
        return
    if name == "use_scm_version":
        settings.of_git = True
        return
    try:
        literal = ast.literal_eval(value)
    except (ValueError, TypeError):
        settings.doubt = f"setup.py computes `{name}`"
        return
    if name == "packages" and isinstance(literal, list | tuple):
        settings.packages = [str(item) for item in literal]
    elif name == "include_package_data":
        settings.include = bool(literal)
    elif name == "setup_requires":
        listed = literal if isinstance(literal, list | tuple) else [literal]
        settings.of_git |= any(_OF_GIT.match(str(item)) for item in listed)
    elif isinstance(literal, dict):
        if name == "package_dir":
            settings.roots = {str(key): _folder(str(path)) for key, path in literal.items()}
        else:
            goal = settings.data if name == "package_data" else settings.excluded
            goal.update(
                {
                    str(key): [globs] if isinstance(globs, str) else [str(item) for item in globs]
                    for key, globs in literal.items()
                }
            )


def _finding(call: ast.Call, settings: _Settings) -> None:
    """Read ``find_packages(where, exclude, include)``."""
    kind = _called(call).rpartition(".")[2]
    if kind not in {"find_packages", "find_namespace_packages"}:
        settings.doubt = "setup.py computes `packages`"
        return
    values: dict[str, Any] = {}
    order = ("where", "exclude", "include")
    given = [
        *zip(order, call.args, strict=False),
        *((word.arg, word.value) for word in call.keywords),
    ]
    for name, value in given:
        try:
            values[str(name)] = ast.literal_eval(value)
        except (ValueError, TypeError):
            settings.doubt = f"setup.py computes `{name}` of `{kind}`"
            return
    settings.find = True
    settings.namespaces = kind == "find_namespace_packages"
    settings.where = _folder(str(values.get("where", "")))
    settings.include_names = [str(item) for item in values.get("include", ["*"])]
    settings.exclude_names = [str(item) for item in values.get("exclude", [])]


# -- what it comes to


class _Setuptools:
    def __init__(self, folder: Folder, settings: _Settings, manifest: Manifest) -> None:
        self._folder = folder
        self._settings = settings
        self._manifest = manifest
        self._root = self._source_root()

    def answer(self, path: str) -> Answer:
        """Follow ``build_py``: modules of packages, then data of packages."""
        if self._settings.doubt:
            return NotTold(reason=self._settings.doubt)
        packages = self._packages_above(path)
        if not packages:
            return NotPacked(reason="setuptools finds no package that it is in")
        name, folder = packages[0]
        inner = below(path, folder) or path
        place = f"{name.replace('.', '/')}/{inner}"
        if "/" not in inner and inner.endswith(".py"):
            return Packed(place=place, reason=f"a module of the package `{name}`")
        return self._data(path, packages, place)

    def _data(self, path: str, packages: list[tuple[str, str]], place: str) -> Answer:
        settings = self._settings
        within = [(name, below(path, folder) or path) for name, folder in packages]
        if any(_any_glob(settings.excluded, name, inner) for name, inner in within):
            return NotPacked(reason="`exclude-package-data` names it")
        if any(_any_glob(settings.data, name, inner) for name, inner in within):
            return Packed(place=place, reason="`package-data` names it")
        if within[0][1].endswith((".pyi", "py.typed")):
            # packed without being asked for since setuptools 69
            return NotTold(
                reason="what setuptools does with type information depends on its version"
            )
        if settings.include:
            if self._manifest.includes(path):
                return Packed(place=place, reason="MANIFEST.in includes it")
            if self._manifest.excludes(path):
                return NotPacked(reason="MANIFEST.in excludes it")
            if settings.of_git:
                return Packed(place=place, reason="git tracks it, which setuptools-scm asks for")
        wanted = "`package-data` and MANIFEST.in do" if settings.include else "`package-data` does"
        name = packages[0][0]
        return NotPacked(reason=f"it is data of the package `{name}`, which {wanted} not name")

    def _source_root(self) -> str:
        settings = self._settings
        if settings.find:
            return settings.where
        if "" in settings.roots:
            return settings.roots[""]
        # automatic discovery: src-layout before flat-layout
        if settings.packages is None and self._folder.is_folder("src"):
            return "src"
        return ""

    def _packages_above(self, path: str) -> list[tuple[str, str]]:
        """Return the packages that hold `path`, the nearest first, each with its folder."""
        if self._settings.packages is not None:
            listed = [(name, self._place_of(name)) for name in self._settings.packages]
            holding = [(name, folder) for name, folder in listed if below(path, folder) is not None]
            return sorted(holding, key=lambda package: -len(package[1]))
        found: list[tuple[str, str]] = []
        for folder in parents(path):
            inner = below(folder, self._root) if folder else None
            if inner and self._is_package(folder, inner):
                found.append((inner.replace("/", "."), folder))
        return found

    def _place_of(self, name: str) -> str:
        """Return the folder of a package, by ``package_dir`` (distutils ``get_package_dir``)."""
        parts = name.split(".")
        for cut in range(len(parts), 0, -1):
            root = self._settings.roots.get(".".join(parts[:cut]))
            if root is not None:
                return "/".join([part for part in (root, *parts[cut:]) if part])
        return "/".join(part for part in (self._root, *parts) if part)

    def _is_package(self, folder: str, inner: str) -> bool:
        names = inner.split("/")
        if not all(name.isidentifier() for name in names):
            return False
        settings = self._settings
        if settings.find:
            dotted = ".".join(names)
            wanted = any(fnmatch.fnmatchcase(dotted, glob) for glob in settings.include_names)
            unwanted = any(fnmatch.fnmatchcase(dotted, glob) for glob in settings.exclude_names)
            if not wanted or unwanted:
                return False
        elif not self._root and (names[0] in _FLAT_EXCLUDED or names[0].startswith(("_", "."))):
            return False
        if settings.find and not settings.namespaces:
            # `find_packages` goes down only through folders that are packages themselves
            top = folder.split("/")
            start = len(top) - len(names)
            return all(
                self._folder.is_file("/".join([*top[: start + depth + 1], "__init__.py"]))
                for depth in range(len(names))
            )
        # a folder is a namespace package as soon as it holds anything at all
        return self._folder.is_file(f"{folder}/__init__.py") or any(
            node.kind is Kind.FILE or node.kind is Kind.DIRECTORY
            for _, node in self._folder.names(folder)
        )


def _any_glob(globs: Mapping[str, list[str]], package: str, inner: str) -> bool:
    wanted = [pattern for key in ("", "*", package) for pattern in globs.get(key, ())]
    return any(glob_matches(pattern, inner) for pattern in wanted)
