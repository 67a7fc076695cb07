"""What an image holds as a CycloneDX 1.6 bill of materials."""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from imagegate.attestation.components import components
from imagegate.attestation.statement import SBOM_TYPE, Statement, Subject, make_statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from imagegate.attestation.components import Component, Installed
    from imagegate.lock import Lock

_NAMESPACE = uuid.UUID("9f3b7a52-6b6f-5d0c-9d0e-4a3b1d9f7c11")


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
            *_needs(listed),
        ],
        # files that belong to nothing above are not in the list, and a reader has to know
        "compositions": [{"aggregate": "incomplete", "assemblies": [subject.uri]}],
    }


def _needs(listed: list[Component]) -> list[dict[str, object]]:
    """Say what each distribution needs, and which library's files it brought."""
    by_name: dict[str, str] = {}
    by_label: dict[str, str] = {}
    for one in listed:
        if one.purl.startswith("pkg:pypi/"):
            name = canonicalize_name(one.name)
            by_name[name] = by_label[f"{name}=={one.version}"] = one.reference
    needs: dict[str, list[str]] = defaultdict(list)
    for one in listed:
        needs[one.reference] += [by_name[name] for name in one.requires if name in by_name]
        if one.owner in by_label:
            needs[by_label[one.owner]].append(one.reference)
    return [{"ref": one, "dependsOn": sorted(set(on))} for one, on in sorted(needs.items()) if on]


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
    if one.license_expression:
        document["licenses"] = [{"expression": one.license_expression}]
    elif one.license:
        # what the metadata says, in words of its own
        document["licenses"] = [{"license": {"name": one.license}}]
    if one.sha256:
        document["hashes"] = [{"alg": "SHA-256", "content": one.sha256}]
    return document


def sbom(
    lock: Lock,
    subject: Subject,
    *,
    installed: Installed | None = None,
    created: str,
    version: str,
) -> Statement:
    """State the bill of materials of the image that a lock describes."""
    found = components(lock, installed)
    document = bill_of_materials(found, subject, created=created, version=version)
    return make_statement(subject, SBOM_TYPE, document)
