"""Judges an argument list by the table of a program's options.

The list is given to an argparse (or click-like) parser that is built from the table; what that
parser accepts, the program accepts. Then come the things that a parser accepts and that are wrong
all the same: abbreviations, values outside of a bound, names that nobody registered.
"""

from __future__ import annotations

import argparse
import difflib
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

from imagegate.serving.command_line import RefusedArgumentsError, expand
from imagegate.serving.converters import bound_problem, converter
from imagegate.verdict import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imagegate.serving.table import Option, Program

_TRIES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with an argument list, or worth a note.

    Attributes:
        what: stable name, for instance ``unknown`` or ``abbreviation``.
        severity: whether the program refuses it, or it is only said.
        option: as it was written.
        message: one sentence.
        needed: what the program takes.
        found: what was given.
        hint: what to write.
    """

    what: str
    severity: Severity
    option: str
    message: str
    needed: str = ""
    found: str = ""
    hint: str = ""


@dataclass(slots=True, kw_only=True)
class Parsed:
    """What an argument list says.

    Attributes:
        values: converted values by destination; absent where not given.
        texts: the values as they were written, by destination.
        problems: in the order in which they were found.
        refused: whether the program's own parser refuses the list.
    """

    values: dict[str, object] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    refused: bool = False

    def add(self, what: str, severity: Severity, option: str, message: str, **more: str) -> None:
        """Add a problem."""
        self.problems.append(
            Problem(what=what, severity=severity, option=option, message=message, **more)
        )


class _ParserError(Exception):
    def __init__(self, message: str, action: argparse.Action | None) -> None:
        super().__init__(message)
        self.message = message
        self.action = action


class _Parser(argparse.ArgumentParser):
    """An argparse parser that raises instead of leaving."""

    def error(self, message: str) -> NoReturn:
        raise _ParserError(message, None)

    def parse_known_args(  # type: ignore[override]
        self, args: list[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Hand the action of an error on: its text alone does not say which option it was."""
        self.exit_on_error = False
        try:
            found, rest = super().parse_known_args(args, namespace)
        except argparse.ArgumentError as error:
            raise _ParserError(error.message, _action_of(self, error.argument_name)) from error
        return found, rest


def _action_of(parser: argparse.ArgumentParser, name: str | None) -> argparse.Action | None:
    if name is None:
        return None
    return next((a for a in parser._actions if "/".join(a.option_strings) == name), None)  # noqa: SLF001


class _Keep(argparse.Action):
    """Keeps what was given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        seen = getattr(namespace, "_seen", [])
        seen.append((self.dest, option_string, values))
        namespace._seen = seen  # noqa: SLF001


def build_parser(program: Program) -> argparse.ArgumentParser:
    """Build an argparse parser from a program's table."""
    parser = _Parser(prog=program.name, add_help=False, allow_abbrev=True)
    for option in program.options:
        keywords: dict[str, object] = {"dest": option.dest, "action": _Keep}
        if option.takes_nothing:
            keywords["nargs"] = 0
        else:
            keywords["nargs"] = option.nargs
            keywords["type"] = converter(option, program)
            if option.choices is not None:
                keywords["choices"] = list(option.choices)
        if option.strings:
            if option.required:
                keywords["required"] = True
            parser.add_argument(*option.strings, **keywords)  # type: ignore[arg-type]
        else:
            keywords.pop("dest")
            parser.add_argument(option.dest, **keywords)  # type: ignore[arg-type]
    return parser


_BUILT: dict[int, tuple[Program, argparse.ArgumentParser]] = {}


def _parser_of(program: Program) -> argparse.ArgumentParser:
    """Build a program's parser once."""
    kept = _BUILT.get(id(program))
    if kept is None or kept[0] is not program:
        if len(_BUILT) > 8:
            _BUILT.clear()
        kept = _BUILT[id(program)] = (program, build_parser(program))
    return kept[1]


def judge_arguments(
    program: Program, args: Sequence[str], files: Mapping[str, object] | None = None
) -> Parsed:
    """Judge an argument list.

    Args:
        program: whose arguments they are; its table must have been read.
        args: the arguments behind the program's name.
        files: configuration files that ``--config`` may name, read as YAML, by path.
    """
    parsed = Parsed()
    if program.parser == "click":
        from imagegate.serving.click_judge import judge_click

        return judge_click(program, args, parsed)
    listed = list(args)
    if program.parser == "flexible":
        _note_ignored_config(listed, parsed)
        try:
            listed = expand(program, listed, files or {})
        except RefusedArgumentsError as error:
            parsed.refused = True
            parsed.add("refused", Severity.FAIL, "", error.message, hint=error.hint)
            return parsed
    _note_unread_config(args, files or {}, parsed)
    _parse(program, _parser_of(program), listed, parsed)
    _judge_values(program, parsed)
    return parsed


def _note_ignored_config(args: list[str], parsed: Parsed) -> None:
    """``--config=FILE`` is accepted and never read: only the separate form is looked for."""
    for arg in args:
        if arg.startswith("--config=") and "--config" not in args:
            parsed.add(
                "config-ignored",
                Severity.FAIL,
                arg,
                "the file is never read: vLLM looks for `--config` as an argument of its own",
                needed="--config FILE",
                found=arg,
                hint=f"write `--config {arg.partition('=')[2]}`",
            )


