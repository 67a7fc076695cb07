"""``vllm serve``: options, environment and named lists."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from imagegate.serving.annotations import Annotations
from imagegate.serving.declare import TYPES, Declarations
from imagegate.serving.fields import Fields, TypeValue, VllmKeywords
from imagegate.serving.interpret import Frame, Interpreter, Subparsers, literal_values
from imagegate.serving.modules import (
    ClassValue,
    Expression,
    External,
    FunctionValue,
    Module,
    Modules,
    Unknown,
)
from imagegate.serving.table import Option, Program

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME = "vllm serve"
_ENTRY = "vllm.entrypoints.cli.serve"
_HELP = Option(strings=("-h", "--help"), dest="help", action="help", nargs=0)


def read_vllm(modules: Modules, version: str, plugins: tuple[str, ...]) -> Program | None:
    """Read what ``vllm serve`` accepts; ``None`` where there is no vLLM."""
    if not any(True for _ in modules.paths("vllm/")):
        return None
    lists, removed, notes = _lists(modules)
    unread = Program(
        name=NAME,
        parser="flexible",
        version=version,
        status="unread",
        lists=lists,
        removed=removed,
        environment=_environment(modules),
        plugins=plugins,
    )
    entry = modules.get(_ENTRY)
    if entry is None:
        return unread.model_copy(update={"why": f"`{_ENTRY}` is not in the image"})
    start = _entry_function(modules, entry)
    if start is None:
        return unread.model_copy(update={"why": f"{entry.path} declares no options that are known"})
    fields = Fields(modules, Annotations(modules))
    rules = modules.attribute("vllm.engine.arg_utils", "_compute_kwargs")
    if not isinstance(rules, FunctionValue):
        rules = modules.attribute("vllm.engine.arg_utils", "get_kwargs")
    keywords = VllmKeywords(fields, rules if isinstance(rules, FunctionValue) else None)
    declarations = Declarations(modules)
    interpreter = Interpreter(
        modules,
        fields,
        record=declarations.add,
        special={
            "get_kwargs": lambda _i, args, _k, _w: _keywords_of(keywords, args),
            "optional_type": lambda _i, args, _k, _w: _optional(args),
            "parse_type": lambda _i, args, _k, _w: args[0] if args else Unknown("no type"),
            "get_args": literal_values,
            "load_general_plugins": lambda _i, _a, _k, _w: None,
            "pre_register_and_update": lambda _i, _a, _k, _w: None,
        },
        argv=["vllm", "serve"],
    )
    interpreter.call(start, [Subparsers()], {}, 0)
    declared = count_declarations(interpreter.modules_seen.values())
    notes += [*modules.broken, *keywords.notes, *declarations.notes, *interpreter.notes]
    notes += _platform_hooks(modules)
    notes += missing_notes(declared, interpreter.interpreted)
    if not declarations.options:
        return unread.model_copy(
            update={"why": "no option was found", "notes": tuple(dict.fromkeys(notes))}
        )
    return unread.model_copy(
        update={
            "status": "read",
            "options": (_HELP, *declarations.options),
            "structures": fields.structures,
            "features": _features(modules),
            "notes": tuple(dict.fromkeys(notes)),
            "declared": len(declared),
            "interpreted": len(interpreter.interpreted & declared),
        }
    )


def count_declarations(seen: Iterable[Module]) -> set[tuple[str, int, int]]:
    """Return the place of every ``add_argument`` call in the modules that declare options."""
    return {
        (module.path, node.lineno, node.col_offset)
        for module in seen
        for node in ast.walk(module.node)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_argument"
    }


def missing_notes(
    declared: set[tuple[str, int, int]], interpreted: set[tuple[str, int, int]]
) -> list[str]:
    """Name each declaration that was never reached: the self-check of the reading."""
    return [
        f"{path}:{line}: an `add_argument` call was not reached"
        for path, line, _ in sorted(declared - interpreted)
    ]


def _entry_function(modules: Modules, entry: Module) -> FunctionValue | None:
    """Find the method that makes the subcommand's parser, whatever it imports for that."""
    for statement in entry.node.body:
        if isinstance(statement, ast.ClassDef):
            method = modules.method(ClassValue(entry, statement), "subparser_init")
            if method is not None:
                return method
    return None


def _keywords_of(keywords: VllmKeywords, args: list[object]) -> object:
    if args and isinstance(args[0], ClassValue):
        return keywords.of(args[0])
    return Unknown("`get_kwargs()` of a class that is not known")


def _optional(args: list[object]) -> object:
    if args and isinstance(args[0], TypeValue):
        return TypeValue(args[0].name, optional=True)
    if args and isinstance(args[0], External):
        return TypeValue(TYPES.get(args[0].name, "unknown"), optional=True)
    return TypeValue("unknown", optional=True)


