"""What a value has to be: the converters of the programs' own parsers."""

from __future__ import annotations

import argparse
import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from imagegate.serving.table import Option, Program, Structure

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_BARE_SIZE = re.compile(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b")


def size(text: str, *, tera: bool = True) -> int:
    """Read ``6G`` (binary), ``6.5g`` (decimal) or a plain number (vLLM's ``human_readable_int``).

    Raises:
        argparse.ArgumentTypeError: decimals before a binary suffix.
        ValueError: the text is not a number.
    """
    text = text.strip()
    match = _SIZE.fullmatch(text)
    if match is not None and (tera or match[2] not in "tT"):
        number, suffix = match.groups()
        if suffix in _DECIMAL:
            return int(float(number) * _DECIMAL[suffix])
        if "." in number:
            raise argparse.ArgumentTypeError(
                f"decimals are not allowed with the binary suffix {suffix}; "
                f"{number}{suffix.lower()} would be {int(float(number) * _DECIMAL[suffix.lower()])}"
            )
        return int(number) * _BINARY[suffix]
    return int(text)


def converter(option: Option, program: Program) -> Callable[[str], object]:
    """Return what turns a text into the option's value; raises what argparse catches."""

    def convert(text: str) -> object:
        if option.optional and text in ("", "None"):
            # a choice that is offered for it is a text
            return "None" if option.choices and "None" in option.choices else None
        for name, *arguments in option.steps:
            text = getattr(text, name)(*arguments)
        return _convert(option.type, text, program)

    convert.__name__ = option.type
    return convert


def _convert(kind: str, text: str, program: Program) -> object:
    match kind:
        case "int":
            return int(text)
        case "float":
            return float(text)
        case "bool":
            return bool(text)
        case "size":
            return size(text, tera="tera" in program.features)
        case "size-or-auto":
            if text.strip() == "-1" or text.strip().lower() == "auto":
                return -1
            return size(text, tera="tera" in program.features)
        case "json":
            return json.loads(text)
        case "json-or-str":
            return json.loads(text) if re.match(r"(?s)^\s*{.*}\s*$", text) else text
        case _ if kind.startswith("json:"):
            structure = program.structures.get(kind.removeprefix("json:"))
            if "json-sizes" in program.features:
                text = _expand_sizes(text)
            return _structured(text, structure)
        case _:
            return text


def _expand_sizes(text: str) -> str:
    """Replace bare ``80m`` outside of quoted text (``_expand_json_human_readable_numbers``)."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    parts[::2] = [_BARE_SIZE.sub(lambda m: str(size(m[0])), part) for part in parts[::2]]
    return "".join(parts)


def _structured(text: str, structure: Structure | None) -> object:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("a JSON object is needed")
    if structure is None:
        return value
    for key, item in value.items():
        if key not in structure.fields:
            if structure.closed:
                raise argparse.ArgumentTypeError(f"`{key}` is not a key of it")
            continue
        problem = structure_problem(structure, key, item)
        if problem:
            raise argparse.ArgumentTypeError(problem)
    return value


def structure_problem(structure: Structure, key: str, item: object) -> str:
    """Say what is wrong with one key's value, ``""`` where nothing is known to be."""
    field = structure.fields[key]
    if field.choices is not None and not isinstance(item, dict | list):
        wrong = item not in field.choices and not (item is None and "none" in field.type)
        if wrong:
            return f"`{key}` is `{item}`; known: {', '.join(map(str, field.choices))}"
    kinds = set(field.type.split("|"))
    if "literal" not in kinds and not (kinds & {"unknown", "other", "class"}):
        needed = [_KINDS[kind] for kind in sorted(kinds) if kind in _KINDS]
        if needed and not any(_fits(kind, item) for kind in kinds):
            return f"`{key}` is `{json.dumps(item)}`; {' or '.join(needed)} is needed"
    if isinstance(item, int | float) and not isinstance(item, bool):
        return bound_problem(key, float(item), field.lower, field.upper)
    return ""


_KINDS = {
    "none": "null",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "dict": "an object",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
}
_BOOLEANS = {"0", "1", "t", "f", "true", "false", "y", "n", "yes", "no", "on", "off"}


def _fits(kind: str, item: object) -> bool:
    """Whether pydantic's lax mode takes a JSON value for a type (its conversion table)."""
    is_number = isinstance(item, int | float) and not isinstance(item, bool)
    match kind:
        case "none":
            return item is None
        case "str":
            return isinstance(item, str)
        case "bool":
            text = isinstance(item, str) and item.strip().lower() in _BOOLEANS
            return isinstance(item, bool) or (is_number and item in (0, 1)) or text
        case "int":
            if isinstance(item, str):
                return re.fullmatch(r"\s*[+-]?\d+(_?\d)*(\.0*)?\s*", item) is not None
            return isinstance(item, bool) or (is_number and float(item).is_integer())  # type: ignore[arg-type]
        case "float":
            if isinstance(item, str):
                return re.fullmatch(r"\s*[+-]?[\d._eE+-]+\s*|\s*[+-]?(inf|nan).*", item) is not None
            return isinstance(item, bool) or is_number
        case "dict":
            return isinstance(item, dict)
        case "list" | "tuple" | "set":
            return isinstance(item, list)
        case _:
            return True


def bound_problem(
    name: str, value: float, lower: tuple[str, float] | None, upper: tuple[str, float] | None
) -> str:
    """Say which bound a number breaks, ``""`` where none."""
    if value != value:  # noqa: PLR0124 - NaN breaks every bound
        return f"`{name}` is not a number"
    inside = {
        "gt": lambda bound: value > bound,
        "ge": lambda bound: value >= bound,
        "lt": lambda bound: value < bound,
        "le": lambda bound: value <= bound,
    }
    words = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}
    for bound in (lower, upper):
        if bound is not None and not inside[bound[0]](bound[1]):
            return f"{words[bound[0]]} {bound[1]:g}"
    return ""
