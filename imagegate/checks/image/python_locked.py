"""``python.locked``: is everything that was added what the lock says, byte for byte."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog.launchers import EntryPoint, parse_entry_points, parse_launcher
from imagegate.catalog.python import COMPILED, recorded_files, site_of
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import INSTALLERS_OWN, ON_THE_BASE, Change, Evidence, key_of
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from imagegate.rootfs import Node
    from imagegate.verdict import CheckReport


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("python.locked")
    missing = _judge_distributions(evidence, findings)
    counts: dict[str, _Count] = {wheel.label: _Count() for wheel in evidence.lock.wheels}
    for node in evidence.lock.layer:
        count = counts.setdefault(node.owner, _Count())
        if node.owner.partition("==")[0] in missing and evidence.tree.get(node.path) is None:
            count.all += 1  # told by the distribution
        else:
            _judge_locked_path(node, evidence, findings, count)
    _judge_records(evidence, findings)
    for change in evidence.changes:
        _judge_added_path(change, evidence, findings)
    if not counts:
        return findings.report(
            () if evidence.changes else ("no path was added",),
            nothing_because="the lock adds no distribution",
        )
    return findings.report(
        f"{label}: {count.same} of {count.all} files are the locked wheel's"
        + (f", {count.generated} generated ones call the same" if count.generated else "")
        for label, count in sorted(counts.items())
    )


@dataclass(slots=True)
class _Count:
    """How many of a wheel's files were compared."""

    all: int = 0
    same: int = 0
    generated: int = 0


def _judge_distributions(evidence: Evidence, findings: Findings) -> frozenset[str]:
    """Compare the added distributions with the locked ones; returns the locked ones not there."""
    locked = {wheel.name: wheel.version for wheel in evidence.lock.wheels}
    base = {pin.path for pin in evidence.lock.base.facts.distributions}
    added = [pin for pin in evidence.facts.distributions if pin.path not in base]
    base_names = {key_of(pin) for pin in evidence.lock.base.facts.distributions}
    for pin in added:
        name = key_of(pin)
        place = evidence.place(pin.path, _layer(evidence, pin.path))
        if name not in locked:
            if name not in base_names:  # a moved pin of the base is `python.pins`' to say
                findings.fail(
                    "not-locked",
                    name,
                    f"`{pin.name}` was added and is not in the lock",
                    locked="nothing",
                    found=pin.version,
                    place=place,
                    hint="add it to requirements.in and lock again, or keep it out",
                )
        elif locked[name] != pin.version:
            findings.fail(
                "other-version",
                name,
                f"`{pin.name}` was added in another version than locked",
                locked=locked[name],
                found=pin.version,
                place=place,
            )
    here = {key_of(pin) for pin in added}
    for name in sorted(locked.keys() - here):
        findings.fail(
            "missing",
            name,
            f"the locked `{name}` is not in the image",
            locked=locked[name],
            found="nothing",
            hint="build again from the lock",
            cause=name,
        )
    return frozenset(locked.keys() - here)


def _judge_locked_path(node: Node, evidence: Evidence, findings: Findings, count: _Count) -> None:
    """Compare one file of a locked wheel with what the image has at its path."""
    count.all += 1
    found = evidence.tree.get(node.path)
    if found is None:
        if posixpath.basename(node.path) not in INSTALLERS_OWN:
            findings.fail(
                "file-missing",
                node.owner,
                f"a file of {node.owner} is not in the image",
                locked=node.sha256,
                found="nothing",
                place=evidence.place(node.path, 0),
            )
        return
    if found.sha256 == node.sha256 and found.kind is node.kind:
        count.same += 1
        if found.mode & 0o111 != node.mode & 0o111:
            findings.note(
                "mode",
                node.owner,
                "the permission to execute is not the wheel's",
                locked=f"{node.mode:o}",
                found=f"{found.mode:o}",
                place=evidence.place(node.path, found.layer),
            )
    elif _is_generated(node, found, evidence):
        count.generated += 1
    else:
        findings.fail(
            "file-differs",
            node.owner,
            f"a file of {node.owner} is not the locked wheel's",
            locked=node.sha256,
            found=found.sha256 or found.target or found.kind.name.lower(),
            place=evidence.place(node.path, found.layer),
        )


