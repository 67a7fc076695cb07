"""What an image holds, as far as lock and layers say it: the rows of every bill of materials.

Python distributions, packages of dpkg and conda, and the GPU libraries that the lock pins, each by
its bytes. What else lies in the base is not listed, and the documents say so.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packageurl import PackageURL
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.utils import canonicalize_name

from imagegate.catalog.requirements import in_use
from imagegate.foreign.credentials import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from imagegate.facts import Distribution, NativeReading, SystemPackage
    from imagegate.lock import Lock, LockedWheel
    from imagegate.lock.blocks import BlockIndex

# what the hash of a component is over
WHEEL = "wheel"
FILES = "files"
FILE = "file"
# the version in a library's file name, and auditwheel's mark of a copy (auditwheel, repair.py)
_NAMED = re.compile(r"\.so\.([0-9][0-9.]*)$")
_COPIED = re.compile(r"-[0-9a-f]{8}\.so[^/]*$")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Component:
    """One thing that an image holds.

    Attributes:
        purl: package URL: ``pypi``, ``deb``, ``conda``, or ``generic`` for a library's file.
        name: as its metadata writes it, for an added distribution normalised (PEP 503).
        version: verbatim.
        sha256: hex digest, ``""`` where the lock has none.
        hashed: ``wheel`` where the digest is the wheel's; ``files`` where it is over the sorted
            lines ``<sha256>  <path>`` of all files that a distribution owns; ``file`` where it is
            that of the one file.
        origin: ``base`` or ``layer``.
        path: of a library's file, without leading slash.
        build_id: of a library's file, where it has one.
        owner: ``name==version`` of the distribution that brought a library's file.
        license: as the metadata says it, verbatim; ``""`` where nothing does.
        requires: names (PEP 503) of the distributions that it needs in this image and that are
            there, extras in use included.
    """

    purl: str
    name: str
    version: str
    sha256: str = ""
    hashed: str = ""
    origin: str
    path: str = ""
    build_id: str = ""
    owner: str = ""
    license: str = ""
    requires: tuple[str, ...] = ()

    @property
    def license_expression(self) -> str:
        """The licence as an SPDX expression (PEP 639), ``""`` where the metadata writes none."""
        try:
            return canonicalize_license_expression(self.license) if self.license else ""
        except InvalidLicenseExpression:
            return ""

    @property
    def reference(self) -> str:
        """What the component is called inside of the document."""
        return f"{self.purl}#{self.path or self.sha256}" if self.path or self.sha256 else self.purl


def wheel_purl(name: str, version: str) -> str:
    """Write a distribution's package URL (purl-spec, type ``pypi``)."""
    return _purl("pypi", canonicalize_name(name), version)


def _purl(
    kind: str,
    name: str,
    version: str,
    *,
    namespace: str | None = None,
    qualifiers: dict[str, str] | None = None,
) -> str:
    """Write a package URL: type, namespace, name and version, each encoded as purl-spec says."""
    return PackageURL(kind, namespace, name, version, qualifiers or {}).to_string()


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What the interpreter of the image finds.

    Attributes:
        distributions: by name (PEP 503), the added ones included.
        markers: values of the environment markers (PEP 508).
        requested: requirement lines that ask for extras.
    """

    distributions: Mapping[str, Distribution]
    markers: Mapping[str, str]
    requested: tuple[str, ...] = ()


def components(lock: Lock, installed: Installed | None = None) -> tuple[Component, ...]:
    """List what the image that a lock describes holds, as far as the lock knows it.

    Every Python distribution, its base's and the added; a name that both have is the layer's, as
    the interpreter sees it. Every installed package of dpkg and conda. Every GPU library that is
    pinned by its bytes.

    Args:
        lock: the lock.
        installed: what was found in the image; without it the added distributions have no licence
            and nothing says what needs what.
    """
    found = (*_distributions(lock, installed), *_packages(lock), *_libraries(lock))
    return tuple(map(_without_credentials, found))


def _without_credentials(one: Component) -> Component:
    """Hide what addresses and metadata of others may hold, before any document is written."""
    return replace(
        one,
        version=redact(one.version),
        origin=redact(one.origin),
        path=redact(one.path),
        license=redact(one.license),
    )


def _distributions(lock: Lock, installed: Installed | None) -> tuple[Component, ...]:
    added = {wheel.name: _of_wheel(wheel) for wheel in lock.wheels}
    hashes = _file_hashes(lock.files)
    base = (
        _of_base(found, hashes)
        for found in lock.base.facts.distributions
        if canonicalize_name(found.name) not in added
    )
    listed = [*base, *added.values()]
    if installed is not None:
        needed = in_use(installed.distributions, installed.markers, installed.requested)
        listed = [
            replace(
                one,
                license=installed.distributions[name].license or one.license,
                requires=needed[name],
            )
            if (name := canonicalize_name(one.name)) in installed.distributions
            else one
            for one in listed
        ]
    return tuple(sorted(listed))


def _packages(lock: Lock) -> tuple[Component, ...]:
    packages = lock.base.facts.packages
    vendor = _vendor(packages)
    return tuple(
        sorted(
            Component(
                purl=_package_purl(package, vendor),
                name=package.name,
                version=package.version,
                origin="base",
            )
            for package in packages
            # dpkg(1), "Package states": what was removed keeps its entry
            if package.manager != "dpkg" or package.state.endswith(" installed")
        )
    )


def _vendor(packages: Iterable[SystemPackage]) -> str:
    """Name who built the packages of dpkg, which its database does not say.

    Ubuntu marks the revision of what it changed (Ubuntu packaging guide, "Versioning"), and no
    base of it is without such a package.
    """
    marked = any("ubuntu" in package.version for package in packages if package.manager == "dpkg")
    return "ubuntu" if marked else "debian"


def _package_purl(package: SystemPackage, vendor: str) -> str:
    """Write a package's URL (purl-spec, types ``deb`` and ``conda``)."""
    if package.manager == "dpkg":
        return _purl(
            "deb",
            package.name,
            package.version,
            namespace=vendor,
            qualifiers={"arch": package.architecture},
        )
    return _purl("conda", package.name, package.version, qualifiers={"build": package.architecture})


