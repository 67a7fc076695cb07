"""What ``debian.pins`` and ``conda.pins`` ask of their packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.catalog.databases import digest_of
from imagegate.catalog.system import CONDA, DPKG, OTHER_DATABASES, altered, is_held, is_installed
from imagegate.catalog.watched import watched_place
from imagegate.checks.check import Findings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.checks.image.debian import Added
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
        if key not in before and not (manager == DPKG and is_installed(package)):
            _judge_added(package, evidence, findings)
    compared = [
        f"{name}:{architecture}: locked={package.version} ({package.state})"
        for (name, architecture, _), package in sorted(before.items())
    ]
    if manager == DPKG:
        _say_unread(evidence, findings)
        _judge_declared(before, evidence, findings)
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
        fine = _both_fine(locked, found) and not held
        findings.weigh(
            "state-moved",
            locked.name,
            f"the state of `{locked.name}` {word}: only the third word `installed` means installed",
            because="it is installed as before" if fine else "",
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


def _judge_declared(
    before: Mapping[_Key, SystemPackage], evidence: Evidence, findings: Findings
) -> None:
    """Require that each new package is declared with its version, and that its files are proven."""
    debian = evidence.explained.debian
    declared = evidence.recipe.document.layer.debian.versions
    undeclared: dict[int, list[Added]] = {}
    for added in debian.added:
        if not added.declared:
            undeclared.setdefault(added.layer, []).append(added)
        for path in added.unproven:
            if evidence.allowed(path):
                continue
            findings.fail(
                "unproven",
                added.package.name,
                f"`/{path}` is listed by {added.label}, which records no MD5 of it: nothing proves "
                "that it is the package's",
                locked="nothing",
                found=_content_of(path, evidence),
                place=evidence.place(path, _layer_of(evidence, path)),
                cause=added.label,
            )
        named = [path for path in added.watched if not evidence.allowed(path)]
        if named and added.declared:
            _refuse_watched(added, named, evidence, findings)
    for layer, packages in sorted(undeclared.items()):
        _refuse_undeclared(layer, packages, declared, evidence, findings)
    there = {name for name, _, _ in before} | {one.package.name for one in debian.added}
    for name, version in sorted(declared.items()):
        if name not in there:
            findings.fail(
                "absent",
                name,
                "the recipe declares this package, and it is not installed",
                locked=version,
                found="nothing",
                hint="let the Dockerfile install it, or take it out of `[layer.debian] packages`",
            )
    for path, key, layer in debian.strange:
        findings.fail(
            "entry",
            key or path,
            f"`/{path}` has an entry that is neither the base's nor of a new package",
            locked="the base's entry",
            found=key or "an entry without a package",
            place=evidence.place(path, layer),
        )


def _refuse_watched(added: Added, paths: list[str], evidence: Evidence, findings: Findings) -> None:
    """Refuse what a declared package brings where programs obey it unasked, until it is named."""
    first = min(paths)
    listed = ", ".join(f"`/{path}`" for path in sorted(paths))
    content = "\n".join(f"{evidence.place(path, 0).content} {path}" for path in sorted(paths))
    findings.fail(
        "watched",
        added.package.name,
        f"{added.label} brings {watched_place(first)}: {listed}",
        locked="nothing",
        found=f"{len(paths)} path{'s' if len(paths) > 1 else ''}",
        place=evidence.place(first, _layer_of(evidence, first)),
        hint=f'name each in full under `[[layer.allow]]`: `pattern = "/{first}"`, with the reason',
        facts={"paths": digest_of(content)},
        cause=added.label,
    )


def _refuse_undeclared(
    layer: int,
    packages: list[Added],
    declared: Mapping[str, str],
    evidence: Evidence,
    findings: Findings,
) -> None:
    """Refuse the packages that one step installed, in one finding with the line to add."""
    labels = sorted(one.label for one in packages)
    names = ", ".join(sorted(one.package.name for one in packages))
    content = "\n".join(
        f"{evidence.place(path, 0).content} {path}"
        for path in sorted(path for one in packages for path in one.paths)
    )
    wanted = sorted(
        f"{one.package.name}={declared[one.package.name]}"
        for one in packages
        if one.package.name in declared
    )
    listed = ", ".join(f'"{label}"' for label in labels)
    findings.fail(
        "undeclared",
        names,
        f"{len(packages)} Debian package{'s were' if len(packages) > 1 else ' was'} installed that "
        "the recipe does not declare with this version",
        locked=", ".join(wanted) or "nothing",
        found=", ".join(labels),
        place=evidence.place(packages[0].package.path, layer),
        hint=f"add `packages = [{listed}]` under `[layer.debian]`, or take the step out",
        facts={"paths": digest_of(content)},
        cause=names,
    )


def _content_of(path: str, evidence: Evidence) -> str:
    node = evidence.tree.get(path)
    return node.sha256 or node.kind.name.lower() if node is not None else "nothing"


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