def _judge_records(evidence: Evidence, findings: Findings) -> None:
    """Refuse a RECORD that claims files which the locked wheel does not install.

    Who uninstalls or repairs the distribution believes it.
    """
    locked = {(wheel.name, wheel.version): wheel.label for wheel in evidence.lock.wheels}
    base = {pin.path for pin in evidence.lock.base.facts.distributions}
    for pin in evidence.facts.distributions:
        label = locked.get((key_of(pin), pin.version))
        if label is None or pin.path in base:
            continue
        for path, _ in recorded_files(evidence.tree, evidence.collector, pin):
            known = evidence.lock.layer.get(path) is not None
            own = posixpath.dirname(path) == pin.path and posixpath.basename(path) in INSTALLERS_OWN
            if known or own or path.endswith(".pyc"):
                continue
            node = evidence.tree.get(f"{pin.path}/RECORD")
            findings.fail(
                "record",
                label,
                f"RECORD of {label} claims `/{path}`, which the locked wheel does not install",
                locked="nothing",
                found=path,
                place=evidence.place(f"{pin.path}/RECORD", node.layer if node else 0),
                cause=label,
            )


def _is_generated(node: Node, found: Node, evidence: Evidence) -> bool:
    """Say whether a file may differ because every installer writes its own form of it."""
    folder, _, name = node.path.rpartition("/")
    if folder.endswith(".dist-info") and name in INSTALLERS_OWN:
        return evidence.is_installers_own(found)
    content = evidence.collector.extract("launcher", found)
    launcher = parse_launcher(content) if content is not None else None
    if launcher is None:
        return False
    entry_points = _entry_points_of(node.owner, evidence)
    expected = entry_points.get(name)
    interpreter = evidence.recipe.python.interpreter
    return expected == launcher.entry_point and _same_python(
        launcher.interpreter, interpreter, evidence
    )


def _entry_points_of(owner: str, evidence: Evidence) -> dict[str, EntryPoint]:
    """Read the entry points of a locked wheel out of the image, if they are the locked ones."""
    for node in evidence.lock.layer:
        if node.owner == owner and node.path.endswith(".dist-info/entry_points.txt"):
            content = evidence.collector.extract("entry points", node)
            return parse_entry_points(content) if content is not None else {}
    return {}


def _same_python(found: str, expected: str, evidence: Evidence) -> bool:
    """Say whether a launcher starts the recipe's interpreter, under whichever of its names."""
    if found == expected:
        return True
    real = evidence.tree.resolve(found), evidence.tree.resolve(expected)
    if real[1] is not None or real[0] is not None:
        # an environment's program is a link to another's, and searches otherwise
        beside = posixpath.dirname(found) == posixpath.dirname(expected)
        return real[0] == real[1] and beside
    version = re.escape(evidence.recipe.python.version)
    named = re.fullmatch(rf"python(?:3|{version})?", posixpath.basename(found))
    return posixpath.dirname(found) == posixpath.dirname(expected) and named is not None


def _judge_added_path(change: Change, evidence: Evidence, findings: Findings) -> None:
    """Require that a new path where Python or the shell looks is explained."""
    after = change.after
    if after is None or change.before is not None or after.kind is Kind.DIRECTORY:
        return
    scripts = evidence.recipe.python.scripts.lstrip("/")
    if site_of(change.path) is None and posixpath.dirname(change.path) != scripts:
        return
    if evidence.lock.layer.get(change.path) is not None or change.path in evidence.links:
        return
    if change.path.endswith(COMPILED):
        return  # `python.bytecode` says everything of it
    if change.path in evidence.explained.by:
        return
    findings.fail(
        "file-not-locked",
        change.path,
        "a file was added where Python imports from, and no locked wheel has it",
        locked="nothing",
        found=after.sha256 or after.target,
        place=evidence.place(change.path, change.layer),
        hint="what belongs there comes from a locked wheel",
    )


def _layer(evidence: Evidence, path: str) -> int:
    node = evidence.tree.get(f"{path}/METADATA") or evidence.tree.get(path)
    return node.layer if node else 0


CHECK = Check(
    id="python.locked",
    question="is everything that was added in the lock, and each file the locked wheel's",
    why="what is not locked was not resolved against the base and nobody has seen its bytes",
    fix="add it to requirements.in and lock again, or keep it out of the build",
    judge=_judge,
    revision=1,
    rests_on=ON_THE_BASE,
)
