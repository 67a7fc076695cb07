"""Findings and the verdict that they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagegate.oci.digest import Digest


class Severity(StrEnum):
    """What a finding means for the verdict."""

    FAIL = "fail"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in an image something was found.

    Attributes:
        path: the path in the image, ``""`` where the finding is about no path.
        layer: the layer's number from the bottom, 0 where it is about no layer.
        layer_digest: the layer's blob digest, or its diff id where there is no manifest.
        step: the history's text of the step that made the layer.
    """

    path: str = ""
    layer: int = 0
    layer_digest: str = ""
    step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as the lock says.

    Attributes:
        code: stable name ``<check>/<what>``.
        severity: whether it alone fails the verdict.
        subject: the distribution, library, path or setting.
        message: one sentence for a person.
        locked: what the lock has, ``""`` for nothing.
        found: what the image has, ``""`` for nothing.
        place: where.
        hint: what a person can do.
    """

    code: str
    severity: Severity
    subject: str
    message: str
    locked: str = ""
    found: str = ""
    place: Place = Place()
    hint: str = ""

    @property
    def check(self) -> str:
        """Id of the check that found it."""
        return self.code.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What one check looked at and found.

    Attributes:
        check: the check's id.
        compared: what was compared, a line each; a check that compared nothing has to say in
            `nothing_because` why there was nothing.
        findings: what is not as it should be, and notes.
        nothing_because: why there was nothing to compare.
    """

    check: str
    compared: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    nothing_because: str = ""

    @property
    def passed(self) -> bool:
        """Whether it looked at something, or had reason not to, and found no failure."""
        looked = bool(self.compared) or bool(self.nothing_because)
        return looked and all(finding.severity is not Severity.FAIL for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the judgement had to read, in bytes.

    Attributes:
        read: compressed bytes of layers that were read.
        added: compressed bytes of the added layers.
        total: compressed bytes of all layers, as far as the manifest says.
        base_layers_read: base layers that had to be read because their digest is not the locked.
    """

    read: int
    added: int
    total: int
    base_layers_read: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judgement on one image by one lock.

    Attributes:
        recipe: the recipe's name.
        image: digest of the image's manifest, ``None`` where the medium has none.
        location: where the image was read.
        platform: its platform.
        base: digest of the base, ``None`` for an image from scratch.
        lock: digest of the lock.
        reports: one a check, in the order of the checks.
        cost: what was read.
    """

    recipe: str
    image: Digest | None
    location: str
    platform: str
    base: Digest | None
    lock: Digest
    reports: tuple[CheckReport, ...]
    cost: Cost

    @property
    def passed(self) -> bool:
        """Whether every check passed; a verdict of no checks never passes."""
        return bool(self.reports) and all(report.passed for report in self.reports)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, failures first, else in the order of the checks."""
        every = [finding for report in self.reports for finding in report.findings]
        return tuple(sorted(every, key=lambda finding: finding.severity is not Severity.FAIL))

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that fail the verdict."""
        return tuple(f for f in self.findings if f.severity is Severity.FAIL)
