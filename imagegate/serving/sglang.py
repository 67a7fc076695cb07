"""``sglang serve`` (``python -m sglang.launch_server``)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from imagegate.serving.annotations import Annotations, Hints, first, kinds
from imagegate.serving.declare import Declarations
from imagegate.serving.fields import Fields, TypeValue
from imagegate.serving.interpret import Frame, Interpreter, Parser, literal_values
from imagegate.serving.modules import ClassValue, FunctionValue, Modules, Unknown
from imagegate.serving.table import Option, Program
from imagegate.serving.vllm import count_declarations, missing_notes

if TYPE_CHECKING:
    from imagegate.serving.fields import FieldDeclaration
    from imagegate.serving.modules import Module

NAME = "sglang serve"
_ENTRY = "sglang.srt.server_args"
_HELP = Option(strings=("-h", "--help"), dest="help", action="help", nargs=0)


def read_sglang(modules: Modules, version: str, plugins: tuple[str, ...]) -> Program | None:
    """Read what SGLang's server accepts; ``None`` where there is no SGLang."""
    entry = modules.get(_ENTRY)
    if entry is None:
        return None
    program = Program(
        name=NAME, parser="argparse", version=version, status="unread", plugins=plugins
    )
    server = modules.find(entry, "ServerArgs")
    if not isinstance(server, ClassValue):
        # the class may be made again further down; what it declares is its class statement
        server = next(
            (
                ClassValue(entry, s)
                for s in entry.node.body
                if isinstance(s, ast.ClassDef) and s.name == "ServerArgs"
            ),
            None,
        )
    start = modules.method(server, "add_cli_args") if server is not None else None
    if server is None or start is None:
        return program.model_copy(update={"why": f"{entry.path} has no `ServerArgs.add_cli_args`"})
    fields = Fields(modules, Annotations(modules))
    declarations = Declarations(modules)
    derived = _Derived(modules, fields, server)

    def from_dataclass(
        interpreter: Interpreter, _args: list[object], keywords: dict[str, object], where: str
    ) -> None:
        if "fields" in keywords:
            declarations.notes.append(f"{where}: only some fields become options; all are taken")
        derived.declare(interpreter, declarations)

    interpreter = Interpreter(
        modules,
        fields,
        record=declarations.add,
        special={"add_cli_args_from_dataclass": from_dataclass, "get_args": literal_values},
        argv=["sglang", "serve"],
    )
    interpreter.call(start, [Parser()], {}, 0)
    declared = {
        one for one in count_declarations(interpreter.modules_seen.values()) if _inside(one, start)
    }
    notes = [*modules.broken, *declarations.notes, *interpreter.notes, *derived.notes]
    notes += missing_notes(declared, interpreter.interpreted)
    if not declarations.options:
        return program.model_copy(update={"why": "no option was found", "notes": tuple(notes)})
    return program.model_copy(
        update={
            "status": "read",
            "options": (_HELP, *declarations.options),
            "notes": tuple(dict.fromkeys(notes)),
            "declared": len(declared) + derived.count,
            "interpreted": len(interpreter.interpreted & declared) + derived.count,
        }
    )


def _inside(place: tuple[str, int, int], start: FunctionValue) -> bool:
    node = start.node
    path, line, _ = place
    return path == start.module.path and node.lineno <= line <= (node.end_lineno or line)


