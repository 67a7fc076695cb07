"""BuildKit's second filter: only what the Dockerfile names is sent.

The frontend collects the sources of every COPY and ADD of the needed stages, the client resolves
links among them (fsutil ``FollowLinks``) and sends only paths under these. It matters: a glob
whose fixed directory was not sent is an error, one that merely matches nothing is silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import (
    BadPatternError,
    base,
    clean,
    has_wildcards,
    inside,
    join,
    match,
    split,
)
from imagegate.coverage.sending.client import Algorithm, Grammar
from imagegate.coverage.sending.index import RuleIndex
from imagegate.coverage.sending.patterns import Rule, compile_rule
from imagegate.coverage.tree import Kind, Node, directory

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_STEPS = 10_000


class TransferError(ValueError):
    """The client refuses to send: a source is not a valid pattern or cannot be looked at."""


def narrow(sent: Node, whole: Node, paths: Iterable[str], algorithm: Algorithm) -> Node:
    """Return the part of `sent` that BuildKit transfers for the sources `paths`.

    Args:
        sent: what the ignore file leaves of the context.
        whole: the context itself; links are resolved in it, ignored or not.
        paths: every source named by the needed stages, relative to the context root; ``""`` is
            the root, and then nothing is narrowed.
        algorithm: the client's walk.

    Raises:
        TransferError: the client fails.
    """
    wanted = [inside(path) for path in paths]
    if "" in wanted:
        return sent
    strict = algorithm is Algorithm.FSUTIL_20
    followed = _follow(whole, sorted(join(".", path) for path in wanted), strict=strict)
    if followed is None:
        return sent
    if strict:
        return _narrow_by_prefix(sent, "", followed) or directory()
    rules: list[Rule] = []
    for pattern in followed:
        try:
            rule = compile_rule(pattern, 0, Grammar.MOBY)
        except BadPatternError as refused:
            raise TransferError(f"`{pattern}` is not a valid pattern: {refused}") from refused
        if rule is not None:
            rules.append(rule)
    try:
        return _narrow_by_rules(sent, "", rules, RuleIndex.of(rules, Grammar.MOBY)) or directory()
    except BadPatternError as refused:
        raise TransferError(str(refused)) from refused


def _narrow_by_rules(node: Node, path: str, rules: list[Rule], index: RuleIndex) -> Node | None:
    """Keep what an include pattern matches, and the directories above it."""
    kept = directory()
    prefix = f"{path}/" if path else ""
    for name, child in node.children.items():
        inner = prefix + name
        included = any(rules[number].matches(inner) for number in index.possible(inner, _NONE))
        if included:
            kept.children[name] = child
        elif child.kind is Kind.DIRECTORY:
            below = _narrow_by_rules(child, inner, rules, index.below(inner))
            if below is not None:
                kept.children[name] = below
    return kept if kept.children else None


_NONE: frozenset[int] = frozenset()


def _narrow_by_prefix(node: Node, path: str, patterns: list[str]) -> Node | None:
    """The old fsutil: a directory on the way to a pattern is sent, matches below or not."""
    kept = directory()
    prefix = f"{path}/" if path else ""
    for name, child in node.children.items():
        inner = prefix + name
        found = [_match_prefix(pattern, inner) for pattern in patterns]
        if "whole" in found:
            kept.children[name] = child
        elif "partial" in found:
            is_directory = child.kind is Kind.DIRECTORY
            kept.children[name] = (
                _narrow_by_prefix(child, inner, patterns) or directory() if is_directory else child
            )
    return kept if kept.children else None


def _match_prefix(pattern: str, name: str) -> str:
    depth = name.count("/") + 1
    parts = pattern.split("/")
    try:
        matched = match("/".join(parts[:depth]), name)
    except BadPatternError:
        return ""
    if not matched:
        return ""
    return "partial" if len(parts) > depth else "whole"


def _follow(whole: Node, paths: list[str], *, strict: bool) -> list[str] | None:
    """``FollowLinks``: add what links among `paths` point to; ``None`` means everything."""
    resolved: set[str] = set()
    waiting = list(reversed(paths))
    for _ in range(_MAX_STEPS + 10 * len(paths)):
        if not waiting:
            break
        _follow_one(whole, waiting.pop(), resolved, waiting, strict=strict)
    kept: list[str] = []
    for path in sorted(resolved):
        if path == ".":
            return None
        if kept and path.startswith(kept[-1] + "/"):
            continue
        kept.append(path)
    return kept or None


def _follow_one(
    whole: Node, path: str, resolved: set[str], waiting: list[str], *, strict: bool
) -> None:
    rest = join(".", path).lstrip("/") if path.startswith("/") else join(".", path)
    current = "."
    while True:
        first, _, rest = rest.partition("/")
        current = join(current, first)
        targets = _targets(whole, current, strict=strict)
        if (not rest or targets) and current in resolved:
            return
        if targets:
            resolved.add(current)
            waiting += [clean("/" + join(target, rest)) for target in reversed(targets)]
            return
        if not rest:
            resolved.add(current)
            return


def _targets(whole: Node, path: str, *, strict: bool) -> list[str]:
    """Return where the link at `path`, or each link its last component matches, points to."""
    parent, _ = split(path)
    name = base(path)
    if not has_wildcards(name):
        return _target(whole, path, strict=strict)
    folder = _lstat(whole, parent.rstrip("/"), strict=strict)
    if folder is None:
        return []
    if folder.kind is not Kind.DIRECTORY:
        if strict:
            raise TransferError(f"`{parent}` is not a directory")
        return []
    found: list[str] = []
    for entry in sorted(folder.children):
        try:
            matched = match(name, entry)
        except BadPatternError:
            return []
        if matched:
            found += _target(whole, parent + entry, strict=strict)
    return found


def _target(whole: Node, path: str, *, strict: bool) -> list[str]:
    node = _lstat(whole, path, strict=strict)
    if node is None or node.kind is not Kind.LINK:
        return []
    target = clean(node.target)
    return [target if target.startswith("/") else clean("/" + join(split(path)[0], target))]


def _lstat(whole: Node, path: str, *, strict: bool) -> Node | None:
    node = whole
    for part in path.split("/") if path not in ("", ".") else ():
        if node.kind is not Kind.DIRECTORY:
            if strict:
                raise TransferError(f"`{path}` leads through a file")
            return None
        child = node.children.get(part)
        if child is None:
            return None
        node = child
    return node
