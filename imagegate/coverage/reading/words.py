"""Variables, quotes and escapes in one word of a Dockerfile.

Follows BuildKit's ``frontend/dockerfile/shell/lex.go`` and, where `Dialect.BUILDAH` is asked for,
openshift/imagebuilder's ``shell_parser.go``, which knows other forms after ``${name``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import BadPatternError, match
from imagegate.coverage.golang.regexp import told

if TYPE_CHECKING:
    from collections.abc import Mapping

    import re2

_SPECIAL = frozenset("@*#?-$!0")
_BLANK = re.compile(r"\s")
LONGEST = 1 << 20
"""A word that expands to more characters is refused; Linux takes 128 KiB (``MAX_ARG_STRLEN``)."""
_DEEPEST = 60


class WordError(ValueError):
    """A word that a builder refuses: a quote or brace is open, a modifier is unknown."""


class Dialect(Enum):
    """Which forms of ``${name…}`` exist."""

    OLD = auto()
    """Docker 20.10: ``:-``, ``:+`` and ``:?``."""
    MODERN = auto()
    """BuildKit today: also without colon, and ``#``, ``%``, ``/``."""
    BUILDAH = auto()
    """imagebuilder: ``:-``, ``:+``, ``:?``, ``#``, ``%``, ``/``."""
    BUILDAH_OLD = auto()
    """imagebuilder of buildah 1.28: ``:-``, ``:+``."""


@dataclass(slots=True, kw_only=True)
class Expansion:
    """What came of a word.

    Attributes:
        text: the word after substitution and quote removal.
        words: the same split at unquoted blanks.
        unset: names that were used and have no value.
    """

    text: str = ""
    words: list[str] = field(default_factory=list)
    unset: set[str] = field(default_factory=set)


def expand(
    word: str,
    values: Mapping[str, str],
    *,
    dialect: Dialect = Dialect.MODERN,
    escape: str = "\\",
    quotes: bool = True,
    raw: bool = False,
    keep_escapes: bool = False,
) -> Expansion:
    """Substitute variables in `word` and remove quotes and escapes.

    Args:
        word: one word, as split at blanks.
        values: variables that are set.
        dialect: which forms exist.
        escape: the escape character of the Dockerfile.
        quotes: quotes are special; off inside heredocs.
        raw: keep quotes, escapes and unset variables as they are written.
        keep_escapes: keep the escape characters alone.

    Raises:
        WordError: the builder refuses the word.
    """
    lexer = _Lexer(word, values, dialect=dialect, escape=escape, quotes=quotes, raw=raw)
    text, words = lexer.until("", raw_escapes=raw or keep_escapes)
    return Expansion(text=text, words=words, unset=lexer.unset)


