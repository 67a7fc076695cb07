"""Words of a shell command and what they may come to.

A word is expanded to the texts that it may stand for. A piece that the text does not tell is a
`HOLE`; quoted glob characters are escaped with a backslash, so that what is left is a pattern.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import clean
from imagegate.coverage.shell.acts import HOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST = 64
"""A word stands for at most this many texts; beyond that it is not known."""
_LONGEST = 4096

_HOLES = re.compile(f"{HOLE}+")
_SPECIAL = re.compile(r"([*?\[\]\\])")


def literal(text: str) -> str:
    """Return `text` with every glob character escaped."""
    return _SPECIAL.sub(r"\\\1", text)


def plain(text: str) -> str:
    """Return what a pattern without live glob characters stands for."""
    return re.sub(r"\\(.)", r"\1", text)


def product(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    """Join each of `left` with each of `right`."""
    if len(left) * len(right) > MOST:
        return (HOLE,)
    joined = tuple(dict.fromkeys(_HOLES.sub(HOLE, one + two) for one in left for two in right))
    return (HOLE,) if any(len(text) > _LONGEST for text in joined) else joined


def braces(text: str) -> tuple[str, ...]:
    """Return what bash makes of ``{a,b}``, and the text itself, which is what dash makes of it."""
    found = re.search(r"\{([^{}]*,[^{}]*)\}", text)
    if found is None:
        return (text,)
    before, after = text[: found.start()], text[found.end() :]
    options = [before + choice + after for choice in found[1].split(",")]
    expanded = [one for option in options[:MOST] for one in braces(option)[:MOST]]
    return tuple(dict.fromkeys([*expanded, text]))[:MOST]


@dataclass(slots=True, kw_only=True)
class Scope:
    """Variables and the working directory at one point of a script.

    Attributes:
        values: what each variable may stand for; one that is not in here is not known.
        folder: the working directory, absolute, or `HOLE`.
        functions: names that the script defines.
    """

    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    folder: str = HOLE
    functions: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, environment: Mapping[str, str], folder: str | None) -> Scope:
        """Return the scope in which a RUN starts."""
        values: dict[str, tuple[str, ...]] = {
            name: (literal(value),) for name, value in environment.items()
        }
        return cls(values=values, folder=HOLE if folder is None else folder)

    def inner(self) -> Scope:
        """Return the scope of a subshell."""
        return Scope(values=dict(self.values), folder=self.folder, functions=self.functions)

    @contextmanager
    def may_be_skipped(self) -> Iterator[None]:
        """Have what happens inside happen perhaps: what was before holds as well."""
        values, folder = dict(self.values), self.folder
        yield
        for name, after in self.values.items():
            before = values.get(name, (HOLE,))
            if before != after:
                both = tuple(dict.fromkeys((*after, *before)))
                self.values[name] = both if len(both) <= MOST else (HOLE,)
        if self.folder != folder:
            self.folder = HOLE

    def get(self, name: str) -> tuple[str, ...]:
        """Return what `name` may stand for."""
        if name == "PWD":
            return (self.folder,)
        return self.values.get(name, (HOLE,))

    def homes(self) -> tuple[str, ...]:
        """Return what ``~`` may stand for: the user is not known for sure."""
        return self.values.get("HOME", ("/root", "/home/*"))

    def absolute(self, path: str) -> str:
        """Return `path` as seen from the root; `HOLE` in front where that is not known."""
        if path.startswith("/"):
            return clean(path)
        if path.startswith(HOLE):
            return path
        return clean(f"{self.folder}/{path}") if self.folder.startswith("/") else f"{HOLE}/{path}"
