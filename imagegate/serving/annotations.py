"""Annotations of fields, as sets of what a value may be."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from imagegate.serving.modules import ClassValue, Expression, External, Module, Modules, Unknown

_DEPTH = 30
_BUILTIN = {"int", "str", "bool", "float", "dict", "object", "bytes"}
_CONTAINERS = {"list": "list", "List": "list", "tuple": "tuple", "Tuple": "tuple", "set": "set",
               "Set": "set", "frozenset": "set", "Sequence": "other", "Iterable": "other"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hint:
    """One member of an annotation.

    Attributes:
        kind: ``int``, ``str``, ``bool``, ``float``, ``none``, ``dict``, ``literal``, ``list``,
            ``tuple``, ``set``, ``class`` (of the source tree), ``other`` or ``unknown``.
        values: of a literal.
        items: the members of a container's elements, one set a position.
        ellipsis: whether a tuple may have any length.
        of: the class.
        text: as it was written.
    """

    kind: str
    values: tuple[str | int | float | bool, ...] = ()
    items: tuple[frozenset[Hint], ...] = ()
    ellipsis: bool = False
    of: ClassValue | None = None
    text: str = ""


Hints = frozenset[Hint]


class Annotations:
    """Reads annotations of a source tree."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self._cache: dict[tuple[str, str], Hints] = {}

    def read(self, module: Module, node: ast.expr) -> Hints:
        """Return what an annotation written in a module allows."""
        key = (module.name, ast.unparse(node))
        if key not in self._cache:
            self._cache[key] = self._read(module, node, 0)
        return self._cache[key]

    def metadata(self, module: Module, node: ast.expr) -> tuple[ast.expr, list[ast.expr]]:
        """Split ``Annotated[T, …]`` under whatever name it was imported."""
        if isinstance(node, ast.Subscript) and self._name(module, node.value) == "Annotated":
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return parts[0], parts[1:]
        return node, []

    def _read(self, module: Module, node: ast.expr, depth: int) -> Hints:
        if depth > _DEPTH:
            return _unknown(node)
        match node:
            case ast.Constant(value=None):
                return frozenset({Hint("none")})
            case ast.Constant(value=str(text)):
                try:
                    return self._read(module, ast.parse(text, mode="eval").body, depth + 1)
                except SyntaxError:
                    return _unknown(node)
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                return self._read(module, left, depth + 1) | self._read(module, right, depth + 1)
            case ast.Subscript():
                return self._subscript(module, node, depth)
            case ast.Name() | ast.Attribute():
                return self._named(module, node, depth)
            case _:
                return _unknown(node)

    def _name(self, module: Module, node: ast.expr) -> str:
        """Return the last part of a typing name, followed through imports and aliases."""
        match node:
            case ast.Name(id=name):
                found = self._modules.find(module, name)
                if isinstance(found, Expression):
                    return self._name(found.module, found.node)
                return found.name.rpartition(".")[2] if isinstance(found, External) else name
            case ast.Attribute(attr=name):
                return name
            case _:
                return ""

    def _subscript(self, module: Module, node: ast.Subscript, depth: int) -> Hints:
        name = self._name(module, node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Optional":
            return self._read(module, parts[0], depth + 1) | {Hint("none")}
        if name == "Union":
            return frozenset().union(*(self._read(module, one, depth + 1) for one in parts))
        if name in ("Annotated", "SkipValidation", "Final", "Required"):
            return self._read(module, parts[0], depth + 1)
        if name == "Literal":
            return self._literal(module, node, parts, depth)
        if name in _CONTAINERS:
            kept = [one for one in parts if not _is_ellipsis(one)]
            items = tuple(self._read(module, one, depth + 1) for one in kept)
            return frozenset(
                {Hint(_CONTAINERS[name], items=items, ellipsis=len(kept) < len(parts))}
            )
        if name in ("dict", "Dict"):
            return frozenset({Hint("dict")})
        if name in ("type", "Type", "Callable", "Mapping", "ClassVar", "InitVar"):
            return frozenset({Hint("other", text=name)})
        return _unknown(node)

    def _literal(
        self, module: Module, node: ast.Subscript, parts: list[ast.expr], depth: int
    ) -> Hints:
        """Read ``Literal``: nested ones are flattened as typing does."""
        values: list[str | int | float | bool] = []
        hints: set[Hint] = set()
        for part in parts:
            match part:
                case ast.Constant(value=None):
                    hints.add(Hint("none"))
                case ast.Constant(value=str() | int() | float() | bool() as value):
                    values.append(value)
                case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
                    values.append(-number)
                case _:
                    for hint in self._read(module, part, depth + 1):
                        if hint.kind != "literal":
                            return _unknown(node)
                        values += hint.values
        return frozenset({Hint("literal", values=tuple(dict.fromkeys(values)))} | hints)

    def _named(self, module: Module, node: ast.Name | ast.Attribute, depth: int) -> Hints:
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            first, _, rest = text.partition(".")
            found = self._modules.find(module, first)
            if isinstance(found, Module) and "." not in rest:
                found = self._modules.find(found, rest)
            elif isinstance(found, External):
                found = External(f"{found.name}.{rest}")
        else:
            found = self._modules.find(module, node.id)
        match found:
            case ClassValue():
                return frozenset({Hint("class", of=found)})
            case Expression():
                return self._alias(found, depth)
            case External(name=name):
                last = name.rpartition(".")[2]
                if last in ("list", "List", "dict", "Dict"):
                    return frozenset({Hint("list" if last[0] in "lL" else "dict")})
                return frozenset({Hint("other", text=name)})
            case Unknown() if isinstance(node, ast.Name) and node.id in _BUILTIN:
                return frozenset({Hint(node.id)})
            case Unknown() if isinstance(node, ast.Name) and node.id in _CONTAINERS:
                return frozenset({Hint(_CONTAINERS[node.id])})
            case _:
                return _unknown(node)

    def _alias(self, found: Expression, depth: int) -> Hints:
        """Follow an alias; a name made by ``TypeVar`` or ``NewType`` is not a type of its own."""
        node = found.node
        if isinstance(node, ast.Call):
            return frozenset({Hint("other", text=ast.unparse(node.func))})
        return self._read(found.module, node, depth + 1)


def kinds(hints: Hints) -> frozenset[str]:
    """Return the kinds in a set of hints."""
    return frozenset(hint.kind for hint in hints)


def first(hints: Hints, kind: str) -> Hint:
    """Return the member of a kind."""
    return next(hint for hint in hints if hint.kind == kind)


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _unknown(node: ast.expr) -> Hints:
    return frozenset({Hint("unknown", text=ast.unparse(node))})
