"""``coverage.toml`` -> the builds that it lists."""

from __future__ import annotations

import itertools
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imagegate.asking.document import FILE, TABLE, CoverageToml, parse_coverage_toml
from imagegate.asking.patterns import parse_pattern
from imagegate.coverage.building.profiles import PROFILES
from imagegate.errors import CoverageError, ImagegateError, UsageError
from imagegate.localfiles import read_regular_text
from imagegate.usecases.covering.assets import files_named
from imagegate.usecases.covering.contexts import label_of, read_context
from imagegate.usecases.covering.described import Described, baked, composed
from imagegate.usecases.covering.wanted import Refused, Wanted, local_context, split_contexts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from imagegate.asking.document import Bake, Build, Compose, Judging

PYPROJECT = "pyproject.toml"
# the folder that a Dockerfile lies in, as `context` may say
_FOLDER = "{folder}"
# names that a pattern such as `Dockerfile*` meets and that are not Dockerfiles
_NO_DOCKERFILES = (".dockerignore", ".containerignore")


def find_file(start: Path) -> Path | None:
    """Return the file that lists what to judge, in `start` or the nearest folder above it.

    Raises:
        CoverageError: a folder has two of them, or a file cannot be read.
    """
    for folder in (start, *start.parents):
        found = [place for place in (folder / FILE, folder / PYPROJECT) if _lists(place)]
        if len(found) > 1:
            raise CoverageError(
                f"`{found[0]}` and `{found[1]}` both say what to judge", hint="keep one of them"
            )
        if found:
            return found[0]
    return None


def _lists(place: Path) -> bool:
    if not place.is_file():
        return False
    if place.name == FILE:
        return True
    text = _text(place)
    if TABLE[-1] not in text:
        return False
    try:
        values: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False  # whose file it is says so better
    for key in TABLE:
        values = values.get(key) if isinstance(values, dict) else None
    return values is not None


def _text(place: Path) -> str:
    try:
        return read_regular_text(place)
    except (OSError, UnicodeDecodeError) as error:
        raise CoverageError(f"`{place}` cannot be read: {error}") from error