class _Derived:
    """``add_cli_args_from_dataclass``: one option a field that is ``A[T, Arg(…)]``."""

    def __init__(self, modules: Modules, fields: Fields, server: ClassValue) -> None:
        self._modules = modules
        self._fields = fields
        self._server = server
        self.notes: list[str] = []
        self.count = 0

    def declare(self, interpreter: Interpreter, declarations: Declarations) -> None:
        """Declare every field that is not marked ``no_cli``."""
        for field in self._all():
            annotation, metadata = self._fields.annotations.metadata(field.module, field.annotation)
            argument = _argument(interpreter, field.module, metadata)
            if argument is None or argument.get("no_cli") is True:
                continue
            self.count += 1
            where = f"{field.module.path}:{field.line}"
            hints = self._fields.annotations.read(field.module, annotation)
            declarations.add(where, *self._call(field, hints, argument), perhaps=False)

    def _all(self) -> list[FieldDeclaration]:
        """Return the fields of the class, and of the classes that a list of its module names."""
        found = self._fields.declared(self._server, any_class=True)
        for statement in self._server.module.bindings.values():
            if not (
                isinstance(statement, ast.Assign)
                and isinstance(statement.value, ast.List | ast.Tuple)
                and statement.value.elts
                and all(isinstance(e, ast.Name) for e in statement.value.elts)
            ):
                continue
            named = [
                self._modules.find(self._server.module, e.id)
                for e in statement.value.elts
                if isinstance(e, ast.Name)
            ]
            if all(isinstance(one, ClassValue) and _has_namespace(one) for one in named):
                for one in named:
                    assert isinstance(one, ClassValue)
                    found += self._fields.declared(one, any_class=True)
        return found

    def _call(
        self, field: FieldDeclaration, hints: Hints, argument: dict[str, object]
    ) -> tuple[list[object], dict[str, object]]:
        """Return what ``add_argument`` is called with (``sglang/srt/arg_groups/arg_utils.py``)."""
        own = argument.get("cli_name")
        name = own if isinstance(own, str) else "--" + field.name.replace("_", "-")
        more = argument.get("aliases")
        names: list[object] = [name, *(more if isinstance(more, list) else [])]
        keywords: dict[str, object] = {"help": argument.get("help", ""), "dest": field.name}
        if argument.get("action") is not None:
            keywords["action"] = argument["action"]
            extra = argument.get("action_kwargs")
            keywords |= extra if isinstance(extra, dict) else {}
            return names, keywords
        present = kinds(hints) - {"none"}
        parser = argument.get("type_parser")
        choices, nargs = argument.get("choices"), argument.get("nargs")
        if len(present) > 1 and present != {"literal"}:
            # more than one alternative beside None is no longer unwrapped
            keywords["type"] = parser or TypeValue("str")
            keywords |= {"choices": choices} if choices else {}
            keywords |= {"nargs": nargs} if nargs else {}
        elif "literal" in present:
            values = list(first(hints, "literal").values)
            keywords["choices"] = choices or values
            kind = type(values[0]).__name__ if values else "str"
            keywords["type"] = parser or TypeValue(kind if kind in ("int", "float") else "str")
        elif "list" in present and parser is None:
            element = kinds(next(iter(first(hints, "list").items), frozenset()))
            kind = next((k for k in ("int", "float") if element == {k}), "str")
            keywords |= {"type": TypeValue(kind), "nargs": nargs or "+"}
            keywords |= {"choices": choices} if choices else {}
        elif present == {"bool"}:
            keywords["action"] = "store_true"
        else:
            kind = next((k for k in ("int", "float") if present == {k}), "str")
            keywords["type"] = parser or TypeValue(kind)
            keywords |= {"choices": choices} if choices else {}
            keywords |= {"nargs": nargs} if nargs else {}
            needed = argument.get("required")
            keywords["required"] = needed is True or (needed is None and field.default is None)
        return names, keywords


def _has_namespace(value: ClassValue) -> bool:
    return any(
        isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "_NS_PATH"
        for s in value.node.body
    )


def _argument(
    interpreter: Interpreter, module: Module, metadata: list[ast.expr]
) -> dict[str, object] | None:
    """Return the keywords of ``Arg(…)``, or the help text that stands for one."""
    frame = Frame(module, {}, None)
    for node in metadata:
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Arg":
            return {k.arg: interpreter.value(frame, k.value, 0) for k in node.keywords if k.arg}
        value = interpreter.value(frame, node, 0)
        if isinstance(value, str):
            return {"help": value}
        if isinstance(node, ast.JoinedStr) and isinstance(value, Unknown):
            return {"help": ""}
    return None
