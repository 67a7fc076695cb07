"""Findings and the verdict that they add up to."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from imagegate.foreign.credentials import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date

    from imagegate.oci.digest import Digest


class Severity(StrEnum):
    """What a finding means for the verdict."""

    FAIL = "fail"
    WAIVED = "waived"
    NOTE = "note"


# what is judged by these says whether the others mean anything
NOT_WAIVABLE = frozenset({"base.digest", "lock.fresh", "waivers.match"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """A finding that somebody accepted, exactly as it is, for a time and one base.

    Attributes:
        code: the finding's code.
        subject: the finding's subject.
        about: the digest of what the finding is about.
        reason: why it is accepted.
        expires: the last day on which it counts.
        base: digest of the base it was given for, or ``scratch``.
    """

    code: str
    subject: str
    about: Digest
    reason: str
    expires: date
    base: str

    def matches(self, finding: Finding) -> bool:
        """Whether this is the finding that was accepted; one without a digest is nobody's."""
        return (self.code, self.subject, self.about) == (
            finding.code,
            finding.subject,
            finding.about,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Why a finding does not fail the verdict, and for how long.

    Attributes:
        reason: why it was accepted.
        expires: the last day on which it is.
        days_left: days from the day of the judgement until then.
    """

    reason: str
    expires: date
    days_left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in an image, or in a file of the repository, something was found.

    Attributes:
        path: the path in the image, ``""`` where the finding is about no path.
        layer: the layer's number from the bottom, 0 where it is about no layer.
        layer_digest: the layer's blob digest, or its diff id where there is no manifest.
        step: the history's text of the step that made the layer.
        file: a file of the repository, ``""`` where it is not about one.
        line: its line, from 1; 0 where it is about no line.
        content: what stands at the path, in one line: kind, mode, owner, hash or target. It makes
            the finding's digest and is not shown.
        owner: the distribution or package that it belongs to, where there is one; not shown.
    """

    path: str = ""
    layer: int = 0
    layer_digest: str = ""
    step: str = ""
    file: str = ""
    line: int = 0
    content: str = field(default="", compare=False, repr=False)
    owner: str = field(default="", compare=False, repr=False)


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
        accepted: by which waiver it was accepted, where its severity says that it was.
        about: digest of what it is about, which a waiver has to name; ``None`` for a note, and for
            what cannot be waived.
        cause: the distribution, package or setting that explains it and others with it; ``""``
            where it stands for itself.
    """

    code: str
    severity: Severity
    subject: str
    message: str
    locked: str = ""
    found: str = ""
    place: Place = Place()
    hint: str = ""
    accepted: Acceptance | None = None
    about: Digest | None = None
    cause: str = ""

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
        summary: one line for a reader, in the place of the number of comparisons.
        left_out: why the check was not asked although nobody left it out: what another finding
            says makes its answer meaningless.
    """

    check: str
    compared: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    nothing_because: str = ""
    left_out: str = ""
    summary: str = ""

    @property
    def passed(self) -> bool:
        """Whether it looked at something, or had reason not to, and found no failure."""
        looked = (bool(self.compared) or bool(self.nothing_because)) and not self.left_out
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
    """A judgement: what was judged, what each check said, and the word that follows from it.

    What is judged adds its own fields in a class below this one, and tells the renderers what
    they show of it by the properties here.

    Attributes:
        subject: name of what was judged: a recipe, a profile, a Dockerfile.
        reports: one a check, in the order of the checks.
        skipped: checks that were left out on request.
    """

    kind: ClassVar[str] = "verdict"
    schema: ClassVar[str] = "imagegate-judgement-1"

    subject: str
    reports: tuple[CheckReport, ...]
    skipped: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The file of the repository that says what should be; annotations point there."""
        return self.subject

    @property
    def heading(self) -> tuple[tuple[str, str], ...]:
        """What stands above the checks in a report: label and value."""
        return ()

    @property
    def footing(self) -> tuple[tuple[str, str], ...]:
        """What stands below the checks in a report: label and value."""
        return ()

    @property
    def waivable_on(self) -> str:
        """What a waiver of one of the findings has to name as its base; ``""`` if none can be."""
        return ""

    def particulars(self) -> dict[str, object]:
        """Return what the JSON report has beside word, checks and what was skipped."""
        return {"subject": self.subject}

    @property
    def sound(self) -> bool:
        """Whether every check that ran passed; a verdict of no checks is never sound."""
        return bool(self.reports) and all(report.passed for report in self.reports)

    @property
    def passed(self) -> bool:
        """Whether every check there is ran and passed; only then may the image be promoted."""
        return self.sound and not self.skipped

    @property
    def word(self) -> str:
        """``PASSED``, ``FAILED``, or ``PARTIAL`` where nothing failed and checks were left out."""
        if self.passed:
            return "PASSED"
        return "PARTIAL" if self.sound else "FAILED"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, failures first, then what was accepted, else in the order of the checks."""
        every = [finding for report in self.reports for finding in report.findings]
        return tuple(sorted(every, key=lambda finding: list(Severity).index(finding.severity)))

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that fail the verdict."""
        return tuple(f for f in self.findings if f.severity is Severity.FAIL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageVerdict(Verdict):
    """The judgement on one image by one lock.

    Attributes:
        image: digest of the image's manifest, ``None`` where the medium has none.
        location: where the image was read.
        platform: its platform.
        base: digest of the base, ``None`` for an image from scratch.
        lock: digest of the lock.
        cost: what was read.
        policy: digest of what the recipe says of judging; ``None`` where nobody asked.
        image_id: digest of the config, by which engines without a registry know the image.
        pins: what the bytes say of the versions that launchers are told, by variable.
    """

    kind: ClassVar[str] = "image"
    # the number changes when a reader of the old form would misread the new one
    schema: ClassVar[str] = "imagegate-verdict-2"

    image: Digest | None
    location: str
    platform: str
    base: Digest | None
    lock: Digest
    cost: Cost
    policy: Digest | None = None
    image_id: Digest | None = None
    pins: Mapping[str, str] = field(default_factory=dict)

    @property
    def recipe(self) -> str:
        """The recipe's name."""
        return self.subject

    @property
    def file(self) -> str:
        """The recipe's file."""
        return f"images/{self.subject}/image.toml"

    @property
    def heading(self) -> tuple[tuple[str, str], ...]:
        """The image, where it was read, its base and its lock."""
        return (
            ("image", f"{self.image or 'no manifest digest'} ({self.platform})"),
            ("from", self.location),
            ("base", self.waivable_on),
            ("lock", str(self.lock)),
        )

    @property
    def footing(self) -> tuple[tuple[str, str], ...]:
        """What it cost to judge it."""
        cost = self.cost
        share = f" ({cost.read / cost.total:.1%})" if cost.total else ""
        total = f" of {format_bytes(cost.total)}" if cost.total else ""
        base = f", {cost.base_layers_read} base layers among them" if cost.base_layers_read else ""
        return (("read", f"{format_bytes(cost.read)}{total}{share}{base}"),)

    @property
    def waivable_on(self) -> str:
        """The base, which every waiver names."""
        return str(self.base or "scratch")

    def particulars(self) -> dict[str, object]:
        """Return recipe, image, base, lock, policy and cost."""
        return {
            "recipe": self.subject,
            "image": {
                "digest": None if self.image is None else str(self.image),
                "id": None if self.image_id is None else str(self.image_id),
                "location": redact(self.location),
                "platform": self.platform,
            },
            "base": None if self.base is None else str(self.base),
            "lock": str(self.lock),
            "policy": None if self.policy is None else str(self.policy),
            "pins": dict(self.pins),
            "cost": asdict(self.cost),
        }


def format_bytes(count: int) -> str:
    """Write a number of bytes for a person, in powers of ten as registries do."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95 or unit == "TB":
            return f"{value:.1f} {unit}"
    raise AssertionError


def accept(
    reports: Iterable[CheckReport], waivers: Iterable[Waiver], base: str, today: date
) -> tuple[tuple[CheckReport, ...], frozenset[Waiver]]:
    """Accept the findings that a waiver names in every word.

    A waiver that has expired, or that was given for another base, accepts nothing.

    Args:
        reports: what the checks found.
        waivers: what is accepted.
        base: digest of the locked base, or ``scratch``.
        today: the day of the judgement.

    Returns:
        The reports, and the waivers that matched a finding.
    """
    valid = [waiver for waiver in waivers if waiver.base == base and waiver.expires >= today]
    used: set[Waiver] = set()

    def judged(finding: Finding) -> Finding:
        if finding.severity is not Severity.FAIL or finding.check in NOT_WAIVABLE:
            return finding
        waiver = next((one for one in valid if one.matches(finding)), None)
        if waiver is None:
            return finding
        used.add(waiver)
        left = (waiver.expires - today).days
        accepted = Acceptance(reason=redact(waiver.reason), expires=waiver.expires, days_left=left)
        return replace(finding, severity=Severity.WAIVED, accepted=accepted)

    accepted = tuple(
        replace(report, findings=tuple(map(judged, report.findings))) for report in reports
    )
    return accepted, frozenset(used)
