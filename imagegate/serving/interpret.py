"""Follows the functions that build a parser, without running them.

Only what such functions are made of is understood: assignments, loops over literals and over
keyword dictionaries, calls of other functions of the source tree, ``add_argument``. A value that
only running would give is :class:`~imagegate.serving.modules.Unknown`; what is done to the parser
and is not understood becomes a note.
"""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from imagegate.serving.fields import Fields, TypeValue
from imagegate.serving.modules import (
    ClassValue,
    Expression,
    External,
    FunctionValue,
    Module,
    Modules,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DEPTH = 24
_STEPS = 200_000
_BUILTINS = [
    "int",
    "str",
    "float",
    "bool",
    "list",
    "dict",
    "set",
    "tuple",
    "sorted",
    "len",
    "min",
    "max",
    "range",
    "enumerate",
    "zip",
    "frozenset",
    "any",
    "all",
    "type",
]
_STRING_METHODS = frozenset(
    [
        "replace",
        "lower",
        "upper",
        "strip",
        "lstrip",
        "rstrip",
        "removeprefix",
        "removesuffix",
        "split",
        "title",
        "join",
        "format",
        "capitalize",
    ]
)


class Parser:
    """Stands for an argument parser or one of its groups."""


class Subparsers:
    """Stands for what ``add_subparsers`` returns."""


class _Return(Exception):  # noqa: N818 - control flow
    def __init__(self, value: object) -> None:
        self.value = value


class _Jump(Exception):  # noqa: N818 - control flow
    pass


class Frame:
    """One call: the module whose names are seen, and the local names."""

    def __init__(
        self, module: Module, names: dict[str, object], function: FunctionValue | None
    ) -> None:
        self.module = module
        self.names = names
        self.function = function


Special = "Callable[[Interpreter, Frame, ast.Call, list[object], dict[str, object]], object]"


class Interpreter:
    """Follows calls from one function on.

    Attributes:
        notes: what was not understood.
        interpreted: places of the ``add_argument`` calls that were understood.
        modules_seen: modules in which one was found.
    """

    def __init__(
        self,
        modules: Modules,
        fields: Fields,
        *,
        record: Callable[[str, list[object], dict[str, object], bool], None],
        special: Mapping[
            str, Callable[[Interpreter, list[object], dict[str, object], str], object]
        ],
        argv: list[str],
    ) -> None:
        self.modules = modules
        self.fields = fields
        self._record = record
        self._special = special
        self._argv = argv
        self.notes: list[str] = []
        self.interpreted: set[tuple[str, int, int]] = set()
        self.modules_seen: dict[str, Module] = {}
        self._steps = 0
        self._conditional = 0

    def note(self, module: Module, node: ast.AST, text: str) -> None:
        """Say what was not understood, and where."""
        line = getattr(node, "lineno", 0)
        entry = f"{module.path}:{line}: {text}"
        if entry not in self.notes:
            self.notes.append(entry)

    # --- calls

    def call(
        self, function: FunctionValue, args: list[object], keywords: dict[str, object], depth: int
    ) -> object:
        """Follow one call of a function of the source tree; returns what it returns."""
        if depth > _DEPTH:
            return Unknown("too many calls inside each other")
        node = function.node
        parameters = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        decorators = {ast.unparse(d) for d in node.decorator_list}
        names: dict[str, object] = {}
        if function.owner is not None and "staticmethod" not in decorators:
            args = [function.owner, *args]
        names |= dict(zip(parameters, args, strict=False))
        frame = Frame(function.module, names, function)
        defaults = node.args.defaults
        for name, default in zip(
            parameters[len(parameters) - len(defaults) :], defaults, strict=True
        ):
            if name not in names and name not in keywords:
                names[name] = self.value(frame, default, depth)
        for argument, given in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            if given is not None:
                names[argument.arg] = self.value(frame, given, depth)
        names.update(keywords)
        for name in parameters:
            names.setdefault(name, Unknown(f"`{name}` is not given"))
        try:
            self.run(frame, node.body, depth)
        except _Return as done:
            return done.value
        except _Jump:
            pass
        return None

    # --- statements

    def run(self, frame: Frame, body: list[ast.stmt], depth: int) -> None:
        """Follow statements in order."""
        for statement in body:
            self._steps += 1
            if self._steps > _STEPS:
                self.note(frame.module, statement, "too many statements; the rest is not read")
                raise _Return(Unknown("too many statements"))
            self._statement(frame, statement, depth)

    def _statement(self, frame: Frame, statement: ast.stmt, depth: int) -> None:
        match statement:
            case ast.Expr(value=value):
                self.value(frame, value, depth)
            case ast.Assign(targets=targets, value=value):
                result = self.value(frame, value, depth)
                for target in targets:
                    self._assign(frame, target, result, depth)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(frame, target, self.value(frame, value, depth), depth)
            case ast.AugAssign(target=target, op=operator, value=value):
                joined = ast.BinOp(_as_load(target), operator, value)
                ast.copy_location(joined, statement)
                self._assign(frame, target, self._binary(frame, joined, depth), depth)
            case ast.Return(value=value):
                raise _Return(self.value(frame, value, depth) if value else None)
            case ast.If():
                self._if(frame, statement, depth)
            case ast.For():
                self._for(frame, statement, depth)
            case ast.Delete(targets=targets):
                for target in targets:
                    self._delete(frame, target, depth)
            case ast.Import() | ast.ImportFrom():
                self._import(frame, statement)
            case ast.With(body=body):
                self.run(frame, body, depth)
            case ast.Try(body=body):
                self.run(frame, body, depth)
            case ast.FunctionDef():
                frame.names[statement.name] = FunctionValue(frame.module, statement)
            case ast.Continue() | ast.Break():
                raise _Jump
            case ast.Raise():
                raise _Return(Unknown("an exception is raised"))
            case ast.Pass() | ast.Assert() | ast.Global() | ast.Nonlocal() | ast.AnnAssign():
                pass
            case _:
                if _mentions_parser(frame, statement):
                    self.note(frame.module, statement, f"`{_short(statement)}` is not understood")

    def _if(self, frame: Frame, statement: ast.If, depth: int) -> None:
        test = _truth(self.value(frame, statement.test, depth))
        if test is True:
            self.run(frame, statement.body, depth)
        elif test is False:
            self.run(frame, statement.orelse, depth)
        else:
            # both may happen: options declared in either are there "perhaps"
            self._conditional += 1
            try:
                for body in (statement.body, statement.orelse):
                    try:
                        self.run(frame, body, depth)
                    except _Return as done:
                        if not isinstance(done.value, Unknown) and body is statement.orelse:
                            raise
                    except _Jump:
                        pass
            finally:
                self._conditional -= 1

    def _for(self, frame: Frame, statement: ast.For, depth: int) -> None:
        items = self.value(frame, statement.iter, depth)
        if isinstance(items, dict):
            items = list(items)
        if not isinstance(items, list | tuple | set):
            if _contains_declaration(statement):
                self.note(
                    frame.module,
                    statement,
                    f"options are declared in a loop over `{ast.unparse(statement.iter)}`",
                )
            return
        for item in list(items):
            self._assign(frame, statement.target, item, depth)
            try:
                self.run(frame, statement.body, depth)
            except _Jump:
                continue

    def _import(self, frame: Frame, statement: ast.Import | ast.ImportFrom) -> None:
        for alias in statement.names:
            name = alias.asname or alias.name.partition(".")[0]
            if isinstance(statement, ast.ImportFrom):
                found = self.modules.from_import(frame.module, statement, name)
                frame.names[name] = self._evaluated(found, 0)
            else:
                target = alias.name if alias.asname else name
                frame.names[name] = self.modules.get(target) or External(target)

    def _assign(self, frame: Frame, target: ast.expr, value: object, depth: int) -> None:
        match target:
            case ast.Name(id=name):
                frame.names[name] = value
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                parts = list(value) if isinstance(value, list | tuple) else []
                for number, element in enumerate(elements):
                    part = parts[number] if number < len(parts) else Unknown("not a pair")
                    self._assign(frame, element, part, depth)
            case ast.Subscript(value=container, slice=key):
                found = self.value(frame, container, depth)
                index = self.value(frame, key, depth)
                if isinstance(found, dict) and isinstance(index, str | int):
                    found[index] = value
                if isinstance(found, list) and isinstance(index, int) and index < len(found):
                    found[index] = value
            case _:
                pass

    def _delete(self, frame: Frame, target: ast.expr, depth: int) -> None:
        if isinstance(target, ast.Subscript):
            found = self.value(frame, target.value, depth)
            index = self.value(frame, target.slice, depth)
            if isinstance(found, dict):
                found.pop(index, None)

    # --- expressions

    def value(self, frame: Frame, node: ast.expr, depth: int) -> object:
        """Evaluate an expression as far as its text decides it."""
        self._steps += 1
        if self._steps > _STEPS:
            return Unknown("too many steps")
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._name(frame, name, depth)
            case ast.Attribute():
                return self._attribute(frame, node, depth)
            case ast.Call():
                return self._call(frame, node, depth)
            case ast.Subscript(value=container, slice=key):
                return self._subscript(frame, container, key, depth)
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return self._elements(frame, elements, depth)
            case ast.Dict(keys=keys, values=values):
                return self._dictionary(frame, keys, values, depth)
            case ast.JoinedStr(values=values):
                return self._joined(frame, values, depth)
            case (
                ast.ListComp(elt=element, generators=generators)
                | ast.GeneratorExp(elt=element, generators=generators)
                | ast.SetComp(elt=element, generators=generators)
            ):
                return self._comprehension(frame, element, generators, depth)
            case ast.DictComp(key=key, value=value, generators=generators):
                pair = ast.copy_location(ast.Tuple([key, value], ast.Load()), node)
                pairs = self._comprehension(frame, pair, generators, depth)
                if isinstance(pairs, Unknown):
                    return pairs
                assert isinstance(pairs, list)
                plain = all(isinstance(one[0], str | int) for one in pairs)
                return {one[0]: one[1] for one in pairs} if plain else Unknown(f"`{_short(node)}`")
            case ast.IfExp(test=test, body=body, orelse=orelse):
                decided = _truth(self.value(frame, test, depth))
                if decided is None:
                    return Unknown(f"`{_short(node)}` is decided at run time")
                return self.value(frame, body if decided else orelse, depth)
            case ast.BinOp():
                return self._binary(frame, node, depth)
            case ast.UnaryOp(op=operator, operand=operand):
                return self._unary(operator, self.value(frame, operand, depth))
            case ast.BoolOp(op=operator, values=values):
                return self._boolean(operator, [self.value(frame, v, depth) for v in values])
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return _compare(
                    operator, self.value(frame, left, depth), self.value(frame, right, depth)
                )
            case ast.Lambda():
                steps = _text_steps(node)
                return TypeValue("unknown" if steps is None else "str", steps=steps or ())
            case ast.Starred(value=inner):
                return self.value(frame, inner, depth)
            case ast.NamedExpr(target=target, value=inner):
                result = self.value(frame, inner, depth)
                self._assign(frame, target, result, depth)
                return result
            case _:
                return Unknown(f"`{_short(node)}`")

    def _name(self, frame: Frame, name: str, depth: int) -> object:
        if name in frame.names:
            return frame.names[name]
        found = self.modules.find(frame.module, name)
        if isinstance(found, Unknown) and name in _BUILTINS:
            return External(f"builtins.{name}")
        return self._evaluated(found, depth)

    def _evaluated(self, found: object, depth: int) -> object:
        """Evaluate what a module assigns to a name."""
        if not isinstance(found, Expression):
            return found
        if depth > _DEPTH:
            return Unknown("assigned in a circle")
        if isinstance(found.node, ast.Subscript):
            hints = self.fields.annotations.read(found.module, found.node)
            if any(hint.kind == "literal" for hint in hints):
                return hints
        return self.value(Frame(found.module, {}, None), found.node, depth + 1)

    def _attribute(self, frame: Frame, node: ast.Attribute, depth: int) -> object:
        owner = self.value(frame, node.value, depth)
        match owner:
            case Module():
                return self._evaluated(self.modules.attribute(owner.name, node.attr), depth)
            case External(name="sys") if node.attr == "argv":
                return list(self._argv)
            case External(name=name):
                return External(f"{name}.{node.attr}")
            case ClassValue():
                return self._class_attribute(owner, node.attr, depth)
            case Unknown():
                return owner
            case _:
                return _Bound(owner, node.attr)

    def _class_attribute(self, owner: ClassValue, name: str, depth: int) -> object:
        if name == "__name__":
            return owner.name
        if name == "__doc__":
            return ""
        if method := self.modules.method(owner, name):
            return method
        for one in self.modules.bases(owner):
            for statement in one.node.body:
                match statement:
                    case ast.Assign(targets=[ast.Name(id=bound)], value=value) if bound == name:
                        return self.value(Frame(one.module, {}, None), value, depth + 1)
                    case ast.AnnAssign(target=ast.Name(id=bound), value=ast.expr() as value) if (
                        bound == name
                    ):
                        return Unknown(f"default of `{owner.name}.{name}`")
                    case _:
                        pass
        return Unknown(f"`{owner.name}.{name}`")

    def _subscript(self, frame: Frame, container: ast.expr, key: ast.expr, depth: int) -> object:
        found = self.value(frame, container, depth)
        if isinstance(key, ast.Slice):
            lower = self.value(frame, key.lower, depth) if key.lower else None
            upper = self.value(frame, key.upper, depth) if key.upper else None
            if (
                isinstance(found, list | str)
                and isinstance(lower, int | None)
                and isinstance(upper, int | None)
            ):
                return found[lower:upper]
            return Unknown(f"`{_short(container)}[…]`")
        index = self.value(frame, key, depth)
        if isinstance(found, External) and found.name.startswith("builtins."):
            return found
        try:
            return found[index]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return Unknown(f"`{_short(container)}[{_short(key)}]`")

    def _elements(self, frame: Frame, elements: list[ast.expr], depth: int) -> list[object]:
        found: list[object] = []
        for element in elements:
            value = self.value(frame, element, depth)
            if isinstance(element, ast.Starred):
                if isinstance(value, list | tuple | set | dict):
                    found.extend(value)
                else:
                    found.append(Unknown(f"`*{_short(element.value)}`"))
            else:
                found.append(value)
        return found

    def _dictionary(
        self, frame: Frame, keys: list[ast.expr | None], values: list[ast.expr], depth: int
    ) -> dict[object, object]:
        found: dict[object, object] = {}
        for key, value in zip(keys, values, strict=True):
            if key is None:
                spread = self.value(frame, value, depth)
                if isinstance(spread, dict):
                    found.update(spread)
                else:
                    found["_unknown"] = spread
                continue
            name = self.value(frame, key, depth)
            if isinstance(name, str | int | float | bool | None):
                found[name] = self.value(frame, value, depth)
            else:
                found["_unknown"] = Unknown(f"key `{_short(key)}`")
        return found

    def _joined(self, frame: Frame, values: list[ast.expr], depth: int) -> object:
        text = ""
        for part in values:
            if isinstance(part, ast.FormattedValue):
                found = self.value(frame, part.value, depth)
                if not isinstance(found, str | int | float):
                    return Unknown("a text that is put together at run time")
                text += str(found)
            elif isinstance(part, ast.Constant):
                text += str(part.value)
        return text

    def _comprehension(
        self, frame: Frame, element: ast.expr, generators: list[ast.comprehension], depth: int
    ) -> object:
        if len(generators) != 1:
            return Unknown("nested comprehension")
        one = generators[0]
        items = self.value(frame, one.iter, depth)
        if isinstance(items, dict):
            items = list(items)
        if not isinstance(items, list | tuple | set):
            return Unknown(f"a list made of `{_short(one.iter)}`")
        inner = Frame(frame.module, dict(frame.names), frame.function)
        found = []
        for item in items:
            self._assign(inner, one.target, item, depth)
            tests = [_truth(self.value(inner, test, depth)) for test in one.ifs]
            if None in tests:
                return Unknown(f"a list made of `{_short(one.iter)}`")
            if all(tests):
                found.append(self.value(inner, element, depth))
        return found

    def _binary(self, frame: Frame, node: ast.BinOp, depth: int) -> object:
        left, right = self.value(frame, node.left, depth), self.value(frame, node.right, depth)
        if isinstance(node.op, ast.Add):
            if isinstance(left, list | tuple) and isinstance(right, list | tuple):
                return [*left, *right]
            if isinstance(left, list) or isinstance(right, list):
                known = left if isinstance(left, list) else right
                assert isinstance(known, list)
                return [*known, Unknown("more at run time")]
            if isinstance(left, str) and isinstance(right, str):
                return left + right
        if isinstance(left, int | float) and isinstance(right, int | float):
            try:
                match node.op:
                    case ast.Add():
                        return left + right
                    case ast.Sub():
                        return left - right
                    case ast.Mult():
                        return left * right
                    case _:
                        pass
            except (ArithmeticError, ValueError):
                pass
        if isinstance(node.op, ast.BitOr) and isinstance(left, dict) and isinstance(right, dict):
            return {**left, **right}
        return Unknown(f"`{_short(node)}`")

    @staticmethod
    def _unary(operator: ast.unaryop, value: object) -> object:
        if isinstance(operator, ast.Not):
            truth = _truth(value)
            return Unknown("decided at run time") if truth is None else not truth
        if isinstance(operator, ast.USub) and isinstance(value, int | float):
            return -value
        return Unknown("an operator")

    @staticmethod
    def _boolean(operator: ast.boolop, values: list[object]) -> object:
        truths = [_truth(value) for value in values]
        if isinstance(operator, ast.And):
            if False in truths:
                return False
            return Unknown("decided at run time") if None in truths else values[-1]
        for value, truth in zip(values, truths, strict=True):
            if truth is True:
                return value
            if truth is None:
                return Unknown("decided at run time")
        return values[-1]

    # --- calls

    def _call(self, frame: Frame, node: ast.Call, depth: int) -> object:
        args = self._elements(frame, node.args, depth)
        keywords: dict[str, object] = {}
        for keyword in node.keywords:
            value = self.value(frame, keyword.value, depth)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict):
                keywords.update({str(key): item for key, item in value.items()})
            else:
                keywords["_unknown"] = value
        if isinstance(node.func, ast.Attribute) and _is_super(node.func.value):
            return self._super(frame, node.func.attr, args, keywords, depth)
        called = self.value(frame, node.func, depth)
        if isinstance(called, _Bound):
            return self._bound_call(frame, node, called, args, keywords)
        name = called.node.name if isinstance(called, FunctionValue) else ""
        name = called.name.rpartition(".")[2] if isinstance(called, External) else name
        if name in self._special:
            return self._special[name](self, args, keywords, f"{frame.module.path}:{node.lineno}")
        if isinstance(called, External) and called.name.startswith("builtins."):
            return self._builtin(name, args)
        if isinstance(called, FunctionValue):
            return self.call(called, args, keywords, depth + 1)
        if isinstance(called, External) and name == "permutations":
            return self._permutations(args, keywords)
        if isinstance(called, ClassValue):
            return Unknown(f"an object of `{called.name}`")
        if any(isinstance(one, Parser) for one in (*args, *keywords.values())):
            self.note(frame.module, node, f"`{_short(node)}` may add options; it is not followed")
        return Unknown(f"`{_short(node)}`")

    def _super(
        self,
        frame: Frame,
        name: str,
        args: list[object],
        keywords: dict[str, object],
        depth: int,
    ) -> object:
        function = frame.function
        if function is None or function.owner is None:
            return Unknown("`super()`")
        method = self.modules.method(function.owner, name, after=function.defined_in)
        if method is None:
            return Unknown(f"`super().{name}`")
        return self.call(method, args, keywords, depth + 1)

    def _bound_call(
        self,
        frame: Frame,
        node: ast.Call,
        called: _Bound,
        args: list[object],
        keywords: dict[str, object],
    ) -> object:
        owner, name = called.owner, called.name
        if isinstance(owner, Subparsers) and name == "add_parser":
            return Parser()
        if isinstance(owner, Parser):
            return self._parser_call(frame, node, name, args, keywords)
        if isinstance(owner, dict):
            return _dict_method(owner, name, args)
        if isinstance(owner, list) and name in (
            "append",
            "extend",
            "index",
            "copy",
            "add",
            "update",
        ):
            if self._conditional and name in ("append", "add", "extend", "update"):
                args = [Unknown("added under a condition")]
                name = "append"
            return _list_method(owner, name, args)
        if isinstance(owner, str) and name in _STRING_METHODS:
            plain = [_plain_list(one) for one in args]
            try:
                return getattr(owner, name)(*plain)
            except (TypeError, ValueError, IndexError, KeyError, AttributeError):
                return Unknown(f"`{_short(node)}`")
        return Unknown(f"`{_short(node)}`")

    def _parser_call(
        self,
        frame: Frame,
        node: ast.Call,
        name: str,
        args: list[object],
        keywords: dict[str, object],
    ) -> object:
        module = frame.module
        if name in ("add_argument_group", "add_mutually_exclusive_group"):
            return Parser()
        if name == "add_argument":
            self.modules_seen[module.name] = module
            where = f"{module.path}:{node.lineno}"
            self._record(where, args, keywords, self._conditional > 0)
            self.interpreted.add((module.path, node.lineno, node.col_offset))
            return Unknown("an action")
        if name == "add_subparsers":
            return Subparsers()
        if name in ("set_defaults", "format_help", "print_help"):
            return None
        self.note(module, node, f"`{_short(node)}` may change the parser")
        return Unknown("a parser's method")

    def _builtin(self, name: str, args: list[object]) -> object:
        value = args[0] if args else []
        if isinstance(value, frozenset):
            value = _literal_values(value)
        match name, value:
            case (("list" | "tuple" | "set" | "frozenset"), (list() | tuple() | set() | dict())):
                return list(value)
            case "sorted", (list() | tuple() | set() | dict()):
                try:
                    return sorted(value)
                except TypeError:
                    return list(value)
            case "len", (list() | tuple() | dict() | str()):
                return len(value)
            case "dict", dict():
                return dict(value)
            case (("str" | "int" | "float"), (str() | int() | float())):
                try:
                    return {"str": str, "int": int, "float": float}[name](value)
                except ValueError:
                    return Unknown(f"`{name}()`")
            case "enumerate", list():
                return [[number, item] for number, item in enumerate(value)]
            case _:
                return Unknown(f"`{name}()`")

    @staticmethod
    def _permutations(args: list[object], keywords: dict[str, object]) -> object:
        items = args[0] if args else None
        size = keywords.get("r", args[1] if len(args) > 1 else None)
        if isinstance(items, list) and (size is None or isinstance(size, int)) and len(items) < 8:
            return [list(one) for one in itertools.permutations(items, size)]
        return Unknown("`permutations()`")


