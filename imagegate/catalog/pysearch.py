"""Where a Python interpreter looks for modules, and which file answers to a name.

One model of ``sys.path`` for every way in which an interpreter starts (getpath.py and site.py of
CPython 3.11 to 3.14, Debian's site.py), and one table of the forms that a module has
(importlib.machinery, ``FileFinder`` and ``PathFinder``).
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from imagegate.catalog.loader import TRIPLETS
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from imagegate.facts import Facts, Interpreter
    from imagegate.oci.documents import ContainerConfig
    from imagegate.rootfs import FileTree

_VERSIONED = re.compile(r"python(?P<python>3\.\d+)(?P<free>t?)")
# where programs were built to be installed: the prefix that counts when no landmark is found
_BUILT_FOR = ("usr/local", "usr")
_LIBRARIES = ("lib", "lib64")
# beside a program, this makes it one that was not installed yet (getpath.py)
BUILD_MARK = "pybuilddir.txt"
_INIT = "__init__"


# --- forms of a module


def suffixes(python: str, machine: str, *, free_threaded: bool = False) -> tuple[str, ...]:
    """Return the suffixes of a module's file in the order in which they are tried.

    Args:
        python: ``major.minor``.
        machine: as ELF names it.
        free_threaded: whether the interpreter is built without the global lock.
    """
    tag = f"cpython-{python.replace('.', '')}{'t' if free_threaded else ''}"
    triplet = TRIPLETS.get(machine, "")
    own = [f".{tag}-{triplet}.so", f".{tag}-{triplet.replace('-gnu', '-musl')}.so"]
    return (*(own if triplet else ()), ".abi3.so", ".so", ".py", ".pyc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """What answers to a module's name.

    Attributes:
        path: the file that makes it; ``""`` for a namespace package, which no file makes.
        folders: where its submodules are looked for; empty for a plain module.
    """

    path: str
    folders: tuple[str, ...] = ()


def module_in(
    tree: FileTree, folder: str, name: str, endings: Sequence[str]
) -> Module | str | None:
    """Say what answers to a name in one folder (``FileFinder.find_spec``).

    Returns:
        The module, or the folder where there is only a portion of a namespace package (PEP 420),
        or ``None``.
    """
    lead = f"{folder}/{name}" if folder else name
    inside = _folder(tree, lead)
    if inside is not None and tree.may_begin(f"{inside}/{_INIT}."):
        for ending in endings:
            path = f"{inside}/{_INIT}{ending}"
            if _is_file(tree, path):
                return Module(path=path, folders=(inside,))
    # every ending begins with a dot
    if tree.may_begin(f"{lead}."):
        for ending in endings:
            if _is_file(tree, lead + ending):
                return Module(path=lead + ending)
    return inside


def find_module(
    tree: FileTree, folders: Sequence[str], name: str, endings: Sequence[str]
) -> Module | None:
    """Say what answers to a name along several folders (``PathFinder.find_spec``)."""
    portions: list[str] = []
    for folder in folders:
        found = module_in(tree, folder, name, endings)
        if isinstance(found, Module):
            return found
        if found is not None:
            portions.append(found)
    return Module(path="", folders=tuple(portions)) if portions else None


def name_of(path: str, endings: Sequence[str]) -> tuple[str, str] | None:
    """Return folder and name of the module that a file may make, ``None`` where it makes none."""
    folder, _, base = path.rpartition("/")
    for ending in endings:
        stem = base.removesuffix(ending)
        if stem != base:
            if stem == _INIT:
                above, _, package = folder.rpartition("/")
                return (above, package) if package else None
            return (folder, stem) if stem.isidentifier() else None
    return None


def names_in(tree: FileTree, folder: str, endings: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the names that can be imported from a folder, those inside namespace packages too."""
    seen: set[tuple[str, ...]] = set()
    lead = f"{folder}/" if folder else ""
    closed: set[str] = set()
    for node in tree.under(folder):
        parts = node.path[len(lead) :].split("/")
        if not parts[0].split(".")[0].isidentifier():
            continue
        dotted = tuple(parts)
        if node.kind is not Kind.DIRECTORY:
            named = name_of(node.path, endings)
            if named is None:
                # a link to a folder is a folder
                if node.kind is not Kind.SYMLINK or not parts[-1].isidentifier():
                    continue
            else:
                above = named[0][len(lead) :] if lead else named[0]
                dotted = (*(above.split("/") if above else ()), named[1])
        if not all(part.isidentifier() for part in dotted):
            continue
        parent = "/".join(dotted[:-1])
        if parent and (parent in closed or _is_package(tree, lead + parent, endings)):
            closed.add(parent)
            closed.add("/".join(dotted))
            continue
        if dotted not in seen:
            seen.add(dotted)
            yield dotted


