"""Which requirements of installed distributions hold (PEP 508, core metadata)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from imagegate.facts import Distribution
    from imagegate.oci.platform import Platform

# GOARCH to the machine's name in markers
MARKER_MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class BrokenRequirement:
    """A requirement that does not hold.

    Attributes:
        distribution: who requires: normalised name and version.
        requirement: the line, verbatim.
        name: the normalised name of what is required, ``""`` where the line makes no sense.
        found: the version that is there, ``""`` for none.
        because: what is wrong.
    """

    distribution: str
    requirement: str
    name: str
    found: str
    because: str


def marker_environment(platform: Platform, python: str) -> dict[str, str]:
    """Return the values of the environment markers in an image.

    Args:
        platform: the image's platform.
        python: ``major.minor`` of its interpreter.
    """
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": MARKER_MACHINES.get(platform.architecture, platform.architecture),
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }


def installed(
    distributions: Iterable[Distribution], order: Sequence[str]
) -> dict[str, Distribution]:
    """Return of each name the copy that an interpreter finds first; see ``search_order``."""
    places = {site: place for place, site in enumerate(order)}
    chosen: dict[str, Distribution] = {}
    for pin in sorted(
        distributions, key=lambda pin: (places.get(pin.site, 0), bool(pin.linked), pin.path)
    ):
        if pin.site in places or not order:
            chosen.setdefault(canonicalize_name(pin.name), pin)
    return chosen


def broken_requirements(
    distributions: Mapping[str, Distribution],
    environment: Mapping[str, str],
    requested: Iterable[str] = (),
    overrides: Iterable[str] = (),
) -> tuple[BrokenRequirement, ...]:
    """List every requirement that does not hold.

    Args:
        distributions: what is installed, by normalised name.
        environment: values of the markers.
        requested: requirement lines that ask for extras.
        overrides: requirements that replace what distributions say of their names.
    """
    replaced = {canonicalize_name(r.name): r for r in map(Requirement, overrides)}
    extras = _extras(distributions, environment, requested)
    broken: list[BrokenRequirement] = []
    for name, pin in sorted(distributions.items()):
        broken += _of_interpreter(pin, environment)
        for line in pin.requires:
            requirement = parse(line)
            if requirement is None:
                broken.append(_broken(pin, line, because="the line is not a requirement (PEP 508)"))
                continue
            if not applies(requirement, environment, extras[name]):
                continue
            because = _violation(
                replaced.get(canonicalize_name(requirement.name), requirement), distributions
            )
            if because is not None:
                required = canonicalize_name(requirement.name)
                found = distributions.get(required)
                broken.append(
                    _broken(
                        pin,
                        line,
                        name=required,
                        found=found.version if found else "",
                        because=because,
                    )
                )
    return tuple(sorted(set(broken)))


def in_use(
    distributions: Mapping[str, Distribution],
    environment: Mapping[str, str],
    requested: Iterable[str] = (),
) -> dict[str, tuple[str, ...]]:
    """Say which of the installed distributions each of them needs, by normalised name.

    Args:
        distributions: what is installed, by normalised name.
        environment: values of the markers.
        requested: requirement lines that ask for extras.
    """
    extras = _extras(distributions, environment, requested)
    needed: dict[str, tuple[str, ...]] = {}
    for name, pin in distributions.items():
        requirements = filter(None, map(parse, pin.requires))
        needed[name] = tuple(
            sorted(
                {
                    canonicalize_name(requirement.name)
                    for requirement in requirements
                    if applies(requirement, environment, extras[name])
                }
                & distributions.keys()
            )
        )
    return needed


@lru_cache(maxsize=8192)
def parse(line: str) -> Requirement | None:
    """Read a requirement line (PEP 508), ``None`` where it is none.

    Base and image have nearly all lines in common, so each is read once.
    """
    try:
        return Requirement(line)
    except InvalidRequirement:
        return None


def applies(
    requirement: Requirement, environment: Mapping[str, str], extras: Iterable[str]
) -> bool:
    """Say whether a requirement counts, with no extra or with one of some extras."""
    if requirement.marker is None:
        return True
    for extra in ("", *extras):
        try:
            if requirement.marker.evaluate({**environment, "extra": extra}):
                return True
        except (UndefinedComparison, UndefinedEnvironmentName):
            return True
    return False


def _extras(
    distributions: Mapping[str, Distribution],
    environment: Mapping[str, str],
    requested: Iterable[str],
) -> Mapping[str, set[str]]:
    """Find the extras that are in use: those asked for, and what they ask for in turn."""
    extras: dict[str, set[str]] = defaultdict(set)
    waiting: list[tuple[str, frozenset[str]]] = []
    for line in requested:
        requirement = parse(line)
        if requirement is None:
            continue
        waiting.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    waiting += [(name, frozenset()) for name in distributions]
    done: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, asked = waiting.pop()
        extras[name] |= {canonicalize_name(extra) for extra in asked}
        state = (name, frozenset(extras[name]))
        if state in done or name not in distributions:
            continue
        done.add(state)
        for line in distributions[name].requires:
            requirement = parse(line)
            if requirement is None:
                continue
            if requirement.extras and applies(requirement, environment, extras[name]):
                waiting.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return extras


def _violation(requirement: Requirement, distributions: Mapping[str, Distribution]) -> str | None:
    """Say why a requirement does not hold, ``None`` where it does."""
    found = distributions.get(canonicalize_name(requirement.name))
    if found is None:
        return "it is not installed"
    try:
        version = Version(found.version)
    except InvalidVersion:
        # PEP 440 has no order for such a version; only `===` can name it
        holds = any(
            s.operator == "===" and s.version == found.version for s in requirement.specifier
        )
        if holds or not requirement.specifier:
            return None
        return f"the version `{found.version}` cannot be compared (PEP 440)"
    if requirement.specifier.contains(version, prereleases=True):
        return None
    return f"`{requirement.specifier}` does not allow {found.version}"


def _of_interpreter(pin: Distribution, environment: Mapping[str, str]) -> list[BrokenRequirement]:
    if not pin.requires_python:
        return []
    try:
        allowed = SpecifierSet(pin.requires_python)
    except InvalidSpecifier:
        return []
    # the image's patch version is not known here, so any of the minor version may fit
    python = environment["python_version"]
    if any(allowed.contains(f"{python}.{patch}", prereleases=True) for patch in range(100)):
        return []
    line = f"Requires-Python {pin.requires_python}"
    return [_broken(pin, line, name="python", found=python, because="another Python is required")]


def _broken(
    pin: Distribution, line: str, *, because: str, name: str = "", found: str = ""
) -> BrokenRequirement:
    return BrokenRequirement(
        distribution=f"{canonicalize_name(pin.name)}=={pin.version}",
        requirement=line,
        name=name,
        found=found,
        because=because,
    )
