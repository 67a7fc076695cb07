"""Where the keys and values of a TOML document stand, for messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tree_sitter import Node

# a way into a document: keys, and numbers of array members from 0
Path = tuple[str | int, ...]


def positions(text: str) -> Mapping[Path, tuple[int, int]]:
    """Return line and column, both from 1, of every key, table and array member.

    `text` is a valid TOML document (TOML 1.0.0). Columns count characters.
    """
    import tree_sitter_toml
    from tree_sitter import Language, Parser

    content = text.encode()
    tree = Parser(Language(tree_sitter_toml.language())).parse(content)
    found = _Found(content.split(b"\n"))
    for child in tree.root_node.children:
        if child.type == "pair":
            found.pair((), child)
        elif child.type in {"table", "table_array_element"}:
            found.table(child)
    return found.places


class _Found:
    def __init__(self, lines: list[bytes]) -> None:
        self.places: dict[Path, tuple[int, int]] = {(): (1, 1)}
        self._lines = lines
        self._members: dict[Path, int] = {}

    def _note(self, path: Path, node: Node) -> None:
        row, column = node.start_point
        characters = len(self._lines[row][:column].decode("utf-8", "replace"))
        self.places.setdefault(path, (row + 1, characters + 1))

    def table(self, node: Node) -> None:
        keys = next(_keys(child) for child in node.children if child.is_named)
        path: Path = (*self._current(tuple(keys[:-1])), keys[-1])
        self._note(path, node)
        if node.type == "table_array_element":
            number = self._members.get(path, -1) + 1
            self._members[path] = number
            path += (number,)
            self._note(path, node)
        for child in node.children:
            if child.type == "pair":
                self.pair(path, child)

    def _current(self, keys: tuple[str, ...]) -> Path:
        """Return the way through `keys`, into the latest member of every array of tables."""
        path: Path = ()
        for key in keys:
            path += (key,)
            if path in self._members:
                path += (self._members[path],)
        return path

    def pair(self, above: Path, node: Node) -> None:
        key, value = (
            child for child in node.children if child.is_named and child.type != "comment"
        )
        path = above
        for name in _keys(key):
            path += (name,)
            self._note(path, node)
        self._value(path, value)

    def _value(self, path: Path, node: Node) -> None:
        if node.type == "array":
            members = (
                child for child in node.children if child.is_named and child.type != "comment"
            )
            for number, child in enumerate(members):
                self._note((*path, number), child)
                self._value((*path, number), child)
        elif node.type == "inline_table":
            for child in node.children:
                if child.type == "pair":
                    self.pair(path, child)


def _keys(node: Node) -> list[str]:
    if node.type == "dotted_key":
        return [name for child in node.children if child.is_named for name in _keys(child)]
    import tomllib

    written = (node.text or b"").decode()
    # a key means what it means in TOML, quotes and escapes included
    return list(tomllib.loads(f"{written} = 0"))