def _is_package(tree: FileTree, folder: str, endings: Sequence[str]) -> bool:
    lead = f"{folder}/{_INIT}"
    return tree.may_begin(f"{lead}.") and any(_is_file(tree, lead + one) for one in endings)


def _is_file(tree: FileTree, path: str) -> bool:
    node = tree.get(path)
    if node is not None and node.kind is Kind.SYMLINK:
        node = tree.get(tree.resolve(path) or "")
    return node is not None and node.kind is Kind.FILE


def _folder(tree: FileTree, path: str) -> str | None:
    """Return the folder that a path is or leads to, without links."""
    if not path:
        return ""
    node = tree.get(path)
    if node is not None and node.kind is Kind.SYMLINK:
        resolved = tree.resolve(path)
        node = tree.get(resolved) if resolved else None
        path = resolved or ""
    return path if node is not None and node.kind is Kind.DIRECTORY else None


# --- the path


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Where an interpreter has its standard library.

    Attributes:
        prefix: ``sys.base_prefix``, without leading slash.
        folder: of its modules, without leading slash.
        library: ``lib`` or ``lib64``.
    """

    prefix: str
    folder: str
    library: str


@dataclass(frozen=True, kw_only=True)
class PythonSearch:
    """Where one interpreter of an image looks for modules.

    Attributes:
        tree: the image's files.
        facts: what they say.
        settings: the container's.
        interpreter: the program as it is called.
        version: ``major.minor`` where the program's name does not tell.
        machine: as ELF names it.
    """

    tree: FileTree
    facts: Facts
    settings: ContainerConfig
    interpreter: str
    version: str
    machine: str
    _resolved: dict[str, str | None] = field(default_factory=dict)

    @cached_property
    def program(self) -> str:
        """The program without links, without leading slash."""
        called = self.interpreter.strip("/")
        return self.tree.resolve(called) or called

    @cached_property
    def _named(self) -> tuple[str, bool]:
        for path in (self.program, self.interpreter):
            match = _VERSIONED.fullmatch(posixpath.basename(path))
            if match is not None:
                return match["python"], bool(match["free"])
        return self.version, False

    @property
    def python(self) -> str:
        """``major.minor`` of the interpreter."""
        return self._named[0]

    @cached_property
    def endings(self) -> tuple[str, ...]:
        """The suffixes of its modules' files."""
        return suffixes(self.python, self.machine, free_threaded=self._named[1])

    @cached_property
    def environment_file(self) -> Interpreter | None:
        """The ``pyvenv.cfg`` that it obeys: beside the program as it is called, or above."""
        folder = posixpath.dirname(self.interpreter.strip("/"))
        known = {one.path: one for one in self.facts.interpreters}
        for place in (folder, posixpath.dirname(folder)):
            real = self.tree.resolve(f"{place}/pyvenv.cfg".lstrip("/"))
            if real is not None and real in known:
                return known[real]
        return None

    @cached_property
    def library(self) -> Library:
        """Where its standard library is (getpath.py, "CALCULATE prefix")."""
        home = self.settings.environment.get("PYTHONHOME", "").partition(":")[0].strip("/")
        if home:
            return self._library_at(home) or Library(
                prefix=home, folder=f"{home}/lib/python{self.python}", library="lib"
            )
        start = posixpath.dirname(self.program)
        venv = self.environment_file
        if venv is not None and venv.home:
            called = f"{venv.home.strip('/')}/{posixpath.basename(self.interpreter)}"
            start = posixpath.dirname(self.tree.resolve(called) or called)
        folder = start
        while True:
            found = self._library_at(folder)
            if found is not None:
                return found
            if not folder:
                break
            folder = posixpath.dirname(folder)
        built = [found for prefix in _BUILT_FOR if (found := self._library_at(prefix))]
        prefix = posixpath.dirname(start)
        unknown = Library(prefix=prefix, folder=f"{prefix}/lib/python{self.python}", library="lib")
        return built[0] if built else unknown

    def _library_at(self, prefix: str) -> Library | None:
        named = self.settings.environment.get("PYTHONPLATLIBDIR")
        free = "t" if self._named[1] else ""
        for library in (named,) if named else _LIBRARIES:
            folder = f"{prefix}/{library}/python{self.python}{free}".lstrip("/")
            if any(_is_file(self.tree, f"{folder}/os{ending}") for ending in (".py", ".pyc")):
                return Library(prefix=prefix, folder=folder, library=library)
        return None

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """The site directories that are there, the user's first, in order (module ``site``)."""
        library, venv = self.library, self.environment_file
        prefixes = [library.prefix]
        if venv is not None:
            own = posixpath.dirname(venv.path)
            prefixes = [own, library.prefix] if venv.system_sites else [own]
        found: list[str] = []
        if venv is None or venv.system_sites:
            found += self._user_sites()
        for prefix in prefixes:
            found += self._sites_of(prefix, in_environment=venv is not None)
        real = (self._real(site) for site in found)
        return tuple(dict.fromkeys(site for site in real if site is not None))

    def _user_sites(self) -> Iterator[str]:
        """Yield the user's own site directory; who that is, is the container's to say."""
        environment = self.settings.environment
        if environment.get("PYTHONNOUSERSITE"):
            return
        named = environment.get("PYTHONUSERBASE")
        user = (self.settings.user or "").partition(":")[0]
        homes = [environment["HOME"]] if "HOME" in environment else []
        homes += ["root"] if user in ("", "0", "root") else [f"home/{user}", "root", ""]
        bases = [named] if named else [f"{home.strip('/')}/.local" for home in homes]
        for base in bases:
            yield f"{base.strip('/')}/lib/python{self.python}/site-packages".lstrip("/")

    def _sites_of(self, prefix: str, *, in_environment: bool) -> Iterator[str]:
        lead, python = f"{prefix}/" if prefix else "", f"python{self.python}"
        known = {one.path: one.folder for one in self.facts.interpreters}
        folder = known.get(f"{self.library.folder}/site.py", "")
        stock = [f"{lead}lib/{python}/site-packages", f"{lead}lib64/{python}/site-packages"]
        if self.library.library == "lib64":
            stock.reverse()
        if folder != "site-packages":
            # Debian's site.py; also where it is not known which one it is
            if in_environment:
                yield stock[0]
            yield f"{lead}local/lib/{python}/dist-packages"
            if prefix == "usr/local":
                yield f"{lead}lib/{python}/dist-packages"
            yield f"{lead}lib/python3/dist-packages"
            yield f"{lead}lib/{python}/dist-packages"
        if folder != "dist-packages":
            yield from stock
            if not folder:
                # a tree without a standard library: what lies beside the usual prefixes
                for other in _BUILT_FOR:
                    yield f"{other}/lib/{python}/dist-packages"
                    yield f"{other}/lib/python3/dist-packages"
                    yield f"{other}/lib/{python}/site-packages"

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The folders and archives of ``sys.path`` that are there, but for the first one."""
        library, number = self.library, self.python.replace(".", "")
        lead = f"{library.prefix}/" if library.prefix else ""
        order = [
            *self._python_path(),
            f"{lead}{library.library}/python{number}.zip",
            library.folder,
            f"{library.folder}/lib-dynload",
        ]
        inserted: dict[str, list[tuple[str, str]]] = {}
        for file in self.facts.startup:
            if file.path.endswith(".pth"):
                folder, _, name = file.path.rpartition("/")
                inserted.setdefault(folder, []).extend((name, line) for line in file.inserts)
        for site in self.sites:
            order.append(site)
            # one file after the other by name, and the lines of each in their order
            lines = sorted(inserted.get(site, ()), key=lambda one: one[0])
            order += [posixpath.normpath(posixpath.join("/", site, line)) for _, line in lines]
        real = (self._real(entry) for entry in order)
        return tuple(dict.fromkeys(entry for entry in real if entry is not None))

    def _python_path(self) -> Iterator[str]:
        text = self.settings.environment.get("PYTHONPATH", "")
        for entry in text.split(":") if text else ():
            # an empty one is the folder in which the program was started
            yield posixpath.join("/", self.settings.working_dir or "/", entry)

    def first(self, folder: str) -> str | None:
        """Return what comes before all else when a program of `folder` starts, ``None`` if nothing."""
        if self.settings.environment.get("PYTHONSAFEPATH"):
            return None
        return self._real(folder)

    def _real(self, path: str) -> str | None:
        if path not in self._resolved:
            self._resolved[path] = self.tree.resolve(path)
        return self._resolved[path]


def start_folders(
    tree: FileTree, settings: ContainerConfig, scripts: str, words: Iterable[str]
) -> tuple[str, ...]:
    """Name the folders that may come first on ``sys.path``.

    That is the current one for ``python -m`` and ``-c``, and for a script the one where it lies:
    of the launchers, and of what the container starts.

    Args:
        tree: the image's files.
        settings: the container's.
        scripts: where launchers are installed.
        words: of the entrypoint and the command.
    """
    working = settings.working_dir or "/"
    found = [working, scripts]
    for word in words:
        if word.endswith(".py") or (word.startswith("/") and "/python" not in word):
            path = tree.resolve(posixpath.join("/", working, word))
            node = tree.get(path) if path else None
            if path and node is not None and node.kind is Kind.FILE:
                found.append(posixpath.dirname(path))
    return tuple(dict.fromkeys(folder.strip("/") for folder in found))
