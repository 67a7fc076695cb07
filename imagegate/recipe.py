"""Recipes: ``images/<name>/image.toml`` and what stands beside it."""

from __future__ import annotations

import re
import tomllib
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from imagegate.errors import ImageError, RecipeError, UsageError
from imagegate.oci.digest import Digest
from imagegate.oci.documents import canonical_json
from imagegate.oci.platform import Platform
from imagegate.oci.reference import Reference
from imagegate.verdict import Waiver

if TYPE_CHECKING:
    from typing import Self

# what make, docker compose, systemd and sh read alike without quoting; no `~`, which sh expands
PLAIN_VALUE = re.compile(r"[A-Za-z0-9_@%+=:,./^-]*")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RECIPE_NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")


def _inside_root(value: str) -> str:
    parts = value.split("/")
    if not value.startswith("/") or any(part in ("", ".", "..") for part in parts[1:]):
        raise ValueError("write an absolute path without `.`, `..` and trailing slash")
    return value


def _pinned(value: str) -> str:
    try:
        Reference.parse_pinned(value)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error
    return value


def _repository(value: str) -> str:
    reference = Reference.parse(value)
    if reference.tag or reference.digest:
        raise ValueError("write the repository alone, without tag and digest")
    return value


def _requirement(value: str) -> str:
    try:
        Requirement(value)
    except InvalidRequirement as error:
        raise ValueError(str(error)) from error
    return value


def _specifier(value: str) -> str:
    try:
        SpecifierSet(value)
    except InvalidSpecifier as error:
        raise ValueError(str(error)) from error
    return value


def _digest(value: str) -> str:
    try:
        return str(Digest.parse(value))
    except ImageError as error:
        raise ValueError(error.message) from error


def _base_digest(value: str) -> str:
    if value != "scratch":
        try:
            Digest.parse(value)
        except ImageError as error:
            raise ValueError(f"{error.message}; write the base's digest or `scratch`") from error
    return value


