"""What an image holds as a CycloneDX 1.6 bill of materials.

Python distributions, packages of dpkg and conda, and the GPU libraries that the lock pins, each by
its bytes. What else lies in the base is not listed, and the document says so.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from packaging.utils import canonicalize_name

from imagegate.attestation.statement import SBOM_TYPE, Statement, Subject, make_statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from imagegate.facts import Distribution, NativeReading, SystemPackage
    from imagegate.lock import Lock, LockedWheel
    from imagegate.lock.blocks import BlockIndex

# what the hash of a component is over
_OF_WHEEL = "wheel"
_OF_FILES = "files"
_OF_FILE = "file"
# the version in a library's file name, and auditwheel's mark of a copy (auditwheel, repair.py)
_NAMED = re.compile(r"\.so\.([0-9][0-9.]*)$")
_COPIED = re.compile(r"-[0-9a-f]{8}\.so[^/]*$")
_NAMESPACE = uuid.UUID("9f3b7a52-6b6f-5d0c-9d0e-4a3b1d9f7c11")


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

    @property
    def reference(self) -> str:
        """What the component is called inside of the document."""
        return f"{self.purl}#{self.path or self.sha256}" if self.path or self.sha256 else self.purl


def wheel_purl(name: str, version: str) -> str:
    """Write a distribution's package URL (purl-spec, type ``pypi``)."""
    return f"pkg:pypi/{canonicalize_name(name)}@{quote(version, safe='')}"


def components(lock: Lock) -> tuple[Component, ...]:
    """List what the image that a lock describes holds, as far as the lock knows it.

    Every Python distribution, its base's and the added; a name that both have is the layer's, as
    the interpreter sees it. Every installed package of dpkg and conda. Every GPU library that is
    pinned by its bytes.
    """
    return (*_distributions(lock), *_packages(lock), *_libraries(lock))


def _distributions(lock: Lock) -> tuple[Component, ...]:
    added = {wheel.name: _of_wheel(wheel) for wheel in lock.wheels}
    hashes = _file_hashes(lock.files)
    base = (
        _of_base(found, hashes)
        for found in lock.base.facts.distributions
        if canonicalize_name(found.name) not in added
    )
    return tuple(sorted([*base, *added.values()]))


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
    version = quote(package.version, safe="")
    if package.manager == "dpkg":
        return f"pkg:deb/{vendor}/{package.name}@{version}?arch={package.architecture}"
    return f"pkg:conda/{package.name}@{version}?build={quote(package.architecture, safe='')}"


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
        purl=f"pkg:generic/{name}@{quote(version, safe='')}?checksum=sha256:{sha256}",
        name=name,
        version=version,
        sha256=sha256,
        hashed=_OF_FILE,
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
        hashed=_OF_WHEEL,
        origin="layer",
    )


def _of_base(found: Distribution, hashes: dict[str, str]) -> Component:
    label = f"{canonicalize_name(found.name)}=={found.version}"
    return Component(
        name=found.name,
        version=found.version,
        purl=wheel_purl(found.name, found.version) + _direct_url(found.direct_url),
        sha256=hashes.get(label, ""),
        hashed=_OF_FILES,
        origin="base",
    )


def _direct_url(text: str) -> str:
    """Write where a distribution came from, if not from an index (PEP 610), as qualifiers."""
    if not text:
        return ""
    try:
        direct = json.loads(text)
        url = str(direct["url"])
    except (ValueError, KeyError, TypeError):
        return ""
    version_control = direct.get("vcs_info")
    if isinstance(version_control, dict):
        where = f"{version_control.get('vcs')}+{url}@{version_control.get('commit_id')}"
        return f"?vcs_url={quote(where, safe='/:')}"
    # a path of the machine that built the base names nothing for anybody else
    return "" if url.startswith("file:") else f"?download_url={quote(url, safe='/:')}"


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


def bill_of_materials(
    found: Iterable[Component], subject: Subject, *, created: str, version: str
) -> dict[str, object]:
    """Write the bill of materials; the same arguments give the same document.

    It says that there is more in the image than it lists.

    Args:
        found: what the image holds.
        subject: the image.
        created: when, RFC 3339 in UTC.
        version: this tool's version.
    """
    image = {
        "type": "container",
        "bom-ref": subject.uri,
        "name": subject.repository,
        "version": str(subject.digest),
        "purl": subject.uri,
        "hashes": [{"alg": "SHA-256", "content": subject.digest.encoded}],
    }
    listed = list(found)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, f'{subject.digest} {created}')}",
        "version": 1,
        "metadata": {
            "timestamp": created,
            "tools": {
                "components": [{"type": "application", "name": "imagegate", "version": version}]
            },
            "component": image,
        },
        "components": [_component(one) for one in listed],
        "dependencies": [
            {"ref": subject.uri, "dependsOn": [one.reference for one in listed]},
            *_brought(listed),
        ],
        # files that belong to nothing above are not in the list, and a reader has to know
        "compositions": [{"aggregate": "incomplete", "assemblies": [subject.uri]}],
    }


def _brought(listed: list[Component]) -> list[dict[str, object]]:
    """Say which distribution brought which library's file."""
    owners = {
        f"{canonicalize_name(one.name)}=={one.version}": one.reference
        for one in listed
        if one.purl.startswith("pkg:pypi/")
    }
    brought: dict[str, list[str]] = defaultdict(list)
    for one in listed:
        if one.owner in owners:
            brought[owners[one.owner]].append(one.reference)
    return [{"ref": owner, "dependsOn": files} for owner, files in sorted(brought.items())]


def _component(one: Component) -> dict[str, object]:
    said = {
        "hashed": one.hashed if one.sha256 else "nothing",
        "origin": one.origin,
        "path": f"/{one.path}" if one.path else "",
        "build-id": one.build_id,
    }
    document: dict[str, object] = {
        "type": "library",
        "bom-ref": one.reference,
        "name": one.name,
        "version": one.version,
        "purl": one.purl,
        "properties": [
            {"name": f"imagegate:{name}", "value": value} for name, value in said.items() if value
        ],
    }
    if one.sha256:
        document["hashes"] = [{"alg": "SHA-256", "content": one.sha256}]
    return document


def sbom(lock: Lock, subject: Subject, *, created: str, version: str) -> Statement:
    """State the bill of materials of the image that a lock describes."""
    document = bill_of_materials(components(lock), subject, created=created, version=version)
    return make_statement(subject, SBOM_TYPE, document)
