"""What ``imagegate lock`` says: for people, for programs, and for a comment on a pull request."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from imagegate.foreign import shown_lines
from imagegate.foreign.credentials import redact_document
from imagegate.report.lockdiff import Difference, render_differences
from imagegate.report.markdown import escaped, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

_LISTED = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class LockReport:
    """What became of one recipe's lock.

    Attributes:
        name: the recipe.
        result: `locked`, `unchanged`, `fresh`, `stale`, `holds`, `differs`, `no base` or `failed`.
        digest: of the lock, `""` where there is none.
        base: how the base's lock came, `""` where that was not asked.
        pinned: what `[base] image` became, `""` where it stayed.
        problem: why it could not be locked, or why it is stale.
        hint: what a person can do.
    """

    name: str
    result: str
    digest: str = ""
    base: str = ""
    pinned: str = ""
    differences: tuple[Difference, ...] = ()
    problem: str = ""
    hint: str = ""


def render_locking(reports: Sequence[LockReport], form: str) -> str:
    """Write reports in one of the forms `text`, `json` and `markdown`."""
    if form == "json":
        document = {"schema": "imagegate-lock-1", "locks": [asdict(one) for one in reports]}
        return json.dumps(redact_document(document), indent=2, ensure_ascii=True) + "\n"
    if form == "markdown":
        return "\n".join(_markdown(one) for one in reports)
    return "".join(_text(one) for one in reports)


def _text(report: LockReport) -> str:
    lines = []
    if report.pinned:
        lines.append(f"image.toml now pins {report.pinned}")
    if report.problem:
        lines.append(f"{report.result} {report.name}: {report.problem}")
        lines += [f"hint: {report.hint}"] if report.hint else []
    else:
        lines.append(f"{report.result} {report.name} {report.digest}")
    told = "".join(f"{shown_lines(line)}\n" for line in lines)
    return render_differences(report.differences) + told


def _markdown(report: LockReport) -> str:
    lines = [f"### {escaped(report.name)}: {report.result}", ""]
    if report.problem:
        lines += [plain(report.problem), ""]
    if report.pinned:
        lines += [f"The recipe now pins {plain(report.pinned)}.", ""]
    if report.differences:
        lines += ["| what | which | before | now |", "| --- | --- | --- | --- |"]
        lines += [
            f"| {plain(d.group)} | {plain(d.subject)} | {plain(d.old)} | {plain(d.new)} |"
            for d in report.differences[:_LISTED]
        ]
        if len(report.differences) > _LISTED:
            lines.append(f"\nand {len(report.differences) - _LISTED} more")
        lines.append("")
    return "\n".join([*lines, f"Lock {report.digest or 'none'}", ""])
