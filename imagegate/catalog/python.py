"""Installed Python distributions, read from files alone.

Site directories are found by structure (``pythonX.Y/site-packages`` or ``dist-packages``), not
by a list of places, and only what lies directly in one counts as installed: packages vendor
``.dist-info`` folders of their own deeper down.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
import json
import posixpath
import re
from dataclasses import replace
from email.errors import MessageError
from email.parser import HeaderParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from packaging.direct_url import DirectUrl, DirectUrlValidationError
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from imagegate.catalog.collect import FirstBytes, HeaderText, Interest, SmallText, WholeText
from imagegate.facts import Distribution, MetadataRemnant, RecordContradiction, SiteDirectory
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from email.message import Message

    from imagegate.catalog.collect import Collector
    from imagegate.rootfs import FileTree, Node

_SITE = re.compile(
    r"(?P<site>(?:.*?/)?(?:python(?P<version>3(?:\.\d+)?)t?/(?:site|dist)-packages))(?:/.*)?"
)
_METADATA_DIRECTORY = re.compile(r"[^/]+\.(?:dist-info|egg-info|egg)")
_DIST_INFO = r".*\.dist-info"
_EGG_INFO = r".*\.egg-info"

INTERESTS = (
    Interest(
        name="metadata",
        pattern=re.compile(
            rf"{_DIST_INFO}/METADATA|{_EGG_INFO}(?:/PKG-INFO)?|.*\.egg/EGG-INFO/PKG-INFO"
        ),
        keep=HeaderText,
    ),
    Interest(name="record", pattern=re.compile(rf"{_DIST_INFO}/RECORD"), keep=WholeText),
    Interest(
        name="installed-files",
        pattern=re.compile(rf"{_EGG_INFO}/installed-files\.txt"),
        keep=WholeText,
    ),
    Interest(
        name="requires",
        pattern=re.compile(r".*(?:\.egg-info|EGG-INFO)/requires\.txt"),
        keep=WholeText,
    ),
    Interest(
        name="direct_url", pattern=re.compile(rf"{_DIST_INFO}/direct_url\.json"), keep=WholeText
    ),
    Interest(
        name="entry points", pattern=re.compile(rf"{_DIST_INFO}/entry_points\.txt"), keep=WholeText
    ),
    Interest(name="wheel", pattern=re.compile(rf"{_DIST_INFO}/WHEEL"), keep=WholeText),
    Interest(name="launcher", pattern=re.compile(r"(?:.*/)?bin/[^/]+"), keep=SmallText),
    Interest(name="bytecode", pattern=re.compile(r".*\.pyc"), keep=FirstBytes),
)


_BYTECODE = re.compile(
    r"(?P<folder>(?:.*/)?)__pycache__/(?P<stem>[^/]+?)\.[^/.]+-\d+(?:\.opt-\d)?\.pyc"
)


def bytecode_source(path: str) -> str | None:
    """Return the source that a cached bytecode file belongs to (PEP 3147), or ``None``."""
    match = _BYTECODE.fullmatch(path)
    return f"{match['folder']}{match['stem']}.py" if match else None


def site_of(path: str) -> SiteDirectory | None:
    """Return the outermost site directory that a path is or lies in."""
    match = _SITE.fullmatch(path)
    return SiteDirectory(path=match["site"], python=match["version"]) if match else None


def sites(paths: Iterable[str]) -> tuple[SiteDirectory, ...]:
    """Return the site directories that some paths lie in."""
    found = {site_of(path) for path in paths if path.endswith(("/site-packages", "/dist-packages"))}
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
    )


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


def freeze(distributions: Iterable[Distribution], python: str, order: Sequence[str] = ()) -> str:
    """Write what ``pip freeze`` prints, byte for byte (pip 26.3, ``operations/freeze.py``).

    Below Python 3.12 pip leaves out setuptools, wheel and distribute, always itself and parts of the standard library. Of several
    copies of a name the one whose folder is searched first counts. An editable install is written
    as pip does where it finds no version control, which needs both a repository and its program.

    Args:
        distributions: what is installed.
        python: ``major.minor`` of the interpreter.
        order: the site directories that it searches, first searched first; all if empty.
    """
    hidden = {"pip", "python", "wsgiref", "argparse"}
    if _minor(python) < 12:
        hidden |= {"setuptools", "wheel", "distribute"}
    places = {site: place for place, site in enumerate(order)}
    chosen: dict[str, Distribution] = {}
    for found in sorted(distributions, key=lambda pin: (places.get(pin.site, 0), pin.path)):
        if not order or found.site in places:
            chosen.setdefault(canonicalize_name(found.name), found)
    printed = [pin for name, pin in chosen.items() if name not in hidden]
    # pip sorts by the name as written, in lower case, not by the normalised one
    return "".join(f"{_frozen(pin)}\n" for pin in sorted(printed, key=lambda p: p.name.lower()))


def _frozen(distribution: Distribution) -> str:
    """Write one entry: a pin, or PEP 610's direct reference where it was installed so."""
    pin = _name_version(distribution)
    direct = _direct_url(distribution.direct_url)
    if direct is None:
        return pin
    if direct.dir_info is not None and direct.dir_info.editable:
        location = posixpath.normpath(unquote(urlsplit(direct.url).path))
        return f"# Editable install with no version control ({pin})\n-e {location}"
    url, fragments = direct.url, []
    if direct.vcs_info is not None:
        url = f"{direct.vcs_info.vcs}+{url}@{direct.vcs_info.commit_id}"
    elif direct.archive_info is not None and direct.archive_info.hashes:
        fragments.append("=".join(next(iter(direct.archive_info.hashes.items()))))
    if direct.subdirectory:
        fragments.append(f"subdirectory={direct.subdirectory}")
    return f"{distribution.name} @ {url}" + (f"#{'&'.join(fragments)}" if fragments else "")


