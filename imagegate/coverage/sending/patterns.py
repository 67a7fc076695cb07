"""One pattern of an ignore file or of ``--exclude``, compiled as a builder's matcher compiles it.

Three matchers exist (`Grammar`). All check the syntax with ``filepath.Match`` when the list is
made, but translate to a regexp only when a pattern is first tried, so a pattern can be refused
late or never. `Rule.broken` keeps such a refusal until somebody tries the rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import BadPatternError, check, clean, trim_space
from imagegate.coverage.golang.regexp import compile_go
from imagegate.coverage.sending.client import Grammar

if TYPE_CHECKING:
    from imagegate.coverage.golang.regexp import Expression

# moby/patternmatcher keeps the characters to escape in a bitmap of eight bytes, indexed by
# `code % 8` and tested with `1 << code / 8` in a byte: code points from 64 on fall out of it, so
# `|`, `{` and `}` are named there and yet never escaped.
_ESCAPED = {
    Grammar.MOBY: frozenset(".+()$"),
    Grammar.DOCKER_20: frozenset(".$"),
    Grammar.STORAGE: frozenset(".$"),
}


class _Kind(Enum):
    EXACT = auto()
    PREFIX = auto()
    SUFFIX = auto()
    REGEXP = auto()


class BrokenRuleError(BadPatternError):
    """A rule that does not compile was tried; `line` is its line in the ignore file."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One pattern, ready to be tried.

    Attributes:
        text: the cleaned pattern without its ``!``.
        exception: it began with ``!``.
        line: the line of the ignore file it stands on, from 1; 0 for a pattern of a flag.
        broken: why the regexp does not compile, or ``None``.
    """

    text: str
    exception: bool
    line: int
    kind: _Kind
    regexp: Expression | None
    broken: str | None

    @property
    def depth(self) -> int:
        """Number of path components of the pattern."""
        return self.text.count("/") + 1

    def matches(self, path: str) -> bool:
        """Tell whether the pattern matches `path`, relative to the context root.

        Raises:
            BrokenRuleError: the pattern does not compile.
        """
        if self.broken is not None:
            raise BrokenRuleError(self.broken, self.line)
        match self.kind:
            case _Kind.EXACT:
                return path == self.text
            case _Kind.PREFIX:
                return path.startswith(self.text[:-2])
            case _Kind.SUFFIX:
                suffix = self.text[2:]
                return path.endswith(suffix) or (suffix[:1] == "/" and path == suffix[1:])
        assert self.regexp is not None
        return self.regexp.matches(path)

    def __str__(self) -> str:
        return f"!{self.text}" if self.exception else self.text


def compile_rule(pattern: str, line: int, grammar: Grammar) -> Rule | None:
    """Compile one `pattern` as ``patternmatcher.New`` and its relatives do.

    Returns:
        The rule, or ``None`` for a blank pattern.

    Raises:
        BadPatternError: the pattern is refused when the list is made.
    """
    pattern = trim_space(pattern)
    if not pattern:
        return None
    text = clean(pattern)
    exception = text.startswith("!")
    if exception:
        text = text[1:]
        if not text:
            raise BadPatternError("illegal exclusion pattern `!`")
        if grammar is Grammar.STORAGE:
            text = clean(text).removeprefix("/")
    check(text)
    kind, regexp, broken = _compile(text, grammar)
    return Rule(text=text, exception=exception, line=line, kind=kind, regexp=regexp, broken=broken)


def _compile(text: str, grammar: Grammar) -> tuple[_Kind, Expression | None, str | None]:
    try:
        kind, expression = _translate(text, grammar)
        if kind is not _Kind.REGEXP:
            return kind, None, None
        return kind, compile_go(expression), None
    except BadPatternError as refused:
        return _Kind.REGEXP, None, f"syntax error in pattern: {refused}"


def _translate(text: str, grammar: Grammar) -> tuple[_Kind, str]:
    """Translate a pattern to a Go regexp, character by character, as ``Pattern.compile`` does."""
    kind = _Kind.EXACT
    out = ["^"]
    # Go's text/scanner drops a byte order mark at the start of what it reads
    rest = text.removeprefix("\ufeff")
    first = True
    while rest:
        character, rest = rest[0], rest[1:]
        if character == "*" and rest.startswith("*"):
            rest = rest[1:].removeprefix("/")
            if rest:
                out.append("(.*/)?")
                kind = _Kind.REGEXP
            elif kind is _Kind.EXACT:
                kind = _Kind.PREFIX
                out.append(".*")
            else:
                kind = _Kind.REGEXP
                out.append(".*")
            if first:
                kind = _Kind.SUFFIX
        elif character == "*":
            out.append("[^/]*")
            kind = _Kind.REGEXP
        elif character == "?":
            out.append("[^/]")
            kind = _Kind.REGEXP
        elif character in _ESCAPED[grammar]:
            out.append("\\" + character)
        elif character == "\\":
            if rest:
                character, rest = rest[0], rest[1:]
                kind = _Kind.REGEXP
            elif grammar is Grammar.STORAGE:
                raise BadPatternError("trailing `\\`")
            else:
                character = ""
            out.append("\\" + character)
        else:
            if character in "[]":
                kind = _Kind.REGEXP
            out.append(character)
        first = False
    if grammar is not Grammar.MOBY:
        kind = _Kind.REGEXP  # the older matchers know no shortcuts for plain patterns
    out.append("(/.*)?$" if grammar is Grammar.STORAGE else "$")
    return kind, "".join(out)
