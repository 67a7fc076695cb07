"""The document ``image.toml``, section by section."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from imagegate.foreign.credentials import find_credentials
from imagegate.recipe.patterns import parse_pattern
from imagegate.recipe.serve import ServeSection
from imagegate.recipe.values import (
    PLAIN_VALUE,
    AbsolutePath,
    Argument,
    BaseDigest,
    DebianPin,
    DigestText,
    EnvName,
    GlibcVersion,
    LabelName,
    Line,
    LinkTarget,
    Login,
    ModelName,
    PinnedReference,
    Port,
    PythonVersion,
    Repository,
    RequirementLine,
    Signal,
    Specifier,
    TargetTemplate,
    Text,
    User,
    Word,
)
from imagegate.recipe.variables import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# stands for the locked base's digest in labels and variables
BASE_PLACEHOLDER = "{base}"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class BaseSection(_Section):
    """``[base]``: what the image stands on; either an image by digest or nothing.

    Attributes:
        image: repository and digest of the base.
        recipe: the recipe of this workspace that composes it, where there is one.
        scratch: true for an image that starts empty.
    """

    image: PinnedReference | None = None
    recipe: ModelName | None = None
    scratch: bool = False

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.scratch == (self.image is not None):
            raise ValueError("give either `image` with a digest or `scratch = true`")
        if self.recipe is not None and self.image is None:
            raise ValueError("`recipe` says where `image` comes from; give `image` too")
        return self


class PythonKeys(_Section):
    """``[python]``: the interpreter that the layer's distributions are for.

    What is left out is what the base says; see :mod:`imagegate.recipe.origin`.

    Attributes:
        version: ``major.minor``.
        site: the site directory that they are installed into.
        scripts: where their commands go.
        interpreter: what the commands' first line names.
        glibc: the oldest glibc that the image has; decides which manylinux wheels fit.
    """

    version: PythonVersion | None = None
    site: AbsolutePath | None = None
    scripts: AbsolutePath | None = None
    interpreter: AbsolutePath | None = None
    glibc: GlibcVersion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSection:
    """``[python]`` with everything that the base says of it; see :class:`PythonKeys`."""

    version: str
    site: str
    scripts: str
    interpreter: str
    glibc: str


class LinkEntry(_Section):
    """One ``[[layer.links]]``: a symbolic link that the layer adds."""

    path: AbsolutePath
    target: LinkTarget


def _pattern(value: str) -> str:
    return parse_pattern(value).text


class AllowEntry(_Section):
    """One ``[[layer.allow]]``: paths that the added layers may bring though nothing explains them.

    Attributes:
        pattern: which paths; see :mod:`imagegate.recipe.patterns` for the whole language.
        reason: why they are there.
    """

    pattern: Annotated[Line, AfterValidator(_pattern)]
    reason: Text


class DebianSection(_Section):
    """``[layer.debian]``: packages that the layer installs.

    Attributes:
        packages: each as ``package=version``, the form of ``apt-get install``.
    """

    packages: tuple[DebianPin, ...] = ()

    @property
    def versions(self) -> dict[str, str]:
        """Package, without its architecture, to the exact version."""
        pairs = (pin.partition("=") for pin in self.packages)
        return {name.partition(":")[0]: version for name, _, version in pairs}


class LayerSection(_Section):
    """``[layer]``: how the added distributions are chosen.

    Attributes:
        exclude_newer: distributions uploaded later do not exist for this recipe.
        overrides: requirements that replace what distributions say of these names.
        overlaps: path (relative to the site directory) to the distribution whose file it is,
            for each path that two wheels bring with different content.
        links: symbolic links.
        allow: paths that nothing else explains, each with a reason.
        debian: Debian packages that a Dockerfile of the recipe's own installs.
    """

    exclude_newer: datetime | None = None
    overrides: tuple[RequirementLine, ...] = ()
    overlaps: dict[Line, Line] = Field(default_factory=dict)
    links: tuple[LinkEntry, ...] = ()
    allow: tuple[AllowEntry, ...] = ()
    debian: DebianSection = Field(default_factory=DebianSection)


class AssetsSection(_Section):
    """``[assets]``: the model recipes that must be inside.

    Attributes:
        models: every model; each has a folder ``recipes/<model>``, and no other folder is there.
        target: where a model's files go; ``{model}`` stands for its name.
    """

    models: Annotated[tuple[ModelName, ...], Field(min_length=1)]
    target: TargetTemplate

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        if self.target.count("{model}") != 1:
            raise ValueError("`target` needs `{model}` once, or all models share one folder")
        if len(set(self.models)) != len(self.models):
            raise ValueError("`models` names one twice")
        return self


class UserEntry(_Section):
    """One ``[[config.users]]``: an account that the image gets beside the base's.

    Attributes:
        name: the login and its group.
        uid: its number, any if ``None``.
        gid: its group's number, any if ``None``.
        home: its folder, any if ``None``.
        shell: its shell, any if ``None``.
        groups: groups of the base that it becomes a member of.
    """

    name: Login
    uid: Annotated[int, Field(ge=1, lt=1 << 32)] | None = None
    gid: Annotated[int, Field(ge=1, lt=1 << 32)] | None = None
    home: AbsolutePath | None = None
    shell: AbsolutePath | None = None
    groups: tuple[Login, ...] = ()


class ConfigSection(_Section):
    """``[config]``: what the image config gets beside the base's settings.

    In the values of `env` and `labels`, ``{base}`` stands for the locked base's digest.

    Attributes:
        ports: ports that the image says it listens on.
        volumes: folders that an engine keeps outside of the container.
        stop_signal: what ends the container.
        users: accounts that a Dockerfile of the recipe's own adds.
    """

    env: dict[EnvName, Line] = Field(default_factory=dict)
    labels: dict[LabelName, Line] = Field(default_factory=dict)
    entrypoint: tuple[Argument, ...] | None = None
    cmd: tuple[Argument, ...] | None = None
    user: User | None = None
    working_dir: AbsolutePath | None = None
    ports: tuple[Port, ...] = ()
    volumes: tuple[AbsolutePath, ...] = ()
    stop_signal: Signal | None = None
    users: tuple[UserEntry, ...] = ()


class ProfileSection(_Section):
    """``[profile]``: what the published profile carries beside the digest.

    Attributes:
        env: variables that launchers hand on; values that all of them read alike.
        settings: anything else, written to the ``.json`` only.
        secrets: names of variables that a launcher sets itself; their values stand nowhere.
    """

    env: dict[EnvName, str] = Field(default_factory=dict)
    settings: dict[Line, str | int | float | bool | list[str]] = Field(default_factory=dict)
    secrets: tuple[EnvName, ...] = ()

    @model_validator(mode="after")
    def _plain(self) -> Self:
        for name, value in self.env.items():
            if not PLAIN_VALUE.fullmatch(value.replace(BASE_PLACEHOLDER, "")):
                raise ValueError(
                    f"`{name}` has a value that make, compose, systemd and sh do not read alike: "
                    f"{value!r}; put it under `settings`"
                )
        return self

    @model_validator(mode="after")
    def _free_names(self) -> Self:
        for name in (*self.env, *self.secrets):
            reason = refusal(name)
            if reason is not None:
                raise ValueError(f"{reason}; take it out")
        twice = sorted({name for name in self.secrets if name in self.env})
        if twice or len(set(self.secrets)) != len(self.secrets):
            named = ", ".join(twice or self.secrets)
            raise ValueError(f"`secrets` names a variable twice, or one of `env`: {named}")
        return self

    @model_validator(mode="after")
    def _no_secrets(self) -> Self:
        for where, text in (*_lines("env", self.env), *_lines("settings", self.settings)):
            # the value itself is told to nobody
            for credential in find_credentials(text):
                raise ValueError(
                    f"`{where}` holds {credential.what}; a profile is committed and read by many: "
                    "name the variable under `secrets`, and let the launcher set it"
                )
        return self


def _lines(
    section: str, values: Mapping[str, str | int | float | bool | list[str]]
) -> Iterator[tuple[str, str]]:
    """Write settings as the texts in which a credential would be recognised."""
    for name, value in values.items():
        words = value if isinstance(value, list) else [str(value)]
        yield f"{section}.{name}", f"{name}={words[0] if len(words) == 1 else ''}"
        yield f"{section}.{name}", " ".join(words)
        # a word after an option is its value, however it is written
        yield from ((f"{section}.{name}", word) for word in words)


def _texts(where: str, value: object) -> Iterator[tuple[str, str]]:
    """Write every text of a section, and every list of words as the command that it makes."""
    if isinstance(value, str):
        yield where, f"{where.rpartition('.')[2]}={value}"
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _texts(f"{where}.{name}", one)
    elif isinstance(value, list | tuple):
        yield where, " ".join(one for one in value if isinstance(one, str))
        for one in value:
            yield from _texts(where, one)


class DeniedEntry(_Section):
    """One ``[[denied]]``: versions that must not be in the image.

    Attributes:
        name: a distribution, a Debian package, or a component such as ``nccl``.
        versions: which versions (PEP 440 specifiers); every one if empty.
        reason: why.
    """

    name: Text
    versions: Specifier = ""
    reason: Text


class ToolchainSection(_Section):
    """``[toolchain]``: what compiling at run time has to find.

    Attributes:
        headers: as a source includes them, for instance ``nvrtc.h``.
        libraries: as the linker is told, for instance ``nvrtc`` for ``-lnvrtc``.
        programs: looked for in the CUDA home and on ``PATH``.
        max_jobs: the most that ``MAX_JOBS`` may say; each job takes gigabytes of memory.
    """

    headers: tuple[Text, ...] = ()
    libraries: tuple[Word, ...] = ()
    programs: tuple[Word, ...] = ()
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
    about: DigestText
    reason: Text
    expires: date
    base: BaseDigest


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
    platform: str | None = None
    repository: Repository
    base: BaseSection
    python: PythonKeys = Field(default_factory=PythonKeys)
    layer: LayerSection = Field(default_factory=LayerSection)
    assets: AssetsSection | None = None
    config: ConfigSection = Field(default_factory=ConfigSection)
    profile: ProfileSection = Field(default_factory=ProfileSection)
    pins: dict[Text, Text] = Field(default_factory=dict)
    denied: tuple[DeniedEntry, ...] = ()
    toolchain: ToolchainSection = Field(default_factory=ToolchainSection)
    serve: ServeSection | None = None
    waivers: Annotated[tuple[WaiverEntry, ...], BeforeValidator(_named_exactly)] = ()

    @model_validator(mode="after")
    def _no_secrets_in_arguments(self) -> Self:
        for where, text in _texts("serve", self.serve.model_dump() if self.serve else None):
            for credential in find_credentials(text):
                raise ValueError(
                    f"`{where}` holds {credential.what}; what is served is committed and read by "
                    "many: name the variable under `[profile] secrets`, and let the launcher set it"
                )
        return self

    @model_validator(mode="after")
    def _measured_pins(self) -> Self:
        for name in (*self.profile.env, *self.profile.secrets):
            reason = refusal(name, self.pins)
            if reason is not None:
                raise ValueError(f"profile: {reason}; take it out")
        return self

    @model_validator(mode="after")
    def _says_what_no_base_says(self) -> Self:
        keys = self.python
        given = {"platform": self.platform, "python.version": keys.version}
        given |= {"python.site": keys.site, "python.glibc": keys.glibc}
        left_out = [f"`{key}`" for key, value in given.items() if value is None]
        if self.base.scratch and left_out:
            raise ValueError(
                f"this image starts from scratch, and so no base says {', '.join(left_out)}"
            )
        return self

    @model_validator(mode="after")
    def _has_a_base_to_name(self) -> Self:
        texts = (
            *self.config.env.values(),
            *self.config.labels.values(),
            *self.profile.env.values(),
        )
        if self.base.scratch and any(BASE_PLACEHOLDER in text for text in texts):
            raise ValueError(
                f"`{BASE_PLACEHOLDER}` names the base, and this image starts from scratch"
            )
        return self
