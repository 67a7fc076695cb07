"""``programs.search``: does each name start the program that it started in the base."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE, program_folders
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.checks.image.evidence import Evidence
    from imagegate.rootfs import FileTree
    from imagegate.verdict import CheckReport

_EXECUTABLE = 0o111


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("programs.search")
    before = _folders(evidence.base_tree, evidence.base_settings.environment)
    now = _folders(evidence.tree, evidence.settings.environment)
    names = _names(before, now, evidence)
    for name in sorted(names):
        _compare(name, before, now, evidence, findings)
    return findings.report(
        [f"{len(names)} names along {', '.join(f'`/{folder}`' for folder in now) or 'no folder'}"]
    )


def _folders(tree: FileTree, environment: dict[str, str]) -> tuple[str, ...]:
    """Return the folders of PATH that are there, without links."""
    real = (tree.resolve(folder) for folder in program_folders(environment))
    return tuple(dict.fromkeys(folder for folder in real if folder is not None))


def _names(before: Sequence[str], now: Sequence[str], evidence: Evidence) -> set[str]:
    """Name the programs that may be found elsewhere now."""
    searched = {*before, *now}
    names = {
        posixpath.basename(change.path)
        for change in evidence.changes
        if posixpath.dirname(change.path) in searched
    }
    kept = [folder for folder in now if folder in before]
    moved = now if kept != [f for f in before if f in now] else [f for f in now if f not in before]
    for tree, folders in (
        (evidence.tree, moved),
        (evidence.base_tree, [f for f in before if f not in now]),
    ):
        for folder in folders:
            lead = f"{folder}/" if folder else ""
            for node in tree.under(folder):
                name = node.path[len(lead) :]
                if "/" not in name:
                    names.add(name)
    return names


def _find(name: str, folders: Sequence[str], tree: FileTree) -> str | None:
    """Return the path under which a name is started: the first that is an executable file."""
    for folder in folders:
        path = f"{folder}/{name}".lstrip("/")
        node = tree.get(path)
        if node is not None and node.kind is Kind.SYMLINK:
            node = tree.get(tree.resolve(path) or "")
        if node is not None and node.kind is Kind.FILE and node.mode & _EXECUTABLE:
            return path
    return None


def _compare(
    name: str, before: Sequence[str], now: Sequence[str], evidence: Evidence, findings: Findings
) -> None:
    old = _find(name, before, evidence.base_tree)
    new = _find(name, now, evidence.tree)
    if old is None or old == new:
        return
    real = evidence.base_tree.resolve(old), evidence.tree.resolve(new) if new else None
    if new is not None and real[0] == real[1]:
        return
    node = evidence.tree.get(new) if new else None
    if new is None:
        # that a file of the base is gone, or cannot be executed any more, is told as such
        if any(change.path in (old, real[0]) for change in evidence.changes):
            return
        findings.fail(
            "lost",
            name,
            f"no folder of PATH has `{name}` any more",
            locked=f"/{old}",
            found="nothing",
            cause="PATH",
        )
        return
    same = _content(real[0], evidence.base_tree) == _content(real[1], evidence.tree)
    locked = evidence.locked_owner(new)
    findings.weigh(
        "shadowed",
        name,
        f"`{name}` starts `/{new}` now",
        because=f"it is of the locked {locked}"
        if locked
        else ("with the same bytes as before" if same and real[0] else ""),
        locked=f"/{old}",
        found=f"/{new}",
        place=evidence.place(new, node.layer if node else 0),
        hint="its folder comes first in PATH",
        cause=locked,
    )


def _content(path: str | None, tree: FileTree) -> str:
    node = tree.get(path) if path else None
    return node.sha256 if node is not None else ""


CHECK = Check(
    id="programs.search",
    question="does each name along PATH start the program that it started in the base",
    why="a program of the same name in an earlier folder is started by everything that calls it",
    fix="remove the program, the link or the variable, or bring it in by a locked wheel",
    judge=_judge,
    revision=1,
    rests_on=ON_THE_BASE,
)
