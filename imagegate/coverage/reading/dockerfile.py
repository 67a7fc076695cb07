"""Dockerfile text -> instructions, as BuildKit's ``frontend/dockerfile/parser`` splits it.

The parser knows lines, continuations, heredocs, flags and word lists; what an instruction means is
`imagegate.coverage.building.evaluate`'s matter. Nothing is expanded here.

Reference: https://docs.docker.com/reference/dockerfile/
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from imagegate.coverage.golang.paths import trim_space
from imagegate.coverage.reading.arguments import _BLANKS, json_prefix, split_flags, words_of
from imagegate.coverage.reading.words import WordError, expand
from imagegate.errors import CoverageError

LINE_LIMIT = 64 * 1024
INSTRUCTIONS = frozenset(
    [
        "ADD",
        "ARG",
        "CMD",
        "COPY",
        "ENTRYPOINT",
        "ENV",
        "EXPOSE",
        "FROM",
        "HEALTHCHECK",
        "LABEL",
        "MAINTAINER",
        "ONBUILD",
        "RUN",
        "SHELL",
        "STOPSIGNAL",
        "USER",
        "VOLUME",
        "WORKDIR",
    ]
)
_DIRECTIVES = frozenset({"syntax", "escape", "check"})
_DIRECTIVE = re.compile(r"^#\s*([a-zA-Z][a-zA-Z0-9]*)\s*=\s*(.+?)\s*$")
_HEREDOC = re.compile(r"^([0-9]*)<<(-?)([^<]*)$", re.DOTALL)
_TAKES_HEREDOC = frozenset({"ADD", "COPY", "RUN"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Heredoc:
    """An inline document.

    Attributes:
        name: its terminator, and the name of the file that COPY makes of it.
        content: its lines, tabs removed for ``<<-``.
        expands: variables in it are substituted, as the word was not quoted.
    """

    name: str
    content: str
    expands: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction.

    Attributes:
        name: in upper case.
        flags: ``--name=value`` words in front, as written but for quotes.
        words: the arguments, from JSON or split at blanks; quotes and variables as written.
        rest: the arguments as one text.
        json: the arguments were a JSON array.
        json_prefix: the array that the arguments begin with, where more text follows; older
            builders take it and drop the rest.
        heredocs: inline documents, in order.
        line: first line, from 1.
        end: last line, heredocs included.
        trigger: the instruction that ONBUILD holds back.
        refused: why the instruction is refused, where reading its line already says so.
    """

    name: str
    flags: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    rest: str = ""
    json: bool = False
    json_prefix: tuple[str, ...] | None = None
    heredocs: tuple[Heredoc, ...] = ()
    line: int
    end: int
    trigger: Instruction | None = None
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dockerfile:
    """A parsed Dockerfile.

    Attributes:
        path: for messages.
        instructions: in order.
        escape: the escape character.
        syntax: the frontend image of ``# syntax=``, or ``None``.
    """

    path: str
    instructions: tuple[Instruction, ...]
    escape: str = "\\"
    syntax: str | None = None


def parse_dockerfile(
    content: bytes,
    path: str,
    *,
    heredocs: bool = True,
    blank_heredocs: bool = False,
    escape_alone: bool = False,
) -> Dockerfile:
    """Parse a Dockerfile.

    Args:
        content: the file's bytes.
        path: its path, for messages.
        heredocs: the builder knows ``<<EOF``.
        blank_heredocs: it knows ``<< EOF`` too, and so takes ``1 << 3`` for one.
        escape_alone: ``# escape=`` is the only directive that it knows; any other line ends them.

    Raises:
        CoverageError: a line cannot be read; the message begins with ``path:line``.
    """
    parser = _Parser(content, path, heredocs=heredocs)
    parser.blank_heredocs = blank_heredocs
    parser.escape_alone = escape_alone
    return parser.parse()


