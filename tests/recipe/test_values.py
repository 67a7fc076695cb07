"""No value of a recipe begins a second instruction, word or line where it ends up."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import tomlkit
from hypothesis import given, settings, strategies as st

from imagegate.coverage.reading.dockerfile import parse_dockerfile
from imagegate.engines.container.dockerfile import Dialect, render_dockerfile
from imagegate.errors import RecipeError
from imagegate.recipe import Recipe, parse_recipe
from imagegate.workspace import Workspace
from tests.world import World

DIALECTS = (
    Dialect(mounts=True, epoch=True, removes_mount_point=False),
    Dialect(mounts=True, epoch=False, removes_mount_point=True),
    Dialect(mounts=False, epoch=False, removes_mount_point=False),
)
RECIPE: dict[str, Any] = {
    "schema": 1,
    "platform": "linux/arm64",
    "repository": "registry.example/team/served",
    "base": {"image": f"registry.example/team/base@sha256:{'0' * 64}"},
    "python": {
        "version": "3.12",
        "site": "/usr/lib/python3/dist-packages",
        "scripts": "/usr/local/bin",
        "interpreter": "/usr/bin/python3",
        "glibc": "2.39",
    },
    "layer": {"links": [{"path": "/usr/local/a", "target": "b"}]},
    "assets": {"models": ["alpha", "beta"], "target": "/usr/share/{model}"},
    "config": {
        "env": {"NAME": "value"},
        "labels": {"org.example.name": "value"},
        "user": "app",
        "working_dir": "/srv",
        "ports": ["8000/tcp"],
        "volumes": ["/cache"],
        "stop_signal": "SIGINT",
        "entrypoint": ["serve"],
        "cmd": ["--port", "8000"],
    },
}
# where a string of the recipe is written into the Dockerfile; a key is named by `key of`
PLACES = (
    *("repository", "base.image", "python.site", "python.scripts", "python.interpreter"),
    *("python.version", "python.glibc", "layer.links.0.path", "layer.links.0.target"),
    *("assets.models.0", "assets.target", "config.user", "config.working_dir", "config.ports.0"),
    *("config.volumes.0", "config.stop_signal", "key of config.env.NAME"),
    "key of config.labels.org.example.name",
)
BAD = {
    "line feed": "\n",
    "carriage return": "\r",
    "NUL": "\0",
    "blank": " ",
    "tab": "\t",
    "vertical tab": "\v",
    "form feed": "\f",
    "escape": "\x1b",
    "next line": "\x85",
    "no-break space": "\xa0",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "zero width space": "\u200b",
    "right-to-left override": "\u202e",
    "continuation": "\\",
    "variable": "$X",
    "quote": '"',
    "apostrophe": "'",
    "comment": "#",
    "command": ";",
    "substitution": "`id`",
}
# what may not even stand in a value that is quoted
LINES = ("line feed", "carriage return", "NUL", "escape", "next line", "line separator")


def _path(place: str) -> list[str]:
    place = place.removeprefix("key of ")
    if place.startswith("config.labels."):
        return ["config", "labels", place.removeprefix("config.labels.")]
    return place.split(".")


def changed(place: str, change: Any) -> dict[str, Any]:
    """The recipe with one of its strings changed."""
    document: Any = copy.deepcopy(RECIPE)
    *parents, last = _path(place)
    at = document
    for part in parents:
        at = at[int(part)] if isinstance(at, list) else at[part]
    key: Any = int(last) if isinstance(at, list) else last
    if place.startswith("key of "):
        at[change(key)] = at.pop(key)
    else:
        at[key] = change(at[key])
    assert isinstance(document, dict)
    return document


def parse(document: dict[str, Any]) -> Recipe:
    return parse_recipe("served", tomlkit.dumps(document), "image.toml")


def test_the_recipe_of_these_tests_is_one() -> None:
    assert parse(RECIPE).name == "served"


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("where", ["inside", "at the end", "at the beginning"])
def test_nothing_that_a_dockerfile_reads_otherwise_gets_into_a_recipe(
    place: str, bad: str, where: str
) -> None:
    character = BAD[bad]

    def spoil(text: str) -> str:
        at = {"inside": max(len(text) // 2, 1), "at the end": len(text), "at the beginning": 0}
        return text[: at[where]] + character + text[at[where] :]

    with pytest.raises(RecipeError):
        parse(changed(place, spoil))


@pytest.mark.parametrize("bad", LINES)
@pytest.mark.parametrize("place", ["config.env.NAME", "config.labels.org.example.name"])
def test_a_quoted_value_is_one_printable_line(place: str, bad: str) -> None:
    with pytest.raises(RecipeError, match="does not print"):
        parse(changed(place, lambda text: text + BAD[bad] + "RUN id"))


@pytest.mark.parametrize("place", ["config.entrypoint.0", "config.cmd.1"])
def test_no_word_of_a_command_holds_a_nul(place: str) -> None:
    with pytest.raises(RecipeError, match="NUL"):
        parse(changed(place, lambda text: text + "\0"))


@pytest.mark.parametrize("name", ["two\nlines", "../up", "a b", "A", ""])
def test_a_recipe_is_named_as_a_repository_can_be(name: str) -> None:
    with pytest.raises(RecipeError, match="cannot be a recipe's name"):
        parse_recipe(name, tomlkit.dumps(RECIPE), "image.toml")


def test_a_path_that_leads_up_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"without `\.` and `\.\.`"):
        parse(changed("config.working_dir", lambda text: f"{text}/../x"))


# every word that a recipe takes, however strange, is one word of one instruction
STRANGE = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"]) | st.sampled_from("\n\r\0\\\"'$ #`{}"),
    min_size=1,
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(
    place=st.sampled_from(
        (*PLACES, "config.env.NAME", "config.labels.org.example.name", "config.entrypoint.0")
    ),
    text=STRANGE,
    dialect=st.sampled_from(DIALECTS),
)
def test_a_rendered_dockerfile_has_the_instructions_of_the_recipe_and_no_more(
    built_once: World, place: str, text: str, dialect: Dialect
) -> None:
    lock = Workspace(built_once.root).lock("demo")

    def instructions(document: dict[str, Any]) -> list[str]:
        rendered = render_dockerfile(
            parse(document), lock, dialect, template=None, where="Dockerfile.j2"
        )
        parsed = parse_dockerfile(rendered.encode(), "Dockerfile")
        return [instruction.name for instruction in parsed.instructions]

    document = changed(place, lambda old: old + text)
    try:
        parse(document)
    except RecipeError:
        return
    assert instructions(document) == instructions(RECIPE)


def test_a_word_of_a_command_keeps_its_line_breaks(built_once: World) -> None:
    lock = Workspace(built_once.root).lock("demo")
    script = "set -e\nexec serve \u2028"
    document = changed("config.cmd.1", lambda _: script)
    rendered = render_dockerfile(
        parse(document), lock, DIALECTS[0], template=None, where="Dockerfile.j2"
    )
    (line,) = [line for line in rendered.splitlines() if line.startswith("CMD ")]
    assert json.loads(line.removeprefix("CMD ")) == ["--port", script]


def test_the_bases_digest_stands_where_the_recipe_asks_for_it(built_once: World) -> None:
    lock = Workspace(built_once.root).lock("demo")
    document = changed("config.labels.org.example.name", lambda _: "built on {base}")
    recipe = parse(document)
    assert recipe.labels_over(lock.base.digest) == {
        "org.example.name": f"built on {lock.base.digest}"
    }
    rendered = render_dockerfile(recipe, lock, DIALECTS[0], template=None, where="Dockerfile.j2")
    assert f'LABEL "org.example.name"="built on {lock.base.digest}"' in rendered


def test_an_image_from_scratch_has_no_base_to_name() -> None:
    document = changed("config.env.NAME", lambda _: "{base}")
    document["base"] = {"scratch": True}
    with pytest.raises(RecipeError, match="starts from scratch"):
        parse(document)
