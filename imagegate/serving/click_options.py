"""``ray start``: options that click decorators declare."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from imagegate.serving.modules import Expression, FunctionValue, Modules
from imagegate.serving.table import Option, Program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.serving.modules import Module

NAME = "ray start"
_ENTRY = "ray.scripts.scripts"
_TYPES = {"str": "str", "int": "int", "float": "float", "bool": "bool"}
_DEPTH = 6


def read_ray(modules: Modules, version: str) -> Program | None:
    """Read what ``ray start`` accepts; ``None`` where there is no ray."""
    entry = modules.get(_ENTRY)
    if entry is None:
        return None
    program = Program(name=NAME, parser="click", version=version, status="unread")
    start = modules.find(entry, "start")
    if not isinstance(start, FunctionValue):
        return program.model_copy(update={"why": f"{entry.path} has no command `start`"})
    reader = _Decorators(modules)
    options = [*reader.options(start.module, start.node.decorator_list)]
    if not options:
        return program.model_copy(update={"why": f"{entry.path}: `start` declares no option"})
    asked = Option(strings=("--help",), dest="help", action="help", nargs=0)
    return program.model_copy(
        update={
            "status": "read",
            "options": (*options, asked),
            "notes": tuple(reader.notes),
            "declared": reader.declared,
            "interpreted": len(options),
        }
    )


class _Decorators:
    """Reads ``@click.option`` and decorators of the source tree that apply several."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self.notes: list[str] = []
        self.declared = 0

    def options(
        self, module: Module, decorators: list[ast.expr], depth: int = 0
    ) -> Iterator[Option]:
        for node in decorators:
            if isinstance(node, ast.Call) and _is_option(node):
                self.declared += 1
                yield from self._option(module, node)
            elif isinstance(node, ast.Call) and _names(node.func)[-1:] in (
                ["command"],
                ["argument"],
            ):
                continue
            else:
                called = node.func if isinstance(node, ast.Call) else node
                yield from self._applied(module, called, depth)

    def _applied(self, module: Module, node: ast.expr, depth: int) -> Iterator[Option]:
        """Follow a decorator that is a function: the options that it applies or loops over."""
        if not isinstance(node, ast.Name) or depth > _DEPTH:
            return
        found = self._modules.find(module, node.id)
        if not isinstance(found, FunctionValue):
            return
        for inner in ast.walk(found.node):
            if isinstance(inner, ast.Call) and _is_option(inner):
                self.declared += 1
                yield from self._option(found.module, inner)
            elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                listed = self._modules.find(found.module, inner.id)
                if isinstance(listed, Expression) and isinstance(listed.node, ast.List | ast.Tuple):
                    yield from self.options(listed.module, list(listed.node.elts), depth + 1)

    def _option(self, module: Module, node: ast.Call) -> Iterator[Option]:
        where = f"{module.path}:{node.lineno}"
        names = [
            a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)
        ]
        if len(names) != len(node.args) or not names:
            self.notes.append(f"{where}: an option is declared whose name is not in the text")
            return
        keywords = {k.arg: k.value for k in node.keywords if k.arg}
        strings: list[str] = []
        paired = False
        for name in names:
            if not name.startswith("-"):
                continue
            on, slash, off = name.partition("/")
            strings += [on, off] if slash else [on]
            paired = paired or bool(slash)
        dest = next((n for n in names if not n.startswith("-")), "") or next(
            (s for s in strings if s.startswith("--")), strings[0]
        ).lstrip("-")
        flag = paired or _is_true(keywords.get("is_flag")) or "flag_value" in keywords
        action, kind, choices = "store", "str", None
        if flag:
            action = "store_true"
        elif _is_true(keywords.get("count")):
            action = "count"
        elif "type" in keywords:
            kind, choices = self._type(where, strings[0], keywords["type"])
        elif (
            isinstance(default := keywords.get("default"), ast.Constant)
            and default.value is not None
        ):
            # click takes the type of the default
            kind = type(default.value).__name__
            if kind == "bool":
                action, kind = "store_true", "str"
        nargs = keywords.get("nargs")
        yield Option(
            strings=tuple(strings),
            dest=dest.replace("-", "_"),
            action=action,
            nargs=nargs.value
            if isinstance(nargs, ast.Constant) and isinstance(nargs.value, int)
            else None,
            type=kind if kind in {*_TYPES, "path", "json", "unknown"} else "str",
            choices=choices,
            deprecated="deprecated" in keywords
            or "deprecated" in ast.unparse(keywords["help"]).lower()[:40]
            if "help" in keywords
            else False,
            module=where,
        )

    def _type(
        self, where: str, name: str, node: ast.expr
    ) -> tuple[str, tuple[str | int | float | bool, ...] | None]:
        match node:
            case ast.Name(id=kind) if kind in _TYPES:
                return kind, None
            case ast.Call(func=func, args=[ast.List(elts=elements) | ast.Tuple(elts=elements), *_]):
                if _names(func)[-1:] == ["Choice"]:
                    values = [e.value for e in elements if isinstance(e, ast.Constant)]
                    if len(values) == len(elements):
                        return "str", tuple(str(value) for value in values)
            case ast.Attribute() if _names(node) == ["json", "loads"]:
                return "json", None
            case ast.Call(func=func) if _names(func)[-1:] in (["Path"], ["File"]):
                return "path", None
            case _:
                pass
        self.notes.append(f"{where}: what a value of `{name}` has to be is not known")
        return "unknown", None


def _is_option(node: ast.Call) -> bool:
    return _names(node.func) in (["click", "option"], ["click", "password_option"])


def _names(node: ast.expr) -> list[str]:
    return ast.unparse(node).split(".")


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
