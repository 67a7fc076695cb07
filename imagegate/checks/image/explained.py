"""Why each added, changed or hidden path is there: one explanation, or none.

What nobody explains is a failing finding of ``files.explained``. An explanation says where a path
comes from; what it does there is judged all the same: a locked wheel's file may still shadow a
module, a declared package's may still be loaded in the place of the base's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from imagegate.catalog import ldcache
from imagegate.catalog.python import site_of
from imagegate.catalog.watched import watched_place
from imagegate.checks.image.accounts import read_accounts
from imagegate.checks.image.debian import read_packages
from imagegate.checks.image.loader_cache import is_made_by_ldconfig
from imagegate.oci.tar import Kind
from imagegate.recipe.patterns import parse_pattern
from imagegate.rootfs import ancestors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from imagegate.checks.image.accounts import Accounts
    from imagegate.checks.image.debian import Debian
    from imagegate.checks.image.evidence import Change, Evidence
    from imagegate.rootfs import Node


class By(StrEnum):
    """What a path can be explained by; the values are read in a report behind a number."""

    WHEEL = "of locked wheels"
    INSTALLER = "written by installers of locked wheels"
    ASSET = "declared assets"
    LINK = "declared links"
    PACKAGE = "of declared Debian packages"
    UNDECLARED = "of Debian packages that the recipe does not declare"
    DATABASE = "databases compared entry by entry"
    USER = "of new users"
    LOADER_CACHE = "the loader's cache, as ldconfig makes it of the folders that it searches"
    UNOBEYED = "in places that no program obeys"
    REPEATED = "repeated from the base"
    ALLOWED = "allowed by the recipe"
    FOLDER = "folders above explained paths"
    BYTECODE = "bytecode, judged by `python.bytecode`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The explanations of one image.

    Attributes:
        by: path to what explains it.
        accounts: what happened to accounts.
        debian: what happened to dpkg's databases.
        left: changes that nothing explains.
        used: the patterns of `allow` that explain something.
    """

    by: Mapping[str, By]
    accounts: Accounts
    debian: Debian
    left: tuple[Change, ...]
    used: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unobeyed:
    """A place that no program of a running container obeys.

    Attributes:
        form: fits whole paths.
        why: why nothing obeys it.
        empty: whether only an empty file or folder is meant.
        kept: whether programs count on it, so that it may not be deleted.
    """

    form: re.Pattern[str]
    why: str
    empty: bool = False
    kept: bool = False


def _place(form: str, why: str, *, empty: bool = False, kept: bool = False) -> Unobeyed:
    return Unobeyed(form=re.compile(form), why=why, empty=empty, kept=kept)


# short on purpose, and part of the manual: regular files that nobody may execute, and folders;
# added, changed and deleted alike
UNOBEYED = (
    _place(r"var/lib/apt/lists(?:/.+)?", "apt's copy of its repositories' lists"),
    _place(
        r"var/lib/apt/(?:extended_states|(?:periodic|mirrors)(?:/.+)?)",
        "what apt remembers of its own runs",
    ),
    _place(
        r"var/cache/(?:apt|man|fontconfig|debconf)(?:/.+)?|var/cache/ldconfig(?:/aux-cache)?",
        "caches that their one program makes anew",
    ),
    _place(
        r"var/log/(?:apt(?:/.+)?|(?:dpkg|alternatives|bootstrap|fontconfig)\.log"
        r"|lastlog|faillog|tallylog|wtmp|btmp)",
        "logs of installations and logins",
    ),
    _place(
        r"var/lib/dpkg/(?:lock|lock-frontend|available(?:-old)?|triggers(?:/.+)?|updates|parts"
        r"|statoverride-old|cmethopt)",
        "what dpkg needs at its own next run",
    ),
    _place(r"etc/\.pwd\.lock", "the lock of useradd and passwd", empty=True),
    _place(
        r"\.dockerenv|run/\.containerenv|etc/(?:hosts|hostname|resolv\.conf)|dev/console",
        "files that runtimes put their own over",
        empty=True,
    ),
    _place(
        r"proc|sys|dev|dev/(?:pts|shm|mqueue)|run/(?:lock|secrets)|mnt|media",
        "mount points that runtimes make",
        empty=True,
    ),
    _place(
        r"run|tmp|var/tmp|srv|opt|home|boot",
        "empty folders of the system",
        empty=True,
        kept=True,
    ),
)


def unobeyed(path: str, node: Node | None, *, is_empty_folder: bool) -> bool:
    """Say whether a path lies where no program obeys it.

    Args:
        path: without leading slash.
        node: what stands there now, ``None`` where it was deleted.
        is_empty_folder: whether it is a folder in which the layers bring nothing.
    """
    place = next((place for place in UNOBEYED if place.form.fullmatch(path)), None)
    if place is None:
        return False
    if node is None:
        return not place.kept
    if node.kind is Kind.DIRECTORY:
        return is_empty_folder or not place.empty
    plain = node.kind is Kind.FILE and not node.mode & 0o7111 and not node.capabilities
    return plain and not node.attributes and (not place.empty or node.size == 0)


