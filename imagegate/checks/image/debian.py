"""Debian packages that the added layers bring: which paths are theirs, and what proves it.

dpkg records of each package the paths (``info/*.list``) and the MD5 of each regular file
(``info/*.md5sums``, deb-md5sums(5); of configuration files in the field ``Conffiles``, deb822(5)).
A file is a package's if it is listed and has the recorded MD5; a link or folder if it is listed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.catalog.databases import digest_of, entries_of, is_database, text_of
from imagegate.catalog.system import DPKG, is_installed
from imagegate.catalog.watched import watched
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from imagegate.checks.image.evidence import Change, Evidence
    from imagegate.facts import SystemPackage

INFO = "var/lib/dpkg/info/"
_SINGLE = "var/lib/dpkg/status.d/"
_STATUS = "var/lib/dpkg/status"
# what dpkg keeps of a package beside its status (dpkg(1), deb-*(5))
_KEPT = (
    *("list", "md5sums", "conffiles", "preinst", "postinst", "prerm", "postrm", "triggers"),
    *("shlibs", "symbols", "templates", "config", "prelist"),
)
_CONFFILE = re.compile(r"^ (/\S+) ([0-9a-f]{32})(?: .*)?$", re.MULTILINE)
# where maintainer scripts put links to their own package's files: update-alternatives(1),
# deb-systemd-helper(1p), update-rc.d(8)
_LINKED = re.compile(
    r"etc/alternatives/[^/]+|etc/systemd/(?:system|user)/.+|etc/rc[0-6S]\.d/[^/]+"
    r"|var/lib/systemd/deb-systemd-(?:user-)?helper-enabled/.+"
)
# the watched places that no other check judges: a package's file there is named in full
_NAMED_IN_FULL = frozenset(
    {"shell-start", "nss", "pam", "openssl", "gconv", "malloc", "ibverbs", "opencl"}
)
_ALTERNATIVES = "etc/alternatives/"
_CHOICES = "var/lib/dpkg/alternatives/"


@dataclass(slots=True)
class Added:
    """One package that the base does not have.

    Attributes:
        package: as dpkg's status has it.
        layer: the layer that wrote its status.
        declared: whether the recipe names it with just this version.
        paths: what of the image is proven to be its own.
        unproven: files that it lists and that nothing proves.
        watched: what of its own lies where programs obey a file because of its place alone, and
            what no other check judges; the recipe has to name it.
    """

    package: SystemPackage
    layer: int
    declared: bool
    paths: set[str] = field(default_factory=set)
    unproven: list[str] = field(default_factory=list)
    watched: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Name and version as the recipe declares them."""
        return f"{self.package.name}={self.package.version}"


@dataclass(slots=True)
class Debian:
    """What happened to dpkg's databases.

    Attributes:
        added: new packages.
        databases: files that were compared entry by entry and differ in explained entries only,
            or in ones that are findings of their own.
        strange: entries that belong to no package: database, key, layer.
    """

    added: list[Added] = field(default_factory=list)
    databases: set[str] = field(default_factory=set)
    strange: list[tuple[str, str, int]] = field(default_factory=list)


def read_packages(evidence: Evidence) -> Debian:
    """Find the new packages and everything that is theirs."""
    base = {
        (package.name, package.architecture)
        for package in evidence.lock.base.facts.packages
        if package.manager == DPKG
    }
    declared = evidence.recipe.document.layer.debian.versions
    found = Debian()
    for package in evidence.facts.packages:
        if package.manager != DPKG or (package.name, package.architecture) in base:
            continue
        if is_installed(package):
            node = evidence.tree.get(package.path)
            added = Added(
                package=package,
                layer=node.layer if node else 0,
                declared=declared.get(package.name) == package.version,
            )
            found.added.append(added)
    _compare_databases(found, evidence)
    if found.added:
        conffiles = _conffiles(evidence)
        for added in found.added:
            _own_paths(added, conffiles, evidence)
        _linked_paths(found.added, evidence)
    return found


def _compare_databases(found: Debian, evidence: Evidence) -> None:
    new = {f"{one.package.name}:{one.package.architecture}" for one in found.added}
    names = {one.package.name for one in found.added}
    now = {
        f"{package.name}:{package.architecture}"
        for package in evidence.facts.packages
        if package.manager == DPKG
    }
    for change in evidence.changes:
        if not change.path.startswith("var/lib/dpkg/") or not is_database(change.path):
            continue
        if change.after is None or change.after.kind is not Kind.FILE:
            continue
        text = text_of(evidence.collector, change.after)
        if text is None:
            continue
        if change.path.startswith(_SINGLE):
            continue  # one file a package: it is compared as that package's own
        found.databases.add(change.path)
        for key, entry in _unlike(change, text, evidence):
            if "diversions" in change.path:
                if entry.split("\n")[2:] not in [[name] for name in names]:
                    found.strange.append((change.path, key, change.layer))
            elif key in new or (change.path.endswith("-old") and key in now):
                continue
            elif change.path == _STATUS and key in now and key not in _base_keys(evidence):
                continue  # known and not installed, which the packages' comparison says
            else:
                found.strange.append((change.path, key, change.layer))


