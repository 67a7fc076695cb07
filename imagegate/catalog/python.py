"""Installed Python distributions, read from files alone.

Site directories are found by structure (``pythonX.Y/site-packages`` or ``dist-packages``), not
by a list of places, and only what lies directly in one counts as installed: packages vendor
``.dist-info`` folders of their own deeper down.
"""

from __future__ import annotations

import binascii
import csv
import io
import posixpath
import re
from dataclasses import replace
from email.errors import MessageError
from email.parser import HeaderParser
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from imagegate.catalog.collect import FirstBytes, HeaderText, Interest, SmallText, WholeText
from imagegate.facts import Distribution, MetadataRemnant, RecordContradiction, SiteDirectory
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from email.message import Message

    from imagegate.catalog.collect import Collector
    from imagegate.facts import StartupFile
    from imagegate.rootfs import FileTree, Node

_SITE = re.compile(
    r"(?P<site>(?:.*?/)?(?:python(?P<version>3(?:\.\d+)?)t?/(?:site|dist)-packages))(?:/.*)?"
)
_METADATA_DIRECTORY = re.compile(r"[^/]+\.(?:dist-info|egg-info|egg)")
# how a name begins that says more than where it lies below its folder
_UNUSUAL_START = frozenset({"", ".", "/"})
_DIST_INFO = r".*\.dist-info"
_EGG_INFO = r".*\.egg-info"
_EGG_LINK = re.compile(r"(?:.*/)?python3[^/]*/(?:site|dist)-packages/[^/]+\.egg-link")


def _in_folder(name: str, folder: str, file: str) -> Interest:
    """Want one file of each metadata folder whole."""
    return Interest(
        name=name,
        pattern=re.compile(rf"{folder}/{re.escape(file)}"),
        marks=(f"/{file}",),
        keep=WholeText,
    )


INTERESTS = (
    Interest(
        name="metadata",
        pattern=re.compile(
            rf"{_DIST_INFO}/METADATA|{_EGG_INFO}(?:/PKG-INFO)?|.*\.egg/EGG-INFO/PKG-INFO"
        ),
        marks=("/METADATA", "/PKG-INFO", ".egg-info"),
        keep=HeaderText,
    ),
    _in_folder("record", _DIST_INFO, "RECORD"),
    _in_folder("installed-files", _EGG_INFO, "installed-files.txt"),
    _in_folder("requires", r".*(?:\.egg-info|EGG-INFO)", "requires.txt"),
    _in_folder("direct_url", _DIST_INFO, "direct_url.json"),
    _in_folder("entry points", _DIST_INFO, "entry_points.txt"),
    _in_folder("wheel", _DIST_INFO, "WHEEL"),
    Interest(name="egg link", pattern=_EGG_LINK, marks=(".egg-link",), keep=WholeText),
)
# what checks compare of added layers, beyond the facts
CONTENTS = (
    Interest(
        name="launcher",
        pattern=re.compile(r"(?:.*/)?bin/[^/]+"),
        marks=("bin/",),
        keep=SmallText,
    ),
    Interest(name="bytecode", pattern=re.compile(r".*\.pyc"), marks=(".pyc",), keep=FirstBytes),
)


# compiled Python; the older form of optimised code is no longer read, and still compiled Python
COMPILED = (".pyc", ".pyo")
_BYTECODE = re.compile(
    r"(?P<folder>(?:.*/)?)__pycache__/(?P<stem>[^/]+?)\.[^/.]+-\d+(?:\.opt-\d)?\.pyc"
)


def bytecode_source(path: str) -> str | None:
    """Return the source that a cached bytecode file belongs to (PEP 3147), or ``None``."""
    match = _BYTECODE.fullmatch(path)
    return f"{match['folder']}{match['stem']}.py" if match else None


def site_of(path: str) -> SiteDirectory | None:
    """Return the outermost site directory that a path is or lies in."""
    match = _SITE.fullmatch(path) if "-packages" in path else None
    return SiteDirectory(path=match["site"], python=match["version"]) if match else None


