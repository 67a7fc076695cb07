"""Fields of annotated classes, and the argparse keywords that vLLM and SGLang derive from them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.serving.annotations import Annotations, Hint, Hints, first, kinds
from imagegate.serving.modules import ClassValue, Expression, External, FunctionValue, Modules
from imagegate.serving.table import Structure, StructureField

if TYPE_CHECKING:
    from imagegate.serving.modules import Module

_DATACLASS = {"dataclass", "config"}
_BOUNDS = ("gt", "ge", "lt", "le")


@dataclass(frozen=True, slots=True)
class TypeValue:
    """What converts a value, in the terms of :class:`imagegate.serving.table.Option`."""

    name: str
    optional: bool = False
    steps: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Derived:
    """Where keywords came from, and the bounds of the field."""

    field: str
    lower: tuple[str, float] | None = None
    upper: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True)
class FieldDeclaration:
    """One annotated name of a class."""

    name: str
    module: Module
    annotation: ast.expr
    default: ast.expr | None
    line: int


class Fields:
    """Reads the fields of the source tree's classes."""

    def __init__(self, modules: Modules, annotations: Annotations) -> None:
        self.modules = modules
        self.annotations = annotations
        self.structures: dict[str, Structure] = {}

    def is_dataclass(self, value: ClassValue) -> bool:
        """Say whether a decorator makes it a dataclass, also through a base class."""
        for node in value.node.decorator_list:
            called = node.func if isinstance(node, ast.Call) else node
            name = called.attr if isinstance(called, ast.Attribute) else ""
            if isinstance(called, ast.Name):
                name = called.id
            if name in _DATACLASS:
                return True
        return any(
            self.is_dataclass(base) for base in self.modules.bases(value)[1:] if base != value
        )

    def declared(self, value: ClassValue, *, any_class: bool = False) -> list[FieldDeclaration]:
        """Return the fields in the order of :func:`dataclasses.fields`: those of bases first."""
        found: dict[str, FieldDeclaration] = {}
        for one in reversed(self.modules.bases(value)):
            if not any_class and not self.is_dataclass(one):
                continue
            for statement in one.node.body:
                if not (
                    isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
                ):
                    continue
                text = ast.unparse(statement.annotation)
                if text.startswith(("ClassVar", "InitVar", "typing.ClassVar", "KW_ONLY")):
                    continue
                found[statement.target.id] = FieldDeclaration(
                    statement.target.id,
                    one.module,
                    statement.annotation,
                    statement.value,
                    statement.lineno,
                )
        return list(found.values())

    def bounds(
        self, field: FieldDeclaration
    ) -> tuple[tuple[str, float] | None, tuple[str, float] | None]:
        """Return the bounds that ``Field(gt=…, le=…)`` sets, as default or in ``Annotated``."""
        calls = [field.default, *self.annotations.metadata(field.module, field.annotation)[1]]
        lower = upper = None
        for call in calls:
            if not isinstance(call, ast.Call):
                continue
            for keyword in call.keywords:
                number = _number(keyword.value)
                if number is None or keyword.arg not in _BOUNDS:
                    continue
                if keyword.arg[0] == "g":
                    lower = (keyword.arg, number)
                else:
                    upper = (keyword.arg, number)
        return lower, upper

    def structure(self, value: ClassValue) -> str:
        """Record what a JSON object for a dataclass may hold; returns the class's name."""
        if value.name in self.structures:
            return value.name
        # a class that mentions itself
        self.structures[value.name] = Structure(fields={}, closed=False)
        fields = {}
        converted = self._converted(value)
        for field in self.declared(value):
            if field.default is not None and "init=False" in ast.unparse(field.default):
                continue
            hints = self.annotations.read(field.module, field.annotation)
            if converted is None or field.name in converted:
                # a validator of the class's own takes other forms too
                hints |= {Hint("other")}
            lower, upper = self.bounds(field)
            choices, known = _literal_choices(hints)
            fields[field.name] = StructureField(
                type="|".join(sorted(kinds(hints))),
                choices=choices,
                known=known,
                lower=lower,
                upper=upper,
            )
        self.structures[value.name] = Structure(fields=fields, closed=self._closed(value))
        return value.name

    def _converted(self, value: ClassValue) -> set[str] | None:
        """Return the fields that a validator sees before their type does; ``None`` for all."""
        found: set[str] = set()
        for one in self.modules.bases(value):
            for node in ast.walk(one.node):
                if not isinstance(node, ast.Call):
                    continue
                text = ast.unparse(node)
                if "mode='" not in text or "mode='after'" in text:
                    continue
                name = ast.unparse(node.func).rpartition(".")[2]
                if name == "model_validator":
                    return None
                if name == "field_validator":
                    names = [a.value for a in node.args if isinstance(a, ast.Constant)]
                    if "*" in names:
                        return None
                    found |= {str(one) for one in names}
        return found

    def _closed(self, value: ClassValue) -> bool:
        """Say whether unknown keys are refused: vLLM's ``config`` decorator forbids them."""
        for node in value.node.decorator_list:
            called = node.func if isinstance(node, ast.Call) else node
            if isinstance(called, ast.Name) and called.id == "config":
                made = self.modules.find(value.module, "config")
                if isinstance(made, FunctionValue):
                    source = ast.unparse(made.module.node)
                    return "extra='forbid'" in source and "extra" not in ast.unparse(node)
        return False


