"""What a container starts: the program behind its words, and what the program's file begins with.

A command is followed through the wrappers that start another program in their place; a script is
followed to its interpreter (Linux, fs/binfmt_script.c).
"""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog.collect import Interest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# include/uapi/linux/binfmts.h, BINPRM_BUF_SIZE; the last byte ends the line
_HEAD = 256
_SUFFIXES = frozenset({"", "sh", "bash", "py", "pl", "rb", "entrypoint", "run"})
# a program that starts another one, and which of its options take a word of their own
_WRAPPERS = {
    "tini": ("-p", "-e"),
    "tini-static": ("-p", "-e"),
    "docker-init": ("-p", "-e"),
    "dumb-init": ("-r", "--rewrite"),
    "catatonit": (),
    "nohup": (),
    "setsid": (),
    "exec": ("-a",),
    "command": (),
    "nice": ("-n", "--adjustment"),
    "ionice": ("-c", "-n", "--class", "--classdata"),
    "chrt": (),
    "stdbuf": ("-i", "-o", "-e"),
    "numactl": ("-N", "-m", "-C", "-p", "-i"),
    "taskset": (),
    "timeout": ("-s", "--signal", "-k", "--kill-after"),
    "time": ("-f", "-o"),
    "gosu": (),
    "su-exec": (),
    "setpriv": (
        *("--reuid", "--regid", "--groups", "--inh-caps", "--ambient-caps", "--bounding-set"),
        *("--securebits", "--pdeathsig", "--selinux-label", "--apparmor-profile"),
    ),
    "prlimit": (),
    "catchsegv": (),
}
# of these, how many words stand between the options and the program
_BEFORE = {"timeout": 1, "taskset": 1, "chrt": 1, "gosu": 1, "su-exec": 1}
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"})
_INTERPRETERS = re.compile(r"python(?:3(?:\.\d+)?)?|perl|ruby|node")
# POSIX.1-2024, "Shell Command Language", 2.14 and 2.9.4; bash(1), "Shell Builtin Commands"
_BUILTINS = frozenset(
    [
        ".",
        ":",
        "[",
        "[[",
        "alias",
        "bg",
        "break",
        "builtin",
        "cd",
        "command",
        "continue",
        "declare",
        "dirs",
        "disown",
        "echo",
        "enable",
        "eval",
        "exit",
        "export",
        "false",
        "fc",
        "fg",
        "getopts",
        "hash",
        "help",
        "history",
        "jobs",
        "kill",
        "let",
        "local",
        "logout",
        "mapfile",
        "popd",
        "printf",
        "pushd",
        "pwd",
        "read",
        "readonly",
        "return",
        "set",
        "shift",
        "shopt",
        "source",
        "suspend",
        "test",
        "times",
        "trap",
        "true",
        "type",
        "typeset",
        "ulimit",
        "umask",
        "unalias",
        "unset",
        "wait",
    ]
)
_COMPOUND = re.compile(
    r"(?:^|[\s;&|(])(?:if|then|else|elif|fi|for|while|until|case|esac|do|done|select|function|\{|\})"
    r"(?=[\s;]|$)|`|\$\(|<<|\(\)"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


class FirstLine:
    """Keeps what decides how the kernel starts a file: its first line, or its first bytes."""

    def __init__(self, _path: str, size: int) -> None:
        self._head = b""
        self._empty = size == 0

    def write(self, chunk: bytes | memoryview, /) -> None:
        """Take the next bytes."""
        if len(self._head) < _HEAD:
            self._head += bytes(chunk[: _HEAD - len(self._head)])

    def finish(self) -> bytes:
        """Return the head: 256 bytes of a script, four of anything else."""
        return self._head if self._head.startswith(b"#!") else self._head[:4]


def _cannot_start(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.rpartition(".")[2] not in _SUFFIXES if "." in name.lstrip(".") else False


# kept of added layers alone, so that a lock does not depend on it
INTEREST = Interest(name="first line", keep=FirstLine, unless=_cannot_start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The first line of a script.

    Attributes:
        interpreter: the program that runs it, as written.
        argument: what follows, as the one word that the kernel makes of it; ``""`` for nothing.
        carriage_return: the line ends in CR LF, so that the kernel looks for a name with a CR.
    """

    interpreter: str
    argument: str
    carriage_return: bool


def parse_script(head: bytes) -> Script | None:
    """Read a script's first line; returns ``None`` for a file that has none."""
    if not head.startswith(b"#!"):
        return None
    line = head[2:].split(b"\n", 1)[0].decode("utf-8", "replace")
    carriage_return = line.endswith("\r")
    interpreter, _, argument = line.rstrip("\r").strip(" \t").replace("\t", " ").partition(" ")
    return Script(
        interpreter=interpreter, argument=argument.strip(), carriage_return=carriage_return
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """One program of a command.

    Attributes:
        program: its name or path, as written.
        arguments: the words behind it.
        folder: the working folder that was changed to on the way, ``""`` for the config's.
        path: the ``PATH`` that was set on the way, ``""`` for the config's.
        is_script: it is a script that the program before it reads, and needs no right to execute.
    """

    program: str
    arguments: tuple[str, ...] = ()
    folder: str = ""
    path: str = ""
    is_script: bool = False


def programs_of(argv: Sequence[str]) -> tuple[Started, ...]:
    """Follow a command from its first program to the last that is known without running it."""
    return tuple(_follow(tuple(argv), "", "", 0))


def unwrapped(argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command without the wrappers in front of it."""
    words = tuple(argv)
    for _ in range(8):
        inner = _inside(words)
        if inner is None or not inner[0]:
            return words
        words = inner[0]
    return words


def _follow(words: tuple[str, ...], folder: str, path: str, depth: int) -> Iterator[Started]:
    if not words or depth > 8:
        return
    program, rest = words[0], words[1:]
    yield Started(program=program, arguments=rest, folder=folder, path=path)
    name = posixpath.basename(program)
    if name in _SHELLS:
        yield from _follow_shell(rest, folder, path, depth)
    elif _INTERPRETERS.fullmatch(name):
        script = _script_of(rest)
        if script:
            yield Started(program=script, folder=folder, path=path, is_script=True)
    elif (inner := _inside(words)) is not None:
        yield from _follow(inner[0], inner[1] or folder, inner[2] or path, depth + 1)


def _inside(words: tuple[str, ...]) -> tuple[tuple[str, ...], str, str] | None:
    """Return what a wrapper starts, in which folder and with which ``PATH``; ``None`` for others."""
    if not words:
        return None
    name, rest = posixpath.basename(words[0]), list(words[1:])
    if name == "env":
        return _env(rest)
    with_word = _WRAPPERS.get(name)
    if with_word is None:
        return None
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "--":
            break
        if option in with_word and rest:
            rest.pop(0)
    return tuple(rest[_BEFORE.get(name, 0) :]), "", ""


def _env(rest: list[str]) -> tuple[tuple[str, ...], str, str]:
    """Follow env(1): options, assignments, then the program."""
    folder = path = ""
    while rest:
        word = rest[0]
        if word in ("-S", "--split-string") and len(rest) > 1:
            rest[0:2] = _split(rest[1])
        elif word.startswith("-S") and len(word) > 2:
            rest[0:1] = _split(word[2:])
        elif word.startswith("--split-string="):
            rest[0:1] = _split(word.partition("=")[2])
        elif word in ("-u", "--unset", "-C", "--chdir") and len(rest) > 1:
            folder = rest[1] if word in ("-C", "--chdir") else folder
            del rest[0:2]
        elif word.startswith("--chdir="):
            folder = word.partition("=")[2]
            del rest[0]
        elif word == "--":
            del rest[0]
            break
        elif word.startswith("-"):
            del rest[0]
        else:
            break
    while rest and (assignment := _ASSIGNMENT.fullmatch(rest[0])):
        path = assignment[2] if assignment[1] == "PATH" else path
        del rest[0]
    return tuple(rest), folder, path


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _script_of(arguments: Sequence[str]) -> str:
    """Return the script file among an interpreter's arguments, ``""`` for none (python(1))."""
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word in ("-c", "-m", "-", "-e", "-x") or word.startswith(("-c", "-m")):
            return ""
        if word in ("-W", "-X", "-I") and word != "-I" and words:
            words.pop(0)
        elif not word.startswith("-"):
            return word
    return ""


def _follow_shell(
    arguments: Sequence[str], folder: str, path: str, depth: int
) -> Iterator[Started]:
    """Follow ``sh -c TEXT`` or ``sh FILE`` (POSIX, sh)."""
    words = list(arguments)
    text: str | None = None
    while words and words[0][:1] in ("-", "+") and words[0] not in ("-", "--"):
        option = words.pop(0)
        if option in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file") and words:
            words.pop(0)
        elif not option.startswith("--") and "c" in option[1:]:
            text = words.pop(0) if words else ""
            break
    if text is not None:
        yield from _follow_text(text, folder, path, depth)
    elif words and words[0] in ("-", "--") and len(words) > 1:
        yield Started(program=words[1], folder=folder, path=path, is_script=True)
    elif words and words[0] not in ("-", "--"):
        yield Started(program=words[0], folder=folder, path=path, is_script=True)


def _follow_text(text: str, folder: str, path: str, depth: int) -> Iterator[Started]:
    """Follow a command line as far as it is a plain list of commands.

    A text with branches, functions or substitutions is not followed: what it starts is decided
    when it runs.
    """
    if _COMPOUND.search(text):
        return
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    command: list[str] = []
    try:
        tokens = [*lexer, ";"]
    except ValueError:
        return
    for token in tokens:
        if not set(token) <= set(";&|\n") or not token:
            command.append(token)
            continue
        found, folder, path = _simple(command, folder, path)
        if found and "$" not in found[0]:
            yield from _follow(found, folder, path, depth + 1)
        if command[:1] == ["exec"] or "||" in token:
            return
        command = []


def _simple(command: list[str], folder: str, path: str) -> tuple[tuple[str, ...], str, str]:
    """Return the program of a simple command, and the folder and ``PATH`` that hold behind it."""
    words = list(command)
    own_path = path
    while words and (assignment := _ASSIGNMENT.fullmatch(words[0])):
        own_path = assignment[2] if assignment[1] == "PATH" else own_path
        del words[0]
    words = [word for word in words if not re.fullmatch(r"\d*[<>].*", word)]
    if not words:
        return (), folder, own_path
    if words[0] == "cd" and len(words) == 2 and "$" not in words[1]:
        return (), posixpath.join(folder or "/", words[1]), path
    if words[0] == "exec":
        words = list(_inside(tuple(words))[0]) if len(words) > 1 else []  # type: ignore[index]
        return tuple(words), folder, path
    if words[0] in _BUILTINS or words[0].startswith("#"):
        return (), folder, path
    return tuple(words), folder, path


def doubled(entrypoint: Sequence[str], cmd: Sequence[str]) -> str:
    """Return the words that entrypoint and command both say, ``""`` where they do not.

    ``vllm serve`` with ``vllm serve MODEL``, or with ``serve MODEL``.
    """
    own = unwrapped(entrypoint)
    # a shell's or a wrapper's argument is a command in full
    if (
        not own
        or not cmd
        or posixpath.basename(own[0]) in _SHELLS
        or unwrapped([*own, "x"]) != (*own, "x")
    ):
        return ""
    if posixpath.basename(cmd[0]) == posixpath.basename(own[0]):
        return cmd[0]
    for size in range(min(len(own) - 1, len(cmd)), 0, -1):
        tail = own[-size:]
        if tuple(cmd[:size]) == tail and all(
            re.fullmatch(r"[A-Za-z][\w-]*", word) for word in tail
        ):
            return " ".join(tail)
    return ""
