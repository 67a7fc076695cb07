"""Accounts, entry by entry: what the added layers did to passwd, group, shadow and the like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.catalog.databases import ACCOUNTS, digest_of, entries_of, main_of, text_of
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from imagegate.checks.image.evidence import Change, Evidence
    from imagegate.recipe.sections import UserEntry

_PASSWD, _GROUP, _SHADOW, _GSHADOW, _SUBUID, _SUBGID = ACCOUNTS
# how many fields each file's entries have: passwd(5), group(5), shadow(5), gshadow(5), subuid(5)
_FIELDS = {_PASSWD: 7, _GROUP: 4, _SHADOW: 9, _GSHADOW: 4, _SUBUID: 3, _SUBGID: 3}
# below are the numbers of the system's own users; a range of subordinate ones lies above
_FIRST_SUBORDINATE = 1 << 16
_SKELETON = "etc/skel/"
# useradd(8): the mail spool of a new user, an empty file
_SPOOLS = ("var/mail/", "var/spool/mail/")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryChange:
    """One entry of an account database that the base does not have like this.

    Attributes:
        path: the database.
        key: the account or group.
        before: digest of the base's entry, ``""`` for a new one.
        fields: the image's entry, field by field; empty for one that is gone.
        layer: the layer that wrote the file.
    """

    path: str
    key: str
    before: str
    fields: tuple[str, ...]
    layer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUser:
    """An account that the base does not have, with everything that belongs to it.

    Attributes:
        name: its login.
        uid: as passwd has it.
        gid: likewise.
        home: its folder.
        shell: its shell.
        groups: groups of the base that it is a member of now.
        entries: its entries.
        paths: its folder, what of it repeats the skeleton, and its empty mail spool.
        wrong: what about it is not as a declared user may be, ``""`` if nothing.
        declared: whether the recipe declares it.
    """

    name: str
    uid: str
    gid: str
    home: str
    shell: str
    groups: tuple[str, ...]
    entries: tuple[EntryChange, ...]
    paths: frozenset[str]
    wrong: str
    declared: bool

    @property
    def line(self) -> str:
        """The recipe's entry that declares just this user."""
        groups = ", ".join(f'"{group}"' for group in self.groups)
        extra = f", groups = [{groups}]" if groups else ""
        gid = "" if self.gid == self.uid else f", gid = {self.gid}"
        return f'users = [{{ name = "{self.name}", uid = {self.uid}{gid}{extra} }}]'


@dataclass(slots=True)
class Accounts:
    """What happened to the image's accounts.

    Attributes:
        users: new accounts.
        others: entries that changed and belong to no new account.
        databases: the files that were compared, backups among them.
    """

    users: list[NewUser] = field(default_factory=list)
    others: list[EntryChange] = field(default_factory=list)
    databases: set[str] = field(default_factory=set)


def read_accounts(evidence: Evidence) -> Accounts:
    """Compare every account database that a layer touched with the base's entries."""
    found = Accounts()
    changes: list[EntryChange] = []
    backups: list[EntryChange] = []
    for change in evidence.changes:
        main = main_of(change.path)
        if main not in ACCOUNTS or change.after is None or change.after.kind is not Kind.FILE:
            continue
        text = text_of(evidence.collector, change.after)
        if text is None:
            continue
        found.databases.add(change.path)
        into = changes if main == change.path else backups
        into.extend(_compare(change, text, evidence))
    by_name: dict[str, list[EntryChange]] = {}
    for entry in changes:
        by_name.setdefault(entry.key, []).append(entry)
    declared = {user.name: user for user in evidence.recipe.document.config.users}
    passwd = {e.key: e for e in changes if e.path == _PASSWD and not e.before and e.fields}
    memberships = _memberships(changes, passwd)
    taken: set[EntryChange] = set()
    for name in passwd:
        own = tuple(e for e in by_name[name] if not e.before and e.fields)
        taken.update(own)
        found.users.append(_user(name, own, memberships, declared.get(name), evidence))
    primary = {user.gid for user in found.users}
    for entry in changes:
        if entry in taken or _only_members(entry, passwd, evidence):
            continue
        if not _is_group_of(entry, changes, primary, declared):
            found.others.append(entry)
    known = {(entry.key, entry.fields) for entry in changes}
    found.others += [e for e in backups if (e.key, e.fields) not in known and e.fields]
    return found


