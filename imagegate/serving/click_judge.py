"""Judges an argument list as click does: no abbreviations, ``--a=b`` or ``--a b``."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING

from imagegate.verdict import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.serving.judge import Parsed
    from imagegate.serving.table import Option, Program

_TRUE = {"1", "true", "t", "yes", "y", "on", "0", "false", "f", "no", "n", "off", ""}


def judge_click(program: Program, args: Sequence[str], parsed: Parsed) -> Parsed:
    """Judge a list for a click command without positionals (click 8, ``OptionParser``)."""
    strings = sorted(s for option in program.options for s in option.strings)
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        if arg == "--":
            for extra in rest:
                _surplus(program, extra, parsed)
            break
        if not arg.startswith("-") or arg == "-":
            _surplus(program, arg, parsed)
            continue
        name, equals, value = arg.partition("=")
        option = program.option(name)
        if option is None and not arg.startswith("--") and program.option(arg[:2]):
            # short options may be written together, or with their value
            option, name = program.option(arg[:2]), arg[:2]
            assert option is not None
            equals, value = ("=", arg[2:]) if not option.takes_nothing else ("", "")
            if option.takes_nothing:
                rest.insert(0, f"-{arg[2:]}")
        if option is None:
            parsed.refused = True
            near = difflib.get_close_matches(name, strings, n=1, cutoff=0.6)
            parsed.add(
                "unknown",
                Severity.FAIL,
                name,
                f"`{program.name}` has no option `{name}`; click takes no abbreviations",
                needed=near[0] if near else "an option of this version",
                found=name,
                hint=f"did you mean `{near[0]}`?" if near else "",
            )
            continue
        _take(option, name, value if equals else None, rest, parsed)
    return parsed


def _take(option: Option, name: str, value: str | None, rest: list[str], parsed: Parsed) -> None:
    if option.takes_nothing:
        if value is not None:
            parsed.refused = True
            parsed.add(
                "no-value-taken", Severity.FAIL, name, f"`{name}` takes no value", found=value
            )
        parsed.values[option.dest] = True
        return
    if value is None:
        if not rest:
            parsed.refused = True
            parsed.add("no-value", Severity.FAIL, name, f"`{name}` needs a value", found="nothing")
            return
        value = rest.pop(0)
    parsed.texts[option.dest] = [value]
    parsed.values[option.dest] = value
    if option.type == "unknown":
        parsed.add(
            "not-checked",
            Severity.NOTE,
            name,
            f"what `{name}` takes is decided when the program starts; its value is not checked",
            found=value,
        )
    problem = _problem(option, value)
    if problem:
        parsed.refused = True
        parsed.add(
            "value", Severity.FAIL, name, f"`{name}` is refused", needed=problem, found=value
        )


def _problem(option: Option, value: str) -> str:
    if option.choices is not None and value.lower() not in {str(c).lower() for c in option.choices}:
        return "one of " + ", ".join(map(str, option.choices))
    try:
        if option.type == "int":
            int(value)
        elif option.type == "float":
            float(value)
        elif option.type == "json":
            json.loads(value)
    except ValueError:
        if option.type == "json":
            return "JSON"
        return "a whole number" if option.type == "int" else "a number"
    if option.type == "bool" and value.strip().lower() not in _TRUE:
        return "true or false"
    return ""


def _surplus(program: Program, text: str, parsed: Parsed) -> None:
    parsed.refused = True
    parsed.add(
        "surplus", Severity.FAIL, text, f"`{program.name}` takes no argument `{text}`", found=text
    )
