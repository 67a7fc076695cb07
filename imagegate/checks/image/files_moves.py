"""``files.moves``: what the added layers did to paths of the base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.catalog.databases import main_of
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import (
    ON_THE_BASE,
    Change,
    Evidence,
    is_distributions,
)
from imagegate.checks.image.explained import By
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from imagegate.rootfs import LayerIrregularity, Node
    from imagegate.verdict import CheckReport

_SPECIAL_BITS = 0o6000
_READ_OR_RUN = 0o555
_WRITE_OF_OTHERS = 0o022
_READ_OF_OTHERS = 0o004
_WRITE_OF_ALL = 0o002
_FOR_ALL = ("etc/passwd", "etc/group", "etc/subuid", "etc/subgid")
_STICKY = 0o1000
# the label is the host's: runtimes write their own (containers/storage, "relabel")
_OF_THE_HOST = "security.selinux"
# what is proven by its content has to keep it
_PROVEN = (By.WHEEL, By.INSTALLER, By.PACKAGE, By.FOLDER)
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
    moved = rewritten = 0
    for change in evidence.changes:
        if change.before is None:
            _judge_new(change, evidence, findings)
        else:
            moved += 1
            rewritten += _judge_base_path(change, evidence, findings)
    for irregularity in evidence.tree.irregularities:
        _judge_irregularity(irregularity, evidence, findings)
    if rewritten:
        findings.note(
            "rewritten",
            "files of the base",
            f"{rewritten} files of the base were written again with the same bytes",
        )
    if not evidence.changes:
        findings.fail("nothing-added", evidence.recipe.name, "the added layers hold no path")
    return findings.report([f"{len(evidence.lock.files)} paths of the base: {moved} touched"])


def _judge_base_path(change: Change, evidence: Evidence, findings: Findings) -> int:
    """Judge a path of the base; returns 1 for a file that has the same bytes again."""
    before, after = change.before, change.after
    assert before is not None
    place = evidence.place(change.path, change.layer)
    explained = evidence.explained.by.get(change.path)
    cause = before.owner
    if after is None:
        if _is_deleted(change, evidence) and explained is None:
            findings.fail(
                "deleted",
                change.path,
                f"a path of {before.owner or 'the base'} was deleted",
                locked=before.sha256 or before.target or before.kind.name.lower(),
                found="nothing",
                place=place,
                cause=cause,
            )
        return 0
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
            cause=cause,
        )
        return 0
    if before.kind in (Kind.CHARACTER, Kind.BLOCK):
        findings.fail(
            "device",
            change.path,
            "a device of the base was written again; which device it is now is not known",
            locked="the base's device",
            found=after.kind.name.lower(),
            place=place,
        )
        return 0
    if before.same_content(after) or (explained is not None and before.kind is Kind.FILE):
        _judge_attributes(change, evidence, findings)
        return int(
            before.kind is Kind.FILE and before.same_content(after) and not is_distributions(before)
        )
    if before.kind is Kind.SYMLINK:
        if explained is None:
            findings.fail(
                "retargeted",
                change.path,
                "a link of the base leads elsewhere",
                locked=before.target,
                found=after.target,
                place=place,
                cause=cause,
            )
    elif not is_distributions(before):
        findings.fail(
            "overwritten",
            change.path,
            f"a file of {before.owner or 'the base'} has other bytes",
            locked=before.sha256,
            found=after.sha256,
            place=place,
            cause=cause,
        )
    return 0


def _is_deleted(change: Change, evidence: Evidence) -> bool:
    """Say whether a deleted path is this check's: of a folder, what it held is told instead."""
    assert change.before is not None
    if change.before.kind is Kind.DIRECTORY:
        return next(evidence.lock.files.under(change.path), None) is None
    # what a distribution owns is `python.content`'s to say
    return not is_distributions(change.before)


