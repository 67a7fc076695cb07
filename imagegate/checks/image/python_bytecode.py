"""``python.bytecode``: is all compiled Python the base's or a locked wheel's."""

from __future__ import annotations

import posixpath
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.catalog.python import COMPILED, bytecode_source
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from imagegate.checks.image.evidence import Change, Evidence
    from imagegate.rootfs import Node
    from imagegate.verdict import CheckReport

# flags of PEP 552: 0 is compared with the source's time and size, 3 with its hash
_COMPARED = (0, 3)
_UNPROVEN_HINT = (
    "install with `pip install --no-compile` and set `PYTHONDONTWRITEBYTECODE=1`, or accept it "
    "under `[[layer.allow]]` with a pattern that ends in `.pyc`"
)


@dataclass(slots=True)
class _Group:
    """Bytecode of one owner."""

    unproven: list[Change] = field(default_factory=list)
    unchecked: list[Change] = field(default_factory=list)
    gone: list[Change] = field(default_factory=list)
    lost: list[Change] = field(default_factory=list)
    allowed: int = 0
    reinstalled: int = 0
    deleted: int = 0
    proven: int = 0


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("python.bytecode")
    groups: dict[str, _Group] = defaultdict(_Group)
    for change in evidence.changes:
        if change.path.endswith(COMPILED) and not _is_folder(change):
            _sort(change, groups[_owner(change.path, evidence)], evidence)
    for owner, group in sorted(groups.items()):
        _report(owner, group, evidence, findings)
    deleted = sum(group.deleted for group in groups.values())
    if deleted:
        findings.note(
            "deleted",
            "bytecode",
            f"{deleted} bytecode files were deleted; Python compiles their sources again",
        )
    reinstalled = sum(group.reinstalled for group in groups.values())
    if reinstalled:
        findings.note(
            "reinstalled",
            "bytecode",
            f"{reinstalled} bytecode files were written again together with their unchanged "
            "sources and metadata; their code is not compared",
            hint="`pip install --no-compile` leaves them out",
        )
    total = sum(group.proven for group in groups.values())
    return findings.report(
        [f"{total} bytecode files of the layers are the base's or a locked wheel's"]
    )


def _is_folder(change: Change) -> bool:
    return all(
        node is None or node.kind is Kind.DIRECTORY for node in (change.before, change.after)
    )


def _owner(path: str, evidence: Evidence) -> str:
    """Name whose code it is: of its source's owner, else of the folder."""
    source = bytecode_source(path)
    for name in (source, path):
        for node in (evidence.lock.files.get(name), evidence.lock.layer.get(name)) if name else ():
            if node is not None and node.owner:
                return node.owner
    folder = posixpath.dirname(path)
    return f"/{posixpath.dirname(folder) if folder.endswith('__pycache__') else folder}"


def _sort(change: Change, group: _Group, evidence: Evidence) -> None:
    before, after = change.before, change.after
    source = bytecode_source(change.path)
    if after is None:
        # what has no source beside it is the module itself
        (group.lost if source is None else group.gone).append(change)
        group.deleted += source is not None
    elif (before is not None and before.same_content(after)) or evidence.locked_owner(change.path):
        group.proven += 1
    elif not _is_compared(after, evidence):
        group.unchecked.append(change)
    elif source is not None and before is not None and _is_reinstalled(source, change, evidence):
        group.reinstalled += 1
    elif evidence.allowed(change.path):
        group.allowed += 1
    else:
        group.unproven.append(change)


def _is_compared(node: Node, evidence: Evidence) -> bool:
    """Say whether Python compares it with its source before it runs it."""
    head = evidence.collector.extract("bytecode", node) or b""
    return len(head) >= 8 and struct.unpack_from("<I", head, 4)[0] in _COMPARED


def _is_reinstalled(source: str, change: Change, evidence: Evidence) -> bool:
    """Say whether a layer installed the distribution again: source and RECORD, bytes unchanged."""
    before, now = evidence.base_tree.get(source), evidence.tree.get(source)
    if before is None or now is None or not before.same_content(now) or now.layer != change.layer:
        return False
    pin = next(
        (
            one
            for one in evidence.lock.base.facts.distributions
            if before.owner and before.owner == f"{_key(one.name)}=={one.version}"
        ),
        None,
    )
    if pin is None:
        return False
    old, new = (tree.get(f"{pin.path}/METADATA") for tree in (evidence.base_tree, evidence.tree))
    return old is not None and new is not None and old.same_content(new) and new.layer == now.layer


def _key(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)


def _report(owner: str, group: _Group, evidence: Evidence, findings: Findings) -> None:
    for what, changes, message, hint in (
        (
            "unchecked",
            group.unchecked,
            "bytecode that Python does not compare with its source runs in the place of it",
            "compile without `unchecked-hash`",
        ),
        (
            "unproven",
            group.unproven,
            "bytecode that is neither the base's nor a locked wheel's runs in the place of its source",
            _UNPROVEN_HINT,
        ),
        (
            "lost",
            group.lost,
            "a module that is bytecode alone was deleted",
            "find the step and keep it from deleting there",
        ),
    ):
        if not changes:
            continue
        first = changes[0]
        more = f" ({len(changes)} files)" if len(changes) > 1 else ""
        findings.fail(
            what,
            owner,
            f"{message}: `/{first.path}`{more}",
            locked=first.before.sha256 if first.before is not None else "nothing",
            found=first.after.sha256 if first.after is not None else "nothing",
            place=evidence.place(first.path, first.layer),
            hint=hint,
            facts={
                "files": [
                    f"{c.path} {c.after.sha256 if c.after is not None else ''}" for c in changes
                ]
            },
            cause=owner,
        )
    if group.allowed:
        findings.note(
            "allowed",
            owner,
            f"{group.allowed} bytecode files are accepted by the recipe; their code is not compared",
        )


CHECK = Check(
    id="python.bytecode",
    question="is all compiled Python the base's or a locked wheel's",
    why="Python runs bytecode in the place of the source, and believes its time, size or flag",
    fix="build with `--no-compile`, or accept the files in the recipe with a reason",
    judge=_judge,
    revision=1,
    rests_on=ON_THE_BASE,
)
