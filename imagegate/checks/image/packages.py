"""What ``debian.pins`` and ``conda.pins`` ask of their packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.catalog.system import CONDA, DPKG, OTHER_DATABASES, altered, is_held, is_installed
from imagegate.checks.check import Findings

if TYPE_CHECKING:
    from imagegate.checks.image.evidence import Evidence
    from imagegate.facts import Facts, SystemPackage
    from imagegate.verdict import CheckReport

_Key = tuple[str, str, str]


def judge_packages(manager: str, check: str, evidence: Evidence) -> CheckReport:
    """Compare the packages of one manager with the base's."""
    findings = Findings(check)
    before, now = _by_key(manager, evidence.lock.base.facts), _by_key(manager, evidence.facts)
    for key, package in sorted(before.items()):
        _compare(package, now.get(key), evidence, findings)
    for key, package in sorted(now.items()):
        if key not in before:
            _judge_added(package, evidence, findings)
    compared = [
        f"{name}:{architecture}: locked={package.version} ({package.state})"
        for (name, architecture, _), package in sorted(before.items())
    ]
    if manager == DPKG:
        _say_unread(evidence, findings)
        _judge_content(evidence, findings)
    if not before and not now:
        return findings.report((), nothing_because=f"the image has no package of {manager}")
    if not before:
        return findings.report((), nothing_because=f"the base has no package of {manager}")
    return findings.report(compared)


def _by_key(manager: str, facts: Facts) -> dict[_Key, SystemPackage]:
    """Key packages by name and architecture; of conda by environment instead, builds may change."""
    found: dict[_Key, SystemPackage] = {}
    for package in facts.packages:
        if package.manager != manager:
            continue
        if manager == CONDA:
            environment = package.path.rpartition("/conda-meta/")[0] or "/"
            found[package.name, "", environment] = package
        else:
            found[package.name, package.architecture, ""] = package
    return found


def _compare(
    locked: SystemPackage, found: SystemPackage | None, evidence: Evidence, findings: Findings
) -> None:
    held = is_held(locked)
    layer = _layer_of(evidence, found.path if found else locked.path)
    place = evidence.place(found.path if found else locked.path, layer)
    on_hold = "; it was on hold in the base" if held else ""
    if found is None:
        if is_installed(locked):
            findings.fail(
                "removed",
                locked.name,
                f"the base's `{locked.name}:{locked.architecture}` is gone{on_hold}",
                locked=locked.version,
                found="nothing",
                place=place,
            )
        return
    if (found.version, found.architecture) != (locked.version, locked.architecture):
        findings.fail(
            "version-moved",
            locked.name,
            f"the base's `{locked.name}` has another version or build{on_hold}",
            locked=f"{locked.version} {locked.architecture}",
            found=f"{found.version} {found.architecture}",
            place=place,
            hint="install with `--no-upgrade` or exact versions; `apt-get upgrade` moves everything",
        )
    if found.state != locked.state:
        word = "released" if held and not is_held(found) else "changed"
        add = findings.note if _both_fine(locked, found) and not held else findings.fail
        add(
            "state-moved",
            locked.name,
            f"the state of `{locked.name}` {word}: only the third word `installed` means installed",
            locked=locked.state,
            found=found.state,
            place=place,
        )


def _both_fine(locked: SystemPackage, found: SystemPackage) -> bool:
    """Say whether a package is installed as before, and only what is wanted of it changed."""
    return is_installed(locked) and is_installed(found)


def _judge_added(package: SystemPackage, evidence: Evidence, findings: Findings) -> None:
    place = evidence.place(package.path, _layer_of(evidence, package.path))
    if not is_installed(package):
        findings.note(
            "not-installed",
            package.name,
            f"`{package.name}` is known and not installed",
            found=f"{package.version} ({package.state})",
            place=place,
        )
        return
    findings.note(
        "added",
        package.name,
        f"`{package.name}:{package.architecture}` was added; the lock does not hold system packages",
        locked="nothing",
        found=package.version,
        place=place,
    )


def _judge_content(evidence: Evidence, findings: Findings) -> None:
    """Compare what added packages brought with what they recorded of it."""
    touched = [change.path for change in evidence.changes]
    for path, package, recorded, real in altered(
        evidence.tree, evidence.collector, evidence.facts.packages, touched
    ):
        findings.fail(
            "altered",
            package,
            f"`{path}` is not the file that {package} shipped",
            locked=f"md5 {recorded}",
            found=f"md5 {real}",
            place=evidence.place(path, _layer_of(evidence, path)),
            hint="a step changed it after the package was installed",
        )


def _say_unread(evidence: Evidence, findings: Findings) -> None:
    for path in OTHER_DATABASES:
        if evidence.tree.get(path) is not None:
            findings.note(
                "unknown-database",
                path,
                "the image has a package database that is not read: these packages are unknown",
                place=evidence.place(path, 0),
            )


def _layer_of(evidence: Evidence, path: str) -> int:
    node = evidence.tree.get(path)
    return node.layer if node is not None else evidence.tree.removed_by(path)