def _number(node: ast.expr) -> float | None:
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -float(value)
        case _:
            return None


def _literal_choices(
    hints: Hints,
) -> tuple[tuple[str | int | float | bool, ...] | None, tuple[str | int | float | bool, ...]]:
    """Return exact choices, or values that are merely known where other strings are taken too."""
    if "literal" not in kinds(hints):
        return None, ()
    values = tuple(value for hint in hints if hint.kind == "literal" for value in hint.values)
    others = kinds(hints) - {"literal", "none"}
    return (None, values) if others else (values, ())


class VllmKeywords:
    """``get_kwargs`` of vLLM: argparse keywords out of a dataclass's annotations.

    The rules are those of ``vllm/engine/arg_utils.py`` (0.9 to 0.29). What differs between
    versions is read from the function itself; a branch that is not known becomes a note.
    """

    _KNOWN = frozenset({"bool", "Literal", "tuple", "list", "set", "int", "float", "dict", "str"})

    def __init__(self, fields: Fields, function: FunctionValue | None) -> None:
        self._fields = fields
        self.notes: list[str] = []
        self._sizes: dict[str, str] = {}
        self._optional_flag = False
        if function is not None:
            self._read_rules(function)

    def _read_rules(self, function: FunctionValue) -> None:
        named_sets: dict[str, list[str]] = {}
        for node in ast.walk(function.node):
            match node:
                case ast.Call(func=ast.Name(id="contains_type"), args=[_, ast.Name(id=kind)]) if (
                    kind not in self._KNOWN
                ):
                    self.notes.append(
                        f"{function.module.path}:{node.lineno}: a rule for `{kind}` is not known"
                    )
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Set(elts=elements)):
                    named_sets[name] = [e.value for e in elements if _is_text(e)]  # type: ignore[attr-defined]
                case ast.Set(elts=elements) if ast.unparse(node) == "{bool, str, type(None)}":
                    self._optional_flag = True
                case _:
                    pass
        for node in ast.walk(function.node):
            if not (isinstance(node, ast.If) and isinstance(node.test, ast.Compare)):
                continue
            test = node.test
            if not (isinstance(test.left, ast.Name) and test.left.id == "name"):
                continue
            other = test.comparators[0]
            names = named_sets.get(other.id, []) if isinstance(other, ast.Name) else []
            if isinstance(other, ast.Constant) and isinstance(other.value, str):
                names = [other.value]
            if isinstance(other, ast.Tuple | ast.List | ast.Set):
                names = [e.value for e in other.elts if _is_text(e)]  # type: ignore[attr-defined]
            made = next(
                (
                    s.value.id
                    for s in node.body
                    if isinstance(s, ast.Assign) and isinstance(s.value, ast.Name)
                ),
                "",
            )
            sizes = {"human_readable_int": "size", "human_readable_int_or_auto": "size-or-auto"}
            for name in names:
                self._sizes[name] = sizes.get(made, "unknown")

    def of(self, value: ClassValue) -> dict[str, dict[str, object]]:
        """Return the keywords of every field."""
        found = {}
        for field in self._fields.declared(value):
            hints = self._fields.annotations.read(field.module, field.annotation)
            keywords = self._keywords(field.name, hints)
            lower, upper = self._fields.bounds(field)
            keywords["_derived"] = Derived(f"{value.name}.{field.name}", lower, upper)
            if "unknown" in kinds(hints):
                self.notes.append(
                    f"{field.module.path}:{field.line}: the type of `{field.name}` is not known"
                )
            found[field.name] = keywords
        return found

    def _keywords(self, name: str, hints: Hints) -> dict[str, object]:
        present = kinds(hints)
        keywords: dict[str, object] = {"default": None, "help": ""}
        dataclasses = [
            h for h in hints if h.kind == "class" and h.of and self._fields.is_dataclass(h.of)
        ]
        if dataclasses:
            of = dataclasses[0].of
            assert of is not None
            keywords["type"] = TypeValue(f"json:{self._fields.structure(of)}")
        elif self._optional_flag and present == {"bool", "str", "none"}:
            keywords |= {"type": TypeValue("str"), "nargs": "?"}
        elif "bool" in present:
            keywords["action"] = External("argparse.BooleanOptionalAction")
        elif "literal" in present:
            keywords |= _literal_keywords(hints)
        elif found := next((k for k in ("tuple", "list", "set") if k in present), None):
            keywords |= self._collection(first(hints, found), found)
        elif "int" in present:
            keywords["type"] = TypeValue(self._sizes.get(name, "int"))
        elif "float" in present:
            keywords["type"] = TypeValue("float")
        elif "dict" in present:
            mixed = bool(present & {"str", "class", "other"})
            keywords["type"] = TypeValue("json-or-str" if mixed else "json")
        elif present <= {"unknown", "none"}:
            keywords["type"] = TypeValue("unknown")
        else:
            keywords["type"] = TypeValue("str")
        if "none" in present and "bool" not in present:
            kind = keywords.get("type")
            if isinstance(kind, TypeValue):
                keywords["type"] = TypeValue(kind.name, optional=True)
            choices = keywords.get("choices")
            if isinstance(choices, list):
                choices.append("None")
        return keywords

    def _collection(self, hint: Hint, kind: str) -> dict[str, object]:
        keywords: dict[str, object] = {}
        element = hint.items[0] if hint.items else frozenset({Hint("str")})
        several = kinds(element)
        if "literal" in several and len(several) == 1:
            keywords |= _literal_keywords(element)
        elif len(several) > 1 and "str" in several:
            keywords["type"] = TypeValue("str")
        elif several & {"int", "float", "str"}:
            keywords["type"] = TypeValue(next(k for k in ("int", "float", "str") if k in several))
        else:
            # a class as converter: argparse calls it with the text
            keywords["type"] = TypeValue("unknown")
        fixed = kind == "tuple" and not hint.ellipsis and hint.items
        keywords["nargs"] = len(hint.items) if fixed else "+"
        return keywords


def _literal_keywords(hints: Hints) -> dict[str, object]:
    """``literal_to_kwargs``: choices, or a metavar where any string is taken."""
    values = list(first(hints, "literal").values)
    kind = type(values[0]).__name__ if values else "str"
    where = "metavar" if "str" in kinds(hints) else "choices"
    try:
        ordered = sorted(values)
    except TypeError:
        ordered = values
    return {"type": TypeValue(kind), where: ordered}


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


__all__ = ["Derived", "Expression", "FieldDeclaration", "Fields", "TypeValue", "VllmKeywords"]