class _Bound:
    """A method of a value, not yet called."""

    def __init__(self, owner: object, name: str) -> None:
        self.owner = owner
        self.name = name


def literal_values(_: Interpreter, args: list[object], __: dict[str, object], ___: str) -> object:
    """``typing.get_args`` of a literal."""
    if args and isinstance(args[0], frozenset):
        return _literal_values(args[0])
    return Unknown("`get_args()`")


def _literal_values(hints: frozenset[object]) -> list[object]:
    return [value for hint in hints for value in getattr(hint, "values", ())]


def _dict_method(owner: dict[object, object], name: str, args: list[object]) -> object:
    match name:
        case "items":
            return [[key, value] for key, value in owner.items()]
        case "keys":
            return list(owner)
        case "values":
            return list(owner.values())
        case "pop" | "get":
            default = args[1] if len(args) > 1 else None
            return owner.pop(args[0], default) if name == "pop" else owner.get(args[0], default)
        case "update" if args and isinstance(args[0], dict):
            owner.update(args[0])
            return None
        case "copy":
            return dict(owner)
        case "setdefault" if len(args) == 2:
            return owner.setdefault(args[0], args[1])
        case _:
            return Unknown(f"`dict.{name}`")


def _list_method(owner: list[object], name: str, args: list[object]) -> object:
    match name, args:
        case (("append" | "add"), [value]):
            owner.append(value)
        case (("extend" | "update"), [list() | tuple() as values]):
            owner.extend(values)
        case (("extend" | "update"), _):
            owner.append(Unknown("more at run time"))
        case "copy", _:
            return list(owner)
        case _:
            return Unknown(f"`list.{name}`")
    return None


