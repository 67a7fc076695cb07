"""Which rules of a long ignore list can match an entry of a directory at all.

A context has 100,000 paths and an ignore file 200 lines; trying each line on each path would take
minutes. Most lines are ruled out by the directory (another literal prefix, another depth) or by
the end of the name. What is left is a superset of the rules that match, in the file's order, so a
walk that tries only these comes to the same result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.coverage.sending.client import Grammar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.coverage.sending.patterns import Rule

_WILDCARD = re.compile(r"[*?]")
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
        depth: number of components of such a path; 0 when it may be any.
        exact: the rule matches the path `end` and no other.
        opaque: nothing is known, the rule has to be tried everywhere.
    """

    number: int
    start: str = ""
    end: str = ""
    depth: int = 0
    exact: bool = False
    opaque: bool = False


def _shape(number: int, rule: Rule, grammar: Grammar) -> _Shape:
    text = rule.text
    if rule.broken is not None or _LIVE[grammar].search(text) or text.startswith("\ufeff"):
        return _Shape(number=number, opaque=True)
    found = _WILDCARD.search(text)
    if found is None:
        return _Shape(number=number, start=text, end=text, depth=text.count("/") + 1, exact=True)
    end = text[len(text) - len(re.split(_WILDCARD, text)[-1]) :]
    depth = 0
    if "**" in text:
        # the `/` of `**/` may match nothing, then the rest is all there is
        behind = text[: len(text) - len(end)]
        end = end.removeprefix("/") if behind.endswith("**") else end
    else:
        depth = text.count("/") + 1
    return _Shape(number=number, start=text[: found.start()], end=end, depth=depth)


class RuleIndex:
    """The rules that can match entries of one directory."""

    __slots__ = ("_always", "_by_end", "_exact", "_lengths", "_living")

    def __init__(self, shapes: list[_Shape], depth: int) -> None:
        self._living = shapes
        self._always: list[int] = []
        self._exact: dict[str, list[int]] = {}
        self._by_end: dict[str, list[int]] = {}
        for shape in shapes:
            if shape.opaque or (not shape.end and shape.depth in (0, depth)):
                self._always.append(shape.number)
            elif shape.depth not in (0, depth):
                continue
            elif shape.exact:
                self._exact.setdefault(shape.end, []).append(shape.number)
            else:
                self._by_end.setdefault(shape.end, []).append(shape.number)
        self._lengths = sorted({len(end) for end in self._by_end})

    @classmethod
    def of(cls, rules: Sequence[Rule], grammar: Grammar) -> RuleIndex:
        """Return the index for the entries of the root."""
        return cls([_shape(number, rule, grammar) for number, rule in enumerate(rules)], 1)

    def below(self, path: str) -> RuleIndex:
        """Return the index for the entries of the directory at `path`."""
        prefix = path + "/"
        living = [
            shape
            for shape in self._living
            if shape.opaque or prefix.startswith(shape.start) or shape.start.startswith(prefix)
        ]
        return RuleIndex(living, path.count("/") + 2)

    def possible(self, path: str, inherited: frozenset[int]) -> Sequence[int]:
        """Return the numbers of rules that may match `path` or are `inherited`, ascending."""
        found = self._exact.get(path)
        numbers = [*self._always, *found] if found else self._always
        for length in self._lengths:
            found = self._by_end.get(path[-length:])
            if found:
                numbers = [*numbers, *found]
        if inherited:
            return sorted(inherited.union(numbers))
        return numbers if numbers is self._always or len(numbers) == 1 else sorted(numbers)
