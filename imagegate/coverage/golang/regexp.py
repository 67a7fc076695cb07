r"""Go regular expressions (RE2 syntax, Perl flags) as Python ones.

Builders turn ignore patterns into Go regular expressions and escape only some characters, so
people's patterns reach the regexp compiler: ``v\d`` matches ``v1``, ``f\oo`` does not compile.
Python's dialect differs in what is an error and in some escapes, hence a translation and not a
pass-through. Only whether a text matches is needed, so groups lose their names and laziness.

Grammar: https://pkg.go.dev/regexp/syntax
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import BadPatternError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_REPEAT = 1000
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\x0b\\x0c\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_PERL = {"d": "0-9", "s": "\\t\\n\\x0c\\r ", "w": "0-9A-Za-z_"}
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_COUNT = re.compile(r"\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}")


@cache
def compile_go(expression: str) -> re.Pattern[str]:
    """Compile a Go `expression`; use the result with ``search``, as Go's ``MatchString`` does.

    Raises:
        BadPatternError: Go's ``regexp.Compile`` refuses the expression.
    """
    return re.compile(_Translation(expression).whole())


class _Translation:
    """One pass over an expression, in the order in which Go's parser takes it."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._at = 0

    def whole(self) -> str:
        translated = self._alternation(flags="")
        if self._at < len(self._text):
            raise BadPatternError("unexpected `)`")
        return translated

    def _alternation(self, *, flags: str) -> str:
        branches: list[str] = []
        items: list[str] = []
        repeated = False
        while self._at < len(self._text) and self._text[self._at] != ")":
            character = self._text[self._at]
            if character == "|":
                self._at += 1
                branches.append("".join(items))
                items, repeated = [], False
            elif self._repetition() is not None:
                self._repeat(items, repeated=repeated)
                repeated = True
            else:
                repeated = False
                if self._text.startswith("(?", self._at):
                    flags = self._flags_or_group(items, flags)
                else:
                    items.append(_flagged(self._atom(flags), flags))
        branches.append("".join(items))
        return "|".join(branches)

    def _repetition(self) -> str | None:
        """Return the repetition operator that stands here; a ``{`` that is none is a literal."""
        character = self._text[self._at]
        if character in "*+?":
            return character
        if character == "{":
            found = _COUNT.match(self._text, self._at)
            return found.group() if found else None
        return None

    def _repeat(self, items: list[str], *, repeated: bool) -> None:
        operator = self._repetition()
        assert operator is not None
        if not items:
            raise BadPatternError(f"missing argument to repetition operator `{operator}`")
        if repeated:
            raise BadPatternError(f"invalid nested repetition operator `{operator}`")
        if operator[0] == "{":
            _check_count(operator)
        self._at += len(operator)
        if self._text.startswith("?", self._at):
            self._at += 1  # laziness does not change whether a text matches
        items[-1] = f"(?:{items[-1]}){operator}"

    def _flags_or_group(self, items: list[str], flags: str) -> str:
        """Take ``(?:…)``, ``(?P<n>…)``, ``(?i)`` or ``(?i:…)``; return the flags from here on."""
        named = re.compile(r"\(\?P?<[A-Za-z0-9_]+>").match(self._text, self._at)
        if named:
            self._at = named.end()
            items.append(self._group(flags))
            return flags
        found = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])").match(self._text, self._at)
        if found is None or found.group() == "(?)":
            raise BadPatternError("invalid or unsupported Perl syntax")
        self._at = found.end()
        inner = "".join(
            flag for flag in "ims" if flag in flags + found[1] and flag not in (found[2] or "")
        )
        if found[3] == ")":
            return inner
        items.append(self._group(inner))
        return flags

    def _group(self, flags: str) -> str:
        translated = self._alternation(flags=flags)
        if self._at >= len(self._text):
            raise BadPatternError("missing closing `)`")
        self._at += 1
        return f"(?:{translated})"

    def _atom(self, flags: str) -> str:
        character = self._text[self._at]
        self._at += 1
        match character:
            case "(":
                return self._group(flags)
            case "[":
                return self._character_class()
            case ".":
                return "." if "s" in flags else "[^\\n]"
            case "^":
                return "^" if "m" in flags else "\\A"
            case "$":
                return "$" if "m" in flags else "\\Z"
            case "\\":
                return self._escape()
        return re.escape(character)

    def _escape(self) -> str:
        if self._at >= len(self._text):
            raise BadPatternError("trailing backslash at end of expression")
        character = self._text[self._at]
        if character == "Q":
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at + 1 : end if end >= 0 else None]
            self._at = end + 2 if end >= 0 else len(self._text)
            return f"(?:{re.escape(quoted)})"
        anchor = {"A": "\\A", "z": "\\Z", "b": "(?a:\\b)", "B": "(?a:\\B)"}.get(character)
        if anchor is not None:
            self._at += 1
            return anchor
        members = self._class_escape()
        if members is not None:
            return f"[{members}]" if members else "(?!)"
        return re.escape(self._character_escape())

    def _class_escape(self) -> str | None:
        r"""Take ``\d``, ``\W``, ``\pL`` …; the position is behind the backslash."""
        character = self._text[self._at]
        if character.lower() in _PERL:
            self._at += 1
            members = _PERL[character.lower()]
            return members if character.islower() else _complement(members)
        if character in "pP":
            return self._unicode_class(negated=character == "P")
        return None

    def _unicode_class(self, *, negated: bool) -> str:
        found = re.compile(r"[pP](?:\{(\^?)([^}]*)\}|(.))", re.DOTALL).match(self._text, self._at)
        if found is None:
            raise BadPatternError("invalid character class range")
        self._at = found.end()
        name = found[3] or found[2]
        members = _category(name)
        return _complement(members) if negated != bool(found[1]) else members

    def _character_escape(self) -> str:
        """Take the escape of one character; the position is behind the backslash."""
        rest = self._text[self._at :]
        octal = re.match(r"0[0-7]{0,2}|[1-7][0-7]{1,2}", rest)
        if octal:
            self._at += octal.end()
            return chr(int(octal.group(), 8))
        hexadecimal = re.match(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]+)\})", rest)
        if hexadecimal:
            self._at += hexadecimal.end()
            code = int(hexadecimal[1] or hexadecimal[2], 16)
            if code > sys.maxunicode:
                raise BadPatternError("invalid escape sequence")
            return chr(code)
        character = rest[0]
        self._at += 1
        if character in _CONTROL:
            return _CONTROL[character]
        if ord(character) < 0x80 and not character.isalnum():
            return character
        raise BadPatternError(f"invalid escape sequence `\\{character}`")

    def _character_class(self) -> str:
        negated = self._text.startswith("^", self._at)
        if negated:
            self._at += 1
        members: list[str] = []
        first = True
        while first or not self._text.startswith("]", self._at):
            if self._at >= len(self._text):
                raise BadPatternError("missing closing `]`")
            members.append(self._class_member())
            first = False
        self._at += 1
        return f"[{'^' if negated else ''}{''.join(members)}]"

    def _class_member(self) -> str:
        posix = re.compile(r"\[:(.*?):\]", re.DOTALL).match(self._text, self._at)
        if posix:
            name = posix[1].removeprefix("^")
            if name not in _POSIX:
                raise BadPatternError("invalid character class range")
            self._at = posix.end()
            return _complement(_POSIX[name]) if posix[1].startswith("^") else _POSIX[name]
        if self._text[self._at] == "\\" and self._at + 1 < len(self._text):
            self._at += 1
            members = self._class_escape()
            if members is not None:
                return members
            self._at -= 1
        low = self._class_character()
        high = low
        if self._text[self._at : self._at + 1] == "-" and self._at + 1 < len(self._text):
            if self._text[self._at + 1] == "]":
                return re.escape(low)
            self._at += 1
            high = self._class_character()
            if high < low:
                raise BadPatternError("invalid character class range")
        return f"{_member(low)}-{_member(high)}"

    def _class_character(self) -> str:
        if self._at >= len(self._text):
            raise BadPatternError("missing closing `]`")
        character = self._text[self._at]
        self._at += 1
        if character != "\\":
            return character
        if self._at >= len(self._text):
            raise BadPatternError("trailing backslash at end of expression")
        return self._character_escape()


