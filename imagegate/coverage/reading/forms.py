"""Forms of instructions that builders refuse.

BuildKit ``frontend/dockerfile/instructions/parse.go`` and ``parser/line_parsers.go``, which the
classic builder shares, look at all of them before anything is built. imagebuilder has the line
parsers, and looks at the rest when it comes to the instruction.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from imagegate.coverage.reading.dockerfile import Instruction

_STAGE_NAME = re.compile(r"[a-z][a-z0-9-_.]*")
_FROM_WITH_NAME = 3


def form_problem(instruction: Instruction) -> str:
    """Return why the instruction's form is refused, or an empty string."""
    if instruction.refused:
        return instruction.refused
    if instruction.trigger is not None:
        # what is in it is looked at where it runs
        return line_problem(instruction.trigger)
    problem = line_problem(instruction)
    if problem:
        return problem
    judged = _FORMS.get(instruction.name)
    return judged(instruction) if judged is not None else ""


def blank_name_problem(instruction: Instruction) -> str:
    """Return why moby refuses a name in ENV, ARG or LABEL, or an empty string."""
    named = instruction.name in {"ARG", "ENV", "LABEL"}
    if named and any(word.startswith("=") for word in instruction.words):
        return f"{instruction.name} names can not be blank"
    return ""


def line_problem(instruction: Instruction) -> str:
    """Return why the line of an ENV or LABEL cannot be read, or an empty string."""
    name, words = instruction.name, instruction.words
    if name not in {"ENV", "LABEL"} or not words:
        return ""
    # ``parseNameVal``: `name=value …`, or `name value` where the first word has no `=`
    if "=" not in words[0]:
        has_value = len(instruction.rest.split(None, 1)) > 1
        return "" if has_value else f"{name} must have two arguments"
    bad = next((word for word in words if "=" not in word), None)
    return "" if bad is None else f"{name}: can't find `=` in `{bad}`; the form is `name=value`"


def _at_least_one(instruction: Instruction) -> str:
    return "" if instruction.words else f"{instruction.name} requires at least one argument"


def _exactly_one(instruction: Instruction) -> str:
    # ``parseString``: the rest of the line is the argument, blanks included
    return "" if instruction.rest else f"{instruction.name} requires exactly one argument"


def _two(instruction: Instruction) -> str:
    if len(instruction.words) > 1:
        return ""
    return f"{instruction.name} takes at least two arguments"


def _volume(instruction: Instruction) -> str:
    if any(not word.strip() for word in instruction.words):
        return "VOLUME specified can not be an empty string"
    return _at_least_one(instruction)


def _shell(instruction: Instruction) -> str:
    if not instruction.json:
        return "SHELL requires the arguments to be in JSON form"
    return _at_least_one(instruction)


def _healthcheck(instruction: Instruction) -> str:
    words = instruction.words
    kind = words[0].upper() if words else ""
    if kind not in {"CMD", "NONE"}:
        return f"unknown type `{kind}` in HEALTHCHECK (try CMD)"
    if kind == "NONE" and len(words) > 1:
        return "HEALTHCHECK NONE takes no arguments"
    if kind == "CMD" and len(words) == 1:
        return "missing command after HEALTHCHECK CMD"
    return ""


def _from(instruction: Instruction) -> str:
    words = instruction.words
    if len(words) == _FROM_WITH_NAME and not _STAGE_NAME.fullmatch(words[2].lower()):
        return f"invalid name for build stage: `{words[2]}`"
    return ""


_FORMS: Mapping[str, Callable[[Instruction], str]] = {
    "ADD": _two,
    "ARG": _at_least_one,
    "COPY": _two,
    "ENV": _at_least_one,
    "EXPOSE": _at_least_one,
    "FROM": _from,
    "HEALTHCHECK": _healthcheck,
    "LABEL": _at_least_one,
    "MAINTAINER": _exactly_one,
    "SHELL": _shell,
    "STOPSIGNAL": _exactly_one,
    "USER": _exactly_one,
    "VOLUME": _volume,
    "WORKDIR": _exactly_one,
}