AbsolutePath = Annotated[str, AfterValidator(_inside_root)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class BaseSection(_Section):
    """``[base]``: what the image stands on; either an image by digest or nothing.

    Attributes:
        image: repository and digest of the base.
        recipe: the recipe of this workspace that composes it, where there is one.
        scratch: true for an image that starts empty.
    """

    image: Annotated[str, AfterValidator(_pinned)] | None = None
    recipe: str | None = None
    scratch: bool = False

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.scratch == (self.image is not None):
            raise ValueError("give either `image` with a digest or `scratch = true`")
        if self.recipe is not None and self.image is None:
            raise ValueError("`recipe` says where `image` comes from; give `image` too")
        return self


class PythonSection(_Section):
    """``[python]``: the interpreter that the layer's distributions are for.

    Attributes:
        version: ``major.minor``.
        site: the site directory that they are installed into.
        scripts: where their commands go.
        interpreter: what the commands' first line names.
        glibc: the oldest glibc that the image has; decides which manylinux wheels fit.
    """

    version: Annotated[str, Field(pattern=r"^3\.\d+$")]
    site: AbsolutePath
    scripts: AbsolutePath = "/usr/local/bin"
    interpreter: AbsolutePath = "/usr/bin/python3"
    glibc: Annotated[str, Field(pattern=r"^2\.\d+$")]


class LinkEntry(_Section):
    """One ``[[layer.links]]``: a symbolic link that the layer adds."""

    path: AbsolutePath
    target: Annotated[str, Field(min_length=1)]


class LayerSection(_Section):
    """``[layer]``: how the added distributions are chosen.

    Attributes:
        exclude_newer: distributions uploaded later do not exist for this recipe.
        overrides: requirements that replace what distributions say of these names.
        overlaps: path (relative to the site directory) to the distribution whose file it is,
            for each path that two wheels bring with different content.
        links: symbolic links.
    """

    exclude_newer: datetime | None = None
    overrides: tuple[Annotated[str, AfterValidator(_requirement)], ...] = ()
    overlaps: dict[str, str] = Field(default_factory=dict)
    links: tuple[LinkEntry, ...] = ()


class AssetsSection(_Section):
    """``[assets]``: the model recipes that must be inside.

    Attributes:
        models: every model; each has a folder ``recipes/<model>``, and no other folder is there.
        target: where a model's files go; ``{model}`` stands for its name.
    """

    models: Annotated[
        tuple[Annotated[str, Field(pattern=RECIPE_NAME.pattern)], ...], Field(min_length=1)
    ]
    target: AbsolutePath

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        if self.target.count("{model}") != 1:
            raise ValueError("`target` needs `{model}` once, or all models share one folder")
        if len(set(self.models)) != len(self.models):
            raise ValueError("`models` names one twice")
        return self


class ConfigSection(_Section):
    """``[config]``: what the image config gets beside the base's settings."""

    env: dict[Annotated[str, Field(pattern=ENV_NAME.pattern)], str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    user: str | None = None
    working_dir: AbsolutePath | None = None


class ProfileSection(_Section):
    """``[profile]``: what the published profile carries beside the digest.

    Attributes:
        env: variables that launchers hand on; values that all of them read alike.
        settings: anything else, written to the ``.json`` only.
    """

    env: dict[Annotated[str, Field(pattern=ENV_NAME.pattern)], str] = Field(default_factory=dict)
    settings: dict[str, str | int | float | bool | list[str]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _plain(self) -> Self:
        for name, value in self.env.items():
            if not PLAIN_VALUE.fullmatch(value):
                raise ValueError(
                    f"`{name}` has a value that make, compose, systemd and sh do not read alike: "
                    f"`{value}`; put it under `settings`"
                )
        return self


class DeniedEntry(_Section):
    """One ``[[denied]]``: versions that must not be in the image.

    Attributes:
        name: a distribution, a Debian package, or a component such as ``nccl``.
        versions: which versions (PEP 440 specifiers); every one if empty.
        reason: why.
    """

    name: Annotated[str, Field(min_length=1)]
    versions: Annotated[str, AfterValidator(_specifier)] = ""
    reason: Annotated[str, Field(min_length=1)]


class ToolchainSection(_Section):
    """``[toolchain]``: what compiling at run time has to find.

    Attributes:
        headers: as a source includes them, for instance ``nvrtc.h``.
        libraries: as the linker is told, for instance ``nvrtc`` for ``-lnvrtc``.
        programs: looked for in the CUDA home and on ``PATH``.
        max_jobs: the most that ``MAX_JOBS`` may say; each job takes gigabytes of memory.
    """

    headers: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    libraries: tuple[Annotated[str, Field(pattern=r"^[^/\s]+$")], ...] = ()
    programs: tuple[Annotated[str, Field(pattern=r"^[^/\s]+$")], ...] = ()
    max_jobs: Annotated[int, Field(ge=1)] | None = None


class WaiverEntry(_Section):
    """One ``[[waivers]]``: a finding that is accepted for now.

    Attributes:
        check: the finding's code, ``<check>/<what>``.
        subject: the finding's subject.
        about: the digest of what the finding is about, as the report prints it.
        reason: why it is accepted.
        expires: the last day on which it counts.
        base: digest of the base that it was given for, or ``scratch``.
    """

    check: Annotated[str, Field(pattern=r"^[a-z]+\.[a-z]+/[a-z0-9-]+$")]
    subject: Annotated[str, Field(min_length=1)]
    about: Annotated[str, AfterValidator(_digest)]
    reason: Annotated[str, Field(min_length=1)]
    expires: date
    base: Annotated[str, AfterValidator(_base_digest)]


def _named_exactly(entries: object) -> object:
    """Refuse waivers of the form that fitted other findings too, all at once and by name."""
    if not isinstance(entries, tuple | list):
        return entries
    old = [
        f"`{entry.get('check')}` of `{entry.get('subject')}`"
        for entry in entries
        if isinstance(entry, dict) and "about" not in entry
    ]
    if old:
        raise ValueError(
            f"to be given again: {', '.join(old)}; a waiver names the digest of what it accepts "
            "(`about`). Take these out, look at each finding that `imagegate verify` then reports, "
            "and paste the waiver that `imagegate verify --details` prints below it"
        )
    return entries


class ImageToml(_Section):
    """The document ``image.toml``."""

    schema_version: Literal[1] = Field(alias="schema")
    description: str = ""
    platform: str
    repository: Annotated[str, AfterValidator(_repository)]
    base: BaseSection
    python: PythonSection
    layer: LayerSection = Field(default_factory=LayerSection)
    assets: AssetsSection | None = None
    config: ConfigSection = Field(default_factory=ConfigSection)
    profile: ProfileSection = Field(default_factory=ProfileSection)
    pins: dict[Annotated[str, Field(min_length=1)], Annotated[str, Field(min_length=1)]] = Field(
        default_factory=dict
    )
    denied: tuple[DeniedEntry, ...] = ()
    toolchain: ToolchainSection = Field(default_factory=ToolchainSection)
    waivers: Annotated[tuple[WaiverEntry, ...], BeforeValidator(_named_exactly)] = ()


# sections that say how an image is judged or told of, not what it is made of
_JUDGED_BY = frozenset({"pins", "denied", "toolchain", "waivers"})
_NOT_MADE_OF = _JUDGED_BY | {"profile", "description"}


class Recipe:
    """One recipe, checked.

    Attributes:
        name: the folder's name.
        document: the parsed ``image.toml``.
        platform: the platform in normal form.
    """

    def __init__(self, name: str, document: ImageToml) -> None:
        self.name = name
        self.document = document
        self.platform = Platform.parse(document.platform)
        image = document.base.image
        self.base = Reference.parse_pinned(image) if image is not None else None

    @property
    def digest(self) -> Digest:
        """Digest of what the lock depends on, whatever comments and order the file has.

        What launchers are told and how the image is judged is left out: it does not change the
        image, so that a waiver or a pin needs no new lock.
        """
        document = self.document.model_dump(mode="json", by_alias=True, exclude=set(_NOT_MADE_OF))
        return Digest.of(canonical_json(document))

    @property
    def policy(self) -> Digest:
        """Digest of what the recipe says of judging: pins, denied versions, toolchain, waivers."""
        document = self.document.model_dump(mode="json", by_alias=True, include=set(_JUDGED_BY))
        return Digest.of(canonical_json(document))

    @property
    def waivers(self) -> tuple[Waiver, ...]:
        """The findings that are accepted for now, in the order of the file."""
        return tuple(
            Waiver(
                code=entry.check,
                subject=entry.subject,
                about=Digest.parse(entry.about),
                reason=entry.reason,
                expires=entry.expires,
                base=entry.base,
            )
            for entry in self.document.waivers
        )

    def asset_target(self, model: str, relative: str) -> str:
        """Return where an asset of a model goes, without leading slash."""
        assert self.document.assets is not None
        return f"{self.document.assets.target.replace('{model}', model)}/{relative}".lstrip("/")


def parse_recipe(name: str, text: str, where: str) -> Recipe:
    """Read ``image.toml``.

    Args:
        name: the recipe's name.
        text: the file's text.
        where: the file, for messages.

    Raises:
        RecipeError: the text is not TOML or not a recipe; names the key and what is wrong.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"`{where}` is not valid TOML: {error}") from error
    try:
        return Recipe(name, ImageToml.model_validate(_with_tuples(values)))
    except ValidationError as error:
        problems = [_problem(dict(problem)) for problem in error.errors()]
        raise RecipeError(
            f"`{where}`: {'; '.join(problems)}",
            hint="the README's section on image.toml lists every key",
        ) from error
    except UsageError as error:
        raise RecipeError(f"`{where}`: {error.message}", hint=error.hint) from error


def _problem(problem: dict[str, object]) -> str:
    location = problem["loc"]
    assert isinstance(location, tuple)
    where = ".".join(str(part) for part in location) or "document"
    if problem["type"] == "extra_forbidden":
        return f"unknown key `{where}`"
    if problem["type"] == "missing":
        return f"the key `{where}` is missing"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"`{where}`: {message[:1].lower()}{message[1:]}"


def _with_tuples(value: object) -> object:
    """Turn lists into tuples: strict models take no list where a tuple is declared."""
    if isinstance(value, dict):
        return {
            key: item if key == "settings" else _with_tuples(item) for key, item in value.items()
        }
    if isinstance(value, list):
        return tuple(_with_tuples(item) for item in value)
    return value