def read_file(place: Path) -> CoverageToml:
    """Read ``coverage.toml`` or a ``pyproject.toml`` with its table.

    Raises:
        CoverageError: it cannot be used as written.
    """
    table = () if place.name != PYPROJECT else TABLE
    return parse_coverage_toml(_text(place), label_of(_near(place)), table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What the command line says of every build, in place of what the file says.

    Attributes:
        builders: names of builders; empty for the file's.
        platforms: what is built for; empty for the file's.
        strict: notes fail, too.
        args_complete: the real build is given the file's build arguments and no others.
    """

    builders: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    strict: bool = False
    args_complete: bool = False

    def over(self, document: CoverageToml) -> CoverageToml:
        """Return `document` with every entry as the command line says."""
        values: dict[str, Any] = {}
        if self.builders:
            values["builders"] = list(self.builders)
        if self.strict:
            values["strict"] = True
        of_build = dict(values)
        if self.platforms:
            of_build["platforms"] = list(self.platforms)
        if self.args_complete:
            of_build["build_args_complete"] = True
        return document.model_copy(
            update={
                "build": [entry.model_copy(update=of_build) for entry in document.build],
                "bake": [entry.model_copy(update=values) for entry in document.bake],
                "compose": [entry.model_copy(update=values) for entry in document.compose],
            }
        )


def select(
    builds: tuple[Wanted | Refused, ...], names: tuple[str, ...]
) -> tuple[Wanted | Refused, ...]:
    """Return the builds that `names` pick: by title, Dockerfile, or part of what tells it apart.

    Raises:
        UsageError: a name picks nothing.
    """
    if not names:
        return builds
    called = [(_called(one), one) for one in builds]
    for name in names:
        if not any(name in words for words, _ in called):
            listed = ", ".join(f"`{min(words, key=len)}`" for words, _ in called)
            raise UsageError(f"no build is called `{name}`", hint=f"there is {listed}")
    return tuple(one for words, one in called if words & set(names))


def _called(one: Wanted | Refused) -> set[str]:
    if isinstance(one, Refused):
        return {one.title, one.title.partition(" [")[0]}
    file = one.label if one.dockerfile is None else label_of(one.dockerfile)
    return {file, *one.variant.split(", ")} - {""}


def builds_of(
    document: CoverageToml,
    place: Path,
    environment: Mapping[str, str],
    overrides: Overrides | None = None,
) -> tuple[Wanted | Refused, ...]:
    """Return every build that `document` lists, in its order.

    A build that cannot be made out is an entry of its own and stops no other.

    Args:
        document: what to judge.
        place: the file that it is from; its paths are relative to this file's folder.
        environment: variables for bake and compose.
        overrides: what the command line says.
    """
    document = (overrides or Overrides()).over(document)
    root = _near(place.parent)
    found: list[Wanted | Refused] = []
    for entry in document.build:
        found += _attempt(entry.name or ", ".join(entry.dockerfile), _builds(document, entry, root))
    for bake in document.bake:
        described = _describe(bake, lambda one: baked(one.file, one.targets, root, environment))
        found += _attempt(bake.name or ", ".join(bake.file), _from(document, bake, described))
    for compose in document.compose:
        described = _describe(
            compose, lambda one: composed(one.file, one.services, root, environment)
        )
        found += _attempt(
            compose.name or ", ".join(compose.file), _from(document, compose, described)
        )
    return tuple(found)


def _near(path: Path) -> Path:
    """Return `path` as a person in the current folder writes it."""
    return Path(os.path.relpath(path))


def _attempt(title: str, builds: Iterator[Wanted | Refused]) -> Iterator[Wanted | Refused]:
    try:
        yield from builds
    except ImagegateError as error:
        yield Refused(title=title, error=error)


def _builds(document: CoverageToml, entry: Build, root: Path) -> Iterator[Wanted | Refused]:
    for dockerfile in _dockerfiles(entry.dockerfile, root):
        written = document.judging(entry, "context", ".")
        folder = dockerfile.parent.relative_to(root).as_posix()
        try:
            context = local_context(written.replace(_FOLDER, folder), root)
        except CoverageError as error:
            yield Refused(title=_title(entry.name, dockerfile), error=error)
            continue
        folders, foreign = split_contexts(document.judging(entry, "build_contexts", {}), root)
        for target, platform, values in itertools.product(
            document.judging(entry, "target", [None]),
            document.judging(entry, "platforms", [None]),
            _combinations(document.judging(entry, "matrix", {})),
        ):
            yield Wanted(
                dockerfile=dockerfile,
                context=context,
                target=target,
                platform=platform,
                build_args={**document.judging(entry, "build_args", {}), **values},
                args_complete=document.judging(entry, "build_args_complete", False),
                build_contexts=folders,
                foreign=foreign,
                variant=_variant(entry.name, target, platform, values),
                **_judged(document, entry),
            )


def _title(name: str | None, dockerfile: Path) -> str:
    return f"{label_of(dockerfile)} [{name}]" if name else label_of(dockerfile)


def _judged(document: CoverageToml, entry: Judging) -> dict[str, Any]:
    """Return what counts for every kind of entry."""
    builders = document.judging(entry, "builders", ["buildkit"])
    nothing: dict[str, str] = {}
    expect = document.judging(entry, "expect", nothing)
    return {
        "assets": tuple(document.judging(entry, "assets", [])),
        "exclude": tuple(document.judging(entry, "exclude", [])),
        "expects": tuple(f"{source}={goal}" for source, goal in expect.items()),
        "builders": tuple(PROFILES) if "all" in builders else tuple(builders),
        "run_keeps": tuple(document.judging(entry, "run_keeps", [])),
        "strict": document.judging(entry, "strict", False),
    }


def _combinations(matrix: Mapping[str, list[str]]) -> list[dict[str, str]]:
    return [
        dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())
    ]


def _variant(
    name: str | None, target: str | None, platform: str | None, values: Mapping[str, str]
) -> str:
    parts = [
        name,
        f"target {target}" if target else None,
        platform,
        *(f"{key}={value}" for key, value in values.items()),
    ]
    return ", ".join(part for part in parts if part)


def _dockerfiles(patterns: list[str], root: Path) -> list[Path]:
    """Return the Dockerfiles that patterns name.

    Raises:
        CoverageError: one names none.
    """
    folder = read_context(root)
    found: dict[str, Path] = {}
    for written in patterns:
        met = False
        for pattern in parse_pattern(written):
            for path in files_named(pattern, folder):
                if not path.endswith(_NO_DOCKERFILES):
                    met = True
                    found.setdefault(path, root / path)
        if not met:
            raise CoverageError(
                f"no Dockerfile matches `{written}`",
                hint=f"patterns are relative to `{root}`: `Dockerfile`, `docker/Dockerfile*`, "
                "`**/*.Dockerfile`",
            )
    return list(found.values())


# -- bake and compose


def _describe(entry: Any, describe: Any) -> Iterator[Described]:  # noqa: ANN401
    """Ask only when the answer is needed, so that its error belongs to this entry."""
    yield from describe(entry)


def _from(
    document: CoverageToml, entry: Bake | Compose, described: Iterator[Described]
) -> Iterator[Wanted | Refused]:
    for one in described:
        title = ", ".join(part for part in (entry.name, one.title) if part)
        try:
            context = local_context(one.context, one.folder)
        except CoverageError as error:
            yield Refused(title=title, error=error)
            continue
        folders, foreign = split_contexts(one.contexts, one.folder)
        for platform in one.platforms or (None,):
            yield Wanted(
                dockerfile=None if one.inline is not None else _near(context / one.dockerfile),
                text=one.inline.encode() if one.inline is not None else None,
                label=f"{one.title} (inline)",
                context=_near(context),
                target=one.target,
                platform=platform,
                build_args=one.arguments,
                args_complete=True,
                build_contexts=folders,
                foreign=foreign,
                variant=", ".join(part for part in (title, platform) if part),
                **_judged(document, entry),
            )
