r"""Go regular expressions, which are RE2's: syntax and matching in time linear in the text.

Builders turn ignore patterns into Go regular expressions and escape only some characters, so
people's patterns reach the regexp compiler: ``v\d`` matches ``v1``, ``f\oo`` does not compile.

Grammar: https://pkg.go.dev/regexp/syntax
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import BadPatternError

if TYPE_CHECKING:
    import re2

_MEMORY = 64 << 20
# what one builder's pattern comes to as a rule; Python's own engine is quick and linear on these
_SIMPLE = re.compile(
    r"\^(?:\(\.\*/\)\?)?(?:[\w/ @%,:;=<>~!&\"'#-]|\\[.+()$]|[^\x00-\x7f])*"
    r"(?:\[\^/\]\*)?(?:[\w/ @%,:;=<>~!&\"'#-]|\\[.+()$]|[^\x00-\x7f])*(?:\(/\.\*\)\?)?\$"
)
# RE2 knows one escape that Go does not: a single byte
_BYTE = re.compile(r"(?:\\Q.*?(?:\\E|$)|\\[^CQ]|[^\\])*\\C", re.DOTALL)
_LOST = re.compile("[\ud800-\udfff]")


class Expression:
    """A compiled expression; `matches` is Go's ``MatchString``."""

    __slots__ = ("_linear", "_simple")

    def __init__(self, text: str) -> None:
        self._simple: re.Pattern[str] | None = None
        self._linear: re2._Regexp | None = None
        if _SIMPLE.fullmatch(text):
            self._simple = re.compile(text.removesuffix("$") + "\\Z")
        else:
            self._linear = _compile(text)

    def matches(self, text: str) -> bool:
        """Say whether the expression matches somewhere in `text`."""
        if self._simple is not None:
            return self._simple.search(text) is not None
        assert self._linear is not None
        return self._linear.search(told(text)) is not None


def told(text: str) -> str:
    """Return `text` with bytes that are not UTF-8 as Go's regexp sees them."""
    return _LOST.sub("\ufffd", text)


def _compile(text: str) -> re2._Regexp:
    # takes a while to load, and most patterns are simple
    import re2

    if _BYTE.match(text):
        raise BadPatternError("invalid escape sequence `\\C`")
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    try:
        return re2.compile(told(text), options)
    except re2.error as refused:
        said = refused.args[0] if refused.args else ""
        raise BadPatternError(
            said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        ) from refused


@lru_cache(maxsize=65_536)
def compile_go(expression: str) -> Expression:
    """Compile a Go `expression`.

    Raises:
        BadPatternError: Go's ``regexp.Compile`` refuses the expression.
    """
    return Expression(expression)
