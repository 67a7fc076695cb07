"""The build context: what the engine gets to see, checked before it does."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from imagegate.engines.container.dockerfile import (
    REQUIREMENTS,
    WHEELHOUSE,
    render_dockerfile,
    render_ignore_file,
)
from imagegate.errors import FetchError, RecipeError
from imagegate.localfiles import read_regular, read_regular_text
from imagegate.oci.blob import CHUNK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from imagegate.engines.container.dockerfile import Dialect
    from imagegate.lock import Lock, LockedWheel
    from imagegate.recipe import Recipe

# 1980-01-01T00:00:00Z, the instant of the composed layers' entries
EPOCH = 315532800
TEMPLATE = "Dockerfile.j2"
OWN_IGNORE_FILE = "Dockerfile.dockerignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A folder that is ready to be built from.

    Attributes:
        folder: what is sent to the engine.
        dockerfile: the rendered Dockerfile, inside.
    """

    folder: Path
    dockerfile: Path


def stage_context(
    folder: Path,
    recipe: Recipe,
    lock: Lock,
    wheels: Mapping[LockedWheel, Path],
    *,
    images: Path,
    dialect: Dialect,
) -> Context:
    """Fill an empty folder with what a build needs.

    Everything of the recipe's folder is copied; the ignore file keeps what is no asset from the
    builder, so that a file that nobody declared cannot get into the image by accident. A recipe
    that brings its own ignore file says itself what its own Dockerfile sees.

    Args:
        folder: where to.
        recipe: what is built.
        lock: its lock.
        wheels: each locked wheel and where it lies.
        images: the recipe's folder.
        dialect: what the builder understands.

    Raises:
        FetchError: a wheel is not the locked one.
        RecipeError: an asset is not the locked one, or the Dockerfile cannot be rendered.
    """
    files = render_build_files(
        images, recipe, lock, [path.name for path in wheels.values()], dialect=dialect
    )
    shutil.copytree(images, folder, symlinks=True, dirs_exist_ok=True)
    for asset in lock.assets:
        if (
            sha256(read_regular(folder / asset.source, limit=asset.size + 1)).hexdigest()
            != asset.sha256
        ):
            raise RecipeError(
                f"`{asset.source}` changed after it was locked", hint="lock again, then build"
            )
    house = folder / WHEELHOUSE
    house.mkdir()
    for wheel, path in sorted(wheels.items()):
        _stage_wheel(wheel, path, house)
    listing = "".join(f"{wheel.requirement}\n" for wheel in sorted(wheels))
    (house / REQUIREMENTS).write_text(listing)
    dockerfile = folder / "Dockerfile"
    dockerfile.write_text(files.dockerfile)
    # builders prefer the one that is named after the Dockerfile, where they know it
    for name in (OWN_IGNORE_FILE, ".dockerignore"):
        (folder / name).write_text(files.ignore)
    _normalise(folder)
    return Context(folder=folder, dockerfile=dockerfile)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFiles:
    """What an engine's build is told.

    Attributes:
        dockerfile: the rendered Dockerfile.
        ignore: the ignore file.
        own_dockerfile: the recipe brings its own template.
        own_ignore: the ignore file starts with the recipe's own lines.
    """

    dockerfile: str
    ignore: str
    own_dockerfile: bool
    own_ignore: bool


def render_build_files(
    images: Path, recipe: Recipe, lock: Lock, wheels: Sequence[str], *, dialect: Dialect
) -> BuildFiles:
    """Write Dockerfile and ignore file of a recipe.

    Args:
        images: the recipe's folder.
        recipe: what is built.
        lock: its lock.
        wheels: the file names of the locked wheels.
        dialect: what the builder understands.

    Raises:
        RecipeError: they cannot be rendered, or are not text.
    """
    own = images / TEMPLATE
    where = f"images/{recipe.name}/{TEMPLATE}"
    template = _read_text(own, where) if own.is_file() else None
    inside = [f"{WHEELHOUSE}/{name}" for name in wheels]
    inside.append(f"{WHEELHOUSE}/{REQUIREMENTS}")
    own_ignore = images / OWN_IGNORE_FILE
    if own_ignore.is_file():
        # later lines win, so the wheels are let through whatever the recipe's own file says
        text = _read_text(own_ignore, f"images/{recipe.name}/{OWN_IGNORE_FILE}")
        wheelhouse = render_ignore_file(inside).removeprefix("**\n")
        ignore = f"{text.rstrip()}\n{wheelhouse}"
    else:
        ignore = render_ignore_file([*(asset.source for asset in lock.assets), *inside])
    return BuildFiles(
        dockerfile=render_dockerfile(recipe, lock, dialect, template=template, where=where),
        ignore=ignore,
        own_dockerfile=template is not None,
        own_ignore=own_ignore.is_file(),
    )


def _read_text(path: Path, where: str) -> str:
    try:
        return read_regular_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"cannot read `{where}`: {error}") from error


def _stage_wheel(wheel: LockedWheel, path: Path, house: Path) -> None:
    """Copy a wheel and hash the copy's bytes on the way."""
    hasher = sha256()
    with path.open("rb") as source, (house / path.name).open("wb") as sink:
        while chunk := source.read(CHUNK):
            hasher.update(chunk)
            sink.write(chunk)
    if hasher.hexdigest() != wheel.sha256:
        raise FetchError(
            f"`{path.name}` is not the locked wheel: "
            f"locked={wheel.sha256} found={hasher.hexdigest()}",
            hint="remove it from the cache and build again",
        )


def _normalise(folder: Path) -> None:
    """Give every file the mode and time that a composed layer would give it."""
    for directory, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(directory, name)  # noqa: PTH118 - os.walk speaks in strings
            if os.path.islink(path):  # noqa: PTH114
                continue
            os.chmod(path, 0o755 if name in folders else 0o644)  # noqa: PTH101
            os.utime(path, (EPOCH, EPOCH))
