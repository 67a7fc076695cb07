"""Text that others wrote: what must not be shown of it, and how it is shown.

A layer's author, a registry, a base's publisher and a stranger with push rights all choose text
that ends in reports, logs and terminals. :class:`Foreign` holds such a text so that no renderer
can print it by accident: it has to name its own escaping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.foreign.credentials import redact

if TYPE_CHECKING:
    from collections.abc import Callable

# printable by their category, and blank or joined to what stands before: Hangul fillers, Braille's
# blank, the combining grapheme joiner, Khmer's inherent vowels, variation selectors
_UNSEEN = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _is_seen(character: str) -> bool:
    if character in _UNSEEN or "\ufe00" <= character <= "\ufe0f":
        return False
    return character.isprintable() and not "\U000e0100" <= character <= "\U000e01ef"


def _escape(character: str) -> str:
    number = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if 0xDC80 <= number <= 0xDCFF:  # PEP 383: a byte that is not UTF-8
        return f"\\x{number - 0xDC00:02x}"
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def visible(text: str, keep: str = "") -> str:
    """Write a text so that everything in it is seen, each odd character as an escape.

    Controls, line and paragraph separators, bidirectional overrides, zero-width and private
    characters, lone surrogates: whatever does not print, or prints as nothing.

    Args:
        text: the text.
        keep: characters that stay as they are, such as a line break where lines are meant.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or _is_seen(c) else _escape(c) for c in text)


def shown(text: str) -> str:
    """Write a foreign text in one line for a terminal or a log.

    No credential, nothing unseen, and nothing that a workflow's runner obeys.
    """
    return quiet(visible(redact(text)))


def shown_lines(text: str) -> str:
    """Write a message that may have several lines; those behind the first are indented.

    So that no line of it looks like the beginning of another message.
    """
    first, *rest = visible(redact(text), "\n").split("\n")
    return "\n".join([quiet(first), *(line and f"  {quiet(line.rstrip())}" for line in rest)])


def quiet(line: str) -> str:
    """Take the meaning from what GitHub's runner obeys in a line of a log.

    It obeys ``::name::`` at the beginning of a line, blanks before it or not, and ``##[name]``
    anywhere (actions/runner, ActionCommand.cs).
    """
    if "##[" in line:
        line = line.replace("##[", "#\\x23[")
    bare = line.lstrip()
    return f"{line[: len(line) - len(bare)]}\\x3a{bare[1:]}" if bare.startswith("::") else line


class Foreign:
    """A text that others wrote.

    It has no form of its own: ``str()`` and formatting are type errors. A renderer calls
    :meth:`written` with the escaping of its format; credentials and unseen characters are gone
    before that.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def written(self, escaping: Callable[[str], str], *, lines: bool = False) -> str:
        """Return the text for one format.

        Args:
            escaping: makes text of that format out of printable text.
            lines: whether line breaks stay.
        """
        return escaping(visible(redact(self._text), "\n" if lines else ""))

    def __bool__(self) -> bool:
        return bool(self._text)

    def __str__(self) -> str:
        raise TypeError("a foreign text is printed by `written`, with the escaping of the format")

    def __format__(self, _spec: str) -> str:
        raise TypeError("a foreign text is printed by `written`, with the escaping of the format")

    def __repr__(self) -> str:
        return f"Foreign({shown(self._text)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Foreign) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)
