"""A document that is not TOML is shown where it is not (TOML 1.0.0)."""

from __future__ import annotations

import tomllib

import pytest

from imagegate.errors import RecipeError
from imagegate.recipe import parse_recipe
from imagegate.recipe.tomltext import describe


@pytest.mark.parametrize(
    ("text", "where", "line"),
    [
        ("a = 1\n[base\nimage = 2\n", "(at line 2, column 6)", "`[base`"),
        ("a = 1\n  b 2\n", "(at line 2, column 5)", "`b 2`"),
        ("a = [1,", "(at line 1, column 8)", "`a = [1,`"),
        ("a = 1\na = 2\n", "(at line 2, column 6)", "`a = 2`"),
    ],
)
def test_line_column_and_the_line_itself_are_said(text: str, where: str, line: str) -> None:
    with pytest.raises(tomllib.TOMLDecodeError) as raised:
        tomllib.loads(text)
    said = describe(raised.value, text)
    assert said.endswith(f"{where}: {line}")
    with pytest.raises(RecipeError) as refused:
        parse_recipe("demo", text, "images/demo/image.toml")
    assert said in str(refused.value)


def test_an_end_that_says_nothing_shows_no_line() -> None:
    text = 'a = """\n'
    with pytest.raises(tomllib.TOMLDecodeError) as raised:
        tomllib.loads(text)
    assert describe(raised.value, text).endswith("(at line 2, column 1)")