def _compare(change: Change, text: str, evidence: Evidence) -> Iterator[EntryChange]:
    """Yield the entries that are not the base's; a backup is compared with the file it is of."""
    main = main_of(change.path)
    before = evidence.base_entries
    known = {**before.get(main, {}), **before.get(change.path, {})}
    seen: set[str] = set()
    for key, line in entries_of(change.path, text):
        same = digest_of(line) in (
            before.get(main, {}).get(key, ""),
            before.get(change.path, {}).get(key, ""),
        )
        if not same or key in seen:
            fields = tuple(line.split(":"))
            # of two entries with one name the first counts: the second is nobody's
            held = known.get(key, "") if key not in seen else "twice"
            yield EntryChange(
                path=change.path, key=key, before=held, fields=fields, layer=change.layer
            )
        seen.add(key)
    if main == change.path:
        for key in sorted(before.get(main, {}).keys() - seen):
            yield EntryChange(
                path=main, key=key, before=before[main][key], fields=(), layer=change.layer
            )


def _memberships(
    changes: list[EntryChange], users: Mapping[str, EntryChange]
) -> Mapping[str, tuple[str, ...]]:
    """Return the groups of the base, by member, that new users are in now."""
    found: dict[str, list[str]] = {}
    for entry in changes:
        if entry.path == _GROUP and entry.before and len(entry.fields) == _FIELDS[_GROUP]:
            for member in entry.fields[3].split(","):
                if member in users:
                    found.setdefault(member, []).append(entry.key)
    return {name: tuple(sorted(groups)) for name, groups in found.items()}


def _only_members(entry: EntryChange, users: Mapping[str, EntryChange], evidence: Evidence) -> bool:
    """Say whether a group is the base's but for new users among its members.

    Whether they may be members is asked of the users.
    """
    if entry.path not in (_GROUP, _GSHADOW) or not entry.before:
        return False
    if len(entry.fields) != _FIELDS[entry.path]:
        return False
    members = [name for name in entry.fields[3].split(",") if name not in users]
    line = ":".join((*entry.fields[:3], ",".join(members)))
    return digest_of(line) == evidence.base_entries.get(entry.path, {}).get(entry.key, "")


def _is_group_of(
    entry: EntryChange,
    changes: list[EntryChange],
    primary: set[str],
    declared: Mapping[str, UserEntry],
) -> bool:
    """Say whether a new group is that of a new user, or one that the recipe declares for it.

    Whether the user may have it is asked of the user.
    """
    if entry.path not in (_GROUP, _GSHADOW) or entry.before or len(entry.fields) != 4:
        return False
    members = {name for name in entry.fields[3].split(",") if name}
    group = next((e.fields for e in changes if e.path == _GROUP and e.key == entry.key), ())
    is_primary = len(group) == 4 and group[2] in primary and _is_number(group[2])
    named = any(entry.key in user.groups for user in declared.values())
    locked = entry.path == _GROUP or entry.fields[1][:1] in ("", "!", "*")
    return (is_primary or named) and locked and members <= declared.keys()


def _user(
    name: str,
    entries: tuple[EntryChange, ...],
    memberships: Mapping[str, tuple[str, ...]],
    declared: UserEntry | None,
    evidence: Evidence,
) -> NewUser:
    passwd = next(e.fields for e in entries if e.path == _PASSWD)
    padded = (*passwd, *("",) * 7)
    home, groups = padded[5].strip("/"), memberships.get(name, ())
    return NewUser(
        name=name,
        uid=padded[2],
        gid=padded[3],
        home=home,
        shell=padded[6],
        groups=groups,
        entries=entries,
        paths=frozenset(_paths_of(name, home, evidence)),
        wrong=_wrong(entries, evidence)
        or _unlike(padded, groups, declared)
        or _foreign_group(padded, entries, declared),
        declared=declared is not None,
    )


