"""``python.metadata``: does ``importlib.metadata`` find what it found in the base, and the lock."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from imagegate.catalog.python import site_of
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from imagegate.checks.image.evidence import Change, Evidence
    from imagegate.rootfs import FileTree
    from imagegate.verdict import CheckReport

# what importlib.metadata takes for a distribution, wherever on the path (``FastPath``, ``Lookup``)
_METADATA = re.compile(r"[^/]+\.(?:dist-info|egg-info|egg)", re.IGNORECASE)


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("python.metadata")
    before: set[str] = set()
    now: set[str] = set()
    for base, image in evidence.interpreters:
        starts = evidence.python_starts
        before.update(base.order, (f for s in starts if (f := base.first(s)) is not None))
        now.update(image.order, (f for s in starts if (f := image.first(s)) is not None))
    told: set[str] = set()
    for folder, path in _touched(now, evidence):
        entry = f"{folder}/{path}".lstrip("/")
        if entry not in told:
            _judge_entry(entry, evidence, findings, told)
    for folder in sorted(now - before):
        for entry in _entries(folder, evidence.tree):
            if entry not in told:
                _judge_entry(entry, evidence, findings, told)
    return findings.report(f"`/{folder}`" for folder in sorted(now))


def _touched(folders: set[str], evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield folder and entry of each metadata that the layers brought or wrote into."""
    leads = [(folder, f"{folder}/" if folder else "") for folder in sorted(folders)]
    for change in evidence.changes:
        for folder, lead in leads:
            if change.path.startswith(lead):
                first = change.path[len(lead) :].partition("/")[0]
                if _METADATA.fullmatch(first):
                    yield folder, first


def _entries(folder: str, tree: FileTree) -> Iterator[str]:
    lead = f"{folder}/" if folder else ""
    found = {node.path[len(lead) :].partition("/")[0] for node in tree.under(folder)}
    yield from (lead + name for name in sorted(found) if _METADATA.fullmatch(name))


def _judge_entry(entry: str, evidence: Evidence, findings: Findings, told: set[str]) -> None:
    told.add(entry)
    inside = f"{entry}/"
    changed = [c for c in evidence.changes if c.path == entry or c.path.startswith(inside)]
    foreign = [
        change
        for change in changed
        if change.after is not None
        and change.after.kind is not Kind.DIRECTORY
        and not evidence.locked_owner(change.path)
    ]
    if changed and not foreign:
        return
    # in a site directory `python.locked` and `python.pins` compare every distribution that they can
    # read; Python also follows links, and takes entry points without any METADATA
    if site_of(entry) is not None and changed and _is_read(entry, evidence):
        _judge_points(entry, foreign, evidence, findings)
        return
    path, layer = (foreign[0].path, foreign[0].layer) if foreign else (entry, 0)
    findings.fail(
        "found",
        entry,
        "`importlib.metadata` finds a distribution that neither base nor lock has there: its "
        "version and its entry points count",
        locked="nothing",
        found=f"/{path}",
        place=evidence.place(path, layer),
        hint="plugins are loaded by entry points from every folder that Python searches",
    )


def _judge_points(
    entry: str, foreign: Sequence[Change], evidence: Evidence, findings: Findings
) -> None:
    """Refuse entry points that a layer gives to a distribution of the base which had none.

    Of a locked wheel `python.locked` says it, as of every file that the wheel does not have.
    """
    if evidence.base_tree.get(entry) is None:
        return
    for change in foreign:
        if change.before is None and change.path.rpartition("/")[2] == "entry_points.txt":
            findings.fail(
                "entry-points",
                entry,
                "a distribution gets entry points that its wheel did not have",
                locked="nothing",
                found=f"/{change.path}",
                place=evidence.place(change.path, change.layer),
                hint="plugins are loaded by entry points: bring them in by a locked wheel",
            )


def _is_read(entry: str, evidence: Evidence) -> bool:
    """Say whether it is one of the image's distributions, known by name and version."""
    return any(
        pin.path == entry or pin.path.startswith(f"{entry}/")
        for pin in evidence.facts.distributions
    )


CHECK = Check(
    id="python.metadata",
    question="does `importlib.metadata` find no distribution that neither base nor lock has",
    why="an entry point is enough to be imported by vLLM, and a version enough to be believed",
    fix="bring the distribution in by a locked wheel, or keep it out of the searched folders",
    judge=_judge,
    revision=2,
    rests_on=ON_THE_BASE,
)
