"""The workspace: where recipes, locks, builds and profiles lie."""

from __future__ import annotations

import difflib
import os
import stat
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from imagegate.errors import LockError, RecipeError, UsageError
from imagegate.lock import Lock, LockedAsset, decode_lock
from imagegate.oci.digest import Digest
from imagegate.recipe import Recipe, parse_recipe
from imagegate.workspace.requirements import read_requirements

_REQUIREMENTS = "requirements.in"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeState:
    """A recipe and what stands beside it right now.

    Attributes:
        recipe: the checked recipe.
        requirements: the lines of ``requirements.in``; empty where there is no such file.
        requirements_digest: digest of these lines.
        assets: every asset file, in order.
    """

    recipe: Recipe
    requirements: tuple[str, ...]
    requirements_digest: Digest
    assets: tuple[LockedAsset, ...]


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder with ``images/`` and ``locks/``."""

    root: Path

    @classmethod
    def find(cls, start: Path) -> Workspace:
        """Find the workspace that `start` lies in.

        Raises:
            UsageError: neither `start` nor a folder above it is one.
        """
        for folder in (start, *start.parents):
            if (folder / "images").is_dir() and (folder / "locks").is_dir():
                return cls(folder)
        raise UsageError(
            f"`{start}` is in no workspace",
            hint="a workspace is a folder with `images/` and `locks/`; change into one or give `--workspace`",
        )

    def recipe_names(self) -> tuple[str, ...]:
        """Name every recipe, in order."""
        found = (path.parent.name for path in (self.root / "images").glob("*/image.toml"))
        return tuple(sorted(found))

    def recipe_path(self, name: str) -> Path:
        """Return where a recipe's document lies.

        Raises:
            UsageError: there is no such recipe; suggests the nearest name.
        """
        names = self.recipe_names()
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            listed = ", ".join(f"`{known}`" for known in names) or "none"
            raise UsageError(
                f"no recipe is named `{name}`",
                hint=f"did you mean `{near[0]}`?" if near else f"the recipes here are: {listed}",
            )
        return self.root / "images" / name / "image.toml"

    def recipe(self, name: str) -> Recipe:
        """Read a recipe.

        Raises:
            UsageError: there is no such recipe.
            RecipeError: it cannot be used as written.
        """
        path = self.recipe_path(name)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RecipeError(f"cannot read `{self.relative(path)}`: {error}") from error
        return parse_recipe(name, text, self.relative(path))

    def state(self, name: str) -> RecipeState:
        """Read a recipe, its requirements and its assets.

        Raises:
            RecipeError: a file is missing or cannot be used, or an asset is no regular file.
        """
        recipe = self.recipe(name)
        folder = self.root / "images" / name
        path = folder / _REQUIREMENTS
        requirements: tuple[str, ...] = ()
        if path.exists():
            requirements = read_requirements(path, self.relative(path))
            if not requirements:
                raise RecipeError(
                    f"`{self.relative(path)}` names no requirement",
                    hint="remove the file or fill it",
                )
        assets = tuple(self._assets(recipe, folder / "recipes"))
        if not requirements and not assets:
            raise RecipeError(
                f"the recipe `{name}` adds nothing",
                hint=f"write `images/{name}/{_REQUIREMENTS}` or an `[assets]` section",
            )
        return RecipeState(
            recipe=recipe,
            requirements=requirements,
            requirements_digest=Digest.of("".join(f"{line}\n" for line in requirements).encode()),
            assets=assets,
        )

    def lock_folder(self, name: str) -> Path:
        """Return where a recipe's lock lies."""
        return self.root / "locks" / name

    def lock(self, name: str) -> Lock:
        """Read a recipe's lock.

        Raises:
            LockError: it is missing, damaged, edited or another recipe's.
        """
        folder = self.lock_folder(name)
        where = self.relative(folder)
        if not folder.is_dir():
            raise LockError(f"`{where}` does not exist", hint=f"run `imagegate lock {name}`")
        try:
            files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        except OSError as error:
            raise LockError(f"cannot read `{where}`: {error}") from error
        if not files:
            raise LockError(f"`{where}` is empty", hint=f"run `imagegate lock {name}`")
        return decode_lock(name, files, where)

    def layout(self, name: str) -> Path:
        """Return where a recipe's build lies."""
        return self.root / "build" / name

    def profiles(self) -> Path:
        """Return where profiles are published."""
        return self.root / "profiles"

    def relative(self, path: Path) -> str:
        """Write a path as a person at the workspace's root would."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def _assets(self, recipe: Recipe, folder: Path) -> list[LockedAsset]:
        section = recipe.document.assets
        where = self.relative(folder)
        if section is None:
            if folder.exists():
                raise RecipeError(
                    f"`{where}` holds model recipes, but image.toml has no `[assets]`",
                    hint="add `[assets]` with `models` and `target`",
                )
            return []
        present = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        missing = sorted(set(section.models) - present)
        unlisted = sorted(present - set(section.models))
        if missing:
            raise RecipeError(
                f"`models` names what `{where}` does not hold: {', '.join(missing)}",
                hint=f"add the folder `{where}/{missing[0]}` or take the model out",
            )
        if unlisted:
            raise RecipeError(
                f"`{where}` holds what `models` does not name: {', '.join(unlisted)}",
                hint="name it under `[assets] models`, or it would be left out of the image",
            )
        found: list[LockedAsset] = []
        for model in section.models:
            files = self._asset_files(folder / model)
            if not files:
                raise RecipeError(f"`{where}/{model}` holds no file")
            for path in files:
                relative = path.relative_to(folder / model).as_posix()
                content = path.read_bytes()
                found.append(
                    LockedAsset(
                        model=model,
                        source=f"recipes/{model}/{relative}",
                        target=recipe.asset_target(model, relative),
                        size=len(content),
                        sha256=sha256(content).hexdigest(),
                    )
                )
        return sorted(found)

    def _asset_files(self, folder: Path) -> list[Path]:
        files: list[Path] = []
        for directory, _, names in os.walk(folder):
            for name in names:
                path = Path(directory, name)
                if not stat.S_ISREG(path.lstat().st_mode):
                    raise RecipeError(
                        f"`{self.relative(path)}` is no regular file",
                        hint="an asset is shipped by its bytes; replace the link by the file",
                    )
                files.append(path)
        return sorted(files)
