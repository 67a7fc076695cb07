"""What one command may do to files, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

HOLE = "\0"
"""Stands in a path for a piece of text whose value is not known."""


class Deed(Enum):
    """The kinds of effect that a command can have on files."""

    MAKE = "makes a directory"
    REMOVE = "may remove it"
    CHANGE = "may change it"
    WRITE = "writes it"
    FILL = "may write into it"
    """Files from elsewhere land below a folder: an unpacked archive, a clone."""
    COPY = "copies it"
    MOVE = "moves it"
    LINK = "links it"
    BUILD = "builds from it"
    """A compiler or bundler: reads what is there, its results may hold it, changes none of it."""
    PACKAGE = "installs it as a package"
    OPAQUE = "runs a program that may change anything"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One effect of one command.

    Attributes:
        deed: its kind.
        text: the command as it is written, shortened.
        paths: absolute paths or globs that it is about; `HOLE` for unknown pieces.
        target: where a copy, a move or a link goes.
        into: the target is certainly a directory.
        contents: of a directory the entries are copied and not the directory.
        names: it is about files with these names alone (globs), wherever below `paths`.
        replaces: a link takes the place of what is there.
    """

    deed: Deed
    text: str
    paths: tuple[str, ...] = ()
    target: str = ""
    into: bool = False
    contents: bool = False
    names: tuple[str, ...] = ()
    replaces: bool = False
