"""Row 23: a recipe says nothing else of Python and glibc than its base shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from imagegate.catalog import no_facts
from imagegate.cli import run
from imagegate.errors import RecipeError
from imagegate.facts import ElfFile, Interpreter, SiteDirectory
from imagegate.oci.tar import Kind
from imagegate.recipe.fits import require_fit
from imagegate.rootfs import Node
from imagegate.rootfs.nodes import SortedIndex
from tests.recipe.test_values import RECIPE, parse
from tests.workspaces import built_workspace

# Debian 12: python3.11, glibc 2.36, `site` patched to `dist-packages`
FACTS = replace(
    no_facts(),
    interpreters=(
        Interpreter(path="usr/bin/python3.11", python="3.11"),
        Interpreter(path="usr/lib/python3.11/site.py", python="3.11", folder="dist-packages"),
    ),
    sites=(SiteDirectory(path="usr/lib/python3/dist-packages", python="3"),),
    elf=(
        ElfFile(
            path="usr/lib/aarch64-linux-gnu/libc.so.6",
            machine="aarch64",
            requires=(),
            provides=("GLIBC_2.36", "GLIBC_ABI_DT_RELR"),
            build_id="",
        ),
    ),
)
FILES = SortedIndex(
    [
        Node(path="usr", kind=Kind.DIRECTORY, mode=0o755),
        Node(path="usr/bin", kind=Kind.DIRECTORY, mode=0o755),
        Node(path="usr/bin/python3", kind=Kind.SYMLINK, mode=0o777, target="python3.11"),
        Node(path="usr/bin/python3.11", kind=Kind.FILE, mode=0o755, sha256="0" * 64),
    ]
)
RIGHT = {
    "version": "3.11",
    "site": "/usr/local/lib/python3.11/dist-packages",
    "interpreter": "/usr/bin/python3",
    "glibc": "2.36",
}


def recipe(**python: str) -> Any:
    return parse({**RECIPE, "python": {**RIGHT, **python}})


def test_a_recipe_that_says_what_the_base_has_fits() -> None:
    require_fit(recipe(), FACTS, FILES)
    require_fit(recipe(site="/usr/lib/python3/dist-packages"), FACTS, FILES)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("version", "3.12", "recipe=3.12 base=3.11 (/usr/bin/python3.11)"),
        ("glibc", "2.39", "recipe=2.39 base=2.36"),
        ("glibc", "2.31", "recipe=2.31 base=2.36"),
        (
            "interpreter",
            "/opt/venv/bin/python",
            "recipe=/opt/venv/bin/python base=/usr/bin/python3.11",
        ),
        ("site", "/usr/local/lib/python3.11/site-packages", "base=/usr/lib/python3/dist-packages,"),
        ("site", "/opt/packages", "recipe=/opt/packages base="),
    ],
)
def test_one_that_says_otherwise_is_refused_with_both_sides(
    key: str, value: str, said: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        require_fit(recipe(**{key: value}), FACTS, FILES)
    assert f"`python.{key}`: " in caught.value.message
    assert said in caught.value.message


def test_a_base_that_shows_nothing_contradicts_nothing() -> None:
    require_fit(recipe(version="3.13", glibc="2.41"), no_facts(), SortedIndex())


def test_locking_refuses_it_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = built_workspace(tmp_path)
    toml = built.root / "images/served/image.toml"
    toml.write_text(toml.read_text().replace('version = "3.12"', 'version = "3.11"'))
    before = {path: path.read_bytes() for path in built.root.rglob("*.json")}
    assert run(["lock", "served", "-w", str(built.root)]) == 2
    assert (
        "`python.version`: recipe=3.11 base=3.12 (/usr/bin/python3.12)" in capsys.readouterr().err
    )
    assert before == {path: path.read_bytes() for path in built.root.rglob("*.json")}