def _plain_list(value: object) -> object:
    return [str(one) for one in value] if isinstance(value, list) else value


def _truth(value: object) -> bool | None:
    if isinstance(value, Unknown | External | _Bound):
        return None
    if isinstance(value, ClassValue | FunctionValue | Module | Parser):
        return True
    return bool(value)


def _compare(operator: ast.cmpop, left: object, right: object) -> object:
    decided = (str, int, float, bool, type(None))
    match operator:
        case ast.In() | ast.NotIn() if isinstance(right, list | dict | str | tuple) and isinstance(
            left, str | int
        ):
            if isinstance(right, str) and not isinstance(left, str):
                return Unknown("a comparison")
            found = left in right
            if not found and any(isinstance(one, Unknown) for one in right):
                return Unknown("a comparison")
            return found if isinstance(operator, ast.In) else not found
        case ast.Eq() if isinstance(left, decided) and isinstance(right, decided):
            return left == right
        case ast.NotEq() if isinstance(left, decided) and isinstance(right, decided):
            return left != right
        case ast.Is() | ast.IsNot() if right is None and not isinstance(left, Unknown | External):
            return (left is None) == isinstance(operator, ast.Is)
        case _:
            return Unknown("a comparison")


def _text_steps(node: ast.Lambda) -> tuple[tuple[str, ...], ...] | None:
    """Read ``lambda s: s.lower().replace("-", "_")``; ``None`` for any other function."""
    steps: list[tuple[str, ...]] = []
    body = node.body
    while isinstance(body, ast.Call) and isinstance(body.func, ast.Attribute):
        values = [a.value for a in body.args if isinstance(a, ast.Constant)]
        if body.func.attr not in ("lower", "upper", "strip", "replace") or len(values) != len(
            body.args
        ):
            return None
        steps.insert(0, (body.func.attr, *(str(value) for value in values)))
        body = body.func.value
    names = [argument.arg for argument in node.args.args]
    return tuple(steps) if isinstance(body, ast.Name) and [body.id] == names else None


def _is_super(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    )


def _as_load(target: ast.expr) -> ast.expr:
    """Return an assignment's target as an expression that is read."""
    copied = ast.parse(ast.unparse(target), mode="eval").body
    return ast.copy_location(copied, target)


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else f"{text[:57]}…"


def _contains_declaration(node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.Attribute) and one.attr == "add_argument" for one in ast.walk(node)
    )


def _mentions_parser(frame: Frame, node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.Name) and isinstance(frame.names.get(one.id), Parser)
        for one in ast.walk(node)
    )
