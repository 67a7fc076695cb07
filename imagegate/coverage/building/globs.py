"""Globs as buildah's copier expands them: Go's ``filepath.Glob`` inside a root."""

from __future__ import annotations

from imagegate.coverage.golang.paths import BadPatternError, join, match, split
from imagegate.coverage.tree import Kind, LinkLoopError, Node, lookup, resolve


def extended_glob(root: Node, pattern: str, *, deep: bool) -> list[str]:
    """``extendedGlob``: Go's ``filepath.Glob``, with ``**`` for any depth in newer versions."""
    parts = pattern.split("/") if pattern else []
    if deep and "**" in parts:
        return sorted(
            found for expanded in _expand_deep(root, parts) for found in go_glob(root, expanded)
        )
    return go_glob(root, pattern)


def _expand_deep(root: Node, parts: list[str]) -> list[str]:
    patterns = [""]
    for part in parts:
        following: list[str] = []
        for parent in patterns:
            if part == "**":
                following += [join(parent, below) for below in _folders(root, parent)]
            else:
                following.append(join(parent, part))
        patterns = list(dict.fromkeys(following))
    return patterns


def _folders(root: Node, path: str) -> list[str]:
    """Every directory at and below `path`, relative to it, links not followed."""
    node = lookup(root, path)
    if node is None or node.kind is not Kind.DIRECTORY:
        return ["."] if node is None else []
    found = ["."]
    waiting = [("", node)]
    while waiting:
        prefix, here = waiting.pop()
        for name in sorted(here.children, reverse=True):
            child = here.children[name]
            if child.kind is Kind.DIRECTORY:
                relative = f"{prefix}/{name}" if prefix else name
                found.append(relative)
                waiting.append((relative, child))
    return found


def go_glob(root: Node, pattern: str) -> list[str]:
    """``filepath.Glob``; directories on the way may be links."""
    if not _has_meta(pattern):
        return [pattern] if lstat(root, pattern) is not None else []
    above, name = split(pattern)
    above = above.rstrip("/")
    found: list[str] = []
    for folder in go_glob(root, above) if _has_meta(above) else [above]:
        node = _stat_node(root, folder)
        if node is None or node.kind is not Kind.DIRECTORY:
            continue
        for entry in sorted(node.children):
            try:
                matched = match(name, entry)
            except BadPatternError:
                return []  # a broken pattern is one that matches nothing
            if matched:
                found.append(f"{folder}/{entry}" if folder else entry)
    return found


def _has_meta(path: str) -> bool:
    return any(character in path for character in "*?[\\")


def lstat(root: Node, path: str) -> Node | None:
    """Look at `path` with links followed in all but its last component."""
    above, name = split(path)
    if not name:
        return root if not path else _stat_node(root, path)
    parent = _stat_node(root, above.rstrip("/"))
    return parent.children.get(name) if parent is not None else None


def _stat_node(root: Node, path: str) -> Node | None:
    """Look at `path` with links followed; links in a circle lead nowhere."""
    try:
        return lookup(root, resolve(root, path))
    except LinkLoopError:
        return None