def _wrong(entries: tuple[EntryChange, ...], evidence: Evidence) -> str:
    """Say what no new account may be, whoever declares it."""
    for entry in entries:
        if len(entry.fields) != _FIELDS[entry.path]:
            return f"its entry in `/{entry.path}` has {len(entry.fields)} fields"
        match entry.path:
            case "etc/passwd" if not _is_number(entry.fields[2]) or not _is_number(entry.fields[3]):
                return "it has root's number, or none"
            case "etc/passwd" if entry.fields[1] != "x":
                return "its password stands in `/etc/passwd`, or it has none"
            case "etc/passwd" if not _is_shell(entry.fields[6], evidence):
                return f"its shell `{entry.fields[6]}` is not a program of the base"
            case "etc/shadow" if entry.fields[1][:1] not in ("!", "*"):
                return "somebody can log in as it: it has a password, or needs none"
            case "etc/group" if entry.fields[1] not in ("x", "", "*", "!"):
                return "its group has a password"
            case "etc/gshadow" if entry.fields[1][:1] not in ("", "!", "*"):
                return "its group has a password"
            case "etc/group" if not _is_number(entry.fields[2]) or entry.fields[3] not in (
                "",
                entry.key,
            ):
                return "its group has root's number, none, or other members"
            case "etc/subuid" | "etc/subgid" if not (
                entry.fields[1].isdecimal() and int(entry.fields[1]) >= _FIRST_SUBORDINATE
            ):
                return f"its range in `/{entry.path}` covers the system's own numbers"
            case _:
                pass
    return ""


def _foreign_group(
    passwd: tuple[str, ...], entries: tuple[EntryChange, ...], declared: UserEntry | None
) -> str:
    """Say it where a user's first group is not its own and nobody declared the number."""
    own = next((e.fields[2] for e in entries if e.path == _GROUP and len(e.fields) == 4), "")
    if declared is None or declared.gid is not None or passwd[3] == own:
        return ""
    return f"its first group {passwd[3]} is not its own; the recipe has to declare `gid`"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) > 0


def _is_shell(path: str, evidence: Evidence) -> bool:
    if not path:
        return True  # passwd(5): `/bin/sh` then
    resolved = evidence.base_tree.resolve(path)
    return path.startswith("/") and resolved is not None


def _unlike(passwd: tuple[str, ...], groups: tuple[str, ...], declared: UserEntry | None) -> str:
    """Say in what a user is not as the recipe declares it."""
    if declared is None:
        return ""
    pairs = (
        ("uid", declared.uid, passwd[2]),
        ("gid", declared.gid, passwd[3]),
        ("home", declared.home, passwd[5]),
        ("shell", declared.shell, passwd[6]),
    )
    for what, wanted, found in pairs:
        if wanted is not None and str(wanted) != found:
            return f"the recipe declares {what} {wanted}, it has {found or 'none'}"
    if further := sorted(set(groups) - set(declared.groups)):
        return f"it is a member of {', '.join(further)}, which the recipe does not declare"
    return ""


def _paths_of(name: str, home: str, evidence: Evidence) -> Iterator[str]:
    """Yield the user's folder, what repeats the base's skeleton in it, and the empty spool."""
    new = evidence.new_nodes
    for spool in _SPOOLS:
        node = new.get(f"{spool}{name}")
        if node is not None and node.kind is Kind.FILE and not node.size:
            yield node.path
    if not home or home.count("/") < 1 or evidence.base_tree.get(home) is not None:
        return  # `/` or a folder of the base is nobody's home
    for skeleton in evidence.base_tree.under(_SKELETON.rstrip("/")):
        own = new.get(f"{home}/{skeleton.path.removeprefix(_SKELETON)}")
        if own is not None and own.same_content(skeleton) and not own.mode & 0o6000:
            yield own.path
    if home in new and new[home].kind is Kind.DIRECTORY:
        yield home
