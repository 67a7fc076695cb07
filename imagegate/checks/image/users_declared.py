"""``users.declared``: is each account the base's, or one that the recipe declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE

if TYPE_CHECKING:
    from imagegate.checks.image.accounts import EntryChange, NewUser
    from imagegate.checks.image.evidence import Evidence
    from imagegate.verdict import CheckReport

_SECRET = ("etc/shadow", "etc/gshadow")


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("users.declared")
    accounts = evidence.explained.accounts
    for user in accounts.users:
        _judge_user(user, evidence, findings)
    for entry in accounts.others:
        _judge_entry(entry, evidence, findings)
    there = {user.name for user in accounts.users}
    base = evidence.base_entries.get("etc/passwd", {})
    declared = evidence.recipe.document.config.users
    for wanted in declared:
        if wanted.name not in there and wanted.name not in base:
            findings.fail(
                "absent",
                wanted.name,
                "the recipe declares this user, and the image does not have it",
                locked=wanted.name,
                found="nothing",
                hint="let the Dockerfile add it, or take it out of `[config] users`",
            )
    compared = [f"`/{path}`: entry by entry" for path in sorted(accounts.databases)]
    return findings.report(
        [*compared, *(f"{user.name}: declared" for user in accounts.users if user.declared)],
        nothing_because="" if compared else "no database of accounts was touched",
    )


def _judge_user(user: NewUser, evidence: Evidence, findings: Findings) -> None:
    entry = user.entries[0]
    place = evidence.place(entry.path, entry.layer)
    if user.wrong:
        findings.fail(
            "unfit",
            user.name,
            f"the new user is not what a recipe may declare: {user.wrong}",
            locked="nothing",
            found=_shown(user),
            place=place,
            facts=_facts(user.entries, evidence),
            cause=f"user {user.name}",
        )
    elif not user.declared:
        findings.fail(
            "undeclared",
            user.name,
            "a user was added that the recipe does not declare",
            locked="nothing",
            found=_shown(user),
            place=place,
            hint=f"add `{user.line}` under `[config]`, or take the step out",
            facts=_facts(user.entries, evidence),
            cause=f"user {user.name}",
        )


def _judge_entry(entry: EntryChange, evidence: Evidence, findings: Findings) -> None:
    """Refuse what happened to accounts of the base, and groups that are nobody's own."""
    if not entry.fields:
        what, message = "removed", "an entry of the base is gone"
    elif entry.before == "twice":
        what, message = "twice", "a second entry of one name stands in the database"
    elif entry.before:
        what, message = "changed", "an entry of the base is another one now"
    else:
        what, message = "undeclared", "an entry was added that belongs to no declared user"
    secret = entry.path.rstrip("-") in _SECRET
    findings.fail(
        what,
        entry.key or "(an entry without a name)",
        f"`/{entry.path}`: {message}",
        locked=f"sha256 {entry.before[:16]}" if entry.before else "nothing",
        found="nothing" if not entry.fields else "another" if secret else ":".join(entry.fields),
        place=evidence.place(entry.path, entry.layer, secret=True),
        facts=_facts((entry,), evidence),
        cause=f"user {entry.key}",
    )


def _shown(user: NewUser) -> str:
    groups = f", in {', '.join(user.groups)}" if user.groups else ""
    return f"{user.uid}:{user.gid} at {user.home or 'no folder'}{groups}"


def _facts(entries: tuple[EntryChange, ...], evidence: Evidence) -> dict[str, str]:
    """Name the entries for the finding's digest: sealed, for one may hold a password."""
    lines = "\n".join(f"{entry.path} {':'.join(entry.fields)}" for entry in entries)
    return {"entries": evidence.seal(lines)}


CHECK = Check(
    id="users.declared",
    question="is each account and group the base's, or one that the recipe declares",
    why="one line of `/etc/passwd` gives root's rights, and one of `/etc/shadow` a login",
    fix="declare the user under `[config] users`, or take the step out that added it",
    judge=_judge,
    revision=1,
    rests_on=ON_THE_BASE,
)
