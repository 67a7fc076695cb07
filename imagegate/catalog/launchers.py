"""Launchers of entry points, as pip and installer generate them.

Two installers write different text for one entry point; what counts is what is called. Only text
that is a known generator's from the first to the last byte is taken for a launcher.
"""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass

_LAUNCHER = re.compile(
    r"#!(?P<interpreter>[^\n]+)\n"
    r"(?:# -\*- coding: utf-8 -\*-\n)?"
    r"(?:import re\n)?import sys\n\n?"
    r"from (?P<module>[\w.]+) import (?P<imported>\w+)\n\n?"
    r"if __name__ == (?P<q>['\"])__main__(?P=q):\n"
    r"    sys\.argv\[0\] = (?:"
    r"re\.sub\(r(?P<r>['\"])\(-script\\\.pyw\|\\\.exe\)\?\$(?P=r), (?P<e>['\"])(?P=e), sys\.argv\[0\]\)"
    r"|sys\.argv\[0\]\.removesuffix\((?P<x>['\"])\.exe(?P=x)\))\n"
    r"    sys\.exit\((?P<called>[\w.]+)\(\)\)\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPoint:
    """What a launcher calls (entry points specification).

    Attributes:
        module: the module that is imported.
        attribute: the object in it that is called.
    """

    module: str
    attribute: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """A generated launcher: who runs it and what it calls."""

    interpreter: str
    entry_point: EntryPoint


def parse_launcher(content: bytes) -> Launcher | None:
    """Read a launcher; returns ``None`` for any text that no generator writes."""
    try:
        match = _LAUNCHER.fullmatch(content.decode("utf-8"))
    except UnicodeDecodeError:
        return None
    if match is None or match["called"].split(".")[0] != match["imported"]:
        return None
    entry_point = EntryPoint(module=match["module"], attribute=match["called"])
    return Launcher(interpreter=match["interpreter"].strip(), entry_point=entry_point)


def parse_entry_points(content: bytes) -> dict[str, EntryPoint]:
    """Read the scripts of an ``entry_points.txt``: name to what is called."""
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
    try:
        parser.read_string(content.decode("utf-8"))
    except (configparser.Error, UnicodeDecodeError):
        return {}
    found: dict[str, EntryPoint] = {}
    for section in ("console_scripts", "gui_scripts"):
        if not parser.has_section(section):
            continue
        for name, value in parser.items(section):
            reference = value.split("[", 1)[0].strip()
            module, colon, attribute = reference.partition(":")
            if colon:
                found[name] = EntryPoint(module=module.strip(), attribute=attribute.strip())
    return found
