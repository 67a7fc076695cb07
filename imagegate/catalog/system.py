"""Packages of the system: dpkg's databases and conda environments, read from files alone."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from typing import TYPE_CHECKING

from imagegate.catalog.collect import Interest, WholeText
from imagegate.facts import SystemPackage
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from imagegate.catalog.collect import Collector
    from imagegate.rootfs import FileTree, Node

DPKG = "dpkg"
CONDA = "conda"
STATUS = "var/lib/dpkg/status"
# distroless images have one stanza a file here, and beside it the package's md5sums
STATUS_FOLDER = "var/lib/dpkg/status.d"
_DATABASE = "var/lib/dpkg/"
_INFO = "var/lib/dpkg/info"
_DIVERSIONS = "var/lib/dpkg/diversions"
_INSTALLED = "install ok installed"
# databases of other package managers; they are not read, and checks say so
OTHER_DATABASES = (
    "var/lib/rpm/rpmdb.sqlite",
    "var/lib/rpm/Packages",
    "usr/lib/sysimage/rpm/rpmdb.sqlite",
    "lib/apk/db/installed",
)
_CONDA_META = re.compile(r"(?:.*/)?conda-meta/[^/]+\.json")
_LISTING = re.compile(
    rf"{_INFO}/(?P<package>[^/]+)\.(?:list|md5sums)|{STATUS_FOLDER}/(?P<single>[^/]+)\.md5sums"
)
_FIELD = re.compile(r"(?P<name>[^\s:]+):[ \t]*(?P<value>.*)")

INTERESTS = (
    Interest(
        name="dpkg status",
        pattern=re.compile(rf"{STATUS}|{STATUS_FOLDER}/[^/]+(?<!\.md5sums)"),
        marks=(_DATABASE,),
        keep=WholeText,
    ),
    Interest(name="conda meta", pattern=_CONDA_META, marks=("conda-meta/",), keep=WholeText),
)
_DIVERTED = Interest(
    name="dpkg diversions", pattern=re.compile(_DIVERSIONS), marks=(_DATABASE,), keep=WholeText
)
# who owns which file is asked once, when a base is locked
OWNERSHIP_INTERESTS = (
    Interest(name="dpkg listing", pattern=_LISTING, marks=(_DATABASE,), keep=WholeText),
    _DIVERTED,
)


class Md5:
    """Keeps the MD5 of a file: the one digest that dpkg records (deb-md5sums(5))."""

    def __init__(self, _path: str, _size: int) -> None:
        self._digest = hashlib.md5(usedforsecurity=False)

    def write(self, chunk: bytes | memoryview, /) -> None:
        """Take the next bytes."""
        self._digest.update(chunk)

    def finish(self) -> bytes:
        """Return the digest in hex."""
        return self._digest.hexdigest().encode()


def content_interests(compared: Callable[[str], object | None]) -> tuple[Interest, ...]:
    """Say what is kept of added layers to compare files with what their packages recorded.

    Args:
        compared: gives something for a path that is compared by other means.
    """
    return (
        Interest(
            name="dpkg listing",
            pattern=re.compile(rf"{_INFO}/[^/]+\.(?:md5sums|list)|{STATUS_FOLDER}/[^/]+\.md5sums"),
            marks=(_DATABASE,),
            keep=WholeText,
        ),
        _DIVERTED,
        Interest(name="md5", keep=Md5, unless=lambda path: compared(path) is not None),
    )


def altered(
    tree: FileTree, collector: Collector, packages: Iterable[SystemPackage], paths: Iterable[str]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield path, package, recorded and real MD5 of files that are not what their package shipped.

    Args:
        tree: the merged tree.
        collector: made with :func:`content_interests`.
        packages: all packages of the merged system.
        paths: what the added layers touched; files of the base were not read.
    """
    diverted = _diversions(tree, collector)
    labels = _labels(packages)
    for listing in sorted(path for path in paths if path.endswith(".md5sums")):
        match, node = _LISTING.fullmatch(listing), tree.get(listing)
        package = labels.get(match["package"] or match["single"]) if match else None
        content = collector.extract("dpkg listing", node) if package and node else None
        for line in (content or b"").decode("utf-8", "surrogateescape").splitlines():
            recorded, _, path = line.partition("  ")
            path = path.strip().strip("/").removeprefix("./")
            folder, slash, name = path.rpartition("/")
            found = tree.get(f"{tree.resolve(folder) or folder}{slash}{name}".lstrip("/"))
            real = collector.extract("md5", found) if found and found.kind is Kind.FILE else None
            if found and package and real and path not in diverted and real.decode() != recorded:
                yield found.path, package, recorded, real.decode()


def _labels(packages: Iterable[SystemPackage]) -> Mapping[str, str]:
    """Label each installed package by the names that its listings have."""
    labels = {}
    for package in packages:
        if package.manager == DPKG and is_installed(package):
            labels[package.name] = labels[f"{package.name}:{package.architecture}"] = label(package)
    return labels


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """Split a control file into stanzas (deb822(5)); of a field's text its first line is kept."""
    stanza: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            if stanza:
                yield stanza
            stanza = {}
            continue
        match = _FIELD.fullmatch(line)
        if match is not None and not line[0].isspace():
            stanza[match["name"].lower()] = match["value"].strip()
    if stanza:
        yield stanza


