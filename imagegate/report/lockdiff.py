"""The semantic difference of two locks: what a person has to agree to before one replaces the other."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from imagegate.foreign import shown
from imagegate.foreign.credentials import redact, redact_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from imagegate.lock import Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that differs: its group, its name and both sides, ``""`` for nothing."""

    group: str
    subject: str
    old: str
    new: str


# characters of one side of a difference; data formats carry all of it
_LONG = 200


def compare_locks(
    old: Lock | None, new: Lock, chosen: Collection[str] | None = None
) -> tuple[Difference, ...]:
    """List what differs, grouped; without an old lock everything is new.

    Args:
        old: the lock before.
        new: the lock now.
        chosen: the groups that are compared; all if ``None``.
    """
    groups: tuple[tuple[str, Mapping[str, str], Mapping[str, str]], ...] = tuple(
        (group, read(old) if old is not None else {}, read(new))
        for group, read in _GROUPS.items()
        if (chosen is None or group in chosen)
        # one base lock is compared with itself by its digest, not path by path
        and not (group.startswith("base ") and old is not None and _same_base(old, new))
    )
    return tuple(
        Difference(
            group=group,
            subject=redact(subject),
            old=redact_value(subject, before.get(subject, "")),
            new=redact_value(subject, now.get(subject, "")),
        )
        for group, before, now in groups
        for subject in sorted(before.keys() | now.keys())
        if before.get(subject) != now.get(subject)
    )


def _same_base(old: Lock, new: Lock) -> bool:
    mine, other = old.contents.base, new.contents.base
    return mine is not None and other is not None and mine.lock == other.lock


def render_differences(differences: tuple[Difference, ...], *, limit: int = 20) -> str:
    """Write differences for a person; a long group is cut, and the cut is said.

    A group in which everything is new, as in a first lock, is only counted if it is long.
    """
    lines: list[str] = []
    for group in dict.fromkeys(difference.group for difference in differences):
        members = [d for d in differences if d.group == group]
        if len(members) > limit and not any(member.old for member in members):
            lines.append(f"{group}: {len(members)} new")
            continue
        lines.append(f"{group}: {len(members)}")
        lines += [shown(f"  {member.subject}: {_sides(member)}") for member in members[:limit]]
        if len(members) > limit:
            lines.append(f"  and {len(members) - limit} more")
    return "".join(f"{line}\n" for line in lines)


def _sides(difference: Difference) -> str:
    old, new = _short(difference.old), _short(difference.new)
    if not difference.old:
        return f"new {new}"
    if not difference.new:
        return f"gone, was {old}"
    return f"{old} -> {new}"


def _short(value: str) -> str:
    """Cut a value that would fill the screen, such as the entries of `ld.so.cache`; says so."""
    if len(value) <= _LONG:
        return value
    return f"{value[:_LONG].rpartition(' ')[0] or value[:_LONG]} … ({len(value)} characters)"


def _origin(lock: Lock) -> dict[str, str]:
    base = lock.base
    return {
        "base": str(base.digest or "scratch"),
        "platform": base.platform,
        **({"index": str(base.index)} if base.index is not None else {}),
    }


def _recipe(lock: Lock) -> dict[str, str]:
    """Write every key of the recipe that the image is made by, as it would stand in TOML."""
    return dict(_keys(lock.contents.made_of, ""))


def _keys(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _keys(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        for number, inner in enumerate(value):
            yield from _keys(inner, f"{path}[{number}]")
    else:
        yield path, json.dumps(value, ensure_ascii=False)


def _requested(lock: Lock) -> dict[str, str]:
    """Name each requested distribution with the rest of its line."""
    found: dict[str, str] = {}
    for line in lock.contents.requested:
        name = re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]
        key = canonicalize_name(name) if name else line
        found[key] = f"{found[key]}, {line}" if key in found else line
    return found


def _base_distributions(lock: Lock) -> dict[str, str]:
    return {
        f"{canonicalize_name(pin.name)} in {pin.site}": f"{pin.version} {pin.direct_url}".strip()
        for pin in lock.base.facts.distributions
    }


def _base_native(lock: Lock) -> dict[str, str]:
    facts = lock.base.facts
    readings = {f"{r.component} by {r.source} in {r.path}": r.value for r in facts.native}
    links = {f"link {link.path}": link.leads_to or "nothing" for link in facts.links}
    return {**readings, **links}


def _base_packages(lock: Lock) -> dict[str, str]:
    return {
        f"{package.name}:{package.architecture} in {package.path}": (
            f"{package.version} {package.state}"
        )
        for package in lock.base.facts.packages
    }


def _base_startup(lock: Lock) -> dict[str, str]:
    facts = lock.base.facts
    found = {file.path: "; ".join([*file.code, *file.inserts]) for file in facts.startup}
    return {**found, **{file.path: ", ".join(file.lines) for file in facts.loader}}


def _base_contradictions(lock: Lock) -> dict[str, str]:
    return {
        f"{c.path} of {c.distribution}": f"recorded {c.recorded} found {c.found or 'nothing'}"
        for c in lock.base.facts.contradictions or ()
    }


def _base_files(lock: Lock) -> dict[str, str]:
    return {
        node.path: f"{node.kind.name.lower()} {node.mode:o} {node.sha256 or node.target}"
        for node in lock.files
    }


def _wheels(lock: Lock) -> dict[str, str]:
    return {wheel.name: f"{wheel.version} sha256 {wheel.sha256}" for wheel in lock.wheels}


def _assets(lock: Lock) -> dict[str, str]:
    return {asset.source: f"{asset.target} sha256 {asset.sha256}" for asset in lock.assets}


_GROUPS = {
    "origin": _origin,
    "recipe": _recipe,
    "requirements": _requested,
    "base distributions": _base_distributions,
    "base libraries": _base_native,
    "base packages": _base_packages,
    "base start-up and loader": _base_startup,
    "base contradictions": _base_contradictions,
    "base files": _base_files,
    "added distributions": _wheels,
    "assets": _assets,
}
