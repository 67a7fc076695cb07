"""A RUN -> what its commands may do to files, in order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from imagegate.coverage.shell.acts import HOLE, Act, Deed
from imagegate.coverage.shell.files import Call
from imagegate.coverage.shell.grammar import Command, commands
from imagegate.coverage.shell.programs import acts_of_call, call_of
from imagegate.coverage.shell.table import SHELLS
from imagegate.coverage.shell.values import Scope, literal, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SHOWN = 80
_NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})


def acts_of_run(
    text: str, words: tuple[str, ...], environment: Mapping[str, str], workdir: str | None
) -> tuple[Act, ...]:
    """Return what a RUN may do.

    Args:
        text: the command as a shell reads it.
        words: the words of the JSON form, empty for the shell form.
        environment: the variables that are known.
        workdir: the working directory, or ``None`` when it is not known.
    """
    scope = Scope.of(environment, workdir)
    if words:
        call = call_of(shown(" ".join(words)), [(literal(word),) for word in words], scope)
        return tuple(acts_of_call(call))
    return tuple(acts_of_text(text, scope))


def acts_of_text(text: str, scope: Scope) -> Iterator[Act]:
    """Yield what a script may do; `scope` follows its assignments."""
    for command in commands(text, scope):
        yield from _acts(command, scope)


def _acts(command: Command, scope: Scope) -> Iterator[Act]:
    text = shown(command.text)
    written = [place for word in command.writes for place in word if place not in _NOWHERE]
    call = Call(text=text, name="", words=(), scope=command.scope)
    if written:
        yield call.act(Deed.WRITE, written)
    if command.unreadable:
        yield call.act(Deed.OPAQUE)
        return
    if not command.words:
        return
    call = call_of(text, command.words, command.scope)
    if call.name in scope.functions:
        return  # its body was read where it is defined
    if call.name in SHELLS and not _has_operands(call):
        yield from _fed_shell(command, call)
        return
    yield from acts_of_call(call)


def _has_operands(call: Call) -> bool:
    texts = [word[0] for word in call.words]
    return any(not text.startswith(("-", "+")) for text in texts) and "-s" not in texts


def _fed_shell(command: Command, call: Call) -> Iterator[Act]:
    """A shell that reads its script from somewhere: a heredoc is read, anything else is opaque."""
    if command.input is not None:
        yield from acts_of_text(command.input, command.scope.inner())
    elif command.fed_by is not None and command.fed_by.input is not None:
        yield from acts_of_text(command.fed_by.input, command.scope.inner())
    else:
        yield call.act(Deed.OPAQUE)


def shown(text: str) -> str:
    """Return a command on one line, shortened."""
    joined = re.sub(r"\s*\\?\n\s*|\s+", " ", plain(text) if HOLE in text else text).strip()
    return joined if len(joined) <= _SHOWN else joined[: _SHOWN - 1] + "…"
