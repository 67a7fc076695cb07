"""``python.pins``: is each of the base's distributions still there, once, as it was."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from imagegate.catalog.freeze import freeze, same_origin
from imagegate.catalog.python import recorded_files
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import Evidence, key_of, label_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from imagegate.facts import Distribution
    from imagegate.verdict import CheckReport


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("python.pins")
    locked = _by_name(evidence.lock.base.facts.distributions)
    found = _by_name(evidence.facts.distributions)
    for name, pins in sorted(locked.items()):
        _compare(name, pins, found.get(name, []), evidence, findings)
    known = set(evidence.lock.base.facts.remnants)
    for remnant in evidence.facts.remnants:
        if remnant not in known:
            node = evidence.tree.get(remnant.path)
            findings.note(
                "remnant",
                remnant.path,
                f"a metadata folder names no distribution: {remnant.reason}",
                place=evidence.place(remnant.path, node.layer if node else 0),
            )
    _compare_freeze(evidence, findings)
    if not locked:
        return findings.report((), nothing_because="the base has no Python distribution")
    return findings.report(
        f"{pin.name}: locked={pin.version} found={_versions(found.get(name, []))}"
        for name, pins in sorted(locked.items())
        for pin in pins
    )


def _compare(
    name: str,
    locked: list[Distribution],
    found: list[Distribution],
    evidence: Evidence,
    findings: Findings,
) -> None:
    known = {pin.path: pin for pin in locked}
    here = {pin.path: pin for pin in found}
    gone = [pin for path, pin in known.items() if path not in here]
    fresh = [pin for path, pin in here.items() if path not in known]
    for pin in gone:
        successor = next((other for other in fresh if other.site == pin.site), None)
        path = successor.path if successor else pin.path
        if successor is not None:
            fresh.remove(successor)
        findings.fail(
            "version-moved"
            if successor and successor.version != pin.version
            else "metadata-moved"
            if successor
            else "removed",
            name,
            f"the base's `{pin.name}` is no longer what it was",
            locked=pin.version,
            found=successor.version if successor else "nothing",
            place=evidence.place(path, _layer_of(evidence, path)),
            hint="hold it while the layer is installed, or take a base that has the version",
        )
    for pin in fresh:
        real = ", ".join(_files_there(one, evidence) for one in (*known.values(), pin))
        findings.fail(
            "second-copy",
            name,
            f"a second `{pin.name}` stands beside the base's; which version is told is not defined. "
            f"Of the recorded files are there: {real}",
            locked=_versions(locked),
            found=f"{pin.version} in `{pin.path}`",
            place=evidence.place(pin.path, _layer_of(evidence, pin.path)),
        )
    for path in known.keys() & here.keys():
        _compare_same_path(name, known[path], here[path], evidence, findings)


def _files_there(pin: Distribution, evidence: Evidence) -> str:
    """Say how many of the files that a copy recorded are in the image with the recorded bytes."""
    base = any(pin.path == one.path for one in evidence.lock.base.facts.distributions)
    if base:
        label = label_of(pin)
        total = evidence.base_owners.get(label, 0)
        lost = sum(
            1
            for c in evidence.changes
            if c.before is not None
            and c.before.owner == label
            and not (c.after is not None and c.before.same_content(c.after))
        )
        return f"{total - lost} of {total} of {pin.version}"
    hashed = [
        (evidence.tree.get(path), recorded)
        for path, recorded in recorded_files(evidence.tree, evidence.collector, pin)
        if recorded
    ]
    there = sum(1 for node, recorded in hashed if node is not None and node.sha256 == recorded)
    return f"{there} of {len(hashed)} of {pin.version}"


def _compare_same_path(
    name: str, locked: Distribution, found: Distribution, evidence: Evidence, findings: Findings
) -> None:
    if (locked.version, locked.direct_url) == (found.version, found.direct_url):
        return
    place = evidence.place(locked.path, _layer_of(evidence, locked.path))
    if locked.version != found.version:
        findings.fail(
            "version-moved",
            name,
            f"the base's `{locked.name}` has another version",
            locked=locked.version,
            found=found.version,
            place=place,
        )
    if locked.direct_url != found.direct_url:
        same = same_origin(locked.direct_url, found.direct_url)
        add = findings.note if same else findings.fail
        add(
            "origin-path" if same else "origin-moved",
            name,
            f"`direct_url.json` of `{locked.name}` names another path of the machine that built it"
            if same
            else f"`direct_url.json` of `{locked.name}` says another origin",
            locked=locked.direct_url or "an index",
            found=found.direct_url or "an index",
            place=place,
        )


def _compare_freeze(evidence: Evidence, findings: Findings) -> None:
    """Require every line of the locked ``pip freeze`` in the merged system's."""
    python = evidence.recipe.python.version
    before = {pin.path: pin for pin in evidence.lock.base.facts.distributions}
    # a line that differs in the path of the machine that built it alone is the same pin
    found = [
        replace(pin, direct_url=before[pin.path].direct_url)
        if pin.path in before and same_origin(before[pin.path].direct_url, pin.direct_url)
        else pin
        for pin in evidence.facts.distributions
    ]
    # git in the image changes what pip prints of a checkout, and not the checkout
    program = {one.path: one.program for one in evidence.lock.base.facts.checkouts}
    checkouts = [
        replace(one, program=program.get(one.path, one.program)) for one in evidence.facts.checkouts
    ]
    present = set(freeze(found, python, evidence.sites, checkouts).splitlines())
    base = evidence.lock.base.facts
    locked = freeze(base.distributions, python, evidence.base_sites, base.checkouts)
    for line in locked.splitlines():
        if line not in present:
            findings.fail(
                "freeze-moved",
                line.split("==")[0],
                "`pip freeze` no longer prints a line of the base",
                locked=line,
                found="nothing like it",
                cause=line.split("==")[0],
            )


def _by_name(distributions: Iterable[Distribution]) -> dict[str, list[Distribution]]:
    grouped: dict[str, list[Distribution]] = defaultdict(list)
    for distribution in distributions:
        grouped[key_of(distribution)].append(distribution)
    return grouped


def _versions(distributions: Iterable[Distribution]) -> str:
    return ", ".join(sorted(pin.version for pin in distributions)) or "nothing"


def _layer_of(evidence: Evidence, path: str) -> int:
    """Return the layer that last touched a metadata folder."""
    touched = [c.layer for c in evidence.changes if c.path == path or c.path.startswith(f"{path}/")]
    return max(touched, default=0)


CHECK = Check(
    id="python.pins",
    question="is each distribution of the base still there, once, with its version and origin",
    why="a pin that moves changes numbers or hangs collectives; nothing fails to build",
    fix="resolve the layer against the base as fixed; `imagegate lock` does",
    judge=_judge,
    revision=1,
)
