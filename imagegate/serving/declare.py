"""From the arguments of an ``add_argument`` call to an option."""

from __future__ import annotations

import ast

from imagegate.serving.fields import Derived, TypeValue
from imagegate.serving.modules import ClassValue, External, FunctionValue, Modules
from imagegate.serving.table import Option

_ACTIONS = frozenset(
    {"store", "store_true", "store_false", "store_const", "append", "extend", "count", "help"}
)
TYPES = {
    "builtins.str": "str",
    "builtins.int": "int",
    "builtins.float": "float",
    "builtins.bool": "bool",
    "json.loads": "json",
    "pathlib.Path": "path",
}
_FUNCTIONS = {
    "human_readable_int": "size",
    "human_readable_int_or_auto": "size-or-auto",
    "union_dict_and_str": "json-or-str",
}


class Declarations:
    """Collects the options that calls of ``add_argument`` declare."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self.options: list[Option] = []
        self.notes: list[str] = []

    def add(
        self, where: str, args: list[object], keywords: dict[str, object], perhaps: bool
    ) -> None:
        """Take one call (:class:`imagegate.serving.interpret.Interpreter`)."""
        names = [one for one in args if isinstance(one, str)]
        if len(names) != len(args) or not names:
            self.notes.append(f"{where}: an option is declared whose name is not in the text")
            return
        if perhaps:
            self.notes.append(f"{where}: `{names[0]}` is there under a condition")
        if "_unknown" in keywords:
            self.notes.append(f"{where}: how `{names[0]}` is declared is not known in full")
        self.options.append(self._option(where, names, keywords))

    def _option(self, where: str, names: list[str], keywords: dict[str, object]) -> Option:
        strings = [name for name in names if name.startswith("-")]
        given = keywords.get("dest")
        dest = given if isinstance(given, str) else _destination(names)
        action, nargs, deprecated = self._action(where, names[0], keywords)
        if "nargs" in keywords and action not in ("boolean", "store_true", "store_false"):
            value = keywords["nargs"]
            if isinstance(value, str | int | None):
                nargs = value
            else:
                self.notes.append(f"{where}: how many values `{names[0]}` takes is not known")
        if action == "boolean":
            strings += [f"--no-{s[2:]}" for s in list(strings) if s.startswith("--")]
        choices, computed = _choices(keywords.get("choices"))
        known, _ = _choices(
            keywords.get("metavar") if isinstance(keywords.get("metavar"), list) else None
        )
        value = keywords.get("type")
        kind, optional = self._type(value)
        if kind == "unknown":
            self.notes.append(f"{where}: what a value of `{names[0]}` has to be is not known")
        help_text = keywords.get("help")
        derived = keywords.get("_derived")
        from_field = derived if isinstance(derived, Derived) else Derived("")
        return Option(
            strings=tuple(strings),
            dest=dest,
            action=action,
            nargs=nargs,
            type=kind,
            optional=optional,
            steps=value.steps if isinstance(value, TypeValue) else (),
            choices=None if computed else choices,
            known=(choices or ()) if computed else (known or ()),
            computed=computed,
            deprecated=deprecated
            or keywords.get("deprecated") is True
            or (
                isinstance(help_text, str)
                and help_text.lower().lstrip("([").startswith("deprecated")
            ),
            required=keywords.get("required") is True,
            lower=from_field.lower,
            upper=from_field.upper,
            field=from_field.field,
            module=where,
        )

    def _action(
        self, where: str, name: str, keywords: dict[str, object]
    ) -> tuple[str, str | int | None, bool]:
        value = keywords.get("action", "store")
        match value:
            case str() if value in _ACTIONS:
                return ("append" if value == "extend" else value), None, False
            case External(name=full) if full.endswith("BooleanOptionalAction"):
                return "boolean", 0, False
            case ClassValue():
                return self._custom(value, keywords)
            case _:
                self.notes.append(f"{where}: what `{name}` does with values is not known")
                return "custom", None, False

    def _custom(
        self, value: ClassValue, keywords: dict[str, object]
    ) -> tuple[str, str | int | None, bool]:
        """Read an action class: its own default of ``nargs``, and whether it always refuses."""
        if any("BooleanOptionalAction" in ast.unparse(base) for base in value.node.bases):
            return "boolean", 0, False
        deprecated = value.name.startswith("Deprecated")
        nargs: str | int | None = None
        init = self._modules.method(value, "__init__")
        if init is not None:
            parameters = [a.arg for a in init.node.args.args]
            defaults = init.node.args.defaults
            for name, default in zip(
                parameters[len(parameters) - len(defaults) :], defaults, strict=True
            ):
                if name == "nargs" and isinstance(default, ast.Constant):
                    found = default.value
                    nargs = found if isinstance(found, str | int) else None
        if keywords.get("error_message"):
            return "refuse", nargs, True
        return "custom", nargs, deprecated

    @staticmethod
    def _type(value: object) -> tuple[str, bool]:
        match value:
            case None:
                return "str", False
            case TypeValue(name=kind, optional=optional):
                return kind, optional
            case External(name=full) if full in TYPES:
                return TYPES[full], False
            case FunctionValue(node=node) if node.name in _FUNCTIONS:
                return _FUNCTIONS[node.name], False
            case _:
                return "unknown", False


def _destination(names: list[str]) -> str:
    """Return what argparse derives: the first long string, else the first."""
    long = next((name for name in names if name.startswith("--")), names[0])
    return long.lstrip("-").replace("-", "_") if long.startswith("-") else long


def _choices(value: object) -> tuple[tuple[str | int | float | bool, ...] | None, bool]:
    """Return the choices, and whether some are only known at run time."""
    if value is None:
        return None, False
    if isinstance(value, dict):
        value = list(value)
    if not isinstance(value, list | tuple):
        return None, True
    plain = tuple(one for one in value if isinstance(one, str | int | float))
    return plain, len(plain) < len(value)