def parse_status(text: str, path: str) -> tuple[SystemPackage, ...]:
    """Read dpkg's status, or one file of ``status.d``, where an absent Status means installed.

    A stanza without ``Version`` is a package that is only known by name; it has no pin.
    """
    absent = _INSTALLED if path.startswith(f"{STATUS_FOLDER}/") else ""
    return tuple(
        SystemPackage(
            manager=DPKG,
            name=stanza["package"],
            architecture=stanza.get("architecture", ""),
            version=stanza["version"],
            state=stanza.get("status", absent),
            path=path,
        )
        for stanza in stanzas(text)
        if stanza.get("package") and stanza.get("version")
    )


def parse_conda(text: str, path: str) -> tuple[SystemPackage, ...]:
    """Read one file of ``conda-meta``; one that names no package gives nothing."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(document, dict) or not document.get("name") or not document.get("version"):
        return ()
    return (
        SystemPackage(
            manager=CONDA,
            name=str(document["name"]),
            architecture=str(document.get("build", "")),
            version=str(document["version"]),
            state="installed",
            path=path,
        ),
    )


def is_installed(package: SystemPackage) -> bool:
    """Say whether dpkg counts a package as installed: the third of its Status words."""
    return package.state.split()[-1:] == ["installed"]


def is_held(package: SystemPackage) -> bool:
    """Say whether a package is on hold: the first of its Status words."""
    return package.state.split()[:1] == ["hold"]


def packages(collector: Collector, nodes: Iterable[Node]) -> tuple[SystemPackage, ...]:
    """Read every package that the given files of a tree record."""
    found: set[SystemPackage] = set()
    for node in nodes:
        if node.kind is not Kind.FILE:
            continue
        status = collector.extract("dpkg status", node)
        if status is not None and (node.path == STATUS or _is_single(node.path)):
            found.update(parse_status(status.decode("utf-8", "replace"), node.path))
        meta = collector.extract("conda meta", node)
        if meta is not None and _CONDA_META.fullmatch(node.path):
            found.update(parse_conda(meta.decode("utf-8", "replace"), node.path))
    return tuple(sorted(found))


def _is_single(path: str) -> bool:
    return posixpath.dirname(path) == STATUS_FOLDER and not path.endswith(".md5sums")


def label(package: SystemPackage) -> str:
    """Name a package as the owner column of an index has it; never with two equals signs."""
    return f"{package.name}:{package.architecture}={package.version}"


def ownership(
    tree: FileTree, collector: Collector, packages: Iterable[SystemPackage]
) -> Mapping[str, str]:
    """Say which Debian package owns each path, by ``info/*.list`` and ``*.md5sums``.

    Lists have paths as the package ships them (``/lib/…``); where a folder on the way is a link,
    as with a merged ``/usr``, the path behind it is meant. What is diverted (dpkg-divert(1)) lies
    where the diversion says, except for the package that diverts.
    """
    diverted = _diversions(tree, collector)
    labels = _labels(packages)
    owners: dict[str, str] = {}
    resolved: dict[str, str] = {}
    for folder in (_INFO, STATUS_FOLDER):
        for node in tree.under(folder):
            match = _LISTING.fullmatch(node.path)
            owner = labels.get(match["package"] or match["single"]) if match else None
            content = collector.extract("dpkg listing", node) if owner else None
            if owner is None or content is None:
                continue
            for path in _listed(content.decode("utf-8", "surrogateescape"), node.path):
                elsewhere, by = diverted.get(path, ("", ""))
                if elsewhere and by != owner.partition(":")[0]:
                    path = elsewhere
                directory, slash, name = path.rpartition("/")
                if directory not in resolved:
                    resolved[directory] = tree.resolve(directory) or directory
                real = f"{resolved[directory]}{slash}{name}".lstrip("/")
                found = tree.get(real)
                if found is not None and found.kind is not Kind.DIRECTORY:
                    owners.setdefault(real, owner)
    return owners


def _diversions(tree: FileTree, collector: Collector) -> Mapping[str, tuple[str, str]]:
    """Read dpkg's diversions: three lines each, from, to, and the package or ``:`` for none."""
    node = tree.get(_DIVERSIONS)
    content = collector.extract("dpkg diversions", node) if node is not None else None
    lines = (content or b"").decode("utf-8", "surrogateescape").splitlines()
    triples = zip(lines[::3], lines[1::3], lines[2::3], strict=False)
    return {old.strip("/"): (new.strip("/"), by) for old, new, by in triples}


def _listed(text: str, path: str) -> Iterator[str]:
    for line in text.splitlines():
        name = line.split("  ", 1)[-1] if path.endswith(".md5sums") else line
        name = name.strip().strip("/").removeprefix("./")
        if name and name != ".":
            yield name