def _note_unread_config(args: Sequence[str], files: Mapping[str, object], parsed: Parsed) -> None:
    """A configuration file that nobody gave us may say anything."""
    for word, path in pairwise(args):
        if word == "--config" and path not in files:
            parsed.add(
                "not-checked",
                Severity.NOTE,
                "--config",
                f"`{path}` was not looked at: what it says is not checked",
                found=path,
                hint="write its options under `arguments`",
            )


def _parse(
    program: Program, parser: argparse.ArgumentParser, args: list[str], parsed: Parsed
) -> None:
    """Parse, and after each error parse again without what caused it, to tell all of them."""
    strings = {string for option in program.options for string in option.strings}
    args = _exact(parser, args, strings, parsed)
    for _ in range(_TRIES):
        namespace = argparse.Namespace()
        try:
            _, unknown = parser.parse_known_args(list(args), namespace)
        except _ParserError as error:
            parsed.refused = True
            shorter = _without(program, args, error, parsed)
            if shorter is None:
                return
            args = shorter
            continue
        named = False
        for text in unknown:
            # values behind an option that is not there are part of the same mistake
            if not (named and not text.startswith("-")):
                _unknown(program, text, strings, parsed)
            named = text.startswith("-")
        for dest, string, values in getattr(namespace, "_seen", ()):
            parsed.values[dest] = _stored(program, string, values)
        _keep_texts(program, args, parsed)
        return


def _exact(
    parser: argparse.ArgumentParser,
    args: list[str],
    strings: set[str],
    parsed: Parsed,
) -> list[str]:
    """Write abbreviations out and say so; an ambiguous one is taken out."""
    found: list[str] = []
    literal = dropping = False
    for arg in args:
        literal = literal or arg == "--"
        if dropping and not arg.startswith("-"):
            continue
        dropping = False
        name, equals, value = arg.partition("=")
        if literal or not arg.startswith("--") or name in strings or arg == "--" or " " in name:
            found.append(arg)
            continue
        candidates = sorted({match[1] for match in parser._get_option_tuples(arg)})  # noqa: SLF001
        if len(candidates) == 1:
            full = candidates[0]
            parsed.add(
                "abbreviation",
                Severity.NOTE,
                name,
                f"`{name}` is accepted only as an abbreviation",
                needed=full,
                found=name,
                hint=f"write `{full}`; another version may have two options that begin like that",
            )
            found.append(full + equals + value)
        elif candidates:
            parsed.refused = dropping = True
            parsed.add(
                "ambiguous",
                Severity.FAIL,
                name,
                f"`{name}` could be several options",
                needed="one of " + ", ".join(candidates[:8]),
                found=name,
                hint="write the option out",
            )
        else:
            found.append(arg)
    return found


def _unknown(program: Program, text: str, strings: set[str], parsed: Parsed) -> None:
    parsed.refused = True
    name = text.partition("=")[0]
    if not text.startswith("-"):
        parsed.add(
            "surplus",
            Severity.FAIL,
            text,
            f"`{text}` belongs to no option: the one before it takes no value, or no further one",
            found=text,
            hint="remove it; switches take no value, `--no-…` turns them off",
        )
        return
    near = difflib.get_close_matches(name.replace("_", "-"), sorted(strings), n=1, cutoff=0.6)
    parsed.add(
        "unknown",
        Severity.FAIL,
        name,
        f"{program.name} of this image has no option `{name}`",
        needed=near[0] if near else "an option of this version",
        found=name,
        hint=f"did you mean `{near[0]}`?" if near else "remove it or take the image that has it",
    )


def _without(
    program: Program, args: list[str], error: _ParserError, parsed: Parsed
) -> list[str] | None:
    """Record an error and return the list without the option that caused it."""
    option = _option_of(program, error.action)
    if option is None:
        missing = "are required" in error.message
        parsed.add(
            "required" if missing else "refused",
            Severity.FAIL,
            error.message.rpartition(": ")[2] if missing else "",
            f"{program.name} refuses the arguments: {error.message}",
        )
        return None
    places = [n for n, arg in enumerate(args) if arg.partition("=")[0] in option.strings]
    for place in places:
        end = place + 1
        while end < len(args) and not args[end].startswith("-"):
            end += 1
        given = args[place:end]
        if _fails(program, given, option):
            _record(program, option, given, error.message, parsed)
            return [*args[:place], *args[end:]]
    parsed.add(
        "refused",
        Severity.FAIL,
        option.strings[0] if option.strings else option.dest,
        error.message,
    )
    if not places:
        return None
    return [*args[: places[0]], *args[places[0] + 1 :]]


def _fails(program: Program, given: list[str], option: Option) -> bool:
    """Whether one option alone, with what follows it, is refused."""
    only = program.model_copy(update={"options": (option.model_copy(update={"required": False}),)})
    try:
        build_parser(only).parse_known_args(given)
    except _ParserError:
        return True
    return False


