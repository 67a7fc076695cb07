"""Recipes: ``images/<name>/image.toml`` and what stands beside it."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from imagegate.errors import RecipeError, UsageError
from imagegate.foreign.credentials import redact
from imagegate.oci.digest import Digest
from imagegate.oci.documents import canonical_json
from imagegate.oci.platform import Platform
from imagegate.oci.reference import Reference
from imagegate.recipe.origin import Origin, missing, read_origin
from imagegate.recipe.sections import BASE_PLACEHOLDER, ImageToml, LinkEntry, PythonSection
from imagegate.recipe.tomltext import describe
from imagegate.recipe.values import ENV_NAME, PLAIN_VALUE, RECIPE_NAME
from imagegate.recipe.variables import Declared
from imagegate.verdict import Waiver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.lock import BaseLock

__all__ = [
    "ENV_NAME",
    "PLAIN_VALUE",
    "RECIPE_NAME",
    "LinkEntry",
    "PythonSection",
    "Recipe",
    "parse_recipe",
]

# where nothing says otherwise
_SCRIPTS = "/usr/local/bin"
_INTERPRETER = "/usr/bin/python3"
# sections that say how an image is judged or told of, not what it is made of
_JUDGED_BY: dict[str, Any] = {
    **dict.fromkeys(("pins", "denied", "toolchain", "serve", "waivers"), True),
    "layer": {"allow", "debian"},
    "config": {"users"},
}
_NOT_MADE_OF = {**_JUDGED_BY, "profile": True, "description": True}


class Recipe:
    """One recipe, checked.

    Attributes:
        name: the folder's name.
        document: the parsed ``image.toml``.
        origin: what the base says of what the document leaves out; ``None`` where it is not known.
        written_platform: the document's platform in normal form, ``None`` where it says none.
    """

    def __init__(self, name: str, document: ImageToml, origin: Origin | None = None) -> None:
        self.name = name
        self.document = document
        self.origin = origin
        self.written_platform = (
            Platform.parse(document.platform) if document.platform is not None else None
        )
        image = document.base.image
        self.base = Reference.parse_pinned(image) if image is not None else None

    @property
    def platform(self) -> Platform:
        """The platform in normal form.

        Raises:
            RecipeError: the recipe leaves it out, and no base was read.
        """
        if self.written_platform is not None:
            return self.written_platform
        if self.origin is None:
            raise missing(self.name, "platform", None)
        return self.origin.platform

    @property
    def python(self) -> PythonSection:
        """``[python]``, with what the base says of it.

        Raises:
            RecipeError: the recipe leaves out a key, and no base was read or it does not show it.
        """
        keys, origin = self.document.python, self.origin
        # a recipe that names its interpreter says where commands go, or takes the usual place
        found_scripts = origin.scripts if origin and keys.interpreter is None else None
        return PythonSection(
            version=self._said("version", keys.version, origin.version if origin else None),
            site=self._said("site", keys.site, origin.site if origin else None),
            scripts=keys.scripts or found_scripts or _SCRIPTS,
            interpreter=keys.interpreter
            or (origin.interpreter if origin else None)
            or _INTERPRETER,
            glibc=self._said("glibc", keys.glibc, origin.glibc if origin else None),
        )

    def _said(self, key: str, written: str | None, found: str | None) -> str:
        value = written or found
        if value is None:
            raise missing(self.name, f"python.{key}", self.origin)
        return value

    @property
    def leaves_out(self) -> bool:
        """Whether the base has to say something."""
        keys = self.document.python
        written = (self.document.platform, keys.version, keys.site, keys.interpreter, keys.glibc)
        return self.base is not None and None in written

    def over(self, base: BaseLock) -> Recipe:
        """Return the recipe with what its base says of what it leaves out."""
        return Recipe(self.name, self.document, read_origin(base, self.document.python))

    @property
    def digest(self) -> Digest:
        """Digest of what the lock depends on, whatever comments and order the file has.

        What launchers are told and how the image is judged is left out: it does not change the
        image, so that a waiver or a pin needs no new lock.
        """
        return Digest.of(canonical_json(self.made_of))

    @property
    def made_of(self) -> dict[str, Any]:
        """What the recipe says of what the image is made of: what its digest is over."""
        # defaults are left out: a key that a later version knows changes no digest
        made_of = self.document.model_dump(
            mode="json", by_alias=True, exclude=_NOT_MADE_OF, exclude_defaults=True
        )
        # what was the default before the base could say it: such locks stay fresh
        for key, value in (("scripts", _SCRIPTS), ("interpreter", _INTERPRETER)):
            if made_of.get("python", {}).get(key) == value:
                del made_of["python"][key]
        return made_of

    @property
    def policy(self) -> Digest:
        """Digest of what the recipe says of judging.

        That is pins, denied versions, toolchain, waivers, and what may be there without a lock.
        """
        document = self.document.model_dump(
            mode="json", by_alias=True, include=_JUDGED_BY, exclude_defaults=True
        )
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

    @property
    def ports(self) -> tuple[str, ...]:
        """The ports that the recipe exposes, each with its protocol (config.md, "ExposedPorts")."""
        return tuple(p if "/" in p else f"{p}/tcp" for p in self.document.config.ports)

    def env_over(self, base: Digest | None) -> dict[str, str]:
        """Return the variables that the image config gets.

        Args:
            base: digest of the locked base, ``None`` for an image from scratch.
        """
        return _naming(self.document.config.env, base)

    def labels_over(self, base: Digest | None) -> dict[str, str]:
        """Return the labels that the image config gets; see :meth:`env_over`."""
        return _naming(self.document.config.labels, base)

    def declared_over(self, base: Digest | None) -> Declared:
        """Return what the profile carries beside what is measured; see :meth:`env_over`."""
        section = self.document.profile
        return Declared(env=_naming(section.env, base), secrets=section.secrets)

    def asset_target(self, model: str, relative: str) -> str:
        """Return where an asset of a model goes, without leading slash."""
        assert self.document.assets is not None
        return f"{self.document.assets.target.replace('{model}', model)}/{relative}".lstrip("/")


def _naming(values: Mapping[str, str], base: Digest | None) -> dict[str, str]:
    """Put the base's digest where a value has ``{base}``."""
    return {name: text.replace(BASE_PLACEHOLDER, str(base)) for name, text in values.items()}


def parse_recipe(name: str, text: str, where: str) -> Recipe:
    """Read ``image.toml``.

    Args:
        name: the recipe's name.
        text: the file's text.
        where: the file, for messages.

    Raises:
        RecipeError: the text is not TOML or not a recipe; names the key and what is wrong.
    """
    if not RECIPE_NAME.fullmatch(name):
        raise RecipeError(
            f"{name!r} cannot be a recipe's name",
            hint="use lower-case letters, digits, `.`, `_` and `-`",
        )
    try:
        values = tomllib.loads(text)
    except ValueError as error:
        # a number of thousands of digits is one too
        raise RecipeError(f"`{where}` is not valid TOML: {describe(error, text)}") from error
    except RecursionError as error:
        raise RecipeError(f"`{where}` is not a recipe: it is nested too deeply") from error
    try:
        return Recipe(name, ImageToml.model_validate(_with_tuples(values)))
    except ValidationError as error:
        problems = [_problem(dict(problem)) for problem in error.errors()]
        raise RecipeError(
            # a value that is refused may be a secret in the wrong place
            redact(f"`{where}`: {'; '.join(problems)}"),
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