def explain(evidence: Evidence) -> Explained:
    """Find the one explanation of each path that the added layers touched."""
    accounts, debian = read_accounts(evidence), read_packages(evidence)
    allowed = _Allowed(evidence)
    given = _given(evidence, accounts, debian, allowed)
    by: dict[str, By] = {}
    left: list[Change] = []
    folders: list[Change] = []
    for change in evidence.changes:
        if change.after is not None and change.after.kind is Kind.DIRECTORY:
            folders.append(change)
            continue
        reason = (
            _given_for(change, given)
            or allowed.bytecode(change)
            or _own(change, evidence)
            or allowed.by(change)
        )
        if reason is None:
            left.append(change)
        else:
            by[change.path] = reason
    config = evidence.recipe.document.config
    working = (config.working_dir or evidence.base_settings.working_dir or "").strip("/")
    above = {folder for path in by for folder in ancestors(path)}
    filled = {
        folder for change in evidence.changes if change.after for folder in ancestors(change.path)
    }
    for change in folders:
        reason = _folder(change, above, given, filled=change.path in filled)
        if reason is None and change.path == working:
            reason = By.FOLDER
        reason = reason or allowed.by(change)
        if reason is None:
            left.append(change)
        else:
            by[change.path] = reason
    return Explained(
        by=by,
        accounts=accounts,
        debian=debian,
        left=tuple(left),
        used=frozenset(allowed.used),
    )


def _given(
    evidence: Evidence, accounts: Accounts, debian: Debian, allowed: _Allowed
) -> dict[str, By]:
    """Return the paths that recipe, lock and databases name."""
    given = dict.fromkeys((*accounts.databases, *debian.databases), By.DATABASE)
    for user in accounts.users:
        given.update(dict.fromkeys(user.paths, By.USER))
    for added in debian.added:
        by = By.PACKAGE if added.declared else By.UNDECLARED
        given.update(dict.fromkeys(added.paths, by))
        # named by the recipe, or a finding of `debian.pins`
        given.update(
            (path, By.ALLOWED if allowed.names(path) else by)
            for path in (*added.watched, *added.unproven)
        )
    given.update(dict.fromkeys((asset.target for asset in evidence.lock.assets), By.ASSET))
    for path, target in evidence.links.items():
        node = evidence.tree.get(path)
        if node is not None and node.kind is Kind.SYMLINK and node.target == target:
            given[path] = By.LINK
    if is_made_by_ldconfig(evidence):
        given[ldcache.PATH] = By.LOADER_CACHE
    return given


def _given_for(change: Change, given: Mapping[str, By]) -> By | None:
    """Return what names a path; over a path of the base only a database may be written."""
    reason = given.get(change.path)
    written_anew = reason in (By.DATABASE, By.LOADER_CACHE)
    return reason if change.before is None or written_anew else None


def _own(change: Change, evidence: Evidence) -> By | None:
    """Explain a path by itself: bytecode, a wheel's file, an unobeyed place, the base's bytes."""
    path, before, after = change.path, change.before, change.after
    if path.endswith((".pyc", ".pyo")):
        return By.BYTECODE
    if before is not None and after is not None and before.same_content(after):
        return By.REPEATED  # what differs in mode, owner or attributes is a finding of its own
    if before is None and after is not None and evidence.lock.layer.get(path) is not None:
        return By.WHEEL  # another content than the wheel's is `python.locked`'s to say
    if before is None and after is not None and evidence.is_installers_own(after):
        return By.INSTALLER
    if unobeyed(path, after, is_empty_folder=False):
        return By.UNOBEYED
    return None


def _folder(change: Change, above: set[str], given: Mapping[str, By], *, filled: bool) -> By | None:
    before, after = change.before, change.after
    assert after is not None
    if before is not None and before.kind is Kind.DIRECTORY:
        return By.REPEATED
    if before is not None:
        return None
    if change.path in above:
        return By.FOLDER
    if change.path in given:
        return given[change.path]
    if change.path.endswith("/__pycache__"):
        return By.BYTECODE
    if unobeyed(change.path, after, is_empty_folder=not filled):
        return By.UNOBEYED
    return None


class _Allowed:
    """What the recipe's author takes upon himself."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        patterns = [parse_pattern(entry.pattern) for entry in evidence.recipe.document.layer.allow]
        self._literal = {p.text.strip("/"): p for p in patterns if p.literal}
        self._wide = [p for p in patterns if not p.literal]
        self.used: set[str] = set()

    def names(self, path: str) -> bool:
        """Say whether the recipe names a path in full."""
        named = self._literal.get(path)
        if named is not None:
            self.used.add(named.text)
        return named is not None

    def by(self, change: Change) -> By | None:
        """Explain a path by the recipe; see :mod:`imagegate.recipe.patterns` for what counts."""
        if change.before is not None:
            return None  # the base's bytes are promised: a waiver accepts just one other content
        if self.names(change.path):
            return By.ALLOWED
        if self._is_watched(change.path):
            return None
        for pattern in self._wide:
            if pattern.covers(change.path):
                self.used.add(pattern.text)
                return By.ALLOWED
        return None

    def bytecode(self, change: Change) -> By | None:
        """Explain cached bytecode (PEP 3147) by a pattern that ends in ``.pyc``, or by its name."""
        path = change.path
        if change.after is None or not path.endswith(".pyc"):
            return None
        cached = "__pycache__/" in path
        for pattern in (*self._literal.values(), *self._wide):
            fits = pattern.literal or (cached and pattern.text.endswith(".pyc"))
            if fits and pattern.covers(path):
                self.used.add(pattern.text)
                return By.ALLOWED
        return None

    def _is_watched(self, path: str) -> bool:
        return bool(watched_place(path)) or site_of(path) is not None


def count_explanations(explained: Explained) -> Iterator[str]:
    """Yield a line for each kind of explanation, with how many paths it explains."""
    counts: dict[By, int] = {}
    for by in explained.by.values():
        counts[by] = counts.get(by, 0) + 1
    for by in By:
        if by in counts:
            yield f"{counts[by]} {by.value}"
