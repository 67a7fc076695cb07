"""Every rendered Dockerfile, ignore file and text report, as a person would see it."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from imagegate.engines.container.context import stage_context
from imagegate.engines.container.dockerfile import (
    Dialect,
    render_dockerfile,
    render_ignore_file,
)
from imagegate.errors import RecipeError
from imagegate.lock import Lock
from imagegate.recipe import Recipe, parse_recipe
from imagegate.report.text import render_text
from imagegate.usecases.build import fetch_wheels
from imagegate.usecases.gate import judge
from imagegate.usecases.ports import Silent
from imagegate.usecases.verify import open_judged
from imagegate.workspace import Workspace
from tests.calls import calling
from tests.judging import COMPOSED
from tests.world import World

ROOT = Path(__file__).parents[2]
DIALECTS = {
    "BuildKit": Dialect(mounts=True, epoch=True, removes_mount_point=False),
    "podman": Dialect(mounts=True, epoch=False, removes_mount_point=True),
    "classic": Dialect(mounts=False, epoch=False, removes_mount_point=False),
}
CONFIGURED = """
[config]
labels = { "org.example.text" = 'a "quoted" $value \\ here' }
entrypoint = ["vllm", "serve"]
user = "1000:1000"
working_dir = "/srv"

[config.env]
TEXT = 'with "quotes", $dollar and \\backslash'
"""


@pytest.fixture
def workspace(built_once: World) -> Workspace:
    return Workspace(built_once.root)


def recipe(workspace: Workspace, more: str = "") -> Recipe:
    text = workspace.recipe_path("demo").read_text() + more
    return parse_recipe("demo", text, "images/demo/image.toml")


def with_user(lock: Lock, user: str) -> Lock:
    assert lock.config_bytes is not None
    document = json.loads(lock.config_bytes)
    document["config"] |= {"User": user, "Cmd": ["python3"]}
    return replace(lock, config_bytes=json.dumps(document).encode())


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("more", ["", CONFIGURED], ids=["plain", "configured"])
def test_packaged_dockerfile(
    workspace: Workspace, dialect: str, more: str, snapshot: SnapshotAssertion
) -> None:
    rendered = render_dockerfile(
        recipe(workspace, more),
        workspace.lock("demo"),
        DIALECTS[dialect],
        template=None,
        where="Dockerfile.j2",
    )

    assert rendered == snapshot


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dockerfile_of_the_shipped_recipe(dialect: str, snapshot: SnapshotAssertion) -> None:
    shipped = Workspace(ROOT)

    rendered = render_dockerfile(
        shipped.recipe("glm"),
        shipped.lock("glm"),
        DIALECTS[dialect],
        template=None,
        where="Dockerfile.j2",
    )

    assert rendered == snapshot


@pytest.mark.parametrize("own", [False, True], ids=["packaged", "own"])
def test_what_a_builder_gets(world: World, own: bool, snapshot: SnapshotAssertion) -> None:
    """Every file of the context, and the Dockerfile and ignore file that stand in it."""
    workspace = Workspace(world.root)
    state, lock = workspace.state("demo"), workspace.lock("demo")
    images = world.root / "images/demo"
    if own:
        (images / "Dockerfile.j2").write_text('{% include "Dockerfile.j2" %}\nRUN ldconfig\n')
        (images / "Dockerfile.dockerignore").write_text("**\n!recipes/\n*.md\n")
    wheels = fetch_wheels(
        calling(workspace, cache=Path(os.environ["IMAGEGATE_CACHE"])), state, lock
    )
    folder = world.root.parent / "context"
    folder.mkdir()

    context = stage_context(
        folder, state.recipe, lock, wheels, images=images, dialect=DIALECTS["BuildKit"]
    )

    assert {
        "files": sorted(
            f"{path.stat().st_mode & 0o777:o} {path.relative_to(folder)}"
            for path in folder.rglob("*")
            if path.is_file()
        ),
        "Dockerfile": context.dockerfile.read_text(),
        ".dockerignore": (folder / ".dockerignore").read_text(),
        "Dockerfile.dockerignore": (folder / "Dockerfile.dockerignore").read_text(),
    } == snapshot


def test_a_base_with_a_user_gets_it_back(workspace: Workspace, snapshot: SnapshotAssertion) -> None:
    lock = with_user(workspace.lock("demo"), "app")

    rendered = render_dockerfile(
        recipe(workspace), lock, DIALECTS["BuildKit"], template=None, where="Dockerfile.j2"
    )

    assert rendered == snapshot


def test_an_entrypoint_keeps_the_bases_command_as_composing_does(workspace: Workspace) -> None:
    """Dockerfile reference, CMD: setting ENTRYPOINT resets a base's CMD to an empty value."""
    lock = with_user(workspace.lock("demo"), "")

    rendered = render_dockerfile(
        recipe(workspace, CONFIGURED),
        lock,
        DIALECTS["BuildKit"],
        template=None,
        where="Dockerfile.j2",
    )

    assert 'CMD ["python3"]' in rendered.splitlines()


