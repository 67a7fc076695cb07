"""Which rules of a long ignore list can match an entry of a directory at all.

A context has 100,000 paths and an ignore file 200 lines, or 100,000; trying each line on each path
would take minutes. Most lines are ruled out by the directory (another literal start, another
depth) or by a literal piece that the path does not hold. What is left is a superset of the rules
that match, in the file's order, so a walk that tries only these comes to the same result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.coverage.sending.client import Grammar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from imagegate.coverage.sending.patterns import Rule

# a class of plain characters stands for one character that is not `/`
_CLASS = r"\[[\w.][\w.-]*\]"
_WILDCARD = re.compile(rf"[*?]|{_CLASS}")
_LIVE = {
    Grammar.MOBY: re.compile(r"[][\\|{}^]"),
    Grammar.DOCKER_20: re.compile(r"[][\\|{}^+()]"),
    Grammar.STORAGE: re.compile(r"[][\\|{}^+()]"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What is known of every path that a rule matches.

    Attributes:
        number: the rule's place in the list.
        start: literal text that such a path begins with.
        end: literal text that it ends with.
        inner: the longest literal text that it holds.
        depth: number of components of such a path; 0 when it may be any.
        exact: the rule matches the path `end` and no other.
    """

    number: int
    start: str = ""
    end: str = ""
    inner: str = ""
    depth: int = 0
    exact: bool = False


def _shape(number: int, rule: Rule, grammar: Grammar) -> _Shape:
    text = rule.text
    live = _LIVE[grammar].search(re.sub(_CLASS, "", text))
    if rule.broken is not None or live or text.startswith("\ufeff"):
        return _Shape(number=number)
    found = _WILDCARD.search(text)
    if found is None:
        depth = text.count("/") + 1
        return _Shape(number=number, start=text, end=text, inner=text, depth=depth, exact=True)
    pieces = re.split(_WILDCARD, text)
    end = pieces[-1]
    depth = 0
    if "**" in text:
        # the `/` of `**/` may match nothing, then the rest is all there is
        pieces = [pieces[0], *(piece.removeprefix("/") for piece in pieces[1:])]
        behind = text[: len(text) - len(end)]
        end = end.removeprefix("/") if behind.endswith("**") else end
    else:
        depth = text.count("/") + 1
    inner = max(pieces, key=len)
    return _Shape(number=number, start=text[: found.start()], end=end, inner=inner, depth=depth)


class _Table:
    """Shapes by the literal text that a path has to have for them."""

    __slots__ = ("_always", "_by_end", "_by_inner", "_end_lengths", "_exact", "_inner_lengths")

    def __init__(self, shapes: Iterable[_Shape], depth: int) -> None:
        self._always: list[int] = []
        self._exact: dict[str, list[int]] = {}
        self._by_end: dict[str, list[int]] = {}
        self._by_inner: dict[str, list[int]] = {}
        for shape in shapes:
            if shape.depth not in (0, depth):
                continue
            if shape.exact:
                self._exact.setdefault(shape.end, []).append(shape.number)
            elif shape.end:
                self._by_end.setdefault(shape.end, []).append(shape.number)
            elif shape.inner:
                self._by_inner.setdefault(shape.inner, []).append(shape.number)
            else:
                self._always.append(shape.number)
        self._end_lengths = sorted({len(end) for end in self._by_end})
        self._inner_lengths = sorted({len(inner) for inner in self._by_inner})

    def into(self, numbers: list[int], path: str) -> None:
        """Add the numbers of the rules that may match `path`."""
        numbers += self._always
        if self._exact:
            numbers += self._exact.get(path, ())
        for length in self._end_lengths:
            numbers += self._by_end.get(path[-length:], ())
        if len(self._by_inner) < len(path):
            for inner, found in self._by_inner.items():
                if inner in path:
                    numbers += found
            return
        for length in self._inner_lengths:
            for piece in {path[at : at + length] for at in range(len(path) - length + 1)}:
                numbers += self._by_inner.get(piece, ())


class _Group:
    """Shapes that hold for every directory below some point; a table for each depth."""

    __slots__ = ("_shapes", "_tables")

    def __init__(self, shapes: list[_Shape]) -> None:
        self._shapes = shapes
        self._tables: dict[int, _Table] = {}

    def at(self, depth: int) -> _Table:
        """Return the table for paths of `depth` components."""
        if depth not in self._tables:
            self._tables[depth] = _Table(self._shapes, depth)
        return self._tables[depth]


class RuleIndex:
    """The rules that can match entries of one directory."""

    __slots__ = ("_depth", "_groups", "_heads", "_loose", "_offset", "_own", "_tables")

    def __init__(
        self, groups: tuple[_Group, ...], own: list[_Shape], offset: int, depth: int
    ) -> None:
        self._groups = groups
        self._own = own
        self._offset = offset
        self._depth = depth
        self._heads: dict[str, list[_Shape]] | None = None
        self._loose: dict[str, list[_Shape]] = {}
        tables = [group.at(depth) for group in groups]
        self._tables = [*tables, _Table(own, depth)] if own else tables

    @classmethod
    def of(cls, rules: Sequence[Rule], grammar: Grammar) -> RuleIndex:
        """Return the index for the entries of the root."""
        shapes = [_shape(number, rule, grammar) for number, rule in enumerate(rules)]
        free = [shape for shape in shapes if not shape.start]
        groups = (_Group(free),) if free else ()
        return cls(groups, [shape for shape in shapes if shape.start], 0, 1)

    def below(self, path: str) -> RuleIndex:
        """Return the index for the entries of the directory at `path`."""
        name = path[self._offset :]
        heads = self._partition()
        following = heads.get(name, [])
        inside = [
            shape
            for start, shapes in self._starts(name)
            if name.startswith(start)
            for shape in shapes
        ]
        offset = len(path) + 1
        own = [shape for shape in following if len(shape.start) > offset]
        inside += [shape for shape in following if len(shape.start) <= offset]
        groups = (*self._groups, _Group(inside)) if inside else self._groups
        return RuleIndex(groups, own, offset, self._depth + 1)

    def _starts(self, name: str) -> list[tuple[str, list[_Shape]]]:
        if len(self._loose) < len(name):
            return list(self._loose.items())
        starts = [name[:length] for length in range(1, len(name) + 1)]
        return [(start, self._loose[start]) for start in starts if start in self._loose]

    def _partition(self) -> dict[str, list[_Shape]]:
        """Sort the directory's own shapes by the next component of their start."""
        if self._heads is None:
            self._heads = {}
            for shape in self._own:
                if shape.depth and shape.depth <= self._depth:
                    continue
                head, slash, _ = shape.start[self._offset :].partition("/")
                known = self._heads if slash else self._loose
                known.setdefault(head, []).append(shape)
        return self._heads

    def possible(self, path: str, inherited: frozenset[int]) -> Sequence[int]:
        """Return the numbers of rules that may match `path` or are `inherited`, ascending."""
        numbers: list[int] = []
        for table in self._tables:
            table.into(numbers, path)
        if inherited:
            return sorted(inherited.union(numbers))
        return sorted(numbers) if len(numbers) > 1 else numbers
