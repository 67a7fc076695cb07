"""``files.moves``: what the added layers did to paths of the base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import Change, Evidence, is_distributions
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from imagegate.rootfs import LayerIrregularity
    from imagegate.verdict import CheckReport

_SPECIAL_BITS = 0o6000
# what each irregularity of a layer means, and whether it fails the verdict
_IRREGULARITIES = {
    "duplicate-path": (
        True,
        "malformed layer: two different entries of one path; runtimes differ in which they take",
    ),
    "repeated-path": (False, "malformed layer: one entry stands twice"),
    "whiteout-of-nothing": (False, "a whiteout hides nothing"),
    "through-link": (
        True,
        "an entry is written through a link; some runtimes replace the link by a folder",
    ),
    "link-before-target": (
        True,
        "a hard link stands in front of what it names; runtimes link what is there at that moment",
    ),
    "link-attributes": (
        True,
        "a hard link changes mode, owner or attributes of the file that it names",
    ),
    "file-as-parent": (True, "an entry has a file as its parent folder"),
}


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("files.moves")
    added = moved = 0
    unexplained: list[str] = []
    for change in evidence.changes:
        if change.before is None:
            added += 1
            if _judge_new(change, evidence, findings):
                unexplained.append(change.path)
        else:
            moved += 1
            _judge_base_path(change, evidence, findings)
    for irregularity in evidence.tree.irregularities:
        _judge_irregularity(irregularity, evidence, findings)
    if unexplained:
        listed = ", ".join(f"`{path}`" for path in unexplained[:5])
        more = f" and {len(unexplained) - 5} more" if len(unexplained) > 5 else ""
        findings.note(
            "outside-lock",
            "new files",
            f"{len(unexplained)} new files are neither of a locked wheel nor assets: {listed}{more}",
        )
    if not evidence.changes:
        findings.fail("nothing-added", evidence.recipe.name, "the added layers hold no path")
    base = f"{len(evidence.lock.files)} paths of the base"
    return findings.report([f"{base}: {moved} touched; {added} paths added"])


def _judge_base_path(change: Change, evidence: Evidence, findings: Findings) -> None:
    before, after = change.before, change.after
    assert before is not None
    place = evidence.place(change.path, change.layer)
    if after is None:
        # what a distribution owns is `python.content`'s to say, unless it is a whole folder
        if not is_distributions(before) and before.kind is not Kind.DIRECTORY:
            findings.fail(
                "deleted",
                change.path,
                f"a path of {before.owner or 'the base'} was deleted",
                locked=before.sha256 or before.target or before.kind.name.lower(),
                found="nothing",
                place=place,
            )
        return
    if before.kind is not after.kind:
        hidden = 0
        if before.kind is Kind.SYMLINK:
            # `/lib -> usr/lib` that becomes a folder: what was reached as `/lib/…` is so no longer
            behind = evidence.base_tree.resolve(change.path)
            hidden = sum(1 for _ in evidence.lock.files.under(behind)) if behind else 0
        findings.fail(
            "type-changed",
            change.path,
            f"a {before.kind.name.lower()} of the base became a {after.kind.name.lower()}"
            + (f"; {hidden} files of the base are no longer reached through it" if hidden else ""),
            locked=before.target or before.sha256 or before.kind.name.lower(),
            found=after.target or after.sha256 or after.kind.name.lower(),
            place=place,
        )
    elif before.kind is Kind.SYMLINK and before.target != after.target:
        findings.fail(
            "retargeted",
            change.path,
            "a link of the base leads elsewhere",
            locked=before.target,
            found=after.target,
            place=place,
        )
    elif not before.same_content(after):
        if not is_distributions(before):
            findings.fail(
                "overwritten",
                change.path,
                f"a file of {before.owner or 'the base'} has other bytes",
                locked=before.sha256,
                found=after.sha256,
                place=place,
            )
    else:
        _judge_attributes(change, evidence, findings)


def _judge_attributes(change: Change, evidence: Evidence, findings: Findings) -> None:
    """Compare owner, mode and capabilities of a path whose content did not change."""
    before, after = change.before, change.after
    assert before is not None
    assert after is not None
    place = evidence.place(change.path, change.layer)
    if after.mode & _SPECIAL_BITS & ~before.mode:
        findings.fail(
            "setuid",
            change.path,
            "a path of the base runs with another's rights now",
            locked=f"{before.mode:o}",
            found=f"{after.mode:o}",
            place=place,
        )
    elif before.capabilities != after.capabilities:
        findings.fail(
            "capability",
            change.path,
            "the file capabilities of a path of the base changed",
            locked=before.capabilities or "none",
            found=after.capabilities or "none",
            place=place,
        )
    elif (before.mode, before.uid, before.gid) != (after.mode, after.uid, after.gid):
        findings.note(
            "attributes",
            change.path,
            "owner or mode of a path of the base changed",
            locked=f"{before.mode:o} {before.uid}:{before.gid}",
            found=f"{after.mode:o} {after.uid}:{after.gid}",
            place=place,
        )
    elif before.kind is Kind.FILE and not is_distributions(before):
        findings.note(
            "rewritten",
            change.path,
            "a file of the base was written again with the same bytes",
            place=place,
        )


def _judge_new(change: Change, evidence: Evidence, findings: Findings) -> bool:
    """Judge a new path; returns whether nothing in the lock explains it."""
    after = change.after
    if after is None or after.kind is Kind.DIRECTORY:
        return False
    if after.kind is Kind.FILE and after.mode & _SPECIAL_BITS:
        findings.fail(
            "setuid",
            change.path,
            "a new file runs with another's rights",
            locked="nothing",
            found=f"{after.mode:o}",
            place=evidence.place(change.path, change.layer),
        )
    if after.capabilities:
        findings.fail(
            "capability",
            change.path,
            "a new file has file capabilities",
            locked="nothing",
            found=after.capabilities,
            place=evidence.place(change.path, change.layer),
        )
    if after.kind in (Kind.CHARACTER, Kind.BLOCK):
        findings.fail(
            "device",
            change.path,
            "a layer adds a device",
            locked="nothing",
            found=after.kind.name.lower(),
            place=evidence.place(change.path, change.layer),
        )
    if evidence.lock.layer.get(change.path) is not None or change.path in evidence.links:
        return False
    return all(asset.target != change.path for asset in evidence.lock.assets)


def _judge_irregularity(
    irregularity: LayerIrregularity, evidence: Evidence, findings: Findings
) -> None:
    fails, message = _IRREGULARITIES[irregularity.code]
    add = findings.fail if fails else findings.note
    add(
        irregularity.code,
        irregularity.path,
        message,
        found=irregularity.detail,
        place=evidence.place(irregularity.path, irregularity.layer),
    )


CHECK = Check(
    id="files.moves",
    question="which paths of the base were overwritten, deleted, retargeted or changed in type",
    why="a folder in the place of `/lib`, or a link that leads elsewhere, breaks what nothing lists",
    fix="find the step in the message and keep it from writing there",
    judge=_judge,
    revision=1,
)