def _libraries(lock: Lock) -> tuple[Component, ...]:
    """List the libraries that are pinned by their bytes, each copy of them."""
    by_path: dict[str, list[NativeReading]] = defaultdict(list)
    for reading in lock.base.facts.native:
        by_path[reading.path].append(reading)
    pinned = {
        path: readings
        for path, readings in by_path.items()
        if any(reading.source == "sha256" for reading in readings)
    }
    owners = {node.path: node.owner for node in lock.files if node.path in pinned}
    return tuple(
        sorted(
            _of_library(path, readings, owners.get(path, "")) for path, readings in pinned.items()
        )
    )


def _of_library(path: str, readings: list[NativeReading], owner: str) -> Component:
    said = {(reading.component, reading.source): reading.value for reading in readings}
    name = next(component for component, source in said if source == "sha256")
    sha256 = said[name, "sha256"]
    # what its own bytes say, then a file name with the whole version, then the distribution that
    # brought it, unless that only carries a copy along under auditwheel's name, then any file name
    strings = [
        value
        for (component, source), value in said.items()
        if source == "version string" and not component.endswith(" commit")
    ]
    named = _NAMED.search(path)
    of_file = named[1] if named else ""
    whole = of_file if of_file.count(".") > 1 else ""
    of_owner = "" if _COPIED.search(path) else owner.partition("==")[2]
    versions = [*strings, whole, of_owner, of_file]
    version = next((version for version in versions if version), "unknown")
    return Component(
        # purl-spec, type ``generic``: what is in no repository of packages, by its checksum
        purl=_purl("generic", name, version, qualifiers={"checksum": f"sha256:{sha256}"}),
        name=name,
        version=version,
        sha256=sha256,
        hashed=FILE,
        origin="base",
        path=path,
        build_id=said.get((name, "build id"), ""),
        owner=owner,
    )


def _of_wheel(wheel: LockedWheel) -> Component:
    return Component(
        name=wheel.name,
        version=wheel.version,
        purl=wheel_purl(wheel.name, wheel.version),
        sha256=wheel.sha256,
        hashed=WHEEL,
        origin="layer",
    )


def _of_base(found: Distribution, hashes: dict[str, str]) -> Component:
    label = f"{canonicalize_name(found.name)}=={found.version}"
    return Component(
        name=found.name,
        version=found.version,
        purl=_purl(
            "pypi",
            canonicalize_name(found.name),
            found.version,
            qualifiers=_direct_url(found.direct_url),
        ),
        sha256=hashes.get(label, ""),
        hashed=FILES,
        origin="base",
        license=found.license,
    )


def _direct_url(text: str) -> dict[str, str]:
    """Say where a distribution came from, if not from an index (PEP 610), as qualifiers."""
    if not text:
        return {}
    try:
        direct = json.loads(text)
        url = str(direct["url"])
    except (ValueError, KeyError, TypeError):
        return {}
    version_control = direct.get("vcs_info")
    if isinstance(version_control, dict):
        where = f"{version_control.get('vcs')}+{url}@{version_control.get('commit_id')}"
        return {"vcs_url": where}
    # a path of the machine that built the base names nothing for anybody else
    return {} if url.startswith("file:") else {"download_url": url}


def _file_hashes(files: BlockIndex) -> dict[str, str]:
    """Hash what each distribution owns, by ``name==version``; paths are sorted in the index."""
    lines: dict[str, list[str]] = defaultdict(list)
    for node in files:
        if node.owner and node.sha256:
            lines[node.owner].append(f"{node.sha256}  {node.path}\n")
    return {
        owner: hashlib.sha256("".join(sorted(owned)).encode("utf-8", "surrogateescape")).hexdigest()
        for owner, owned in lines.items()
    }
