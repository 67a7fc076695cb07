"""What a Python interpreter obeys when it starts, and in which order it looks for modules.

Interpreters and their site directories are found by structure, so that several in one image, a
virtual environment and a conda environment are told apart.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from imagegate.catalog.collect import Interest, WholeText
from imagegate.facts import Interpreter, StartupFile
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from imagegate.catalog.collect import Collector
    from imagegate.facts import SiteDirectory
    from imagegate.rootfs import Node

_PTH = re.compile(r"(?:.*/)?[^/]*\.pth")
# read instead of all other rules by an interpreter beside which it lies (getpath.py, since 3.11)
_UNDERSCORE_PTH = re.compile(r"(?:.*/)?[^/]*\._pth")
_CUSTOMIZE = re.compile(r"(?:.*/)?(?:site|user)customize(?:/__init__)?(?:\.pyc?|(?:\.[\w-]+)?\.so)")
_PROGRAM = re.compile(r"(?:.*/)?bin/python(?P<python>3\.\d+)t?")
_VENV = re.compile(r"(?:.*/)?pyvenv\.cfg")
_SITE_MODULE = re.compile(r"(?:.*/)?python(?P<python>3\.\d+)t?/site\.py")
_HOME = re.compile(r"^\s*home\s*=[ \t]*(?P<home>.*?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_SHARES = re.compile(
    r"^\s*include-system-site-packages\s*=\s*true\s*$", re.MULTILINE | re.IGNORECASE
)
# weights of models have the same suffix as path files, and gigabytes
_PATH_FILE_LIMIT = 1 << 20
# folders of a system's own interpreter; its site directories share both (Debian's site.py)
_USER_PREFIX = "root/.local"
SYSTEM_PREFIXES = ("usr/local", "usr")


class PathFile:
    """Keeps a file whole that is no larger than path files are, else nothing."""

    def __init__(self, _path: str, size: int) -> None:
        self._small = size <= _PATH_FILE_LIMIT
        self._pieces: list[bytes] = []

    def write(self, chunk: bytes | memoryview, /) -> None:
        """Take the next bytes."""
        if self._small:
            self._pieces.append(bytes(chunk))

    def finish(self) -> bytes:
        """Return the file's bytes; of a larger one a line that is executed, so that it counts."""
        return b"".join(self._pieces) if self._small else b"import (not read)"


STARTUP_INTERESTS = (
    Interest(
        name="startup",
        pattern=re.compile(rf"{_PTH.pattern}|{_UNDERSCORE_PTH.pattern}"),
        marks=(".pth", "._pth"),
        keep=PathFile,
    ),
)
INTERPRETER_INTERESTS = (
    Interest(name="venv", pattern=_VENV, marks=("pyvenv.cfg",), keep=WholeText),
    Interest(name="site module", pattern=_SITE_MODULE, marks=("/site.py",), keep=WholeText),
)


def is_startup(path: str) -> bool:
    """Say whether an interpreter obeys a file of this path, if its folder is searched."""
    if path.endswith("pth"):
        return (_PTH.fullmatch(path) or _UNDERSCORE_PTH.fullmatch(path)) is not None
    return "customize" in path and _CUSTOMIZE.fullmatch(path) is not None


def startup_files(collector: Collector, nodes: Iterable[Node]) -> tuple[StartupFile, ...]:
    """Read the files that interpreters obey when they start."""
    found = []
    for node in nodes:
        if node.kind is Kind.DIRECTORY or not is_startup(node.path):
            continue
        content = collector.extract("startup", node)
        if node.path.endswith("pth"):
            code, inserts = parse_pth(content)
        else:
            code, inserts = (f"import {_module(node.path)}",), ()
        found.append(StartupFile(path=node.path, code=code, inserts=inserts, sha256=node.sha256))
    return tuple(sorted(found))


def parse_pth(content: bytes | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Divide a ``.pth`` into lines that are executed and lines that name folders (module ``site``).

    Content that is not known counts as code.
    """
    if content is None:
        return ("(not read)",), ()
    code: list[str] = []
    inserts: list[str] = []
    for line in content.decode("utf-8-sig", "replace").splitlines():
        line = line.rstrip()
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith(("import ", "import\t")):
            code.append(line)
        else:
            inserts.append(line)
    return tuple(code), tuple(inserts)


def _module(path: str) -> str:
    return "usercustomize" if "usercustomize" in path else "sitecustomize"


def interpreters(collector: Collector, nodes: Iterable[Node]) -> tuple[Interpreter, ...]:
    """List interpreters, virtual environments, and the modules that decide on site directories."""
    found = []
    for node in nodes:
        program = _PROGRAM.fullmatch(node.path) if "bin/python" in node.path else None
        if program is not None and node.kind in (Kind.FILE, Kind.SYMLINK):
            found.append(Interpreter(path=node.path, python=program["python"]))
        elif (
            node.path.endswith("pyvenv.cfg")
            and _VENV.fullmatch(node.path)
            and node.kind is Kind.FILE
        ):
            content = (collector.extract("venv", node) or b"").decode("utf-8", "replace")
            home = _HOME.search(content)
            found.append(
                Interpreter(
                    path=node.path,
                    system_sites=_SHARES.search(content) is not None,
                    home=home["home"] if home else "",
                )
            )
        elif node.path.endswith("/site.py") and (module := _SITE_MODULE.fullmatch(node.path)):
            text = collector.extract("site module", node) or b""
            folder = "dist-packages" if b"dist-packages" in text else "site-packages"
            found.append(Interpreter(path=node.path, python=module["python"], folder=folder))
    return tuple(sorted(found))


def prefix_of(interpreter: str) -> str:
    """Return an interpreter's prefix without leading slash: the folder above its ``bin``."""
    return posixpath.dirname(posixpath.dirname(interpreter)).strip("/")


def search_order(
    interpreter: str,
    python: str,
    sites: Sequence[SiteDirectory],
    known: Iterable[Interpreter] = (),
) -> tuple[str, ...]:
    """Order the site directories that an interpreter searches (module ``site``; Debian's patch).

    Args:
        interpreter: its path.
        python: its ``major.minor``.
        sites: all site directories of the image.
        known: all interpreters and virtual environments of the image.

    Returns:
        The site directories that are its own, first searched first; all that fit the version
        where none lies under its prefix.
    """
    prefix = prefix_of(interpreter)
    venv = next((i for i in known if i.path == f"{prefix}/pyvenv.cfg"), None)
    prefixes = [prefix]
    if prefix in SYSTEM_PREFIXES:
        prefixes = list(SYSTEM_PREFIXES)
    elif venv is not None and venv.system_sites:
        prefixes += SYSTEM_PREFIXES
    fitting = [site for site in sites if site.python in (python, "3")]
    if prefix in SYSTEM_PREFIXES:
        # the user's own site directory comes before all others; images run as root
        prefixes.insert(0, _USER_PREFIX)
    ranked = [
        (prefixes.index(owner), site.python == "3", site.path)
        for site in fitting
        if (owner := _owner(site.path, prefixes)) is not None
    ]
    if not ranked:
        return tuple(sorted(site.path for site in fitting))
    return tuple(path for _, _, path in sorted(ranked))


def _owner(site: str, prefixes: Sequence[str]) -> str | None:
    """Return the prefix whose ``lib`` or ``lib64`` a site directory lies in."""
    for prefix in prefixes:
        lead = f"{prefix}/" if prefix else ""
        if re.fullmatch(rf"{re.escape(lead)}lib(?:64)?/python[^/]+/(?:site|dist)-packages", site):
            return prefix
    return None
