"""``secrets.leaked``: do the added layers, their history or the config hold credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.catalog.secrets import found_in, search_text
from imagegate.checks.check import Check, Findings
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from imagegate.checks.image.evidence import Evidence
    from imagegate.oci.documents import HistoryEntry
    from imagegate.verdict import CheckReport

_HINT = "take it out and revoke it: anyone who can pull the image can read every layer of it"


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("secrets.leaked")
    searched, by_hash, unread = _search_files(evidence, findings)
    buried = _search_buried(evidence, findings)
    steps = _added_steps(evidence)
    for step in steps:
        for what in sorted(set(search_text(step.created_by or ""))):
            findings.fail(
                "history",
                what,
                f"a step of the image's history holds {what}",
                found=what,
                facts={"step": evidence.seal(step.created_by or "")},
                hint=f"{_HINT}; pass it with `--mount=type=secret`",
            )
    settings = _added_settings(evidence)
    for name, text in settings.items():
        for what in sorted(set(search_text(text))):
            findings.fail(
                "setting",
                name,
                f"the image's config holds {what}",
                found=what,
                facts={"setting": evidence.seal(text)},
                hint=_HINT,
            )
    if unread:
        findings.note(
            "by-hash-only",
            "locked files",
            f"{unread} files stand where a locked wheel's do and differ from them; "
            "`python.locked` refuses them, they were not searched",
        )
    return findings.report(
        [
            f"{searched} files of the added layers searched",
            f"{by_hash} files are a locked wheel's by hash and need no search",
            f"{buried} files that a later layer hides searched",
            f"{len(steps)} steps of history searched",
            f"{len(settings)} settings searched",
        ]
    )


def _search_files(evidence: Evidence, findings: Findings) -> tuple[int, int, int]:
    """Judge what the merged tree shows; returns how many were searched, by hash, and neither."""
    searched = by_hash = unread = 0
    for change in evidence.changes:
        after = change.after
        if after is None or after.kind is not Kind.FILE:
            continue
        content = evidence.collector.extract("secrets", after)
        if content is None:
            owned = bool(evidence.locked_owner(change.path))
            by_hash += owned
            unread += not owned and evidence.lock.layer.get(change.path) is not None
            continue
        searched += 1
        for what in found_in(content):
            findings.fail(
                "file",
                change.path,
                f"a file of an added layer holds: {what}",
                locked="nothing",
                found=what,
                place=evidence.place(change.path, change.layer, secret=True),
                hint=_HINT,
            )
    return searched, by_hash, unread


def _search_buried(evidence: Evidence, findings: Findings) -> int:
    """Judge what a later layer deleted or overwrote: it is in the image all the same."""
    shown = {
        change.after.sha256
        for change in evidence.changes
        if change.after is not None and change.after.kind is Kind.FILE
    }
    count = 0
    for sha256, content in evidence.collector.extracts("secrets"):
        if sha256 in shown:
            continue
        count += 1
        for what in found_in(content):
            findings.fail(
                "buried",
                "a hidden file",
                f"a file that a later layer deletes or replaces holds: {what}",
                locked="nothing",
                found=what,
                facts={"content": evidence.seal(sha256)},
                hint=_HINT,
            )
    return count


def _added_steps(evidence: Evidence) -> list[HistoryEntry]:
    """Return the steps behind the base's; all where the base's are not the first."""
    every = list(evidence.image.config.history or ())
    config = evidence.lock.config
    base = list((config.history if config else None) or ())
    return every[len(base) :] if every[: len(base)] == base else every


def _added_settings(evidence: Evidence) -> dict[str, str]:
    """Return what the config says and the base's does not, as text by its name."""
    found: dict[str, str] = {}
    base = evidence.base_settings
    for entry in evidence.settings.env or ():
        if entry not in (base.env or ()):
            found[f"Env {entry.partition('=')[0]}"] = entry
    for name, value in (evidence.settings.labels or {}).items():
        if (base.labels or {}).get(name) != value:
            found[f"Label {name}"] = value
    for name, words in (("Entrypoint", "entrypoint"), ("Cmd", "cmd")):
        now, before = getattr(evidence.settings, words), getattr(base, words)
        if now and now != before:
            found[name] = " ".join(now)
    return found


CHECK = Check(
    id="secrets.leaked",
    question="do added layers, their history or the config hold tokens, passwords or private keys",
    why="an image is pulled by many; a layer that deletes a file does not take it out",
    fix="build with secret mounts, revoke what was in an image, and build again",
    judge=_judge,
    revision=1,
)
