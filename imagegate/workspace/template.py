"""A new workspace with one commented recipe."""

from __future__ import annotations

from dataclasses import asdict
from importlib import resources
from typing import TYPE_CHECKING

from imagegate.errors import UsageError
from imagegate.recipe import RECIPE_NAME, parse_recipe
from imagegate.report.waiver import quoted

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.oci.platform import Platform
    from imagegate.recipe import PythonSection

_ASSET = """\
# What this model is served with; the file ends in the image as it is.
tensor-parallel-size: 1
"""


_FROM_THE_BASE = """\
# what is left out is read from the base: the Python that it starts, where pip installs, its glibc
# version = "3.12"
# site = "/usr/local/lib/python3.12/dist-packages"
# interpreter = "/usr/bin/python3"
# glibc = "2.39\""""
_NO_BASE = "registry.example/team/base@sha256:" + "0" * 64


def recipe_text(
    name: str, *, platform: Platform, image: str | None = None, python: PythonSection | None = None
) -> str:
    """Write a commented recipe.

    Args:
        name: the recipe's name.
        platform: what it is for.
        image: its base by digest; zeros, to be replaced, if ``None``.
        python: what the base has; left out if ``None``.
    """
    template = resources.files("imagegate.workspace") / "templates" / "image.toml"
    return template.read_text(encoding="utf-8").format(
        name=name,
        platform=platform,
        image=image or _NO_BASE,
        base_option="" if image else " --base REF",
        lock_does=f"writes locks/{name}; it does not read the base again"
        if image
        else f"reads the base once, pins its digest here and writes locks/{name}",
        base_note="" if image else "; step 1 replaces this line when it is given another base",
        python=_FROM_THE_BASE
        if python is None
        else "# as the base has it; what is left out is read from the base\n"
        + "\n".join(f"{key} = {quoted(value)}" for key, value in asdict(python).items()),
    )


def require_free(root: Path, name: str) -> None:
    """Require that a recipe of this name can be added to a folder.

    Raises:
        UsageError: the name is none, or taken, or the folder is half a workspace.
    """
    if not RECIPE_NAME.fullmatch(name):
        raise UsageError(
            f"`{name}` is not a valid name for a recipe",
            hint="use lower-case letters, digits, `.`, `_`, `-`",
        )
    if name == "bases":
        raise UsageError("`bases` is not a name for a recipe: `locks/bases` holds base locks")
    for taken in (root / "images" / name, root / "locks" / name):
        if taken.exists():
            raise UsageError(f"`{taken}` exists", hint="choose another name with `--name`")
    is_workspace = _is_workspace(root)
    if not is_workspace and ((root / "images").exists() or (root / "locks").exists()):
        raise UsageError(
            f"`{root}` has a folder `images` or `locks` and is not a workspace",
            hint="choose another folder, or make the other of the two",
        )


def new_workspace(root: Path, name: str, recipe: str) -> tuple[Path, ...]:
    """Write a workspace into a folder, or add a recipe to one, and nothing over anything.

    Args:
        root: the folder; made where it does not exist.
        name: the recipe's name.
        recipe: the text of its ``image.toml``.

    Returns:
        The files that were written.

    Raises:
        UsageError: the name is none, or taken.
    """
    require_free(root, name)
    is_workspace = _is_workspace(root)
    parse_recipe(name, recipe, f"images/{name}/image.toml")
    files = {
        root / "images" / name / "image.toml": recipe,
        root / "images" / name / "recipes" / "example" / "serve.yaml": _ASSET,
    }
    if not is_workspace:
        files[root / "locks" / ".gitkeep"] = ""
    if not (root / ".gitignore").exists():
        files[root / ".gitignore"] = "/build/\n"
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tuple(files)


def _is_workspace(root: Path) -> bool:
    return (root / "images").is_dir() and (root / "locks").is_dir()
