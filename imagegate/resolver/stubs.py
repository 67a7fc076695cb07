"""Stub wheels: the base's distributions as files that a resolver can be pointed at.

A constraint ``name==version`` cannot hold a base: versions with a local part are on no index, and
where the same version is on one, its dependencies come in again. A URL constraint to a wheel of
that very version does: the resolver takes it or reports a conflict.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from imagegate.facts import Distribution

# the earliest time that a zip can hold, so that stubs are the same on every run
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stubs:
    """Stub wheels of a base.

    Attributes:
        constraints: one URL constraint a distribution.
        names: the normalised names that are held.
        unrepresentable: names whose version is not PEP 440; they are excluded instead.
    """

    constraints: tuple[str, ...]
    names: tuple[str, ...]
    unrepresentable: tuple[str, ...]


def write_stubs(folder: Path, distributions: Iterable[Distribution]) -> Stubs:
    """Write one stub wheel a distribution into a folder."""
    constraints: dict[str, str] = {}
    unrepresentable: list[str] = []
    for distribution in distributions:
        name = canonicalize_name(distribution.name)
        if name in constraints:
            continue
        try:
            version = Version(distribution.version)
        except InvalidVersion:
            unrepresentable.append(name)
            continue
        stem = f"{name.replace('-', '_')}-{version}"
        path = folder / f"{stem}-py3-none-any.whl"
        _write_wheel(path, stem, _metadata(distribution, name, version))
        constraints[name] = f"{name} @ file://{quote(str(path))}"
    return Stubs(
        constraints=tuple(constraints[name] for name in sorted(constraints)),
        names=tuple(sorted(constraints)),
        unrepresentable=tuple(sorted(set(unrepresentable))),
    )


def _metadata(distribution: Distribution, name: str, version: Version) -> str:
    """Write core metadata that keeps only what extras add.

    What the base itself requires is the base's matter, met or not; what an extra of it adds is
    the layer's.
    """
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Provides-Extra: {extra}" for extra in distribution.extras]
    lines += [f"Requires-Dist: {r}" for r in distribution.requires if _is_of_extra(r)]
    return "\n".join(lines) + "\n"


def _is_of_extra(requirement: str) -> bool:
    try:
        marker = Requirement(requirement).marker
    except InvalidRequirement:
        return False
    return marker is not None and "extra ==" in str(marker)


def _write_wheel(path: Path, stem: str, metadata: str) -> None:
    """Write the three files that make a wheel (binary distribution format)."""
    folder = f"{stem}.dist-info"
    wheel = "Wheel-Version: 1.0\nGenerator: imagegate\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {"METADATA": metadata, "WHEEL": wheel}
    record = "".join(f"{folder}/{name},,\n" for name in (*files, "RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, "RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(f"{folder}/{name}", _ZIP_EPOCH), text)
