"""``native.pins``: are the GPU libraries what they were, and do links lead where they led."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from typing import TYPE_CHECKING

from imagegate.catalog.components import BUNDLED
from imagegate.catalog.native import component_of, is_watched
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from imagegate.checks.image.evidence import Change, Evidence
    from imagegate.facts import NativeReading
    from imagegate.verdict import CheckReport


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("native.pins")
    locked = _by_path(evidence.lock.base.facts.native)
    found = _by_path(evidence.added_facts.native)
    known_links = {link.path: link for link in evidence.lock.base.facts.links}
    links = {link.path: link for link in evidence.facts.links}
    for change in evidence.changes:
        if change.path in locked:
            _judge_known(
                change, locked[change.path], found.get(change.path, []), evidence, findings
            )
        elif (
            change.path not in known_links and change.after is not None and is_watched(change.path)
        ):
            _judge_new(change, locked, evidence, findings)
    for path, link in sorted(known_links.items()):
        now = links.get(path)
        if now is None or (now.target, now.leads_to) != (link.target, link.leads_to):
            layer = next((c.layer for c in evidence.changes if c.path == path), 0)
            findings.fail(
                "link-moved",
                component_of(path),
                f"the link `{path}` leads elsewhere",
                locked=f"{link.target} ({link.leads_to or 'nothing'})",
                found=f"{now.target} ({now.leads_to or 'nothing'})" if now else "no link",
                place=evidence.place(path, layer),
            )
    compared = [
        f"{r.component} by {r.source}: {r.value} in `{r.path}`"
        for r in evidence.lock.base.facts.native
    ]
    compared += [
        f"link `{path}` to `{link.leads_to}`" for path, link in sorted(known_links.items())
    ]
    if not compared:
        return findings.report((), nothing_because="the base has no library that is watched")
    return findings.report(compared)


def _judge_known(
    change: Change,
    locked: list[NativeReading],
    found: list[NativeReading],
    evidence: Evidence,
    findings: Findings,
) -> None:
    place = evidence.place(change.path, change.layer)
    if change.after is None or change.after.kind is not Kind.FILE:
        became = f"a link to `{change.after.target}`" if change.after else "nothing"
        findings.fail(
            "replaced" if change.after else "removed",
            locked[0].component,
            f"`{change.path}` is no longer the base's file",
            locked=_values(locked),
            found=became,
            place=place,
        )
        return
    now = {(reading.component, reading.source): reading.value for reading in found}
    for reading in locked:
        value = now.get((reading.component, reading.source), "")
        if value != reading.value:
            findings.fail(
                "moved",
                reading.component,
                f"{reading.component} by {reading.source} is not the base's",
                locked=reading.value,
                found=value or "nothing",
                place=place,
                hint="the same version with another build id or hash is another build",
            )


def _judge_new(
    change: Change,
    locked: dict[str, list[NativeReading]],
    evidence: Evidence,
    findings: Findings,
) -> None:
    after = change.after
    assert after is not None
    component = component_of(change.path)
    place = evidence.place(change.path, change.layer)
    if after.kind is Kind.SYMLINK:
        if evidence.links.get(change.path) == after.target:
            findings.note(
                "declared-link",
                component,
                "a link that the recipe declares",
                found=after.target,
                place=place,
            )
        else:
            findings.fail(
                "new-link",
                component,
                "a new link to a watched library can change which one is loaded",
                locked="nothing",
                found=after.target,
                place=place,
                hint="declare it under `[[layer.links]]` if it is meant",
            )
        return
    copies = [path for path in locked if component_of(path) == component and ".so" in path]
    if not copies or after.kind is not Kind.FILE or ".so" not in change.path:
        return
    same = any(
        node is not None and node.sha256 == after.sha256
        for node in (evidence.lock.files.get(path) for path in copies)
    )
    # auditwheel gives a bundled library a name of its own: nothing else can ask for it
    private = bool(BUNDLED.search(posixpath.basename(change.path).split(".so", 1)[0]))
    private = private and bool(evidence.locked_owner(change.path))
    add = findings.note if same or private else findings.fail
    add(
        "second-copy",
        component,
        f"another copy of {component} was added"
        + (" with the same bytes" if same else "")
        + (" under a name that only its own wheel asks for" if private else ""),
        locked=", ".join(copies),
        found=change.path,
        place=place,
    )


def _by_path(readings: Iterable[NativeReading]) -> dict[str, list[NativeReading]]:
    grouped: dict[str, list[NativeReading]] = defaultdict(list)
    for reading in readings:
        grouped[reading.path].append(reading)
    return grouped


def _values(readings: Iterable[NativeReading]) -> str:
    return ", ".join(f"{reading.source}={reading.value}" for reading in readings)


CHECK = Check(
    id="native.pins",
    question="is each GPU library the base's by version string, build id, hash and link",
    why="two nodes with different builds of one NCCL version hang in a collective",
    fix="find the step in the message; libraries come with the base, not with the layer",
    judge=_judge,
    revision=2,
    rests_on=ON_THE_BASE,
)