def test_wheels_never_come_from_an_index(workspace: Workspace) -> None:
    for dialect in DIALECTS.values():
        rendered = render_dockerfile(
            recipe(workspace),
            workspace.lock("demo"),
            dialect,
            template=None,
            where="Dockerfile.j2",
        )
        assert '"--no-index", "--no-deps", "--require-hashes", "--no-compile"' in rendered
        assert "pip install" not in rendered, "nothing installs beside that command"


def test_the_base_is_named_by_digest_without_its_tag(workspace: Workspace, world: World) -> None:
    path = world.root / "images/demo/image.toml"
    path.write_text(path.read_text().replace("localhost/base@", "localhost/base:stable@"))
    tagged = parse_recipe("demo", path.read_text(), "image.toml")

    rendered = render_dockerfile(
        tagged,
        workspace.lock("demo"),
        DIALECTS["BuildKit"],
        template=None,
        where="Dockerfile.j2",
    )

    assert f"FROM localhost/base@{world.base.digest}" in rendered.splitlines()


def test_a_template_that_uses_what_is_not_there_is_refused(workspace: Workspace) -> None:
    with pytest.raises(RecipeError, match="'wheelhuose' is undefined"):
        render_dockerfile(
            recipe(workspace),
            workspace.lock("demo"),
            DIALECTS["BuildKit"],
            template="FROM {{ base }}\nCOPY {{ wheelhuose }} /\n",
            where="images/demo/Dockerfile.j2",
        )


def test_a_broken_template_is_named_with_its_line(workspace: Workspace) -> None:
    with pytest.raises(RecipeError, match=r"`images/demo/Dockerfile\.j2` line 2"):
        render_dockerfile(
            recipe(workspace),
            workspace.lock("demo"),
            DIALECTS["BuildKit"],
            template="FROM {{ base }}\n{% if %}\n",
            where="images/demo/Dockerfile.j2",
        )


@pytest.mark.parametrize("value", ["two\\nlines", "bell\\u0007"])
def test_what_no_dockerfile_can_say_is_refused(workspace: Workspace, value: str) -> None:
    with pytest.raises(RecipeError, match="line break or another character that does not print"):
        render_dockerfile(
            recipe(workspace, f'\n[config.env]\nTEXT = "{value}"\n'),
            workspace.lock("demo"),
            DIALECTS["BuildKit"],
            template=None,
            where="Dockerfile.j2",
        )


def test_ignore_file(workspace: Workspace, snapshot: SnapshotAssertion) -> None:
    assets = [asset.source for asset in workspace.lock("demo").assets]

    rendered = render_ignore_file([*assets, "recipes/a[1]/deep er/b*.json", "recipes/c\\d?"])

    assert rendered == snapshot


@pytest.mark.parametrize("path", ["recipes/a ", " recipes/a", "recipes/a\nb"])
def test_a_name_that_no_ignore_file_can_hold_is_refused(path: str) -> None:
    with pytest.raises(RecipeError, match="cannot be named in an ignore file"):
        render_ignore_file([path])


def without_digests(report: str) -> str:
    """The report's form: what the lock's and the layers' bytes hash to is other tests' to hold."""
    return re.sub(r"\b[0-9a-f]{64}\b", "<64 hex digits>", report)


@pytest.mark.parametrize("details", [False, True], ids=["short", "details"])
def test_report_of_a_passing_image(
    workspace: Workspace, details: bool, snapshot: SnapshotAssertion
) -> None:
    state = workspace.state("demo")
    source = open_judged(calling(workspace), state, None)
    verdict, _ = judge(
        state, workspace.lock("demo"), source, Silent(), copying=COMPOSED, today=date(2026, 11, 29)
    )

    assert without_digests(render_text(verdict, details=details)) == snapshot


def test_report_of_a_failing_image(world: World, snapshot: SnapshotAssertion) -> None:
    (world.root / "images/demo/recipes/alpha/template.jinja").write_text("changed after locking")
    workspace = Workspace(world.root)
    state = workspace.state("demo")
    source = open_judged(calling(workspace), state, None)
    verdict, _ = judge(
        state, workspace.lock("demo"), source, Silent(), copying=COMPOSED, today=date(2026, 11, 29)
    )

    assert without_digests(render_text(verdict)) == snapshot
