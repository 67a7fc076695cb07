"""A new workspace with one commented recipe."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from imagegate.errors import UsageError
from imagegate.recipe import RECIPE_NAME, parse_recipe

if TYPE_CHECKING:
    from pathlib import Path

_ASSET = """\
# What this model is served with; the file ends in the image as it is.
tensor-parallel-size: 1
"""


def new_workspace(root: Path, name: str) -> tuple[Path, ...]:
    """Write a workspace into a folder, or add a recipe to one, and nothing over anything.

    Args:
        root: the folder; made where it does not exist.
        name: the recipe's name.

    Returns:
        The files that were written.

    Raises:
        UsageError: the name is none, or taken.
    """
    if not RECIPE_NAME.fullmatch(name):
        raise UsageError(
            f"`{name}` is no name for a recipe",
            hint="use lower-case letters, digits, `.`, `_`, `-`",
        )
    if name == "bases":
        raise UsageError("`bases` is not a name for a recipe: `locks/bases` holds base locks")
    for taken in (root / "images" / name, root / "locks" / name):
        if taken.exists():
            raise UsageError(f"`{taken}` exists", hint="choose another name with `--name`")
    is_workspace = (root / "images").is_dir() and (root / "locks").is_dir()
    if not is_workspace and ((root / "images").exists() or (root / "locks").exists()):
        raise UsageError(
            f"`{root}` has a folder `images` or `locks` and is not a workspace",
            hint="choose another folder, or make the other of the two",
        )
    template = resources.files("imagegate.workspace") / "templates" / "image.toml"
    recipe = template.read_text(encoding="utf-8").format(name=name)
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
