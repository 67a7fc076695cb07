"""Which paths a RUN may touch.

A command can change anything, so the answer is "everything" unless each simple command in it is
one whose effect is bounded by its operands (``rm``, ``mkdir``, ``chmod`` …). Package managers,
compilers and scripts are not: they write where they like.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from imagegate.coverage.golang.paths import clean, has_wildcards, join, split_wildcards

_HARMLESS = frozenset(
    [
        "true",
        ":",
        "echo",
        "printf",
        "set",
        "export",
        "exit",
        "chmod",
        "chown",
        "chgrp",
        "test",
        "[",
        "umask",
        "cd",
    ]
)
"""Commands that change neither names nor contents of files."""

_BOUNDED = frozenset(["rm", "rmdir", "mkdir", "mv", "cp", "ln", "touch", "install", "truncate"])
"""Commands that change only paths they name, and what lies below these."""

_SEPARATORS = frozenset({"&&", "||", ";", "\n", "|", "&"})
_ELSE = _SEPARATORS - {"&&"}
_REDIRECTIONS = frozenset({">", ">>", ">|", "&>"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """Paths, absolute, that a command may change with all below; ``None`` means any path."""

    paths: tuple[str, ...] | None


EVERYTHING = Touched(paths=None)


def touched_by(text: str, words: tuple[str, ...], workdir: str | None) -> Touched:
    """Tell what a RUN may change.

    Args:
        text: the command as a shell reads it.
        words: the words of the JSON form, empty for the shell form.
        workdir: the working directory, or ``None`` when it is not known.
    """
    if words:
        return _simple(list(words), workdir)
    if any(mark in text for mark in ("$", "`", "<<", "{", "(", "~")):
        return EVERYTHING
    lexer = shlex.shlex(text.replace("\n", ";"), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        tokens = list(lexer)
    except ValueError:
        return EVERYTHING
    paths: list[str] = []
    command: list[str] = []
    # a `cd` that may fail, or may not run, leaves relative paths open
    loose = "cd" in tokens and bool(set(tokens) & _ELSE)
    here = None if loose else workdir
    for token in [*tokens, ";"]:
        if token not in _SEPARATORS:
            command.append(token)
            continue
        touched = _simple(command, here)
        if touched.paths is None:
            return EVERYTHING
        paths += touched.paths
        here = None if loose else _moved(command, here)
        command = []
    return Touched(paths=tuple(dict.fromkeys(paths)))


def _moved(command: list[str], workdir: str | None) -> str | None:
    if not command or command[0] != "cd":
        return workdir
    if len(command) != 2:
        return None
    if command[1].startswith("/"):
        return clean(command[1])
    return None if workdir is None else join(workdir, command[1])


def _simple(command: list[str], workdir: str | None) -> Touched:
    if not command:
        return Touched(paths=())
    operands: list[str] = []
    written: list[str] = []
    waiting = iter(command[1:])
    for word in waiting:
        if word in _REDIRECTIONS:
            written.append(next(waiting, ""))
        elif word.startswith("<") or set(word) <= set("<>&|"):
            return EVERYTHING
        elif word == "--":
            operands += waiting
        elif not word.startswith("-"):
            operands.append(word)
        elif "=" in word:
            operands.append(word.partition("=")[2])
        elif "/" in word:
            # an option's value, stuck to its letter
            return EVERYTHING
    name = command[0].rpartition("/")[2]
    if name in _BOUNDED:
        written += operands
    elif name not in _HARMLESS:
        return EVERYTHING
    return _absolute(written, workdir)


def _absolute(paths: list[str], workdir: str | None) -> Touched:
    found: list[str] = []
    for path in paths:
        if not path.startswith("/"):
            if workdir is None:
                return EVERYTHING
            path = join(workdir, path)
        path = clean(path)
        found.append(split_wildcards(path)[0] or "/" if has_wildcards(path) else path)
    return Touched(paths=tuple(found))
