"""What one can ask for: files, globs, ``**``, braces, the root, and where they have to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from imagegate.asking.patterns import expand_braces, parse_expectation, parse_pattern
from imagegate.errors import UsageError
from imagegate.usecases.covering.assets import find_assets, heads
from imagegate.usecases.covering.contexts import read_context

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def context(tmp_path: Path) -> Path:
    for path in (
        "models.json",
        "recipes/README.md",
        "recipes/kimi/t.jinja",
        "recipes/kimi/conf/a.json",
        "recipes/qwen/t.jinja",
        "examples/a.jinja",
        "examples/b.jinja",
        "examples/c.py",
        "deep/x/y/t.jinja",
    ):
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(path)
    return tmp_path


def asked(context: Path, *patterns: str, expects: tuple[str, ...] = ()) -> list[str]:
    found = find_assets(patterns, expects, read_context(context), None)
    return [
        f"{asset.path} -> {asset.expected}" if expects else asset.path for asset in found.assets
    ]


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("models.json", ["models.json"]),
        ("/models.json", ["models.json"]),
        ("./models.json", ["models.json"]),
        ("examples/*.jinja", ["examples/a.jinja", "examples/b.jinja"]),
        ("examples/[!a].jinja", ["examples/b.jinja"]),
        ("examples/{a,c}.*", ["examples/a.jinja", "examples/c.py"]),
        ("recipes/kimi", ["recipes/kimi/conf/a.json", "recipes/kimi/t.jinja"]),
        ("recipes/kimi/**", ["recipes/kimi/conf/a.json", "recipes/kimi/t.jinja"]),
        (
            "recipes/*",
            ["recipes/kimi/conf/a.json", "recipes/kimi/t.jinja", "recipes/qwen/t.jinja"],
        ),
        (
            "recipes/**",
            [
                "recipes/README.md",
                "recipes/kimi/conf/a.json",
                "recipes/kimi/t.jinja",
                "recipes/qwen/t.jinja",
            ],
        ),
        (
            "**/t.jinja",
            ["deep/x/y/t.jinja", "recipes/kimi/t.jinja", "recipes/qwen/t.jinja"],
        ),
        ("recipes/*/t.jinja", ["recipes/kimi/t.jinja", "recipes/qwen/t.jinja"]),
        ("deep/**/y", ["deep/x/y/t.jinja"]),
    ],
)
def test_a_pattern_names_files_and_folders(context: Path, pattern: str, paths: list[str]) -> None:
    assert asked(context, pattern) == paths


@pytest.mark.parametrize("root", [".", "./", "/", "**"])
def test_the_root_is_everything(context: Path, root: str) -> None:
    assert len(asked(context, root)) == 9


def test_what_stands_beside_recipes_is_said(context: Path) -> None:
    found = find_assets(("recipes/*",), (), read_context(context), None)
    (note,) = found.notes
    assert note == (
        "`recipes/*` names 2 folders; the files beside them are not judged: `recipes/README.md` "
        "(ask for them by their own pattern)"
    )


def test_a_file_that_two_patterns_name_is_one_asset(context: Path) -> None:
    assert asked(context, "recipes/kimi", "**/t.jinja").count("recipes/kimi/t.jinja") == 1


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("recipies/*", "no recipe matches `recipies/*`"),
        ("model.json", "no recipe matches `model.json`"),
        ("models.json/", "no recipe matches `models.json/`"),
        ("../models.json", "leads out of the context"),
        ("recipes/[k", "is not a valid glob"),
        ("", "an empty pattern"),
        ("{a,b}" * 12, "more than 1000 patterns"),
    ],
)
def test_a_pattern_that_names_nothing_is_refused(context: Path, pattern: str, message: str) -> None:
    with pytest.raises(UsageError, match=r".") as refused:
        asked(context, pattern)
    assert message in refused.value.message


def test_braces_stand_for_alternatives_as_in_bash() -> None:
    # each row is what bash 5.2 prints for `printf '%s\n' WORD`
    assert expand_braces("a{b,c}d") == ("abd", "acd")
    assert expand_braces("{a,b{1,2}}x") == ("ax", "b1x", "b2x")
    assert expand_braces("x{,.bak}") == ("x", "x.bak")
    assert expand_braces("{a}") == ("{a}",)
    assert expand_braces("a{b") == ("a{b",)


@pytest.mark.parametrize(
    ("expectation", "path", "goal"),
    [
        ("recipes/{model}=/opt/r/{model}", "recipes/kimi/t.jinja", "/opt/r/kimi/t.jinja"),
        ("recipes/{model}=/opt/r/{model}/", "recipes/kimi/t.jinja", "/opt/r/kimi/t.jinja"),
        ("recipes=/opt/r", "recipes/kimi/t.jinja", "/opt/r/kimi/t.jinja"),
        ("recipes/**=/opt/r", "recipes/kimi/t.jinja", "/opt/r/kimi/t.jinja"),
        ("recipes/*=/opt/r", "recipes/kimi/t.jinja", "/opt/r/kimi/t.jinja"),
        ("models.json=/etc/models.json", "models.json", "/etc/models.json"),
        ("models.json=/etc/", "models.json", "/etc/models.json"),
        ("examples/*.jinja=/opt/t", "examples/a.jinja", "/opt/t/a.jinja"),
        ("examples/{name}.jinja=/t/{name}/chat", "examples/a.jinja", "/t/a/chat"),
        ("{kind}/{kind}.json=/x/{kind}", "a/a.json", "/x/a"),
        ("{kind}/{kind}.json=/x/{kind}", "a/b.json", None),
        (".=/app", "recipes/kimi/t.jinja", "/app/recipes/kimi/t.jinja"),
        ("conf/{a,b}=/etc/c", "conf/b/x", "/etc/c/b/x"),
        ("recipes/{model}=/opt/r/{model}", "models.json", None),
    ],
)
def test_an_expectation_says_where_something_ends(
    expectation: str, path: str, goal: str | None
) -> None:
    goals = [place.place(path) for place in parse_expectation(expectation)]
    assert [found for found in goals if found] == ([goal] if goal else [])


@pytest.mark.parametrize(
    ("expectation", "message"),
    [
        ("recipes", "is not of the form `SRC=DST`"),
        ("=/x", "is not of the form `SRC=DST`"),
        ("recipes=opt", "is not an absolute path"),
        ("recipes/{model}=/opt/{name}", "`{name}` is not on the left side"),
        ("../x=/y", "leads out of the context"),
    ],
)
def test_an_expectation_that_says_nothing_is_refused(expectation: str, message: str) -> None:
    with pytest.raises(UsageError, match=r".") as refused:
        parse_expectation(expectation)
    assert message in refused.value.message


def test_expectations_reach_every_asset_or_are_refused(context: Path) -> None:
    assert asked(
        context, "examples/*.jinja", "models.json", expects=("examples=/t", "models.json=/m")
    ) == ["examples/a.jinja -> /t/a.jinja", "examples/b.jinja -> /t/b.jinja", "models.json -> /m"]
    with pytest.raises(UsageError, match=r"no expectation for `models\.json`"):
        asked(context, "examples/*.jinja", "models.json", expects=("examples=/t",))
    with pytest.raises(UsageError, match="speaks of no asset"):
        asked(context, "models.json", expects=("models.json=/m", "exmaples=/t"))


def test_what_is_excluded_is_not_asked_for(context: Path) -> None:
    opened = read_context(context)
    found = find_assets(("recipes/*",), (), opened, None, exclude=("recipes/qwen", "**/*.json"))
    assert [asset.path for asset in found.assets] == ["recipes/kimi/t.jinja"]
    with pytest.raises(UsageError, match="`recipes/qwem` excludes no asset"):
        find_assets(("recipes/*",), (), opened, None, exclude=("recipes/qwem",))
    with pytest.raises(UsageError, match="everything that is asked for is excluded"):
        find_assets(("recipes/*",), (), opened, None, exclude=("recipes",))


def test_only_folders_that_a_pattern_can_reach_are_read(context: Path) -> None:
    opened = read_context(context)
    find_assets(("recipes/*",), (), opened, None)
    entered = [name for name, node in opened.root.children.items() if was_read(node)]
    assert entered == ["recipes"]


def was_read(node: object) -> bool:
    try:
        object.__getattribute__(node, "children")
    except AttributeError:
        return False
    return bool(object.__getattribute__(node, "children"))


def test_heads_are_what_git_is_asked_about() -> None:
    assert heads(("recipes/*", "models.json", "a/b/**", "conf/{x,y}/*.json")) == (
        "recipes",
        "",
        "a/b",
        "conf/x",
        "conf/y",
    )
    assert parse_pattern("a/b.json")[0].head == "a"