def sites(paths: Iterable[str]) -> tuple[SiteDirectory, ...]:
    """Return the site directories that some paths are or lie in."""
    # some thousand folders hold a hundred thousand files
    folders = {path if path.endswith("-packages") else path.rpartition("/")[0] for path in paths}
    found = set(map(site_of, folders))
    return tuple(sorted(site for site in found if site is not None))


def metadata_directories(paths: Iterable[str], site: str) -> tuple[str, ...]:
    """Return the metadata folders or files that lie directly in a site directory."""
    prefix = f"{site}/"
    names = {path[len(prefix) :].split("/", 1)[0] for path in paths if path.startswith(prefix)}
    return tuple(sorted(prefix + name for name in names if _METADATA_DIRECTORY.fullmatch(name)))


def read_distribution(
    tree: FileTree,
    collector: Collector,
    path: str,
    site: str,
    known: Distribution | None = None,
) -> Distribution | MetadataRemnant:
    """Read one metadata folder or file (PEP 376, core metadata, PEP 610; setuptools' egg forms).

    Args:
        tree: the merged tree.
        collector: holds what was kept of the layers that were read.
        path: the folder or file.
        site: the site directory that it lies in.
        known: what a lock says of it; used where its metadata lies in a layer that was not read.
    """
    node = _metadata_node(tree, path)
    if node is None:
        return MetadataRemnant(path=path, reason="it holds no METADATA or PKG-INFO")
    direct_url = _text(tree, collector, "direct_url", f"{path}/direct_url.json")
    content = collector.extract("metadata", node)
    if content is None and known is not None:
        origin = tree.get(f"{path}/direct_url.json")
        unread = origin is not None and origin.layer == 0
        return replace(known, direct_url=known.direct_url if unread else direct_url)
    message = _message(content)
    name = message.get("Name", "") if message is not None else ""
    version = message.get("Version", "") if message is not None else ""
    if message is None or not name or not version:
        return MetadataRemnant(path=path, reason=f"`{node.path}` names no name and version")
    folder = posixpath.dirname(node.path) if node.path != path else ""
    requires = tuple(message.get_all("Requires-Dist", ()))
    if not requires and folder:
        requires = tuple(
            _egg_requires(_text(tree, collector, "requires", f"{folder}/requires.txt"))
        )
    recorded = any(
        tree.get(f"{folder}/{listing}") for listing in ("RECORD", "installed-files.txt") if folder
    )
    return Distribution(
        name=str(name).strip(),
        version=str(version).strip(),
        path=path,
        site=site,
        requires=tuple(" ".join(str(line).split()) for line in requires),
        extras=tuple(str(extra).strip() for extra in message.get_all("Provides-Extra", ())),
        requires_python=str(message.get("Requires-Python", "")).strip(),
        direct_url=direct_url,
        recorded=recorded,
        license=_license(message),
    )


def _license(message: Message) -> str:
    """Return what the metadata says of the licence (PEP 639, then the older fields)."""
    expression = str(message.get("License-Expression", "")).strip()
    text = str(message.get("License", "")).strip()
    if expression or (text and "\n" not in text):
        return expression or text
    lines = (str(line).strip() for line in message.get_all("Classifier", ()))
    return "; ".join(line for line in lines if line.startswith("License ::"))


def linked_folders(
    tree: FileTree,
    collector: Collector,
    site: str,
    paths: Iterable[str],
    startup: Iterable[StartupFile],
) -> Iterator[tuple[str, str]]:
    """Yield the folders outside a site directory from which it takes distributions too.

    Each comes with the file that names it: setuptools' ``.egg-link`` of a development install, or
    a ``.pth``, whose folders are on ``sys.path`` like any other.
    """
    for path in paths:
        if path.endswith(".egg-link") and posixpath.dirname(path) == site:
            first = _text(tree, collector, "egg link", path).partition("\n")[0].strip()
            if first:
                yield _joined(site, first), path
    for file in startup:
        if posixpath.dirname(file.path) == site:
            for line in file.inserts:
                yield _joined(site, line), file.path