def _record(
    program: Program, option: Option, given: list[str], message: str, parsed: Parsed
) -> None:
    name = given[0].partition("=")[0]
    value = given[0].partition("=")[2] if "=" in given[0] else " ".join(given[1:])
    needed, hint, what = _needed(option, program), "", "value"
    if "expected" in message and not value:
        what = "no-value"
        hint = f"write `{name} VALUE`"
    elif "ignored explicit argument" in message:
        what = "no-value-taken"
        hint = f"write `{name}` alone, or `--no-{name[2:]}` to turn it off"
    elif option.type.startswith("json"):
        hint = "write JSON in single quotes, so that the shell leaves the double quotes alone"
    elif option.choices is not None:
        near = difflib.get_close_matches(value, [str(c) for c in option.choices], n=1)
        hint = f"did you mean `{near[0]}`?" if near else ""
    parsed.add(
        what,
        Severity.FAIL,
        name,
        f"`{name}` is refused: {message[:1].lower()}{message[1:]}",
        needed=needed,
        found=value or "nothing",
        hint=hint,
    )


def _needed(option: Option, program: Program) -> str:
    if option.takes_nothing:
        return "no value"
    if option.choices is not None:
        return "one of " + ", ".join(map(str, option.choices))
    words = {
        "int": "a whole number",
        "float": "a number",
        "size": "a number of bytes or tokens, such as 6442450944, 6G (binary) or 6g (decimal)",
        "size-or-auto": "a number such as 262144, 256K (binary) or 256k (decimal), or auto",
        "json": "JSON",
    }
    if option.type.startswith("json:"):
        name = option.type.removeprefix("json:")
        structure = program.structures.get(name)
        keys = ", ".join(sorted(structure.fields)[:12]) if structure is not None else ""
        return f"a JSON object ({name}: {keys}, …)"
    return words.get(option.type, "a value")


def _option_of(program: Program, action: argparse.Action | None) -> Option | None:
    if action is None:
        return None
    if not action.option_strings:
        return next((o for o in program.options if not o.strings and o.dest == action.dest), None)
    return program.option(action.option_strings[0])


def _stored(program: Program, string: str | None, values: object) -> object:
    option = program.option(string) if string else None
    if option is not None and option.takes_nothing:
        return not (string or "").startswith("--no-") if option.action == "boolean" else True
    return values


def _keep_texts(program: Program, args: list[str], parsed: Parsed) -> None:
    for number, arg in enumerate(args):
        name, equals, value = arg.partition("=")
        option = program.option(name)
        if option is None or option.takes_nothing:
            continue
        texts = [value] if equals else []
        if not equals:
            for text in args[number + 1 :]:
                if text.startswith("-") and not _is_number(text):
                    break
                texts.append(text)
        parsed.texts[option.dest] = texts


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _judge_values(program: Program, parsed: Parsed) -> None:
    """Say what the parser accepts and the program refuses later, or takes otherwise than meant."""
    for option in program.options:
        if option.dest not in parsed.values:
            continue
        value = parsed.values[option.dest]
        name = next((s for s in option.strings if s.startswith("--")), option.dest)
        if isinstance(value, int | float) and not isinstance(value, bool):
            problem = bound_problem(name, float(value), option.lower, option.upper)
            if problem:
                parsed.add(
                    "range",
                    Severity.FAIL,
                    name,
                    f"`{name}` is outside of what vLLM takes (`{option.field}`)",
                    needed=problem,
                    found=str(value),
                )
        _judge_suffix(option, name, parsed)
        if option.known and isinstance(value, str) and value not in option.known:
            parsed.add(
                "not-known",
                Severity.NOTE,
                name,
                f"the parser accepts any value of `{name}`; the image knows others",
                needed="one of " + ", ".join(map(str, option.known)),
                found=value,
                hint="a typing error shows only when the engine starts",
            )
        if option.deprecated:
            parsed.add("deprecated", Severity.NOTE, name, f"`{name}` is deprecated in this image")
        if option.action == "custom" or option.type == "unknown":
            parsed.add(
                "not-checked",
                Severity.NOTE,
                name,
                f"the image's own code reads the value of `{name}`; it is not checked",
            )
        elif option.computed:
            parsed.add(
                "not-checked",
                Severity.NOTE,
                name,
                f"what `{name}` takes is decided when the program starts; its value is not checked",
                found=str(value),
            )


def _judge_suffix(option: Option, name: str, parsed: Parsed) -> None:
    """``6g`` is 7 % less than ``6G``: say which one was written."""
    for text in parsed.texts.get(option.dest, ()):
        if option.type in ("size", "size-or-auto") and text[-1:] in "kmgt" and text[-1:]:
            upper = text[:-1] + text[-1].upper()
            parsed.add(
                "decimal-suffix",
                Severity.NOTE,
                name,
                f"`{text}` counts in thousands: {parsed.values[option.dest]}",
                found=text,
                hint=f"`{upper}` counts in powers of 1024",
            )


__all__ = ["Parsed", "Problem", "build_parser", "judge_arguments"]