def _name_version(distribution: Distribution) -> str:
    try:
        return f"{distribution.name}=={Version(distribution.version)}"
    except InvalidVersion:
        return f"{distribution.name}==={distribution.version}"


def _direct_url(text: str) -> DirectUrl | None:
    """Read ``direct_url.json``; ``None`` where there is none that is valid, as pip does."""
    try:
        return DirectUrl.from_dict(json.loads(text)) if text else None
    except (ValueError, TypeError, AttributeError, RecursionError, DirectUrlValidationError):
        return None


def same_origin(one: str, other: str) -> bool:
    """Say whether two ``direct_url.json`` name one origin (PEP 610).

    A path of the machine that installed it (``file:``) says nothing of what was installed, unless
    the install is editable: hash, commit and subdirectory do.
    """
    if one == other:
        return True
    left, right = _direct_url(one), _direct_url(other)
    return left is not None and right is not None and _origin(left) == _origin(right)


def _origin(direct: DirectUrl) -> tuple[object, ...]:
    editable = direct.dir_info is not None and bool(direct.dir_info.editable)
    local = urlsplit(direct.url).scheme == "file" and not editable and direct.vcs_info is None
    hashes = direct.archive_info.hashes if direct.archive_info is not None else None
    # of a local archive without a hash the path is all that is known
    path_counts = not local or (direct.archive_info is not None and not hashes)
    return (
        direct.url if path_counts else "",
        direct.subdirectory,
        editable,
        direct.dir_info is not None,
        tuple(sorted((hashes or {}).items())),
        (direct.vcs_info.vcs, direct.vcs_info.commit_id) if direct.vcs_info else None,
    )


def _minor(python: str) -> int:
    _, _, minor = python.partition(".")
    return int(minor) if minor.isdigit() else 0


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
    return posixpath.normpath(posixpath.join("/", directory, name)).lstrip("/")


def _recorded_sha256(text: str) -> str:
    """Decode ``sha256=<urlsafe base64 without padding>`` (PEP 427); other algorithms give ``""``."""
    algorithm, _, encoded = text.partition("=")
    if algorithm != "sha256":
        return ""
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).hex()
    except (binascii.Error, ValueError):
        return ""


def _is_bytecode(path: str) -> bool:
    return path.endswith(".pyc")
