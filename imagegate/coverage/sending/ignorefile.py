"""Reading an ignore file.

Sources: moby/patternmatcher ``ignorefile.ReadAll``, openshift/imagebuilder ``ParseIgnore``,
BuildKit ``dockerui``, buildah ``parse.ContainerIgnoreFile``.
"""

from __future__ import annotations

from dataclasses import dataclass

from imagegate.coverage.golang.paths import BadPatternError, clean, trim_space
from imagegate.coverage.sending.client import Grammar, Reader
from imagegate.coverage.sending.patterns import Rule, compile_rule
from imagegate.errors import CoverageError

# bufio.Scanner gives up on a line that does not fit its buffer with the newline
LINE_LIMIT = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreLine:
    """One pattern of an ignore file, as the reader hands it to the matcher.

    Attributes:
        number: its line, from 1.
        written: the line as it stands in the file.
        pattern: what the reader made of it, with a leading ``!`` for an exception.
    """

    number: int
    written: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreFile:
    """The patterns of one ignore file, in order; `path` is ``None`` where there is no file."""

    path: str | None
    lines: tuple[IgnoreLine, ...] = ()

    def written(self, number: int) -> str:
        """Return the text of line `number` as it stands in the file, or an empty string."""
        return next((line.written for line in self.lines if line.number == number), "")


NO_IGNORE_FILE = IgnoreFile(path=None)


def read_ignore_file(content: bytes, path: str, reader: Reader) -> IgnoreFile:
    """Split an ignore file into patterns.

    Args:
        content: the file's bytes.
        path: its path, for messages.
        reader: whose rules apply.

    Raises:
        CoverageError: the file has a line of 64 KiB or more (moby's reader only).
    """
    read = _moby if reader is Reader.MOBY else _imagebuilder
    return IgnoreFile(path=path, lines=tuple(read(content, path)))


def compile_rules(ignore: IgnoreFile, grammar: Grammar) -> tuple[Rule, ...]:
    """Compile the lines of `ignore` with one matcher's rules.

    Raises:
        CoverageError: a line is refused when the list is made, which fails any build.
    """
    rules: list[Rule] = []
    for line in ignore.lines:
        try:
            rule = compile_rule(line.pattern, line.number, grammar)
        except BadPatternError as refused:
            raise broken_line(ignore, line.number, refused) from refused
        if rule is not None:
            rules.append(rule)
    return tuple(rules)


def broken_line(ignore: IgnoreFile, number: int, refused: BadPatternError) -> CoverageError:
    """Return the error for a line of `ignore` that the builder refuses."""
    written = ignore.written(number)
    return CoverageError(
        f"{ignore.path}:{number}: `{written}` is not a valid pattern: {refused}",
        hint="`\\` escapes the next character, also on Windows; write paths with `/`",
    )


def _moby(content: bytes, path: str) -> list[IgnoreLine]:
    lines: list[IgnoreLine] = []
    for number, raw in enumerate(content.split(b"\n"), start=1):
        if len(raw) >= LINE_LIMIT:
            raise CoverageError(
                f"{path}:{number}: the line has {len(raw)} bytes, the builder reads fewer than "
                f"{LINE_LIMIT} (`token too long`)"
            )
        text = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        written = text.removesuffix(b"\r").decode("utf-8", "surrogateescape")
        if written.startswith("#"):
            continue
        pattern = trim_space(written)
        if not pattern:
            continue
        inverted = pattern.startswith("!")
        if inverted:
            pattern = trim_space(pattern[1:])
        if pattern:
            pattern = clean(pattern)
            if len(pattern) > 1:
                pattern = pattern.removeprefix("/")
        mark = "!" if inverted else ""
        lines.append(IgnoreLine(number=number, written=written, pattern=mark + pattern))
    return lines


def _imagebuilder(content: bytes, _path: str) -> list[IgnoreLine]:
    lines: list[IgnoreLine] = []
    for number, raw in enumerate(content.split(b"\n"), start=1):
        written = raw.decode("utf-8", "surrogateescape")
        if not written or written.startswith("#"):
            continue
        pattern = written.strip("/")
        if pattern:
            lines.append(IgnoreLine(number=number, written=written, pattern=pattern))
    return lines