class _Words:
    """Splits at unquoted blanks while characters come in."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._word: list[str] = []

    def add(self, text: str) -> None:
        first, *others = _BLANK.split(text)
        self.add_raw(first)
        for part in others:
            self._close()
            self.add_raw(part)

    def add_raw(self, text: str) -> None:
        if text:
            self._word.append(text)

    def _close(self) -> None:
        if self._word:
            self.done.append("".join(self._word))
            self._word = []

    def all(self) -> list[str]:
        self._close()
        return self.done


class _Lexer:
    def __init__(
        self,
        word: str,
        values: Mapping[str, str],
        *,
        dialect: Dialect,
        escape: str,
        quotes: bool,
        raw: bool,
    ) -> None:
        self._word = word
        self._at = 0
        self._values = values
        self._dialect = dialect
        self._escape = escape
        self._quotes = quotes
        self._raw = raw
        self._raw_escapes = raw
        self._depth = 0
        self._size = 0
        self.unset: set[str] = set()

    def _peek(self) -> str:
        return self._word[self._at : self._at + 1]

    def _next(self) -> str:
        character = self._peek()
        self._at += 1
        return character

    def until(self, stops: str, *, raw_escapes: bool | None = None) -> tuple[str, list[str]]:
        """Process up to one of `stops`, which is consumed; no stops mean the whole word."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise WordError("substitutions are nested too deeply")
        before, self._raw_escapes = (
            self._raw_escapes,
            (self._raw_escapes if raw_escapes is None else raw_escapes),
        )
        result: list[str] = []
        words = _Words()
        try:
            while character := self._peek():
                if character in stops:
                    self._at += 1
                    return "".join(result), words.all()
                result.append(self._one(character, words))
                self._size += len(result[-1])
                if self._size > LONGEST:
                    raise WordError(f"it expands to more than {LONGEST} characters")
        finally:
            self._raw_escapes = before
            self._depth -= 1
        if stops:
            raise WordError(f"unexpected end of statement while looking for matching `{stops}`")
        return "".join(result), words.all()

    def _one(self, character: str, words: _Words) -> str:
        if character == "$":
            value = self._dollar()
            words.add(value)
            return value
        if self._quotes and character in "'\"":
            value = self._single_quoted() if character == "'" else self._double_quoted()
            words.add_raw(value)
            return value
        self._at += 1
        if character != self._escape:
            words.add(character)
            return character
        kept = character if self._raw_escapes else ""
        escaped = self._next()
        words.add_raw(kept + escaped)
        return kept + escaped

    def _single_quoted(self) -> str:
        end = self._word.find("'", self._at + 1)
        if end < 0:
            raise WordError("unexpected end of statement while looking for matching single-quote")
        start, self._at = self._at, end + 1
        return self._word[start : end + 1] if self._raw else self._word[start + 1 : end]

    def _double_quoted(self) -> str:
        mark = '"' if self._raw else ""
        result = [mark]
        self._at += 1
        while character := self._peek():
            if character == '"':
                self._at += 1
                return "".join(result) + mark
            if character == "$":
                result.append(self._dollar())
                continue
            self._at += 1
            if character == self._escape:
                if self._raw_escapes:
                    result.append(character)
                following = self._peek()
                if not following:
                    continue
                if following in f'"${self._escape}':
                    character = self._next()
            result.append(character)
        raise WordError("unexpected end of statement while looking for matching double-quote")

    def _dollar(self) -> str:
        start = self._at
        self._at += 1
        if self._peek() != "{":
            name = self._name()
            return self._plain(name, self._word[start : self._at]) if name else "$"
        self._at += 1
        if self._dialect in {Dialect.BUILDAH, Dialect.BUILDAH_OLD}:
            return self._imagebuilder_form(self._name())
        following = self._peek()
        if not following:
            raise WordError("syntax error: missing `}`")
        if following in "{}:":
            raise WordError("syntax error: bad substitution")
        return self._form(self._name(), start)

    def _plain(self, name: str, written: str) -> str:
        value = self._get(name)
        if value is None:
            return written if self._raw else ""
        return value

    def _get(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is None:
            self.unset.add(name)
        return value

    def _name(self) -> str:
        start = self._at
        first = self._peek()
        if first.isdigit():
            while self._peek().isdigit():
                self._at += 1
        elif first and first in _SPECIAL:
            self._at += 1
        else:
            while (character := self._peek()) and (character.isalnum() or character == "_"):
                self._at += 1
        return self._word[start : self._at]

    def _form(self, name: str, start: int) -> str:
        """``${name…}`` as BuildKit reads it; the position is behind the name."""
        modifier = self._next()
        if modifier == "}":
            return self._plain(name, self._word[start : self._at])
        empty_is_unset = modifier == ":"
        if empty_is_unset:
            modifier = self._next()
        modern = self._dialect is Dialect.MODERN
        if modern and modifier == "/" and not empty_is_unset:
            return self._replace(name, start)
        known = "+-?#%" if modern else "+-?"
        if not modifier or modifier not in known or (not modern and not empty_is_unset):
            raise WordError(f"unsupported modifier `{modifier}` in substitution")
        word, _ = self.until("}", raw_escapes=modifier in "#%")
        value = self._values.get(name) if modifier in "-+" else self._get(name)
        if value is None and self._raw:
            return self._word[start : self._at]
        if modifier in "#%":
            return _trim(word, value or "", modifier)
        return _conditional(name, modifier, value, word, empty_is_unset=empty_is_unset)

    def _replace(self, name: str, start: int) -> str:
        every = self._peek() == "/"
        self._at += every
        pattern, _ = self.until("/", raw_escapes=True)
        replacement, _ = self.until("}", raw_escapes=True)
        value = self._get(name)
        if value is None and self._raw:
            return self._word[start : self._at]
        expression = _linear(_shell_pattern(pattern, greedy=True))
        return str(
            expression.sub(lambda _: replacement, told(value or ""), count=0 if every else 1)
        )

    def _imagebuilder_form(self, name: str) -> str:
        modifier = self._next()
        has_default = modifier == ":" and self._peek() in {"-", "+"}
        value = (self._values.get(name) if has_default else self._get(name)) or ""
        if modifier == "}":
            return value
        if modifier == ":":
            modifier = self._next()
            word, _ = self.until("}")
            if modifier == "+":
                return word if value else ""
            if modifier == "-":
                return value or word
            if modifier == "?" and self._dialect is Dialect.BUILDAH:
                if value or word:
                    return value or word
                raise WordError(f"`{name}` is not allowed to be unset")
            raise WordError(f"unsupported modifier `{modifier}` in substitution")
        if self._dialect is Dialect.BUILDAH and modifier and modifier in "#%":
            return self._imagebuilder_trim(name, modifier, value)
        if self._dialect is Dialect.BUILDAH and modifier == "/":
            return self._imagebuilder_replace(name, value)
        raise WordError("missing `:` in substitution")

    def _imagebuilder_trim(self, name: str, modifier: str, value: str) -> str:
        greedy = self._peek() == modifier
        self._at += greedy
        word, _ = self.until("}")
        if not word:
            raise WordError(f"`{name}{modifier}`: nothing to remove")
        # the bounds are imagebuilder's: `#` looks at [0, n-1), `##` and `%` from the other end
        forward = range(len(value) - 1)
        backward = range(len(value) - 1, -1, -1)
        if modifier == "#":
            for cut in backward if greedy else forward:
                if _go_match(word, value[:cut]):
                    return value[cut:]
            return value
        for cut in forward if greedy else backward:
            if _go_match(word, value[cut:]):
                return value[:cut]
        return value

    def _imagebuilder_replace(self, name: str, value: str) -> str:
        anchor = self._peek() if self._peek() in {"/", "#", "%"} else ""
        self._at += len(anchor)
        pattern, _ = self.until("/}")
        if not pattern:
            raise WordError(f"`{name}/`: no pattern to replace")
        replacement = ""
        if self._word[self._at - 1] == "/":
            replacement, _ = self.until("}")
        position = 0
        while position < len(value):
            for end in range(len(value), position, -1):
                if (anchor == "#" and position) or (anchor == "%" and end != len(value)):
                    continue
                if _go_match(pattern, value[position:end]):
                    value = value[:position] + replacement + value[end:]
                    if anchor != "/":
                        return value
                    position += len(replacement) - 1
                    break
            position += 1
        return value


def _conditional(
    name: str, modifier: str, value: str | None, word: str, *, empty_is_unset: bool
) -> str:
    missing = value is None or (empty_is_unset and not value)
    if modifier == "-":
        return word if missing or value is None else value
    if modifier == "+":
        return "" if missing else word
    if missing or value is None:
        raise WordError(f"`{name}`: {word or 'is not allowed to be unset'}")
    return value


def _trim(word: str, value: str, modifier: str) -> str:
    greedy = word.startswith(modifier)
    pattern = word[1:] if greedy else word
    if modifier == "#":
        found = _linear(_shell_pattern(pattern, greedy=greedy)).match(told(value))
        return value[found.end() :] if found else value
    # the same from behind: the pattern's pieces and the value in reverse
    found = _linear(_shell_pattern(pattern, greedy=greedy, backwards=True)).match(told(value)[::-1])
    return value[: len(value) - found.end()] if found else value


@lru_cache(maxsize=256)
def _linear(pattern: str) -> re2._Regexp:
    import re2

    return re2.compile(told(pattern))


def _shell_pattern(pattern: str, *, greedy: bool, backwards: bool = False) -> str:
    """``convertShellPatternToRegex``: ``*``, ``?`` and escapes of these, no brackets."""
    out: list[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character == "*":
            out.append(".*" if greedy else ".*?")
        elif character == "?":
            out.append(".")
        elif character == "\\":
            following = pattern[position : position + 1]
            if following in {"}", "/"}:
                continue
            if following not in {"*", "?", "\\"}:
                raise WordError(f"invalid escape `\\{following}` in substitution")
            out.append(re.escape(following))
            position += 1
        else:
            out.append(re.escape(character))
    return "".join(reversed(out) if backwards else out)


def _go_match(pattern: str, text: str) -> bool:
    try:
        return match(pattern, text)
    except BadPatternError:
        return False
