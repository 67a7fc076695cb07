"""``python.content``: are the files that the base's distributions own still theirs."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from imagegate.catalog.python import bytecode_source
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE, Change, Evidence, is_distributions
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from imagegate.verdict import CheckReport

_EXTENSION = re.compile(r"(?P<stem>.+?)(?:\.(?:cpython|abi3|pypy)[^/]*)?\.so")

_ORIGIN = ".dist-info/direct_url.json"


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("python.content")
    touched: dict[str, int] = {}
    bytecode = 0
    for change in evidence.changes:
        if change.before is not None and is_distributions(change.before):
            touched[change.before.owner] = touched.get(change.before.owner, 0) + 1
            _judge_owned(change, evidence, findings)
        elif change.after is not None and change.before is None:
            bytecode += _judge_new(change, evidence, findings)
    if bytecode:
        findings.note(
            "bytecode",
            "bytecode",
            f"{bytecode} bytecode files of base modules were added; their code is not compared",
            hint="build with `PYTHONDONTWRITEBYTECODE=1` and `pip install --no-compile`",
        )
    owned = {owner: count for owner, count in evidence.base_owners.items() if "==" in owner}
    if not owned:
        return findings.report((), nothing_because="no distribution of the base owns a file")
    return findings.report(
        f"{owner}: {count} files, {touched.get(owner, 0)} touched"
        for owner, count in sorted(owned.items())
    )


def _judge_owned(change: Change, evidence: Evidence, findings: Findings) -> None:
    before, after = change.before, change.after
    assert before is not None
    place = evidence.place(change.path, change.layer)
    if after is None:
        findings.fail(
            "deleted",
            before.owner,
            f"a file of {before.owner} was deleted",
            locked=before.sha256 or before.kind.name.lower(),
            found="nothing",
            place=place,
        )
    elif before.kind is not after.kind:
        findings.fail(
            "type-changed",
            before.owner,
            f"a {before.kind.name.lower()} of {before.owner} became a {after.kind.name.lower()}",
            locked=before.sha256 or before.target,
            found=after.target or after.sha256 or after.kind.name.lower(),
            place=place,
        )
    elif not before.same_content(after) and change.path.endswith(_ORIGIN):
        findings.note(
            "origin",
            before.owner,
            f"`direct_url.json` of {before.owner} was written anew; `python.pins` compares what it says",
            place=place,
        )
    elif not before.same_content(after):
        findings.fail(
            "overwritten",
            before.owner,
            f"a file of {before.owner} has other bytes, whatever its version says",
            locked=before.sha256 or before.target,
            found=after.sha256 or after.target,
            place=place,
        )
    elif before.kind is Kind.FILE:
        findings.note(
            "rewritten",
            before.owner,
            f"a file of {before.owner} was written again with the same bytes",
            place=place,
        )


def _judge_new(change: Change, evidence: Evidence, findings: Findings) -> int:
    """Judge a new path that could be imported instead of the base's; returns 1 for bytecode."""
    after = change.after
    assert after is not None
    source = bytecode_source(change.path)
    if source is not None:
        return _judge_bytecode(source, change, evidence, findings)
    for loser in _losing(change.path):
        node = evidence.lock.files.get(loser)
        if node is not None and is_distributions(node) and node.kind is Kind.FILE:
            findings.fail(
                "shadowed",
                node.owner,
                f"`{change.path}` is imported instead of `{loser}` of {node.owner}",
                locked=loser,
                found=change.path,
                place=evidence.place(change.path, change.layer),
            )
    return 0


def _losing(path: str) -> list[str]:
    """Name the files that lose against a new one of the same module name in the same folder.

    Python's path finder tries a package folder first, then extension modules, then sources
    (importlib.machinery, order of ``FileFinder`` and its loaders).
    """
    folder, slash, name = path.rpartition("/")
    if name == "__init__.py":
        return [f"{folder}.py", f"{folder}.abi3.so", f"{folder}.so"]
    extension = _EXTENSION.fullmatch(name)
    if extension:
        return [f"{folder}{slash}{extension['stem']}.py"]
    return []


def _judge_bytecode(source: str, change: Change, evidence: Evidence, findings: Findings) -> int:
    """Judge compiled code of a base module (PEP 552: the flags say whether Python checks it)."""
    node = evidence.lock.files.get(source)
    if node is None or not is_distributions(node) or change.after is None:
        return 0
    head = evidence.collector.extract("bytecode", change.after) or b""
    flags = struct.unpack_from("<I", head, 4)[0] if len(head) >= 8 else None
    if flags in (0, 3):
        return 1
    findings.fail(
        "unchecked-bytecode",
        node.owner,
        f"bytecode that Python does not compare with its source is used instead of `{source}`",
        locked=source,
        found=change.path,
        place=evidence.place(change.path, change.layer),
        hint="compile without `unchecked-hash`",
    )
    return 0


CHECK = Check(
    id="python.content",
    question="is every file that a base distribution owns still its file",
    why="a file replaced under an unchanged version is invisible to every list of versions",
    fix="find the step in the message and keep it from writing there",
    judge=_judge,
    revision=1,
    rests_on=ON_THE_BASE,
)
