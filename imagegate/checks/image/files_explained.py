"""``files.explained``: is each path that the added layers bring explained by lock or recipe."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from imagegate.catalog.python import site_of
from imagegate.catalog.watched import watched_place
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE
from imagegate.checks.image.explained import count_explanations
from imagegate.oci.tar import Kind
from imagegate.rootfs import ancestors

if TYPE_CHECKING:
    from imagegate.checks.image.evidence import Change, Evidence
    from imagegate.verdict import CheckReport

_SHOWN = 5


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("files.explained")
    explained = evidence.explained
    new = [change for change in explained.left if change.before is None]
    told = {change.path for change in new if _is_told(change, evidence)}
    above = {folder for path in told for folder in ancestors(path)}
    unexplained = [
        change
        for change in new
        if change.path not in told and not (_is_folder(change) and change.path in above)
    ]
    for (top, layer), changes in sorted(_by_folder(unexplained).items()):
        _refuse(top, layer, changes, evidence, findings)
    for entry in evidence.recipe.document.layer.allow:
        if entry.pattern not in explained.used:
            findings.note(
                "allow-unused",
                entry.pattern,
                "a pattern of `[[layer.allow]]` explains nothing: no added path needs it",
                hint="take it out; a watched place has to be named in full, and a path of the base needs a waiver",
            )
    counts = tuple(count_explanations(explained))
    return findings.report(
        [
            *counts,
            *(f"`/{change.path}`: nothing explains it" for change in unexplained),
        ],
        nothing_because="" if explained.by or unexplained else "the added layers hold no path",
        summary=", ".join([*counts, *([f"{len(unexplained)} unexplained"] if unexplained else [])]),
    )


def _is_told(change: Change, evidence: Evidence) -> bool:
    """Say whether `python.locked` refuses the path: a file where modules or commands are looked for."""
    assert change.after is not None
    if change.after.kind is Kind.DIRECTORY:
        return False
    folder = change.path.rpartition("/")[0]
    scripts = evidence.recipe.python.scripts.strip("/")
    return site_of(change.path) is not None or folder == scripts


def _by_folder(changes: list[Change]) -> dict[tuple[str, int], list[Change]]:
    """Group what nothing explains by the highest folder that is new with it, and by layer."""
    new = {change.path for change in changes}
    told = {folder for change in changes for folder in ancestors(change.path)}
    found: dict[tuple[str, int], list[Change]] = {}
    for change in changes:
        if change.path in told and _is_folder(change):
            continue  # a folder is told by what it holds
        top = change.path
        for folder in ancestors(change.path):
            if folder not in new:
                break
            top = folder
        found.setdefault((top, change.layer), []).append(change)
    return _together(found)


def _together(
    groups: dict[tuple[str, int], list[Change]],
) -> dict[tuple[str, int], list[Change]]:
    """Put files of one layer into one group where they lie in one folder of the base."""
    found: dict[tuple[str, int], list[Change]] = {}
    counts: dict[tuple[str, int], int] = {}
    for (top, layer), changes in groups.items():
        if len(changes) == 1 and changes[0].path == top:
            key = (top.rpartition("/")[0], layer)
            counts[key] = counts.get(key, 0) + 1
    for (top, layer), changes in groups.items():
        folder = top.rpartition("/")[0]
        alone = len(changes) == 1 and changes[0].path == top
        several = alone and folder and counts[folder, layer] > 1
        found.setdefault((folder if several else top, layer), []).extend(changes)
    return found


def _is_folder(change: Change) -> bool:
    return change.after is not None and change.after.kind is Kind.DIRECTORY


def _refuse(
    top: str, layer: int, changes: list[Change], evidence: Evidence, findings: Findings
) -> None:
    if len(changes) == 1:
        (only,) = changes
        assert only.after is not None
        findings.fail(
            "unexplained",
            f"/{only.path}",
            "neither the lock nor the recipe explains why this is there"
            + (f": {what}" if (what := watched_place(only.path)) else ""),
            locked="nothing",
            found=only.after.sha256 or only.after.target or only.after.kind.name.lower(),
            place=evidence.place(only.path, layer),
            hint=_hint(only.path),
        )
        return
    content = hashlib.sha256()
    for change in changes:
        content.update(
            f"{evidence.place(change.path, 0).content} /{change.path}\n".encode(
                "utf-8", "surrogateescape"
            )
        )
    listed = ", ".join(f"`/{change.path}`" for change in changes[:_SHOWN])
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    findings.fail(
        "unexplained",
        f"/{top}",
        f"neither the lock nor the recipe explains why these are there: {listed}{more}",
        locked="nothing",
        found=f"{len(changes)} paths",
        place=evidence.place(top, layer),
        hint=_hint(f"{top}/**"),
        facts={"paths": content.hexdigest()},
        cause=f"/{top}",
    )


def _hint(pattern: str) -> str:
    return (
        "what belongs in the image comes from a locked wheel, an asset, a declared package or user; "
        f"for what is left there is `[[layer.allow]]` with a reason, as `/{pattern}`, where a "
        "watched place is named in full"
    )


CHECK = Check(
    id="files.explained",
    question="is each path that the added layers bring explained by the lock or the recipe",
    why="what nobody explained nobody has seen; a single file in the right folder decides what runs",
    fix="take it out of the build, or declare it: requirements, assets, `[layer.debian] packages`, "
    "`[[config.users]]`, `[[layer.allow]]` with a reason",
    judge=_judge,
    revision=2,
    rests_on=ON_THE_BASE,
)
