"""How vLLM's parser changes an argument list before argparse sees it.

The steps are those of ``FlexibleArgumentParser.parse_args`` (``vllm/utils/argparse_utils.py``; up
to 0.11 ``vllm/utils/__init__.py``). Where versions differ, :attr:`Program.features` says which.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from imagegate.serving.converters import size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imagegate.serving.table import Program

_NAME = re.compile(r"(?<=--)[^\.]*")


class RefusedArgumentsError(Exception):
    """The program refuses the list before it looks at the options.

    Attributes:
        message: what it says, in our words.
        hint: what to do.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def expand(program: Program, args: Sequence[str], files: Mapping[str, object]) -> list[str]:
    """Return the list as argparse gets it, without the subcommand.

    Args:
        program: whose parser.
        args: as they are behind ``vllm serve``.
        files: contents of configuration files, read as YAML, by the path that is given.

    Raises:
        RefusedArgumentsError: what vLLM raises for.
    """
    listed = _move_model(program, list(args))
    if "--config" in listed:
        listed = _splice(program, listed, files)
    return _merge_dotted(program, _normalise(program, listed))


def _move_model(program: Program, args: list[str]) -> list[str]:
    """``--model X`` becomes the positional, or is refused in older versions."""
    if "model-moved" not in program.features:
        if "--model" in args:
            raise RefusedArgumentsError(
                "the model is given with `--model`", "give it as the first argument"
            )
        return args
    found = next((i for i, arg in enumerate(args) if re.match(r"^--model(=.+|$)", arg)), None)
    if found is not None:
        if args[found] == "--model":
            if found + 1 >= len(args):
                raise RefusedArgumentsError("`--model` needs a value")
            args = [args[found + 1], *args[:found], *args[found + 2 :]]
        else:
            args = [args[found].removeprefix("--model="), *args[:found], *args[found + 1 :]]
    if (
        args
        and args[0].startswith("-")
        and not any(re.match(r"^--config(=.+|$)", arg) for arg in args)
        and any(re.match(r"^--served[-_]model[-_]name(=.+|$)", arg) for arg in args)
    ):
        raise RefusedArgumentsError(
            "no model is given before `--served-model-name`", "give it as the first argument"
        )
    return args


def _splice(program: Program, args: list[str], files: Mapping[str, object]) -> list[str]:
    """Put what a configuration file says before the command line's own arguments."""
    if args.count("--config") > 1:
        raise RefusedArgumentsError("more than one `--config` is given")
    index = args.index("--config")
    if index == len(args) - 1:
        raise RefusedArgumentsError("`--config` needs a file")
    path = args[index + 1]
    if path.rpartition(".")[2] not in ("yaml", "yml"):
        raise RefusedArgumentsError(
            f"`--config {path}`: the file's name has to end in .yaml or .yml"
        )
    rest = [*args[:index], *args[index + 2 :]]
    if path not in files:
        return rest
    configured = config_arguments(program, files[path])
    if rest and not args[0].startswith("-"):
        return [rest[0], *configured, *rest[1:]]
    if "--model" not in configured:
        raise RefusedArgumentsError("no model is given", "give it as the first argument")
    return [*configured, *rest]


def config_arguments(program: Program, document: object) -> list[str]:
    """Return what a YAML document becomes (``load_config_file``).

    Raises:
        RefusedArgumentsError: it is not a mapping.
    """
    if not isinstance(document, dict):
        raise RefusedArgumentsError("the configuration file is not a mapping of options")
    found: list[str] = []
    strings = {string for option in program.options for string in option.strings}
    for key, value in document.items():
        name = f"--{key}"
        if isinstance(value, bool):
            if value:
                found.append(name)
            elif "config-no" in program.features and f"--no-{key}" in strings:
                found.append(f"--no-{key}")
        elif isinstance(value, list):
            found += [name, *map(str, value)] if value else []
        elif isinstance(value, dict) and "config-dict" in program.features:
            found += [name, json.dumps(value)]
        else:
            found += [name, str(value)]
    return found


def _normalise(program: Program, args: list[str]) -> list[str]:
    """Turn underscores into dashes up to the first point, and read the forms of ``-O``."""
    found: list[str] = []
    for number, arg in enumerate(args):
        if arg.startswith("--help="):
            found.append("--help")
        elif arg.startswith("--"):
            key, equals, value = arg.partition("=")
            found.append(_NAME.sub(lambda m: m[0].replace("_", "-"), key, count=1) + equals + value)
        elif arg.startswith("-O") and arg != "-O":
            found += _optimization(program, arg)
        elif arg == "-O" and number + 1 < len(args) and args[number + 1] in {"0", "1", "2", "3"}:
            found.append("--optimization-level" if "O-level" in program.features else "-O.level")
        else:
            found.append(arg)
    return found


def _optimization(program: Program, arg: str) -> list[str]:
    level = arg[3:] if arg[2] == "=" else arg[2:]
    if "O-level" in program.features:
        return ["--optimization-level", level]
    return [arg] if arg[2] == "." else [f"-O.level={level}"]


def _merge_dotted(program: Program, args: list[str]) -> list[str]:
    """Put ``--a.b v``, ``--a.b=v`` and ``--a.b+ v`` together as one JSON value behind the rest."""
    dropped: set[int] = set()
    merged: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for number, arg in enumerate(args):
        if number in dropped or not (arg.startswith("-") and "." in arg):
            continue
        if "=" in arg:
            name, value_text = arg.split("=", 1)
            if "." not in name:
                continue
        else:
            name = arg
            if number + 1 >= len(args):
                raise RefusedArgumentsError(f"`{arg}` needs a value")
            value_text = args[number + 1]
            dropped.add(number + 1)
        if name.endswith("+"):
            name = name[:-1]
            value_text = json.dumps(value_text.split(","))
        key, *keys = name.split(".")
        value: object = _dotted_value(program, value_text)
        for part in reversed(keys):
            value = {part: value}
        if isinstance(value, dict):
            _update(merged[key], value)
        dropped.add(number)
    kept = [arg for number, arg in enumerate(args) if number not in dropped]
    for key, value in merged.items():
        kept += [key, json.dumps(value)]
    return kept


def _dotted_value(program: Program, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        pass
    if "dotted-sizes" in program.features:
        try:
            return size(text)
        except (ValueError, argparse.ArgumentTypeError):
            pass
    return text


def _update(original: dict[str, Any], update: dict[str, Any]) -> None:
    for key, value in update.items():
        if isinstance(value, dict) and isinstance(original.get(key), dict):
            _update(original[key], value)
        elif isinstance(value, list) and isinstance(original.get(key), list):
            original[key] += value
        else:
            original[key] = value
