"""``native.plugins`` and ``native.caches``: does a new file decide what is loaded or compiled.

What nothing explains is refused by ``files.explained``; here is judged what the lock or the recipe
brings, because an explanation does not say what a file in such a place does.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from imagegate.catalog.watched import CACHES, COMPILERS, PLUGINS, VARIABLES, watched
from imagegate.checks.check import Findings
from imagegate.checks.image.explained import By
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from imagegate.catalog.watched import Place
    from imagegate.checks.image.evidence import Change, Evidence
    from imagegate.verdict import CheckReport

# who declares one of these names the very path
_IN_FULL = {By.ALLOWED: "the recipe names it in full", By.LINK: "the recipe declares this link"}
_PACKAGED = {By.PACKAGE: "it is of a Debian package that the recipe declares"}
# what else explains a path is judged by the check that says so
_JUDGED = {By.ASSET, By.WHEEL, By.INSTALLER, *_IN_FULL, *_PACKAGED}


def judge_plugins(evidence: Evidence) -> CheckReport:
    """Judge new files of names by which libraries are loaded, and those that variables name."""
    findings = Findings("native.plugins")
    compared = [
        _judge(findings, PLUGINS, evidence),
        _judge_variables(findings, evidence),
    ]
    return findings.report(compared)


def judge_caches(evidence: Evidence) -> CheckReport:
    """Judge new files in caches of compiled code, and what compilers find without being told."""
    findings = Findings("native.caches")
    return findings.report([_judge(findings, (*CACHES, *COMPILERS), evidence)])


def _judge(findings: Findings, places: tuple[Place, ...], evidence: Evidence) -> str:
    names = {place.name for place in places}
    noted: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    seen = 0
    for change in evidence.changes:
        after = change.after
        if change.before is not None or after is None or after.kind is Kind.DIRECTORY:
            continue
        place = watched(change.path)
        by = evidence.explained.by.get(change.path)
        if place is None or place.name not in names or by is None or by not in _JUDGED:
            continue
        seen += 1
        reason = _reason(change, by, place, evidence)
        if reason:
            noted[place.name, place.what, reason].append(change.path)
        else:
            _refuse(change, by, place, evidence, findings)
    for (name, what, reason), paths in sorted(noted.items()):
        listed = f"`/{paths[0]}`" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
        findings.note(name, name, f"{listed}: {what}; {reason}")
    return f"{seen} new files in {len(places)} kinds of watched places"


def _judge_variables(findings: Findings, evidence: Evidence) -> str:
    """Judge new files at or below what a variable tells a compiler or a loader to take."""
    named: dict[str, str] = {}
    for variable, value in sorted(evidence.settings.environment.items()):
        if VARIABLES.fullmatch(variable):
            for part in re.split(r"[:;,\s]+", value):
                path = evidence.tree.resolve(part) if part.startswith("/") else None
                if path:
                    named[path] = variable
    in_full = evidence.named_in_full
    for change in evidence.changes if named else ():
        after = change.after
        if change.before is not None or after is None or after.kind is Kind.DIRECTORY:
            continue
        parts = change.path.split("/")
        above = ("/".join(parts[:length]) for length in range(len(parts), 0, -1))
        told = next((named[path] for path in above if path in named), None)
        if told is None or change.path in in_full or change.path not in evidence.explained.by:
            continue
        findings.fail(
            "named-by-variable",
            f"/{change.path}",
            f"the base has no file there, and `{told}` tells programs to take what lies there",
            locked="nothing",
            found=after.sha256 or after.target,
            place=evidence.place(change.path, change.layer),
            hint=f"only `[[layer.allow]]` with its full name and a reason accepts it; or do not set "
            f"`{told}`",
        )
    return f"{len(named)} paths that variables tell compilers and loaders to take"


def _reason(change: Change, by: By, place: Place, evidence: Evidence) -> str:
    """Say why a file does not fail the verdict, ``""`` where it does."""
    if by in _IN_FULL:
        return _IN_FULL[by]
    if change.path in evidence.named_in_full:
        return _IN_FULL[By.ALLOWED]
    if by in _PACKAGED and place not in PLUGINS:
        return _PACKAGED[by]
    owner = evidence.locked_owner(change.path)
    if owner and not (place in PLUGINS and _is_found(change.path, evidence)):
        return f"of the locked {owner}, in a folder of its own"
    return ""


def _is_found(path: str, evidence: Evidence) -> bool:
    """Say whether the loader finds just this file for its name, whoever asks."""
    return evidence.loader.find(posixpath.basename(path), None).path == evidence.tree.resolve(path)


def _refuse(change: Change, by: By, place: Place, evidence: Evidence, findings: Findings) -> None:
    assert change.after is not None
    findings.fail(
        place.name,
        f"/{change.path}",
        f"the base has no file there, and this is {place.what}",
        locked="nothing",
        found=change.after.sha256 or change.after.target,
        place=evidence.place(change.path, change.layer),
        hint=f"it is explained ({by.value}), but only `[[layer.allow]]` with its full name and a "
        "reason accepts what it decides",
    )