def _judge_attributes(change: Change, evidence: Evidence, findings: Findings) -> None:
    """Compare mode, owner and attributes of a path of the base that is still what it was."""
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
            cause=before.owner,
        )
    if before.capabilities != after.capabilities:
        findings.fail(
            "capability",
            change.path,
            "the file capabilities of a path of the base changed",
            locked=before.capabilities or "none",
            found=after.capabilities or "none",
            place=place,
            cause=before.owner,
        )
    _judge_extended(before.attributes, change, evidence, findings)
    if (before.mode, before.uid, before.gid) == (after.mode, after.uid, after.gid):
        return
    lost = before.mode & ~after.mode & _READ_OR_RUN
    gained = after.mode & ~before.mode & _WRITE_OF_OTHERS
    moved = (before.uid, before.gid) != (after.uid, after.gid)
    again = before.kind is Kind.DIRECTORY and not (lost or gained or moved)
    shown = (
        before.kind is Kind.FILE
        and after.mode & ~before.mode & _READ_OF_OTHERS
        # useradd gives its backups the mode of what they are of
        and main_of(change.path) not in _FOR_ALL
    )
    said = [
        *(["others may read it"] if shown else []),
        *(["it lost the permission to be read or run"] if lost else []),
        *(["others may write to it"] if gained else []),
        *(["it belongs to somebody else"] if moved else []),
        *(["a folder that is there again has to be the base's"] if again else []),
    ]
    findings.weigh(
        "attributes",
        change.path,
        f"owner or mode of a path of the base changed{': ' if said else ''}{', '.join(said)}",
        because="" if said else "nobody loses or gains what matters",
        locked=f"{before.mode:o} {before.uid}:{before.gid}",
        found=f"{after.mode:o} {after.uid}:{after.gid}",
        place=place,
        hint="take the chmod or chown out of the step, or limit it to what the layer adds",
        cause=before.owner,
    )


def _judge_extended(
    known: tuple[tuple[str, str], ...], change: Change, evidence: Evidence, findings: Findings
) -> None:
    """Refuse extended attributes and ACLs that the base's path does not have."""
    assert change.after is not None
    if change.after.attributes == known:
        return
    for name, value in sorted(set(change.after.attributes) ^ set(known)):
        before, after = dict(known).get(name), dict(change.after.attributes).get(name)
        if before is not None and (name, value) not in known:
            continue  # told with the base's value
        findings.weigh(
            "attribute",
            change.path,
            f"the attribute `{name}` is not the base's"
            if change.before is not None
            else f"a new path has the attribute `{name}`",
            because="runtimes write their own label" if name == _OF_THE_HOST else "",
            locked=before or "nothing",
            found=after or "nothing",
            place=evidence.place(change.path, change.layer),
            cause=change.before.owner if change.before is not None else "",
        )


def _is_conspicuous(node: Node) -> bool:
    """Say whether there is anything to judge about a new path beside its explanation."""
    return bool(
        node.mode & (_SPECIAL_BITS | _WRITE_OF_ALL)
        or node.capabilities
        or node.attributes
        or node.kind in (Kind.CHARACTER, Kind.BLOCK)
    )


def _judge_new(change: Change, evidence: Evidence, findings: Findings) -> None:
    """Judge what no explanation excuses: rights, devices, attributes."""
    after = change.after
    if after is None or not _is_conspicuous(after):
        return
    place = evidence.place(change.path, change.layer)
    if after.kind is Kind.FILE and after.mode & _SPECIAL_BITS:
        findings.fail(
            "setuid",
            change.path,
            "a new file runs with another's rights",
            locked="nothing",
            found=f"{after.mode:o}",
            place=place,
        )
    if after.capabilities:
        findings.fail(
            "capability",
            change.path,
            "a new file has file capabilities",
            locked="nothing",
            found=after.capabilities,
            place=place,
        )
    if after.mode & _WRITE_OF_ALL and not after.mode & _STICKY and after.kind is not Kind.SYMLINK:
        findings.weigh(
            "writable",
            change.path,
            "everybody in a container may write to what a layer adds",
            because=""
            if evidence.explained.by.get(change.path) in _PROVEN
            else "nothing promises its content",
            locked="nothing",
            found=f"{after.mode:o}",
            place=place,
            hint="copy with `--chmod`, or set the umask of the step",
        )
    if after.kind in (Kind.CHARACTER, Kind.BLOCK):
        findings.fail(
            "device",
            change.path,
            "a layer adds a device",
            locked="nothing",
            found=after.kind.name.lower(),
            place=place,
        )
    _judge_extended((), change, evidence, findings)


def _judge_irregularity(
    irregularity: LayerIrregularity, evidence: Evidence, findings: Findings
) -> None:
    fails, message = _IRREGULARITIES[irregularity.code]
    findings.weigh(
        irregularity.code,
        irregularity.path,
        message,
        because="" if fails else "runtimes agree on what it means",
        found=irregularity.detail,
        place=evidence.place(irregularity.path, irregularity.layer),
    )


CHECK = Check(
    id="files.moves",
    question="which paths of the base were overwritten, deleted, retargeted or changed in type",
    why="a folder in the place of `/lib`, or a link that leads elsewhere, breaks what nothing lists",
    fix="find the step in the message and keep it from writing there",
    judge=_judge,
    revision=2,
    rests_on=ON_THE_BASE,
)
