"""Modules of a source tree: parsed on demand, names followed through imports."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DEPTH = 40


@dataclass(frozen=True, eq=False, slots=True)
class Unknown:
    """A value that only running the program would give; says why."""

    why: str


@dataclass(frozen=True, slots=True)
class ClassValue:
    """A class of the source tree."""

    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name


@dataclass(frozen=True, slots=True)
class FunctionValue:
    """A function of the source tree; `owner` is the class that a method is looked up on."""

    module: Module
    node: ast.FunctionDef
    owner: ClassValue | None = None
    defined_in: ClassValue | None = None


@dataclass(frozen=True, slots=True)
class External:
    """A name of a module that is not in the source tree, such as ``json.loads``."""

    name: str


@dataclass(frozen=True, slots=True)
class Expression:
    """What a module assigns to a name, not evaluated."""

    module: Module
    node: ast.expr


class Module:
    """One parsed module and the names it binds at its top level."""

    def __init__(self, tree: Modules, name: str, path: str, node: ast.Module) -> None:
        self.tree = tree
        self.name = name
        self.path = path
        self.node = node
        self.bindings: dict[str, ast.stmt] = {}
        self._bind(node.body)

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        return self.name if self.path.endswith("/__init__.py") else self.name.rpartition(".")[0]

    def _bind(self, body: list[ast.stmt]) -> None:
        for statement in body:
            match statement:
                case ast.FunctionDef() | ast.ClassDef():
                    self.bindings[statement.name] = statement
                case ast.Assign(targets=targets):
                    for target in targets:
                        # a class that is made again further down keeps what it declares
                        if isinstance(target, ast.Name) and not isinstance(
                            self.bindings.get(target.id), ast.ClassDef
                        ):
                            self.bindings[target.id] = statement
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                    self.bindings[name] = statement
                case ast.Import() | ast.ImportFrom():
                    for alias in statement.names:
                        self.bindings[alias.asname or alias.name.partition(".")[0]] = statement
                case ast.If(test=test, body=inner, orelse=other):
                    # what only type checkers see is not there at run time
                    if "TYPE_CHECKING" in ast.unparse(test):
                        late = dict(self.bindings)
                        self._bind(inner)
                        typed = self.bindings
                        self.bindings = late
                        self._bind(other)
                        for name, bound in typed.items():
                            self.bindings.setdefault(name, bound)
                    else:
                        self._bind(other)
                        self._bind(inner)
                case ast.Try(body=inner, handlers=handlers):
                    for handler in handlers:
                        self._bind(handler.body)
                    self._bind(inner)
                case ast.With(body=inner):
                    self._bind(inner)
                case _:
                    pass


class Modules:
    """The ``.py`` files of a site directory.

    Attributes:
        visited: modules of which a name was looked up.
    """

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        """Take files by path relative to the site directory, for instance ``vllm/envs.py``."""
        self._sources = sources
        self._parsed: dict[str, Module | None] = {}
        self.broken: list[str] = []

    def paths(self, prefix: str) -> Iterator[str]:
        """Yield the paths that begin with a prefix, sorted."""
        yield from sorted(path for path in self._sources if path.startswith(prefix))

    def get(self, name: str) -> Module | None:
        """Return a module by dotted name, ``None`` where it is not there or is not Python."""
        if name not in self._parsed:
            self._parsed[name] = self._parse(name)
        return self._parsed[name]

    def _parse(self, name: str) -> Module | None:
        stem = name.replace(".", "/")
        for path in (f"{stem}/__init__.py", f"{stem}.py"):
            content = self._sources.get(path)
            if content is None:
                continue
            try:
                return Module(self, name, path, ast.parse(content))
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                self.broken.append(f"{path}: not readable as Python ({type(error).__name__})")
                return None
        return None

    def find(self, module: Module, name: str, depth: int = 0) -> object:
        """Follow a top-level name to its class, function, module, expression or external name."""
        if depth > _DEPTH:
            return Unknown(f"`{name}` is imported in a circle")
        bound = module.bindings.get(name)
        match bound:
            case None:
                return self._from_star(module, name, depth)
            case ast.ClassDef():
                return ClassValue(module, bound)
            case ast.FunctionDef():
                return FunctionValue(module, bound)
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                return Expression(module, value)
            case ast.Import():
                return self._imported(bound, name)
            case ast.ImportFrom():
                return self.from_import(module, bound, name, depth)
            case _:
                return Unknown(f"`{name}` is bound by {type(bound).__name__}")

    def _imported(self, statement: ast.Import, name: str) -> object:
        for alias in statement.names:
            if (alias.asname or alias.name.partition(".")[0]) == name:
                target = alias.name if alias.asname else alias.name.partition(".")[0]
                return self.get(target) or External(target)
        return Unknown(f"`{name}` is not imported")

    def from_import(
        self, module: Module, statement: ast.ImportFrom, name: str, depth: int = 0
    ) -> object:
        """Follow a name that ``from … import …`` binds."""
        original = next((a.name for a in statement.names if (a.asname or a.name) == name), name)
        base = statement.module or ""
        if statement.level:
            parts = module.package.split(".")
            parts = parts[: len(parts) - (statement.level - 1)]
            base = ".".join([*parts, base] if base else parts)
        return self.attribute(base, original, depth)

    def attribute(self, module: str, name: str, depth: int = 0) -> object:
        """Return what a module has under a name: its own, or a module below it."""
        source = self.get(module)
        if source is not None and name in source.bindings:
            return self.find(source, name, depth + 1)
        below = self.get(f"{module}.{name}")
        if below is not None:
            return below
        if source is not None:
            return self.find(source, name, depth + 1)
        return External(f"{module}.{name}")

    def _from_star(self, module: Module, name: str, depth: int) -> object:
        for statement in module.node.body:
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                found = self.from_import(module, statement, name, depth + 1)
                if not isinstance(found, External | Unknown):
                    return found
        # PEP 562: a module with `__getattr__` often maps names to modules in one literal
        for statement in module.bindings.values():
            match statement:
                case ast.Assign(value=ast.Dict(keys=keys, values=values)):
                    for key, value in zip(keys, values, strict=True):
                        if not (isinstance(key, ast.Constant) and key.value == name):
                            continue
                        if isinstance(value, ast.Constant) and isinstance(value.value, str):
                            where, _, attribute = value.value.partition(":")
                            target = f"{module.package}{where}" if where.startswith(".") else where
                            return self.attribute(target, attribute or name, depth + 1)
                case _:
                    pass
        return Unknown(f"`{name}` is not bound in {module.path}")

    def bases(self, value: ClassValue) -> list[ClassValue]:
        """Return a class and its bases in the source tree, in the order of lookup."""
        found, queue = [value], [value]
        while queue and len(found) < _DEPTH:
            current = queue.pop(0)
            for base in current.node.bases:
                if isinstance(base, ast.Name):
                    other = self.find(current.module, base.id)
                elif isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name):
                    owner = self.find(current.module, base.value.id)
                    other = self.find(owner, base.attr) if isinstance(owner, Module) else None
                else:
                    other = None
                if isinstance(other, ClassValue) and other not in found:
                    found.append(other)
                    queue.append(other)
        return found

    def method(
        self, owner: ClassValue, name: str, after: ClassValue | None = None
    ) -> FunctionValue | None:
        """Look a method up; `after` begins behind one class of the order, as ``super()`` does."""
        order = self.bases(owner)
        if after is not None and after in order:
            order = order[order.index(after) + 1 :]
        for one in order:
            for statement in one.node.body:
                if isinstance(statement, ast.FunctionDef) and statement.name == name:
                    return FunctionValue(one.module, statement, owner, one)
        return None
