"""``pins.declared``: is each pin of the recipe true of the bytes, and no denied version there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from imagegate.catalog.native import spelled
from imagegate.catalog.system import DPKG, is_installed
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import Evidence, key_of, present_components

if TYPE_CHECKING:
    from imagegate.facts import Facts
    from imagegate.verdict import CheckReport

# short names that people use
_MEANT = {
    "flashinfer": "flashinfer-python",
    "pytorch": "torch",
    "ofi-nccl": "aws-ofi-nccl",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """Versions that must not be served, and why."""

    name: str
    versions: str
    reason: str


# known everywhere; a recipe adds its own under `[[denied]]`
DENIED = (
    Denied(
        name="flashinfer-python",
        versions="==0.6.17",
        reason="NaN from NVFP4 at batches of 64 to 256 rows (flashinfer-ai/flashinfer#4486)",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _Reading:
    """One version of a name: what says so, and the value."""

    source: str
    value: str

    @property
    def upstream(self) -> str:
        """The version without Debian's epoch and revision (deb-version(7))."""
        if self.source != DPKG:
            return self.value
        _, _, rest = self.value.rpartition(":")
        return rest.rpartition("-")[0] or rest


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("pins.declared")
    pins = evidence.recipe.document.pins
    compared: list[str] = []
    for name, wanted in sorted(pins.items()):
        compared.append(_judge_pin(name, wanted, evidence, findings))
    own = [
        Denied(name=entry.name, versions=entry.versions, reason=entry.reason)
        for entry in evidence.recipe.document.denied
    ]
    compared += [_judge_denied(denied, evidence, findings) for denied in (*DENIED, *own)]
    return findings.report(compared)


def _judge_pin(name: str, wanted: str, evidence: Evidence, findings: Findings) -> str:
    """Compare one pin with the image's readings, and with the base's where it has any."""
    now = _readings(name, evidence.facts)
    base = _readings(name, evidence.lock.base.facts)
    if not now:
        findings.fail(
            "not-found",
            name,
            f"the pin `{name}` names nothing that is in the image",
            locked=wanted,
            found="nothing",
            hint="a pin is a distribution, a Debian package, or a component such as `nccl`",
        )
    for whose, readings in (("image", now), ("base", base)):
        for reading in readings:
            if not _is(reading, wanted) and (whose == "image" or readings != now):
                findings.fail(
                    "other-version",
                    name,
                    f"the {whose} has another `{name}` than the recipe pins, by {reading.source}",
                    locked=wanted,
                    found=reading.value,
                )
    said = ", ".join(f"{r.value} by {r.source}" for r in now) or "nothing"
    return f"pin {name}: locked={wanted} found={said}"


def _judge_denied(denied: Denied, evidence: Evidence, findings: Findings) -> str:
    readings = _readings(denied.name, evidence.facts, recorded=True)
    allowed = SpecifierSet(denied.versions)
    values = sorted({reading.value for reading in readings})
    denied_values = {reading.value for reading in readings if _is_in(reading.upstream, allowed)}
    for value in values:
        if value in denied_values:
            findings.fail(
                "denied",
                denied.name,
                f"`{denied.name}` {value} must not be served: {denied.reason}",
                locked=f"not {denied.versions or 'any version'}",
                found=value,
                hint="take another version",
            )
    said = ", ".join(values) or "nothing"
    return f"denied {denied.name} {denied.versions}: found={said}"


def _readings(name: str, facts: Facts, *, recorded: bool = False) -> list[_Reading]:
    """Return what says which version is there: the bytes, else metadata, else dpkg.

    Args:
        name: as the recipe writes it.
        facts: where to look.
        recorded: whether metadata counts beside the bytes, not only instead of them.
    """
    meant = _MEANT.get(name.lower(), name)
    real = [
        _Reading(source="bytes", value=spelled(meant, value))
        for value in sorted(present_components(facts).get(meant, ()))
    ]
    if real and not recorded:
        return real
    metadata = [
        _Reading(source="metadata", value=pin.version)
        for pin in facts.distributions
        if key_of(pin) == canonicalize_name(meant)
    ]
    packages = [
        _Reading(source=package.manager, value=package.version)
        for package in facts.packages
        if package.name == meant and (is_installed(package) or package.manager != DPKG)
    ]
    return [*real, *metadata, *packages] if recorded else metadata or packages


def _is(found: _Reading, wanted: str) -> bool:
    """Compare by PEP 440: a pin without a local part is met by any local part.

    A pin of a Debian package may leave out epoch and revision.
    """
    if wanted in (found.value, found.upstream, found.value.rpartition(":")[2]):
        return True
    try:
        return SpecifierSet(f"=={wanted}").contains(Version(found.upstream), prereleases=True)
    except (InvalidVersion, InvalidSpecifier):
        return False


def _is_in(found: str, versions: SpecifierSet) -> bool:
    try:
        return versions.contains(Version(found), prereleases=True)
    except InvalidVersion:
        return not versions


CHECK = Check(
    id="pins.declared",
    question="is each pin of the recipe true of the bytes, and is no denied version in the image",
    why="some versions are known to give wrong numbers; a pin in words alone does not keep them out",
    fix="build on a base with the pinned version, or change the pin on purpose",
    judge=_judge,
    revision=1,
)
