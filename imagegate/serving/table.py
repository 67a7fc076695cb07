"""The document ``options.json``: what the serving programs of an image accept."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imagegate.errors import LockError

Scalar = str | int | float | bool


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Option(_Entry):
    """One option or positional of a program.

    Attributes:
        strings: option strings in the order of declaration, those of ``--no-…`` included; empty
            for a positional.
        dest: the name under which the value is kept.
        action: ``store``, ``store_true``, ``store_false``, ``store_const``, ``append``,
            ``count``, ``boolean`` (:class:`argparse.BooleanOptionalAction`), ``help``,
            ``refuse`` (always an error), or ``custom``.
        nargs: number of values as argparse writes it; ``None`` for exactly one where the action
            takes values.
        type: what a value has to be: ``str``, ``int``, ``float``, ``bool``, ``json``,
            ``json-or-str``, ``json:<Class>`` (a structure), ``size`` (``6G``), ``size-or-auto``,
            ``path``, or ``unknown`` where it is decided at run time.
        steps: what is done to a text before it is compared with the choices: methods of
            :class:`str` with their arguments, for instance ``("lower",)``.
        optional: whether ``""`` and ``None`` stand for no value.
        choices: the values that are accepted; ``None`` for any.
        known: values with a meaning, where the parser accepts others too.
        computed: whether the choices depend on what is only known at run time.
        deprecated: whether the program says so.
        required: whether the program refuses to start without it.
        lower, upper: bounds that the program checks after parsing, as ``gt 0`` or ``le 1``.
        field: ``Class.field`` that the option was derived from, ``""`` where none.
        module: file and line of the declaration.
    """

    strings: tuple[str, ...] = ()
    dest: str = ""
    action: str = "store"
    nargs: str | int | None = None
    type: str = "str"
    steps: tuple[tuple[str, ...], ...] = ()
    optional: bool = False
    choices: tuple[Scalar, ...] | None = None
    known: tuple[Scalar, ...] = ()
    computed: bool = False
    deprecated: bool = False
    required: bool = False
    lower: tuple[str, float] | None = None
    upper: tuple[str, float] | None = None
    field: str = ""
    module: str = ""

    @property
    def takes_nothing(self) -> bool:
        """Whether no value may follow."""
        return self.action in (
            "store_true",
            "store_false",
            "store_const",
            "count",
            "boolean",
            "help",
        ) or (self.nargs == 0)


class StructureField(_Entry):
    """One key of a JSON-valued option's structure."""

    type: str
    choices: tuple[Scalar, ...] | None = None
    known: tuple[Scalar, ...] = ()
    lower: tuple[str, float] | None = None
    upper: tuple[str, float] | None = None


class Structure(_Entry):
    """What a JSON object given to an option may hold.

    Attributes:
        fields: by key.
        closed: whether other keys are refused.
    """

    fields: dict[str, StructureField]
    closed: bool


class Program(_Entry):
    """One serving program.

    Attributes:
        name: ``vllm serve``, ``sglang serve`` or ``ray start``.
        parser: ``flexible`` (vLLM's), ``argparse`` or ``click``.
        version: of the distribution that brings it, ``""`` where unknown.
        status: ``read``, or ``unread`` where the module is there and was not understood.
        why: why it is unread.
        options: in the order of declaration.
        structures: by class name.
        notes: what was not understood, with file and line.
        declared, interpreted: how many declarations the files visited have, and how many were
            understood; unequal numbers are in the notes.
        features: what the parser of this version does, see
            :mod:`imagegate.serving.command_line`.
        lists: named lists, for instance ``reasoning parsers`` or ``architectures``.
        removed: architectures that were removed, to the version that had them last.
        environment: names of environment variables that the program reads; ``None`` if not read.
        plugins: entry points by which installed distributions may add to all this.
    """

    name: str
    parser: Literal["flexible", "argparse", "click"]
    version: str = ""
    status: Literal["read", "unread"] = "read"
    why: str = ""
    options: tuple[Option, ...] = ()
    structures: dict[str, Structure] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    declared: int = 0
    interpreted: int = 0
    features: tuple[str, ...] = ()
    lists: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    removed: dict[str, str] = Field(default_factory=dict)
    environment: tuple[str, ...] | None = None
    plugins: tuple[str, ...] = ()

    def option(self, string: str) -> Option | None:
        """Return the option that has exactly this string."""
        return next((one for one in self.options if string in one.strings), None)


class ServingOptions(_Entry):
    """All serving programs of an image."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    programs: tuple[Program, ...] = ()

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    def program(self, name: str) -> Program | None:
        """Return one program by its name."""
        return next((one for one in self.programs if one.name == name), None)

    def encode(self) -> bytes:
        """Return the canonical form: sorted keys, one line an entry, final newline."""
        document = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        document["schema"] = self.schema_version
        for program in document.get("programs", ()):
            # one option a line keeps differences readable
            program["options"] = [
                json.dumps(option, sort_keys=True, ensure_ascii=False)
                for option in program.get("options", ())
            ]
        return (json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode()


def decode_options(content: bytes, where: str) -> ServingOptions:
    """Read ``options.json``.

    Args:
        content: the file's bytes.
        where: the file, for messages.

    Raises:
        LockError: the text is not such a document.
    """
    try:
        document = json.loads(content)
        for program in document.get("programs", ()):
            program["options"] = [json.loads(option) for option in program.get("options", ())]
        return ServingOptions.model_validate(document)
    except (ValueError, ValidationError, AttributeError, TypeError, RecursionError) as error:
        raise LockError(
            f"`{where}` is not a table of serving options", hint="run `imagegate lock` again"
        ) from error