def recorded_files(
    tree: FileTree, collector: Collector, distribution: Distribution
) -> Iterator[tuple[str, str]]:
    """Yield path and recorded hex SHA-256 (or ``""``) of each file that a distribution claims.

    Paths are resolved against the site directory (PEP 376, "RECORD"; PEP 627).
    """
    record = _text(tree, collector, "record", f"{distribution.path}/RECORD")
    for row in csv.reader(io.StringIO(record, newline="")):
        if row and row[0]:
            yield (
                _joined(distribution.site, row[0]),
                _recorded_sha256(row[1] if len(row) > 1 else ""),
            )
    installed = _text(
        tree, collector, "installed-files", f"{distribution.path}/installed-files.txt"
    )
    for line in installed.splitlines():
        if line.strip():
            yield _joined(distribution.path, line.strip()), ""


def ownership(
    tree: FileTree, collector: Collector, distributions: Iterable[Distribution]
) -> tuple[Mapping[str, str], tuple[RecordContradiction, ...]]:
    """Say which distribution owns each recorded file, and where RECORD and file disagree.

    Where several distributions record one path, the one whose hash fits owns it.
    """
    owners: dict[str, str] = {}
    fitting: set[str] = set()
    contradictions: list[RecordContradiction] = []
    for distribution in distributions:
        label = f"{canonicalize_name(distribution.name)}=={distribution.version}"
        for path, recorded in recorded_files(tree, collector, distribution):
            node = tree.get(path)
            found = node.sha256 if node is not None else ""
            if node is None or (recorded and recorded != found):
                if not (node is None and _is_bytecode(path)):
                    contradictions.append(
                        RecordContradiction(
                            path=path, distribution=label, recorded=recorded, found=found
                        )
                    )
                owners.setdefault(path, label)
            elif path not in fitting:
                owners[path] = label
                if recorded:
                    fitting.add(path)
    return owners, tuple(sorted(contradictions))


def _metadata_node(tree: FileTree, path: str) -> Node | None:
    for name in ("METADATA", "PKG-INFO", "EGG-INFO/PKG-INFO"):
        node = tree.get(f"{path}/{name}")
        if node is not None and node.kind is Kind.FILE:
            return node
    node = tree.get(path)  # distutils wrote a single file
    return node if node is not None and node.kind is Kind.FILE else None


def _message(content: bytes | None) -> Message | None:
    if content is None:
        return None
    try:
        return HeaderParser().parsestr(content.decode("utf-8", "replace"))
    except (MessageError, ValueError):
        return None


def _text(tree: FileTree, collector: Collector, name: str, path: str) -> str:
    node = tree.get(path)
    content = collector.extract(name, node) if node is not None else None
    return (content or b"").decode("utf-8", "surrogateescape")


def _egg_requires(text: str) -> Iterator[str]:
    """Turn setuptools' ``requires.txt`` into ``Requires-Dist`` lines."""
    marker = ""
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("[") and line.endswith("]"):
            extra, _, condition = line[1:-1].partition(":")
            parts = [f"({condition})"] if condition else []
            parts += [f'extra == "{extra}"'] if extra else []
            marker = " and ".join(parts)
        elif line:
            yield f"{line} ; {marker}" if marker else line


def _joined(directory: str, name: str) -> str:
    usual = name[:1] not in _UNUSUAL_START and name[-1] != "/"
    if usual and directory and "//" not in name and "/." not in name:
        return f"{directory}/{name}"
    return posixpath.normpath(posixpath.join("/", directory, name)).lstrip("/")


def _recorded_sha256(text: str) -> str:
    """Decode ``sha256=<urlsafe base64 without padding>`` (PEP 427); other algorithms give ``""``."""
    algorithm, _, encoded = text.partition("=")
    if algorithm != "sha256":
        return ""
    try:
        standard = encoded.replace("-", "+").replace("_", "/")  # RFC 4648, section 5
        return binascii.a2b_base64(standard + "=" * (-len(encoded) % 4)).hex()
    except (binascii.Error, ValueError):
        return ""


def _is_bytecode(path: str) -> bool:
    return path.endswith(".pyc")
