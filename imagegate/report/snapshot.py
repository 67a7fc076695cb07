"""What an image or a lock holds, in groups of names and values that can be listed and compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from imagegate.foreign.credentials import redact, redact_value
from imagegate.report.lockdiff import Difference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from imagegate.facts import Facts
    from imagegate.oci.documents import ContainerConfig
    from imagegate.rootfs import Node

# readings that say which version it is; the others only identify the file
_NO_VERSION = frozenset({"build id", "sha256", "file name"})
GROUPS = ("pins", "distributions", "packages", "libraries", "config", "files")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One state of an image.

    Attributes:
        title: what it is, for a person.
        groups: of each group, name to value.
        unknown: what of it could not be read.
    """

    title: str
    groups: Mapping[str, Mapping[str, str]]
    unknown: tuple[str, ...] = ()


def snapshot(
    title: str,
    facts: Facts,
    config: ContainerConfig,
    files: Iterable[Node],
    added: Mapping[str, str] | None = None,
) -> Snapshot:
    """Sort what was read into groups.

    Args:
        title: what it is, for a person.
        facts: what was read out of the files.
        config: what a container starts with.
        files: every path.
        added: further distributions, by name, that a lock adds.
    """
    groups = {
        "pins": _pins(facts),
        "distributions": {**_distributions(facts), **(added or {})},
        "packages": {
            f"{p.name}:{p.architecture} ({p.path})"
            if p.manager == "dpkg"
            else f"{p.name} ({p.path.rpartition('/')[0]})": f"{p.version} {p.state}"
            for p in facts.packages
        },
        "libraries": _libraries(facts),
        "config": _config(config),
        "files": {
            node.path: f"{node.kind.name.lower()} {node.mode:o} {node.sha256 or node.target}".strip()
            for node in files
        },
    }
    unknown = tuple(f"`{file.path}`: {file.unread}" for file in facts.elf if file.unread)
    return Snapshot(title=title, groups=groups, unknown=unknown)


def compare_snapshots(old: Snapshot, new: Snapshot) -> tuple[Difference, ...]:
    """List what differs, group by group."""
    found: list[Difference] = []
    for group in GROUPS:
        before, now = old.groups[group], new.groups[group]
        found += [
            Difference(
                group=group,
                subject=redact(name),
                old=_told(name, before.get(name, "")),
                new=_told(name, now.get(name, "")),
            )
            for name in sorted(before.keys() | now.keys())
            if before.get(name) != now.get(name)
        ]
    return tuple(found)


def _told(name: str, value: str) -> str:
    """Hide credentials; two different ones are compared before and read alike then."""
    return redact_value(name.rpartition(" ")[2], value)


def shown_groups(state: Snapshot) -> dict[str, dict[str, str]]:
    """Return the groups as they are shown: without credentials."""
    return {
        group: {redact(name): _told(name, value) for name, value in members.items()}
        for group, members in state.groups.items()
    }


def _pins(facts: Facts) -> dict[str, str]:
    values: dict[str, set[str]] = {}
    for reading in facts.native:
        if reading.source not in _NO_VERSION:
            values.setdefault(reading.component, set()).add(reading.value)
    return {name: ", ".join(sorted(found)) for name, found in values.items()}


def _distributions(facts: Facts) -> dict[str, str]:
    several = len({pin.site for pin in facts.distributions}) > 1
    return {
        canonicalize_name(pin.name) + (f" in {pin.site}" if several else ""): (
            f"{pin.version} {pin.direct_url}".strip()
        )
        for pin in facts.distributions
    }


def _libraries(facts: Facts) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for reading in facts.native:
        if reading.source in _NO_VERSION - {"file name"}:
            found.setdefault(reading.path, []).append(f"{reading.source} {reading.value}")
    lines = {path: ", ".join(values) for path, values in found.items()}
    lines.update({link.path: f"link to {link.leads_to or 'nothing'}" for link in facts.links})
    return lines


def _config(config: ContainerConfig) -> dict[str, str]:
    found = {f"Env {name}": value for name, value in config.environment.items()}
    found.update({f"Label {name}": value for name, value in (config.labels or {}).items()})
    for name, value in (
        ("Entrypoint", config.entrypoint),
        ("Cmd", config.cmd),
        ("User", config.user),
        ("WorkingDir", config.working_dir),
    ):
        if value:
            found[name] = str(list(value)) if isinstance(value, tuple) else value
    return found
