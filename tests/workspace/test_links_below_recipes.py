"""Row 17: what is linked below `recipes/` is refused with its name, whatever kind it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from imagegate.errors import RecipeError
from imagegate.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

_RECIPE = """
schema = 1
platform = "linux/arm64"
repository = "registry.example/x"
[base]
scratch = true
[python]
version = "3.12"
site = "/usr/lib/python3/dist-packages"
interpreter = "/usr/bin/python3"
glibc = "2.39"
[assets]
models = ["alpha"]
target = "/srv/{model}"
"""


def workspace(root: Path) -> Workspace:
    (root / "locks").mkdir()
    folder = root / "images" / "demo" / "recipes" / "alpha"
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text("a: 1\n")
    (root / "images" / "demo" / "image.toml").write_text(_RECIPE)
    return Workspace(root)


@pytest.mark.parametrize(
    ("link", "to"),
    [
        ("recipes/alpha/more", "../shared"),
        ("recipes/alpha/b.yaml", "a.yaml"),
        ("recipes/alpha/gone", "nowhere"),
        ("recipes/alpha", "/etc"),
        ("recipes", "../../elsewhere"),
    ],
)
def test_a_link_is_refused_with_its_name(tmp_path: Path, link: str, to: str) -> None:
    found = workspace(tmp_path)
    path = tmp_path / "images" / "demo" / link
    if path.exists() and not path.is_symlink():
        path.rename(tmp_path / "elsewhere")
    path.symlink_to(to if not (tmp_path / "elsewhere").exists() else tmp_path / "elsewhere")
    with pytest.raises(RecipeError, match=f"images/demo/{link}` is a link to"):
        found.state("demo")
