"""A project that a RUN installs takes along what the rules of its build backend pack.

The projects and the place of each file in the wheel are those of ``data/wheels.json``: wheels
that ``pip wheel`` really built.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from imagegate.coverage.building.build import Build, FilteredContext
from imagegate.coverage.building.profiles import BUILDKIT
from imagegate.coverage.outcome import Asset, AssetVerdict, Outcome, Standing
from imagegate.coverage.reading.dockerfile import parse_dockerfile
from imagegate.coverage.tree import Context, build_tree, file
from imagegate.coverage.verdict import judge

MEASURED: dict[str, dict[str, dict[str, str | None]]] = json.loads(
    (Path(__file__).parent / "data/wheels.json").read_text()
)
SITE = "/usr/lib/python3/dist-packages"
CASES = [
    (title, path, place)
    for title, row in sorted(MEASURED.items())
    for path, place in row["wheel"].items()
    if (title, path) != ("poetry packages", "tests/t.json")
]
INSTALLED = "FROM img\nWORKDIR /app\nCOPY . .\nRUN pip install .\n"
WHEEL = (
    "FROM img AS build\nCOPY . /src\nRUN pip wheel -w /dist /src\n"
    "FROM img\nCOPY --from=build /dist /dist\nRUN pip install /dist/*.whl\n"
)


def verdict_of(text: str, title: str, path: str, expected: str | None) -> AssetVerdict:
    files = {name: (held or "").encode() for name, held in MEASURED[title]["files"].items()}
    root = build_tree({name: file(size=len(held)) for name, held in files.items()})
    build = Build(
        dockerfile=parse_dockerfile(text.encode(), "Dockerfile"),
        builder=BUILDKIT,
        main=FilteredContext(context=Context(root=root, open=lambda at: io.BytesIO(files[at]))),
        args_complete=False,
    )
    asset = Asset(model="x", path=path, folder=path.rpartition("/")[0], expected=expected)
    (verdict,) = judge(build, [asset]).verdicts
    return verdict


@pytest.mark.parametrize("text", [INSTALLED, WHEEL], ids=["installed", "wheel of a stage"])
@pytest.mark.parametrize(("title", "path", "place"), CASES)
def test_the_verdict_is_what_the_wheel_holds(
    text: str, title: str, path: str, place: str | None
) -> None:
    found = verdict_of(text, title, path, f"{SITE}/{place or path}")
    if place is None:
        assert (found.outcome, found.standing) == (Outcome.NOT_COPIED, Standing.MISSING)
        assert "the package leaves it out" in found.reason
    else:
        assert (found.outcome, found.standing) == (Outcome.PACKAGED, Standing.NOTED)
        assert f"at `{place}`" in found.reason
        moved = verdict_of(text, title, path, f"{SITE}/elsewhere/{place}")
        assert moved.outcome is Outcome.ELSEWHERE


@pytest.mark.parametrize(
    "run",
    [
        "RUN pip install -e .",
        "RUN uv sync",
        "RUN poetry install",
        "RUN sed -i s/a/b/ pyproject.toml setup.py setup.cfg && pip install .",
        "RUN ./prepare.sh && pip install .",
    ],
)
def test_a_project_that_is_not_packed_as_it_stands_is_left_to_the_image(run: str) -> None:
    title, path, _ = next(case for case in CASES if case[2] is None)
    text = f"FROM img\nWORKDIR /app\nCOPY . .\n{run}\n"
    assert "leaves it out" not in verdict_of(text, title, path, f"{SITE}/{path}").reason