def _features(modules: Modules) -> tuple[str, ...]:
    """Say what the parser of this version does, by what its source has in it."""
    parser = modules.attribute("vllm.utils.argparse_utils", "FlexibleArgumentParser")
    if not isinstance(parser, ClassValue):
        parser = modules.attribute("vllm.utils", "FlexibleArgumentParser")
    if not isinstance(parser, ClassValue):
        return ()
    text = ast.unparse(parser.node)
    number = modules.attribute("vllm.utils.argparse_utils", "human_readable_int")
    if not isinstance(number, FunctionValue):
        number = modules.attribute("vllm.engine.arg_utils", "human_readable_int")
    expands = modules.attribute("vllm.engine.arg_utils", "_expand_json_human_readable_numbers")
    signs = {
        "O-level": "'--optimization-level'" in text,
        "config-dict": "isinstance(value, dict)" in text,
        "config-no": "--no-{key}" in text,
        "dotted-sizes": "human_readable_int(value_str)" in text,
        "json-sizes": isinstance(expands, FunctionValue),
        "model-moved": "removeprefix('--model=')" in text,
        "tera": isinstance(number, FunctionValue) and "'T': 2 ** 40" in ast.unparse(number.node),
    }
    return tuple(name for name, there in signs.items() if there)


def _platform_hooks(modules: Modules) -> list[str]:
    """Say which platforms may change the parser when the program starts."""
    return [
        f"{path}:{node.lineno}: this platform adds options when it starts"
        for path in modules.paths("vllm/platforms/")
        for module in [modules.get(path.removesuffix(".py").replace("/", "."))]
        if module is not None
        for node in ast.walk(module.node)
        if isinstance(node, ast.FunctionDef)
        and node.name == "pre_register_and_update"
        and any(
            isinstance(inner, ast.Attribute) and inner.attr == "add_argument"
            for inner in ast.walk(node)
        )
    ]


def _environment(modules: Modules) -> tuple[str, ...] | None:
    """Return the keys of ``environment_variables`` in ``vllm/envs.py``."""
    names = literal_keys(modules, "vllm.envs", "environment_variables")
    return tuple(sorted(names)) if names is not None else None


def literal_keys(modules: Modules, module: str, name: str) -> list[str] | None:
    """Return the keys of a dictionary of a module; ``None`` where its text does not give them all."""
    found = modules.attribute(module, name)
    if not isinstance(found, Expression):
        return None
    interpreter = Interpreter(
        modules,
        Fields(modules, Annotations(modules)),
        record=lambda *_: None,
        special={},
        argv=[],
    )
    value = interpreter.value(Frame(found.module, {}, None), found.node, 0)
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        return None
    return None if "_unknown" in value else list(value)


# where each version keeps what; the first that is there counts
_DICTIONARIES = {
    "architectures": (("vllm.model_executor.models.registry", "_VLLM_MODELS"),),
    "reasoning parsers": (("vllm.reasoning", "_REASONING_PARSERS_TO_REGISTER"),),
    "tool parsers": (("vllm.tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
                     ("vllm.entrypoints.openai.tool_parsers", "_TOOL_PARSERS_TO_REGISTER")),
    "multimodal architectures": (("vllm.model_executor.models.registry", "_MULTIMODAL_MODELS"),),
}  # fmt: skip
_REGISTERED = {
    "reasoning parsers": ("vllm/reasoning/", "ReasoningParserManager"),
    "tool parsers": ("vllm/entrypoints/openai/tool_parsers/", "ToolParserManager"),
}
_LITERALS = {
    "quantization methods": ("vllm.model_executor.layers.quantization", "QuantizationMethods"),
    "executor backends": ("vllm.config.parallel", "DistributedExecutorBackend"),
    "load formats": ("vllm.model_executor.model_loader", "LoadFormats"),
    "speculative methods": ("vllm.config.speculative", "SpeculativeMethod"),
}


def _lists(modules: Modules) -> tuple[dict[str, tuple[str, ...]], dict[str, str], list[str]]:
    lists: dict[str, tuple[str, ...]] = {}
    notes = []
    for title, places in _DICTIONARIES.items():
        found = next((k for p in places if (k := literal_keys(modules, *p)) is not None), None)
        if found is None and title in _REGISTERED:
            found = _registered(modules, *_REGISTERED[title])
        if found:
            lists[title] = tuple(sorted(set(found)))
        else:
            notes.append(f"the list of {title} was not found where vLLM keeps it")
    annotations = Annotations(modules)
    for title, (module, name) in _LITERALS.items():
        value = modules.attribute(module, name)
        values: list[str] = []
        if isinstance(value, Expression):
            hints = annotations.read(value.module, value.node)
            values = [str(v) for hint in hints if hint.kind == "literal" for v in hint.values]
        if values:
            lists[title] = tuple(sorted(values))
        else:
            notes.append(f"the list of {title} was not found where vLLM keeps it")
    return lists, _removed(modules), notes


def _removed(modules: Modules) -> dict[str, str]:
    found = modules.attribute("vllm.model_executor.models.registry", "_PREVIOUSLY_SUPPORTED_MODELS")
    if not isinstance(found, Expression) or not isinstance(found.node, ast.Dict):
        return {}
    return {
        key.value: value.value
        for key, value in zip(found.node.keys, found.node.values, strict=True)
        if isinstance(key, ast.Constant)
        and isinstance(key.value, str)
        and isinstance(value, ast.Constant)
        and isinstance(value.value, str)
    }


def _registered(modules: Modules, prefix: str, manager: str) -> list[str]:
    """Return names that are registered by a decorator, as vLLM did up to 0.11."""
    names = []
    for path in modules.paths(prefix):
        module = modules.get(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        for node in ast.walk(module.node) if module is not None else ():
            if not (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "register_module"
                and ast.unparse(node.func.value) == manager
            ):
                continue
            given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "name")]
            for value in given:
                elements = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
                names += [e.value for e in elements if isinstance(e, ast.Constant)]
    return [name for name in names if isinstance(name, str)]
