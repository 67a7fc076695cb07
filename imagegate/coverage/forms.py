"""Forms of instructions that moby's parser refuses wherever they stand, needed stage or not.

BuildKit ``frontend/dockerfile/instructions/parse.go`` and ``parser/line_parsers.go``, which the
classic builder shares. They are looked at before anything is built.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from imagegate.coverage.dockerfile import Instruction

_STAGE_NAME = re.compile(r"[a-z][a-z0-9-_.]*")
_FROM_WITH_NAME = 3


def form_problem(instruction: Instruction) -> str:
    """Return why moby refuses the instruction's form, or an empty string."""
    if instruction.trigger is not None:
        return form_problem(instruction.trigger)
    judged = _FORMS.get(instruction.name)
    return judged(instruction) if judged is not None else ""


def _at_least_one(instruction: Instruction) -> str:
    return "" if instruction.words else f"{instruction.name} requires at least one argument"


def _exactly_one(instruction: Instruction) -> str:
    # ``parseString``: the rest of the line is the argument, blanks included
    return "" if instruction.rest else f"{instruction.name} requires exactly one argument"


def _two(instruction: Instruction) -> str:
    if len(instruction.words) > 1:
        return ""
    return f"{instruction.name} takes at least two arguments"


def _name_values(instruction: Instruction) -> str:
    """``parseNameVal``: ``name=value …``, or ``name value`` where the first word has no ``=``."""
    words = instruction.words
    if not words:
        return f"{instruction.name} requires at least one argument"
    if "=" not in words[0]:
        return (
            ""
            if len(instruction.rest.split(None, 1)) > 1
            else (f"{instruction.name} must have two arguments")
        )
    return _all_named(instruction.name, words)


def _all_named(name: str, words: Sequence[str]) -> str:
    for word in words:
        if "=" not in word:
            return f"{name}: can't find `=` in `{word}`; the form is `name=value`"
        if word.startswith("="):
            return f"{name} names can not be blank"
    return ""


def _arg(instruction: Instruction) -> str:
    if any(word.startswith("=") for word in instruction.words):
        return "ARG names can not be blank"
    return _at_least_one(instruction)


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
    "ARG": _arg,
    "COPY": _two,
    "ENV": _name_values,
    "EXPOSE": _at_least_one,
    "FROM": _from,
    "HEALTHCHECK": _healthcheck,
    "LABEL": _name_values,
    "MAINTAINER": _exactly_one,
    "SHELL": _shell,
    "STOPSIGNAL": _exactly_one,
    "USER": _exactly_one,
    "VOLUME": _volume,
    "WORKDIR": _exactly_one,
}
