"""What an image holds as an SPDX 2.3 document, beside the CycloneDX one and with the same rows."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from imagegate.attestation.components import FILES, components
from imagegate.attestation.statement import SPDX_TYPE, Statement, Subject, make_statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from imagegate.attestation.components import Component, Installed
    from imagegate.lock import Lock

_NAMESPACE = uuid.UUID("6d2f5a1e-1a0e-5c3f-8a58-0f4f4e1f3f0b")
_DOCUMENT = "SPDXRef-DOCUMENT"
_IMAGE = "SPDXRef-image"
# SPDX 2.3, 7.7 and 7.15: nobody looked, or the metadata does not say
_UNSAID = "NOASSERTION"
_LICENSE_REF = re.compile(r"LicenseRef-[A-Za-z0-9.-]+")


def spdx_document(
    found: Iterable[Component], subject: Subject, *, created: str, version: str
) -> dict[str, object]:
    """Write the document (SPDX 2.3, JSON); the same arguments give the same document.

    Args:
        found: what the image holds.
        subject: the image.
        created: when, RFC 3339 in UTC.
        version: this tool's version.
    """
    listed = list(found)
    identity = uuid.uuid5(_NAMESPACE, f"{subject.digest} {created}")
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": _DOCUMENT,
        "name": subject.repository,
        "documentNamespace": f"urn:uuid:{identity}",
        "comment": "Files that belong to no package of this list are not listed.",
        "creationInfo": {"created": created, "creators": [f"Tool: imagegate-{version}"]},
        "hasExtractedLicensingInfos": _own_licenses(listed),
        "packages": [_image(subject), *map(_package, listed)],
        "relationships": [
            _relation(_DOCUMENT, "DESCRIBES", _IMAGE),
            *(_relation(_IMAGE, "CONTAINS", _identifier(one)) for one in listed),
            *_needs(listed),
        ],
    }


def _own_licenses(listed: list[Component]) -> list[dict[str, str]]:
    """Declare each licence that is not on SPDX's list (SPDX 2.3, 10.1)."""
    named = {name for one in listed for name in _LICENSE_REF.findall(one.license_expression)}
    return [
        {
            "licenseId": name,
            "name": name.removeprefix("LicenseRef-"),
            "extractedText": "The text lies in the distribution's metadata folder.",
        }
        for name in sorted(named)
    ]


def _image(subject: Subject) -> dict[str, object]:
    return {
        "SPDXID": _IMAGE,
        "name": subject.repository,
        "versionInfo": str(subject.digest),
        "downloadLocation": _UNSAID,
        "filesAnalyzed": False,
        "licenseConcluded": _UNSAID,
        "licenseDeclared": _UNSAID,
        "copyrightText": _UNSAID,
        "primaryPackagePurpose": "CONTAINER",
        "checksums": [{"algorithm": "SHA256", "checksumValue": subject.digest.encoded}],
        "externalRefs": [_purl(subject.uri)],
    }


def _package(one: Component) -> dict[str, object]:
    document: dict[str, object] = {
        "SPDXID": _identifier(one),
        "name": one.name,
        "versionInfo": one.version,
        "downloadLocation": _UNSAID,
        "filesAnalyzed": False,
        "licenseConcluded": _UNSAID,
        "licenseDeclared": one.license_expression or _UNSAID,
        "copyrightText": _UNSAID,
        "primaryPackagePurpose": "LIBRARY",
        "externalRefs": [_purl(one.purl)],
    }
    if one.license and not one.license_expression:
        document["licenseComments"] = f"The metadata says: {one.license}"
    if one.path:
        document["packageFileName"] = f"/{one.path}"
    if one.sha256 and one.hashed != FILES:
        # SPDX 2.3, 7.10: of the package's own file, which a digest over several files is not
        document["checksums"] = [{"algorithm": "SHA256", "checksumValue": one.sha256}]
    return document


def _needs(listed: list[Component]) -> list[dict[str, str]]:
    by_name: dict[str, str] = {}
    by_label: dict[str, str] = {}
    for one in listed:
        if one.purl.startswith("pkg:pypi/"):
            name = canonicalize_name(one.name)
            by_name[name] = by_label[f"{name}=={one.version}"] = _identifier(one)
    return [
        *(
            _relation(_identifier(one), "DEPENDS_ON", by_name[name])
            for one in listed
            for name in one.requires
            if name in by_name
        ),
        *(
            _relation(by_label[one.owner], "CONTAINS", _identifier(one))
            for one in listed
            if one.owner in by_label
        ),
    ]


def _relation(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def _purl(purl: str) -> dict[str, str]:
    return {
        "referenceCategory": "PACKAGE-MANAGER",
        "referenceType": "purl",
        "referenceLocator": purl,
    }


def _identifier(one: Component) -> str:
    """Name a component: letters, digits, `.` and `-` alone (SPDX 2.3, 7.2)."""
    return f"SPDXRef-{hashlib.sha256(one.reference.encode()).hexdigest()[:24]}"


def spdx(
    lock: Lock,
    subject: Subject,
    *,
    installed: Installed | None = None,
    created: str,
    version: str,
) -> Statement:
    """State the bill of materials of the image that a lock describes, as SPDX."""
    found = components(lock, installed)
    document = spdx_document(found, subject, created=created, version=version)
    return make_statement(subject, SPDX_TYPE, document)
