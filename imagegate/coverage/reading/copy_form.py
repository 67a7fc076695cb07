"""Which flags a builder takes with COPY and ADD, and in which form."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagegate.coverage.reading.dockerfile import Instruction
    from imagegate.coverage.reading.frontend import Frontend

_BOOLEAN_FLAGS = frozenset({"link", "parents", "unpack", "keep-git-dir"})
_ADD_FLAGS = frozenset({"chown", "chmod", "link", "exclude", "keep-git-dir", "checksum", "unpack"})
_COPY_FLAGS = frozenset({"from", "chown", "chmod", "link", "parents", "exclude"})


def copy_problem(instruction: Instruction, frontend: Frontend) -> str:
    """Return why the builder refuses the instruction's form, or an empty string."""
    if instruction.heredocs and not frontend.heredocs:
        return "this builder does not know heredocs"
    name = instruction.name
    if len(instruction.words) < 2:
        return f"{name} takes at least two arguments"
    known = _ADD_FLAGS if name == "ADD" else _COPY_FLAGS
    seen: set[str] = set()
    for flag in instruction.flags:
        key, equals, value = flag.removeprefix("--").partition("=")
        if key not in known or key not in frontend.flags:
            return f"this builder does not know `--{key}` of {name}"
        if key == "chmod" and frontend.octal_modes_only and not _octal(value):
            return f"`--chmod={value}` is not an octal number"
        if key in seen and key != "exclude" and not frontend.flags_repeat:
            return f"duplicate flag `--{key}`"
        seen.add(key)
        if key in _BOOLEAN_FLAGS:
            if equals and value not in {"true", "false"}:
                return f"`--{key}` takes true or false"
        elif not equals or (not value and not frontend.empty_values):
            return f"`--{key}` needs a value"
    if "$" in dict(_first(instruction)).get("from", ""):
        return "variables are not expanded in `--from`"
    return ""


def _octal(value: str) -> bool:
    return bool(value) and all(digit in "01234567" for digit in value)


def _first(instruction: Instruction) -> list[tuple[str, str]]:
    return [(key, values[0]) for key, values in flags_of(instruction).items()]


def flags_of(instruction: Instruction) -> dict[str, list[str]]:
    """Return the values of each flag, ``true`` for one that stands alone."""
    flags: dict[str, list[str]] = {}
    for flag in instruction.flags:
        key, equals, value = flag.removeprefix("--").partition("=")
        flags.setdefault(key, []).append(value if equals else "true")
    return flags
