"""``python.content``: are the files that the base's distributions own still theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.catalog.python import COMPILED
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE, Change, Evidence, is_distributions
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from imagegate.verdict import CheckReport

_ORIGIN = ".dist-info/direct_url.json"


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("python.content")
    touched: dict[str, int] = {}
    for change in evidence.changes:
        # of compiled Python `python.bytecode` says everything
        if change.path.endswith(COMPILED):
            continue
        if change.before is not None and is_distributions(change.before):
            touched[change.before.owner] = touched.get(change.before.owner, 0) + 1
            _judge_owned(change, evidence, findings)
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


CHECK = Check(
    id="python.content",
    question="is every file that a base distribution owns still its file",
    why="a file replaced under an unchanged version is invisible to every list of versions",
    fix="find the step in the message and keep it from writing there",
    judge=_judge,
    revision=1,
    rests_on=ON_THE_BASE,
)
