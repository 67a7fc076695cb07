"""The distributions of an image as a CycloneDX 1.6 bill of materials."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from packaging.utils import canonicalize_name

from imagegate.attestation.statement import SBOM_TYPE, Statement, Subject, make_statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from imagegate.facts import Distribution
    from imagegate.lock import Lock, LockedWheel
    from imagegate.lock.pathindex import TextIndex

# what the hash of a component is over
_OF_WHEEL = "wheel"
_OF_FILES = "files"
_NAMESPACE = uuid.UUID("9f3b7a52-6b6f-5d0c-9d0e-4a3b1d9f7c11")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Component:
    """One distribution of an image.

    Attributes:
        name: as its metadata writes it, for an added one normalised (PEP 503).
        purl: package URL, type ``pypi``.
        sha256: hex digest.
        hashed: ``wheel`` where the digest is the wheel's; ``files`` where it is over the sorted
            lines ``<sha256>  <path>`` of all files that the distribution owns.
        origin: ``base`` or ``layer``.
    """

    name: str
    version: str
    purl: str
    sha256: str
    hashed: str
    origin: str


def wheel_purl(name: str, version: str) -> str:
    """Write a distribution's package URL (purl-spec, type ``pypi``)."""
    return f"pkg:pypi/{canonicalize_name(name)}@{quote(version, safe='')}"


def components(lock: Lock) -> tuple[Component, ...]:
    """List every distribution of the image that a lock describes: its base's and the added.

    A name that both have is the layer's, as the interpreter sees it.
    """
    added = {wheel.name: _of_wheel(wheel) for wheel in lock.wheels}
    hashes = _file_hashes(lock.files)
    base = (
        _of_base(found, hashes)
        for found in lock.base.facts.distributions
        if canonicalize_name(found.name) not in added
    )
    return tuple(sorted([*base, *added.values()], key=lambda one: (one.purl, one.sha256)))


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


def _file_hashes(files: TextIndex) -> dict[str, str]:
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

    It lists Python distributions and says that there is more in the image.

    Args:
        found: the distributions.
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
    listed = [_component(one) for one in found]
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
        "components": listed,
        "dependencies": [
            {"ref": subject.uri, "dependsOn": [str(one["bom-ref"]) for one in listed]}
        ],
        # what is no Python distribution is not in the list, and a reader has to know
        "compositions": [{"aggregate": "incomplete", "assemblies": [subject.uri]}],
    }


def _component(one: Component) -> dict[str, object]:
    document: dict[str, object] = {
        "type": "library",
        "bom-ref": f"{one.purl}#{one.sha256}" if one.sha256 else one.purl,
        "name": one.name,
        "version": one.version,
        "purl": one.purl,
        "properties": [
            {"name": "imagegate:hashed", "value": one.hashed if one.sha256 else "nothing"},
            {"name": "imagegate:origin", "value": one.origin},
        ],
    }
    if one.sha256:
        document["hashes"] = [{"alg": "SHA-256", "content": one.sha256}]
    return document


def sbom(lock: Lock, subject: Subject, *, created: str, version: str) -> Statement:
    """State the bill of materials of the image that a lock describes."""
    document = bill_of_materials(components(lock), subject, created=created, version=version)
    return make_statement(subject, SBOM_TYPE, document)
