"""The workspace: where recipes, locks, builds and profiles lie."""

from __future__ import annotations

import difflib
import os
import stat
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from imagegate.errors import ImageError, LockError, RecipeError, UsageError
from imagegate.localfiles import read_regular, read_regular_text
from imagegate.lock import (
    BASE,
    STATEMENT,
    BaseLock,
    BaseName,
    Lock,
    LockedAsset,
    decode_base,
    decode_lock,
    named_base,
)
from imagegate.oci.digest import Digest
from imagegate.recipe import Recipe, parse_recipe
from imagegate.workspace.lockfolders import base_files, read_lock_files
from imagegate.workspace.requirements import read_requirements

_REQUIREMENTS = "requirements.in"
# templates, parsers and settings; weights do not belong into an image
_ASSET_LIMIT = 1 << 30
# below `locks/`; so no recipe can have this name
_BASES = "bases"


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
    _bases: dict[Digest, tuple[Digest, BaseLock]] = field(
        default_factory=dict, compare=False, repr=False
    )

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
        if name == _BASES and name in names:
            raise UsageError(
                f"a recipe cannot be named `{_BASES}`: `locks/{_BASES}` holds the locks of bases",
                hint=f"rename the folder `images/{_BASES}`",
            )
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
            text = read_regular_text(path)
        except OSError as error:
            raise RecipeError(f"cannot read `{self.relative(path)}`: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise RecipeError(
                f"`{self.relative(path)}` is not UTF-8 text (byte {error.start})"
            ) from error
        recipe = parse_recipe(name, text, self.relative(path))
        return self._over_its_base(recipe) if recipe.leaves_out else recipe

    def _over_its_base(self, recipe: Recipe) -> Recipe:
        """Let the locked base say what the recipe leaves out; without a lock nothing does."""
        try:
            where = self.relative(self.lock_folder(recipe.name))
            named = named_base(recipe.name, self.lock_files(recipe.name), where)
            return recipe.over(self.base_lock(named.digest)) if named is not None else recipe
        except LockError:
            return recipe  # whoever needs the lock says what is wrong with it

    def state(self, name: str) -> RecipeState:
        """Read a recipe, its requirements and its assets.

        Raises:
            RecipeError: a file is missing or cannot be used, or an asset is not a regular file.
        """
        recipe = self.recipe(name)
        folder = self.root / "images" / name
        path = folder / _REQUIREMENTS
        requirements: tuple[str, ...] = ()
        if os.path.lexists(path):  # a link to nothing is no recipe without requirements
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

    def base_folder(self, digest: Digest) -> Path:
        """Return where the lock of a base lies, by the digest of the base's manifest."""
        return self.root / "locks" / _BASES / f"{digest.algorithm}-{digest.encoded}"

    def base_digests(self) -> tuple[Digest, ...]:
        """Name every base that has a lock here, in order."""
        found = []
        for folder in sorted((self.root / "locks" / _BASES).glob("*-*")):
            algorithm, _, encoded = folder.name.partition("-")
            try:
                found.append(Digest.parse(f"{algorithm}:{encoded}"))
            except ImageError:
                continue  # what a killed process left beside it, or nobody's
        return tuple(found)

    def has_base(self, digest: Digest) -> bool:
        """Say whether a base has a lock here."""
        return (self.base_folder(digest) / BASE).is_file()

    def base_lock(self, digest: Digest) -> BaseLock:
        """Read the lock of a base; one is decoded once, whoever asks.

        Raises:
            LockError: it is missing, damaged, edited or of another revision.
        """
        folder = self.base_folder(digest)
        where = self.relative(folder)
        if not (folder / BASE).is_file():
            raise LockError(
                f"`{where}` does not exist",
                hint=f"restore it from version control, or `imagegate base read` or pull {digest}",
            )
        files = self._lock_files(folder)
        known = self._bases.get(digest)
        # the table of contents covers every other file
        table = Digest.of(files.get(BASE) or b"")
        if (
            known is not None
            and known[0] == table
            and known[1].statement == files.get(STATEMENT, b"")
        ):
            return known[1]
        lock = decode_base(base_files(folder, files), where)
        if lock.base != digest:
            raise LockError(f"`{where}` is the lock of another base: found={lock.base}")
        self._bases[digest] = (table, lock)
        return lock

    def lock(self, name: str) -> Lock:
        """Read a recipe's lock and its base's.

        Raises:
            LockError: one is missing, damaged, edited or another's.
        """
        files, where = self.lock_files(name), self.relative(self.lock_folder(name))
        named = named_base(name, files, where)
        base = self.base_lock(named.digest) if named is not None else None
        return decode_lock(name, files, where, base)

    def lock_files(self, name: str) -> dict[str, bytes]:
        """Read the files of a recipe's lock.

        Raises:
            LockError: there is none.
        """
        folder = self.lock_folder(name)
        where = self.relative(folder)
        if not folder.is_dir():
            raise LockError(f"`{where}` does not exist", hint=f"run `imagegate lock {name}`")
        files = self._lock_files(folder)
        if not files:
            raise LockError(f"`{where}` is empty", hint=f"run `imagegate lock {name}`")
        return files

    def named_bases(self) -> dict[str, BaseName | None]:
        """Say which base each recipe's lock names; locks that cannot be read are left out."""
        found: dict[str, BaseName | None] = {}
        for name in self.recipe_names():
            try:
                where = self.relative(self.lock_folder(name))
                found[name] = named_base(name, self.lock_files(name), where)
            except LockError:
                continue
        return found

    def _lock_files(self, folder: Path) -> dict[str, bytes]:
        return read_lock_files(folder, self.relative(folder))

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
        self._require_no_link(folder)
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
                try:
                    content = read_regular(path, limit=_ASSET_LIMIT)
                except OSError as error:
                    raise RecipeError(
                        f"cannot read `{self.relative(path)}`: {error.strerror}"
                    ) from error
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
        """List a model's files; every folder and file on the way is what it looks like.

        A linked folder is left out by some tools and followed out of the workspace by others.
        """
        self._require_no_link(folder)
        files: list[Path] = []
        for directory, folders, names in os.walk(folder, onerror=self._unreadable):
            for name in folders:
                self._require_no_link(Path(directory, name))
            for name in names:
                path = Path(directory, name)
                self._require_no_link(path)
                if not stat.S_ISREG(path.lstat().st_mode):
                    raise RecipeError(
                        f"`{self.relative(path)}` is not a regular file",
                        hint="an asset is shipped by its bytes; replace it by a file",
                    )
                files.append(path)
        return sorted(files)

    def _require_no_link(self, path: Path) -> None:
        if path.is_symlink():
            raise RecipeError(
                f"`{self.relative(path)}` is a link to `{path.readlink()}`",
                hint="an asset is shipped by its bytes; replace the link by what it leads to",
            )

    def _unreadable(self, error: OSError) -> None:
        raise RecipeError(
            f"cannot read `{self.relative(Path(error.filename))}`: {error.strerror}"
        ) from error