def _flagged(atom: str, flags: str) -> str:
    scoped = "".join(flag for flag in flags if flag in "im")
    return f"(?{scoped}:{atom})" if scoped else atom


def _check_count(operator: str) -> None:
    low, _, high = operator[1:-1].partition(",")
    counts = [int(count) for count in (low, high) if count]
    if max(counts) > MAX_REPEAT or (high and int(high) < int(low)):
        raise BadPatternError(f"invalid repeat count `{operator}`")


def _member(character: str) -> str:
    return f"\\U{ord(character):08x}"


@cache
def _complement(members: str) -> str:
    inside = re.compile(f"[{members}]")
    return _ranges(code for code in range(0x110000) if not inside.match(chr(code)))


@cache
def _category(name: str) -> str:
    """Return a Unicode general category (``L``, ``Lu``) as class members.

    Raises:
        BadPatternError: no such category; scripts are not known here and count as none.
    """
    if name == "Any":
        return "\\x00-\\U0010ffff"
    members = _ranges(
        code for code in range(0x110000) if unicodedata.category(chr(code)).startswith(name)
    )
    if not name or not members:
        raise BadPatternError("invalid character class range")
    return members


def _ranges(codes: Iterable[int]) -> str:
    spans: list[list[int]] = []
    for code in codes:
        if spans and spans[-1][1] == code - 1:
            spans[-1][1] = code
        else:
            spans.append([code, code])
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in spans)
