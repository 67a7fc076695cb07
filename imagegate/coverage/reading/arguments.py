"""The words, JSON arrays and flags of one instruction's line."""

from __future__ import annotations

import json
import re

from imagegate.coverage.reading.words import WordError

_BLANKS = re.compile(r"[\t\v\f\r ]+")


def words_of(name: str, rest: str, escape: str) -> tuple[list[str], bool]:
    """Return the arguments of an instruction, and whether they were a JSON array.

    Raises:
        WordError: an array holds something that is not a string.
    """
    if name in {"ENV", "ARG", "LABEL"}:
        return split_quoted(rest, escape), False
    if name in {"COPY", "ADD", "RUN", "VOLUME", "CMD", "ENTRYPOINT", "SHELL"}:
        array = _json_array(rest)
        if array is not None:
            return array, True
    if name == "WORKDIR":
        return [rest] if rest else [], False
    return [word for word in _BLANKS.split(rest) if word] if rest else [], False


def json_prefix(name: str, rest: str) -> tuple[str, ...] | None:
    """Return the array that the arguments of COPY or ADD begin with, whatever follows it."""
    if name not in {"COPY", "ADD"} or not rest.startswith("["):
        return None
    try:
        array, _ = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        return None
    if not all(isinstance(item, str) for item in array):
        # a builder that reads the array alone refuses it: no words are too few
        return ()
    return tuple(str(item) for item in array)


def _json_array(rest: str) -> list[str] | None:
    if not rest.startswith("["):
        return None
    try:
        array = json.loads(rest)
    except ValueError:
        return None
    if not all(isinstance(item, str) for item in array):
        raise WordError("arrays in JSON form must be comprised of strings only")
    return [str(item) for item in array]


def split_quoted(rest: str, escape: str = "\\") -> list[str]:
    """Split at blanks outside quotes and keep the quotes (``parseWords``)."""
    words: list[str] = []
    word, quote, position = "", "", 0
    while position < len(rest):
        character = rest[position]
        position += 1
        if not quote and character.isspace():
            if word:
                words.append(word)
                word = ""
            continue
        if character == escape and quote != "'":
            word += rest[position - 1 : position + 1] if position < len(rest) else ""
            position += 1
            continue
        if character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        word += character
    return [*words, word] if word else words


def split_flags(line: str) -> tuple[list[str], str]:
    """Take leading ``--flag`` words off, with quotes and escapes removed (``extractBuilderFlags``)."""
    flags: list[str] = []
    position = 0
    while True:
        while position < len(line) and line[position].isspace():
            position += 1
        if not line.startswith("--", position):
            return flags, line[position:]
        word, position = _flag_word(line, position)
        if word == "--":
            return flags, line[position:]
        flags.append(word)


def _flag_word(line: str, position: int) -> tuple[str, int]:
    word, quote = "", ""
    while position < len(line):
        character = line[position]
        position += 1
        if not quote and character.isspace():
            return word, position - 1
        if character == "\\":
            word += line[position : position + 1]
            position += 1
        elif character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        else:
            word += character
    return word, position
