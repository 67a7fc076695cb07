"""``coverage.toml``: what of a repository COPY coverage judges.

The same tables may stand in ``pyproject.toml`` below ``[tool.imagegate.coverage]``.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)

from imagegate.asking.patterns import parse_expectation, parse_pattern
from imagegate.asking.positions import positions
from imagegate.coverage.building.profiles import find_profile
from imagegate.errors import CoverageError, UsageError
from imagegate.recipe.tomltext import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from imagegate.asking.positions import Path

FILE = "coverage.toml"
TABLE = ("tool", "imagegate", "coverage")
_PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9_]+(?:/[a-z0-9]+)?")
_T = TypeVar("_T")


def _one_or_several(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _checked(check: Callable[[str], object]) -> Callable[[str], str]:
    def run(value: str) -> str:
        try:
            check(value)
        except UsageError as refused:
            hint = f"; {refused.hint}" if refused.hint else ""
            raise ValueError(f"{refused.message}{hint}") from refused
        return value

    return run


def check_platform(value: str) -> str:
    """Return `value`.

    Raises:
        UsageError: it is not a platform.
    """
    if not _PLATFORM.fullmatch(value):
        raise UsageError(f"`{value}` is not a platform such as `linux/arm64`")
    return value


def _builder(value: str) -> str:
    return value if value == "all" else _checked(find_profile)(value)


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"`{value}` is not an absolute path in the image")
    return value


def _expectations(value: dict[str, str]) -> dict[str, str]:
    for source, destination in value.items():
        _checked(parse_expectation)(f"{source}={destination}")
    return value


_Text = Annotated[str, Field(min_length=1)]


def _several(about: str) -> WithJsonSchema:
    """Return the schema of a key that takes one text or a list of them."""
    text = {"type": "string", "minLength": 1}
    several = {"type": "array", "items": text, "minItems": 1}
    return WithJsonSchema({"anyOf": [text, several], "description": about})


_Pattern = Annotated[_Text, AfterValidator(_checked(parse_pattern))]
_Patterns = Annotated[
    list[_Pattern],
    Field(min_length=1),
    BeforeValidator(_one_or_several),
    _several(
        "What must be in the image, relative to the context: files, folders, globs, `**`, "
        "`{a,b}`, `.` for all of it."
    ),
]
_Excluded = Annotated[
    list[_Pattern],
    Field(min_length=1),
    BeforeValidator(_one_or_several),
    _several("What `assets` names and is not wanted in the image."),
]
_Files = Annotated[
    list[_Pattern],
    Field(min_length=1),
    BeforeValidator(_one_or_several),
    _several("Files, relative to this one; globs name several Dockerfiles."),
]
_Targets = Annotated[
    list[_Text],
    Field(min_length=1),
    BeforeValidator(_one_or_several),
    _several("Stages that become the image; each is judged."),
]
_Builders = Annotated[
    list[Annotated[_Text, AfterValidator(_builder)]],
    Field(min_length=1),
    BeforeValidator(_one_or_several),
    _several("Builders to judge for, by their names, or `all`."),
]
_Platforms = Annotated[
    list[Annotated[_Text, AfterValidator(_checked(check_platform))]],
    Field(min_length=1),
    BeforeValidator(_one_or_several),
    _several("Platforms that are built for, such as `linux/arm64`."),
]
_Keeps = Annotated[
    list[Annotated[_Text, AfterValidator(_absolute)]],
    Field(min_length=1),
    BeforeValidator(_one_or_several),
    _several("Paths in the image that no RUN changes; you vouch for it."),
]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Judging(_Section):
    """What counts for every build, however it is described.

    Attributes:
        assets: what has to be in the image.
        exclude: what of it is not wanted.
        expect: where it has to be, from ``SRC`` to ``DST``.
        builders: names of builders.
        strict: notes fail, too.
        run_keeps: paths in the image that no RUN changes.
    """

    assets: _Patterns | None = None
    exclude: _Excluded | None = None
    expect: Annotated[
        dict[str, str] | None,
        AfterValidator(lambda value: _expectations(value) if value else value),
        Field(description='Where the assets belong: `"SRC" = "DST"`, as with `--expect`.'),
    ] = None
    builders: _Builders | None = None
    strict: bool | None = Field(default=None, description="Notes fail, too.")
    run_keeps: _Keeps | None = None


class Defaults(Judging):
    """``[defaults]``: what holds where a build says nothing else.

    Attributes:
        context: the build context.
        target: stages that become the image.
        build_args: build arguments.
        build_args_complete: the real build is given these and no others.
        matrix: build arguments with several values; every combination is judged.
        platforms: what is built for.
        build_contexts: named contexts.
    """

    context: _Text | None = Field(
        default=None, description="The build context, relative to this file."
    )
    target: _Targets | None = None
    build_args: dict[str, str] | None = Field(default=None, description="Build arguments.")
    build_args_complete: bool | None = Field(
        default=None, description="The real build is given these build arguments and no others."
    )
    matrix: dict[str, Annotated[list[str], Field(min_length=1)]] | None = Field(
        default=None,
        description="Build arguments with several values; every combination is judged.",
    )
    platforms: _Platforms | None = None
    build_contexts: dict[str, _Text] | None = Field(
        default=None,
        description="Named contexts: a folder relative to this file, or what else a builder takes.",
    )


class Build(Defaults):
    """One ``[[build]]``: Dockerfiles that are built alike.

    Attributes:
        name: what reports call it.
        dockerfile: Dockerfiles; globs name several.
    """

    name: _Text | None = Field(default=None, description="What reports call it.")
    dockerfile: _Files


class Bake(Judging):
    """One ``[[bake]]``: builds as ``docker buildx bake --print`` describes them.

    Attributes:
        name: what reports call it.
        file: the files that bake is given.
        targets: targets or groups; bake's own default without them.
    """

    name: _Text | None = Field(default=None, description="What reports call it.")
    file: _Files
    targets: Annotated[list[_Text] | None, Field(description="Targets or groups.")] = None


class Compose(Judging):
    """One ``[[compose]]``: services with a ``build``, as ``docker compose config`` describes them.

    Attributes:
        name: what reports call it.
        file: the files that compose is given.
        services: services to judge; all that are built without them.
    """

    name: _Text | None = Field(default=None, description="What reports call it.")
    file: _Files
    services: Annotated[list[_Text] | None, Field(description="Services to judge.")] = None


class CoverageToml(_Section):
    """The whole document.

    Attributes:
        version: version of this form; there is one.
        defaults: what holds where a build says nothing else.
        build: builds, described here.
        bake: builds, described by bake files.
        compose: builds, described by compose files.
    """

    version: Literal[1] = Field(default=1, alias="schema", description="Version of this form.")
    defaults: Defaults = Defaults()
    build: list[Build] = []
    bake: list[Bake] = []
    compose: list[Compose] = []

    def judging(self, entry: Judging, key: str, otherwise: _T) -> Any | _T:  # noqa: ANN401
        """Return what an entry says, else what the defaults say, else `otherwise`."""
        for section in (entry, self.defaults):
            value = getattr(section, key, None)
            if value is not None:
                return value
        return otherwise


def parse_coverage_toml(text: str, where: str, table: tuple[str, ...] = ()) -> CoverageToml:
    """Read ``coverage.toml``.

    Args:
        text: the file's text.
        where: the file, for messages.
        table: the way to the table that counts, for ``pyproject.toml``.

    Raises:
        CoverageError: it is not TOML or says what nobody understands; every message has line and
            column.
    """
    try:
        values: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CoverageError(f"`{where}` is not valid TOML: {describe(error, text)}") from error
    for key in table:
        values = values.get(key, {}) if isinstance(values, dict) else {}
    try:
        document = CoverageToml.model_validate(values)
    except ValidationError as error:
        found = positions(text)
        problems = sorted(
            {_problem(dict(problem), found, where, table) for problem in error.errors()}
        )
        raise CoverageError(
            "\n".join(message for _, message in problems),
            hint="`imagegate coverage --help` lists every key; `--schema` prints the JSON schema",
        ) from error
    _complete(document, text, where, table)
    return document


def _complete(document: CoverageToml, text: str, where: str, table: tuple[str, ...]) -> None:
    """Refuse a document that asks for nothing.

    Raises:
        CoverageError: there is no build, or nothing is asked for.
    """
    kinds: dict[str, list[Any]] = {
        "build": document.build, "bake": document.bake, "compose": document.compose,
    }  # fmt: skip
    if not any(kinds.values()):
        raise CoverageError(
            f"`{where}` names nothing to judge",
            hint="add a `[[build]]` with `dockerfile` and `assets`",
        )
    for kind, entries in kinds.items():
        for number, entry in enumerate(entries):
            if document.judging(entry, "assets", None) is None:
                line, column = _position(positions(text), (*table, kind, number))
                raise CoverageError(
                    f"`{where}`, line {line}, column {column}: this `[[{kind}]]` asks for nothing",
                    hint='add `assets = ["recipes/*"]` here or under `[defaults]`',
                )


def _problem(
    problem: dict[str, Any],
    found: Mapping[Path, tuple[int, int]],
    where: str,
    table: tuple[str, ...],
) -> tuple[tuple[int, int], str]:
    place = (*table, *problem["loc"])
    line, column = _position(found, place)
    key = _key(problem["loc"])
    if problem["type"] == "extra_forbidden":
        said = f"unknown key `{problem['loc'][-1]}`"
    elif problem["type"] == "missing":
        said = f"the key `{problem['loc'][-1]}` is missing"
    else:
        message = str(problem["msg"]).removeprefix("Value error, ")
        message = message.replace("Input should be", "should be")
        said = f"`{key}`: {message[:1].lower()}{message[1:]}"
    return (line, column), f"`{where}`, line {line}, column {column}: {said}"


def _key(place: tuple[str | int, ...]) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "document"


def _position(found: Mapping[Path, tuple[int, int]], place: tuple[Any, ...]) -> tuple[int, int]:
    """Return where `place` stands, or what holds it."""
    while place not in found and place:
        place = place[:-1]
    return found[place]
