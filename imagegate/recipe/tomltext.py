"""What is wrong with a TOML document, with the line on which it is."""

from __future__ import annotations

import re

_WHERE = re.compile(r"\(at line ([0-9]+), column ([0-9]+)\)")


def describe(error: ValueError, text: str) -> str:
    """Say what a parser found, where, and show the line.

    Args:
        error: what :mod:`tomllib` raised; it names line and column, or the end.
        text: the document.
    """
    lines = text.split("\n")
    end = f"(at line {len(lines)}, column {len(lines[-1]) + 1})"
    said = str(error).replace("(at end of document)", end)
    found = _WHERE.search(said)
    if found is None:
        return said
    number = int(found[1])
    line = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    return f"{said}: `{line}`" if line else said