def _base_keys(evidence: Evidence) -> Mapping[str, str]:
    return evidence.base_entries.get(_STATUS, {})


def _unlike(change: Change, text: str, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield key and text of entries that neither the base's database nor its backup has like this."""
    main = change.path.removesuffix("-old")
    known = [evidence.base_entries.get(path, {}) for path in dict.fromkeys((main, change.path))]
    seen: set[str] = set()
    for key, entry in entries_of(change.path, text):
        if key in seen or not any(digest_of(entry) == one.get(key) for one in known):
            yield key, entry
        seen.add(key)


def _conffiles(evidence: Evidence) -> Mapping[str, Mapping[str, str]]:
    """Return the MD5 of each configuration file, by package, out of the status."""
    node = evidence.tree.get(_STATUS)
    text = text_of(evidence.collector, node) if node is not None else None
    return {
        key: {path.lstrip("/"): md5 for path, md5 in _CONFFILE.findall(stanza)}
        for key, stanza in entries_of(_STATUS, text or "")
    }


def _own_paths(
    added: Added, conffiles: Mapping[str, Mapping[str, str]], evidence: Evidence
) -> None:
    """Find what a package lists, and prove each regular file by its MD5."""
    package, new = added.package, evidence.new_nodes
    key = f"{package.name}:{package.architecture}"
    sums = {**conffiles.get(key, {}), **_md5sums(package, evidence)}
    for stem in dict.fromkeys((package.name, key)):
        added.paths.update(path for kept in _KEPT if (path := f"{INFO}{stem}.{kept}") in new)
    if package.path.startswith(_SINGLE):
        added.paths.update(
            path for path in (package.path, f"{package.path}.md5sums") if path in new
        )
    for listed in {*_listed(package, evidence), *sums}:
        path = evidence.behind(listed)
        node = new.get(path)
        if node is None:
            continue  # there before, or not there; either is another check's to say
        place = watched(path) if node.kind is not Kind.DIRECTORY else None
        if place is not None and place.name in _NAMED_IN_FULL:
            added.watched.append(path)
            continue
        if node.kind is not Kind.FILE:
            added.paths.add(path)
            continue
        md5 = evidence.collector.extract("md5", node)
        if listed not in sums or md5 is None:
            added.unproven.append(path)
        else:
            # one with another MD5 is a finding of its own (`altered`)
            added.paths.add(path)


def _listing(package: SystemPackage, suffix: str, evidence: Evidence) -> list[str]:
    stems = (f"{INFO}{package.name}", f"{INFO}{package.name}:{package.architecture}")
    single = (package.path,) if package.path.startswith(_SINGLE) else ()
    for stem in (*stems, *single):
        node = evidence.new_nodes.get(f"{stem}.{suffix}")
        content = evidence.collector.extract("dpkg listing", node) if node else None
        if content is not None:
            return content.decode("utf-8", "surrogateescape").splitlines()
    return []


def _listed(package: SystemPackage, evidence: Evidence) -> Iterator[str]:
    for line in _listing(package, "list", evidence):
        if path := line.strip("/").removeprefix("./"):
            yield path


def _md5sums(package: SystemPackage, evidence: Evidence) -> dict[str, str]:
    pairs = (line.partition("  ") for line in _listing(package, "md5sums", evidence))
    return {path.strip("/").removeprefix("./"): md5 for md5, _, path in pairs if path}


def _linked_paths(added: list[Added], evidence: Evidence) -> None:
    """Find the links that maintainer scripts made to files of their package."""
    owner = {path: one for one in added for path in one.paths}
    links = [
        change.after
        for change in evidence.changes
        if change.before is None
        and change.after is not None
        and change.after.kind is Kind.SYMLINK
        and change.path not in owner
    ]
    chosen: dict[str, Added] = {}
    for link in links:
        behind = evidence.tree.resolve(link.path)
        one = owner.get(behind or "")
        if one is not None and _LINKED.fullmatch(link.path):
            one.paths.add(link.path)
            if link.path.startswith(_ALTERNATIVES):
                chosen[link.path] = one
                record = f"{_CHOICES}{link.path.removeprefix(_ALTERNATIVES)}"
                if record in evidence.new_nodes:
                    one.paths.add(record)
    for link in links:
        one = chosen.get(link.target.lstrip("/"))
        if one is not None and link.target.startswith("/"):
            one.paths.add(link.path)