class _Parser:
    def __init__(self, content: bytes, path: str, *, heredocs: bool) -> None:
        text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
        self._lines = text.split("\n")
        if self._lines[-1] == "":
            self._lines.pop()
        self._path = path
        self._heredocs = heredocs
        self._at = 0
        self.blank_heredocs = False
        self.escape_alone = False
        self._directives: dict[str, str] = {}
        self._directives_done = False
        self.escape = "\\"

    def parse(self) -> Dockerfile:
        instructions: list[Instruction] = []
        while self._at < len(self._lines):
            start = self._at + 1
            line = self._logical_line()
            if line:
                instructions.append(self._instruction(line, start))
        if not instructions:
            raise CoverageError(f"{self._path}:1: the file has no instructions")
        return Dockerfile(
            path=self._path,
            instructions=tuple(instructions),
            escape=self.escape,
            syntax=self._directives.get("syntax"),
        )

    def _error(self, message: str, line: int, *, hint: str | None = None) -> CoverageError:
        return CoverageError(f"{self._path}:{line}: {message}", hint=hint)

    def _take(self) -> str:
        line = self._lines[self._at]
        self._at += 1
        size = len(line.encode("utf-8", "surrogateescape"))
        if size >= LINE_LIMIT:
            raise self._error(
                f"the line has {size} bytes, the builder reads fewer than {LINE_LIMIT}", self._at
            )
        return line

    def _logical_line(self) -> str:
        """Take one line and its continuations; comments and blank lines in between are skipped."""
        first = self._take().rstrip("\r").lstrip()
        self._directive(first)
        if first.startswith("#"):
            return ""
        line, continues = self._continuation(first)
        while continues and self._at < len(self._lines):
            following = self._take().rstrip("\r")
            if following.lstrip().startswith("#") or not trim_space(following):
                continue
            following, continues = self._continuation(following)
            line += following
        return line

    def _continuation(self, line: str) -> tuple[str, bool]:
        escape = re.escape(self.escape)
        found = re.search(rf"(^|[^{escape}]){escape}[ \t]*$", line)
        return (line[: found.end(1)], True) if found else (line, False)

    def _directive(self, line: str) -> None:
        if self._directives_done:
            return
        found = _DIRECTIVE.match(line)
        if found is None:
            self._directives_done = True
            return
        key, value = found[1].lower(), found[2]
        if self.escape_alone and key != "escape":
            self._directives_done = True
            return
        if key not in _DIRECTIVES:
            return
        if key in self._directives:
            raise self._error(f"only one `{key}` parser directive can be used", self._at)
        self._directives[key] = value
        if key == "escape":
            if value not in {"\\", "`"}:
                raise self._error(f"invalid escape token `{value}`", self._at)
            self.escape = value

    def _instruction(self, line: str, start: int) -> Instruction:
        try:
            parsed = self._split(line, start)
        except WordError as refused:
            raise self._error(str(refused), start) from refused
        return parsed

    def _split(self, line: str, start: int) -> Instruction:
        name, _, arguments = _partition_blanks(trim_space(line))
        name = name.upper()
        if name not in INSTRUCTIONS:
            raise self._error(f"unknown instruction `{name}`", start)
        flags, rest = split_flags(arguments)
        rest = trim_space(rest)
        if name == "ONBUILD":
            return self._onbuild(rest, start)
        words, is_json = words_of(name, rest, self.escape)
        documents: tuple[Heredoc, ...] = ()
        if self._heredocs and name in _TAKES_HEREDOC and not is_json and "<<" in line:
            documents = self._documents(line)
        return Instruction(
            name=name,
            flags=tuple(flags),
            words=tuple(words),
            rest=rest,
            json=is_json,
            json_prefix=None if is_json else json_prefix(name, rest),
            heredocs=documents,
            line=start,
            end=self._at,
        )

    def _onbuild(self, rest: str, start: int) -> Instruction:
        trigger = self._split(rest, start) if rest else None
        refused = "" if trigger else "ONBUILD requires at least one argument"
        if trigger is not None and trigger.name in {"ONBUILD", "FROM", "MAINTAINER"}:
            refused = f"`{trigger.name}` is not allowed as an ONBUILD trigger"
        return Instruction(
            name="ONBUILD",
            rest=rest,
            line=start,
            end=self._at,
            trigger=trigger,
            refused=refused,
        )

    def _documents(self, line: str) -> tuple[Heredoc, ...]:
        """Take the lines of every heredoc that `line` announces."""
        documents: list[Heredoc] = []
        try:
            announced = expand(line, {}, raw=True).words
        except WordError:
            return ()
        if self.blank_heredocs:
            announced = _joined(announced)
        for word in announced:
            opened = parse_heredoc(word)
            if opened is None:
                continue
            name, chomps, expands = opened
            started, content = self._at, ""
            while True:
                if self._at >= len(self._lines):
                    raise self._error(f"heredoc `{name}` is not closed", started)
                taken = self._take()
                bare = taken.rstrip("\r")
                if (bare.lstrip("\t") if chomps else bare) == name:
                    break
                content += (taken.lstrip("\t") if chomps else taken) + "\n"
            documents.append(Heredoc(name=name, content=content, expands=expands))
        return tuple(documents)


def _joined(words: list[str]) -> list[str]:
    """Join ``<<`` with the word behind it."""
    joined: list[str] = []
    for word in words:
        if joined and re.fullmatch(r"[0-9]*<<-?", joined[-1]):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def parse_heredoc(word: str) -> tuple[str, bool, bool] | None:
    """Return name, tab removal and expansion of a heredoc word such as ``<<-"EOF"``.

    Raises:
        WordError: a quote in it is open.
    """
    found = _HEREDOC.match(word)
    if found is None or not found[3]:
        return None
    names = expand(found[3], {}).words
    if len(names) != 1:
        return None
    quoted = expand(found[3], {}, raw=True).words
    return names[0], bool(found[2]), names == quoted


def _partition_blanks(text: str) -> tuple[str, str, str]:
    found = _BLANKS.search(text)
    if found is None:
        return text, "", ""
    return text[: found.start()], found.group(), text[found.end() :]
