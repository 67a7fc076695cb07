"""``coverage.toml``: what it may say, how it is refused, and what it lists."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import jsonschema
import pytest

from imagegate.asking.document import TABLE, CoverageToml, parse_coverage_toml
from imagegate.asking.positions import positions
from imagegate.asking.schema import schema_text
from imagegate.errors import CoverageError, UsageError
from imagegate.usecases.covering.entries import Overrides, builds_of, find_file, read_file, select
from imagegate.usecases.covering.wanted import Refused, Wanted, foreign_context

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = """
schema = 1

[defaults]
assets = "recipes/*"
builders = ["buildkit", "buildah"]
build_args = { CUDA = "12.8" }

[[build]]
name = "runtime"
dockerfile = ["docker/Dockerfile*", "Dockerfile"]
context = "."
target = ["runtime", "debug"]
platforms = ["linux/amd64", "linux/arm64"]
matrix = { PYTHON = ["3.11", "3.12"] }
build_args_complete = true
build_contexts = { assets = "recipes", base = "docker-image://alpine:3" }
assets = ["recipes/*", "models.json", "conf/{a,b}.yaml"]
expect = { "recipes/{model}" = "/opt/recipes/{model}", "models.json" = "/etc/", conf = "/etc/c" }
strict = true
run_keeps = ["/opt/recipes"]

[[bake]]
file = "docker-bake.hcl"
targets = ["default"]

[[compose]]
file = ["compose.yaml", "compose.override.yaml"]
services = ["api"]
"""

GIT_CONTEXT = (
    "the context is the git repository `https://example.org/x.git#main`, "
    "which the builder fetches by itself"
)
REFUSED = [
    ("schema = 2\n[[build]]\ndockerfile='D'\nassets='a'\n", 1, 1, "`schema`: should be 1"),
    ("[[build]]\ndockerfile='D'\n  asets='a'\n", 3, 3, "unknown key `asets`"),
    ("[[build]]\nassets='a'\n", 1, 1, "the key `dockerfile` is missing"),
    ("[[build]]\ndockerfile='D'\nassets=['a', 3]\n", 3, 14, "`build[0].assets[1]`"),
    ("[[build]]\ndockerfile='D'\nassets=[\n 'a',\n '../b']\n", 5, 2, "leads out of the context"),
    ("[[build]]\ndockerfile='D'\nassets='re[x'\n", 3, 1, "is not a valid glob"),
    ("[[build]]\ndockerfile='D'\nassets=[]\n", 3, 1, "at least 1 item"),
    ("[[build]]\ndockerfile='D'\nassets='a'\nbuilders='kaniko'\n", 4, 1, "no builder `kaniko`"),
    ("[[build]]\ndockerfile='D'\nassets='a'\nplatforms=['arm64']\n", 4, 12, "not a platform"),
    ("[[build]]\ndockerfile='D'\nassets='a'\nexpect={a='b'}\n", 4, 1, "not an absolute path"),
    ("[[build]]\ndockerfile='D'\nassets='a'\nbuild_args={N=1}\n", 4, 13, "valid string"),
    ("[[build]]\ndockerfile='D'\nassets='a'\nmatrix={N=[]}\n", 4, 9, "at least 1 item"),
    ("[[build]]\ndockerfile='D'\nassets='a'\nrun_keeps='x'\n", 4, 1, "not an absolute path"),
    ("[[build]]\ndockerfile='D'\n", 1, 1, "this `[[build]]` asks for nothing"),
    ("[defaults]\nassets='a'\n[[bake]]\n", 3, 1, "the key `file` is missing"),
    (
        "[[build]]\ndockerfile='D'\nassets='a'\n[[build]]\ndockerfile=1\nassets='a'",
        5,
        1,
        "build[1]",
    ),
    ("# ä\n'ä' = 1\n", 2, 1, "unknown key `ä`"),
    ("build = 3\n", 1, 1, "`build`"),
    ("x = \n", 1, 5, "not valid TOML"),
    ("[[build]\n", 1, 8, "not valid TOML"),
    ("x = [1,", 1, 8, "not valid TOML"),
]


@pytest.mark.parametrize(("text", "line", "column", "said"), REFUSED)
def test_what_nobody_understands_is_refused_where_it_stands(
    text: str, line: int, column: int, said: str
) -> None:
    with pytest.raises(CoverageError) as refused:
        parse_coverage_toml(text, "coverage.toml")
    message = refused.value.message
    assert f"line {line}, column {column}" in message
    assert said in message
    assert refused.value.exit_code == 2


def test_every_mistake_is_said_at_once() -> None:
    with pytest.raises(CoverageError) as refused:
        parse_coverage_toml("a=1\nb=2\n[[build]]\nc=3\n", "coverage.toml")
    assert len(refused.value.message.splitlines()) == 4


def test_a_file_that_names_nothing_is_refused() -> None:
    with pytest.raises(CoverageError, match="names nothing to judge"):
        parse_coverage_toml("schema = 1\n", "coverage.toml")


def test_a_table_of_pyproject_is_refused_at_its_own_line() -> None:
    text = "[project]\nname = 'x'\n[[tool.imagegate.coverage.build]]\ndockerfle = 'D'\n"
    with pytest.raises(CoverageError, match=r"line 4, column 1: unknown key `dockerfle`"):
        parse_coverage_toml(text, "pyproject.toml", TABLE)


def test_positions_follow_every_way_of_writing_a_key() -> None:
    found = positions(
        'a.b = 1\n"c d" = [1, {e = 2}]\n[t]\nx.y = 1\n[[m]]\nk = 1\n[[m]]\n k = 1\n[m.sub]\nq = 1\n'
    )
    assert found["a", "b"] == (1, 1)
    assert found["c d", 1, "e"] == (2, 14)
    assert found["t", "x", "y"] == (4, 1)
    assert found["m", 0, "k"] == (6, 1)
    assert found["m", 1, "k"] == (8, 2)
    assert found["m", 1, "sub", "q"] == (10, 1)


# -- the JSON schema


def test_the_shipped_schema_is_that_of_the_model() -> None:
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **CoverageToml.model_json_schema(by_alias=True),
    }
    assert json.loads(schema_text()) == made


def test_the_schema_takes_what_the_model_takes() -> None:
    jsonschema.validate(tomllib.loads(WHOLE), json.loads(schema_text()))
    parse_coverage_toml(WHOLE, "coverage.toml")


@pytest.mark.parametrize(
    "text",
    [
        "schema = 2\n",
        "[[build]]\nassets='a'\n",
        "[[build]]\ndockerfile='D'\nasets='a'\n",
        "[[build]]\ndockerfile=1\n",
        "[[build]]\ndockerfile=[]\n",
        "[[build]]\ndockerfile=''\n",
        "[[build]]\ndockerfile='D'\nbuild_args={N=1}\n",
        "[[build]]\ndockerfile='D'\nmatrix={N=[]}\n",
        "[[build]]\ndockerfile='D'\nstrict='yes'\n",
        "[[bake]]\ntargets=['a']\n",
        "[extra]\n",
    ],
)
def test_the_schema_refuses_what_the_model_refuses(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text), json.loads(schema_text()))
    with pytest.raises(CoverageError):
        parse_coverage_toml(text, "coverage.toml")


# -- what it lists


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def listed(
    root: Path, text: str, overrides: Overrides | None = None, **files: str
) -> list[Wanted | Refused]:
    write(root, {"coverage.toml": text, **files})
    place = root / "coverage.toml"
    return list(builds_of(read_file(place), place, {"PATH": "/nowhere"}, overrides))


def test_an_entry_is_every_dockerfile_target_platform_and_matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"docker/Dockerfile.cu": "", "docker/Dockerfile.cu.dockerignore": ""})
    builds = [one for one in listed(tmp_path, WHOLE, Dockerfile="") if isinstance(one, Wanted)]
    assert len(builds) == 2 * 2 * 2 * 2
    first = builds[0]
    assert str(first.dockerfile) == "docker/Dockerfile.cu"
    assert first.build_args == {"CUDA": "12.8", "PYTHON": "3.11"}
    assert first.args_complete
    assert first.foreign == {"base": "the image `alpine:3`"}
    assert list(first.build_contexts) == ["assets"]
    assert first.builders == ("buildkit", "buildah")
    assert first.strict
    assert first.variant == "runtime, target runtime, linux/amd64, PYTHON=3.11"
    assert len({one.variant + str(one.dockerfile) for one in builds}) == 16


def test_a_context_may_be_the_dockerfiles_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"a/Dockerfile": "", "b/c/Dockerfile": ""})
    text = "[[build]]\ndockerfile='**/Dockerfile'\ncontext='{folder}'\nassets='x'\n"
    builds = [one for one in listed(tmp_path, text) if isinstance(one, Wanted)]
    assert [str(one.context) for one in builds] == ["a", "b/c"]


def test_one_entry_that_cannot_be_made_out_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "[defaults]\nassets='x'\n[[build]]\ndockerfile='no/such'\n"
        "[[build]]\ndockerfile='Dockerfile'\ncontext='https://example.org/x.git#main'\n"
        "[[bake]]\nfile='docker-bake.hcl'\n[[compose]]\nfile='compose.yaml'\n"
        "[[build]]\ndockerfile='Dockerfile'\n"
    )
    told = [
        (one.error.message, one.error.exit_code)
        if isinstance(one, Refused)
        else str(one.dockerfile)
        for one in listed(tmp_path, text, Dockerfile="")
    ]
    assert told == [
        ("no Dockerfile matches `no/such`", 2),
        (
            GIT_CONTEXT,
            2,
        ),
        "Dockerfile",
        ("bake files are read by `docker buildx`, which is not installed here", 3),
        ("compose files are read by `docker compose`, which is not installed here", 3),
    ]


def test_the_command_line_overrules_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "[[build]]\ndockerfile='Dockerfile'\nassets='x'\n"
    over = Overrides(builders=("classic",), platforms=("linux/s390x",), strict=True)
    (one,) = listed(tmp_path, text, over, Dockerfile="")
    assert isinstance(one, Wanted)
    assert (one.builders, one.platform, one.strict) == (("classic",), "linux/s390x", True)


def test_builds_are_picked_by_name_or_dockerfile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "[defaults]\nassets='x'\n[[build]]\nname='one'\ndockerfile='Dockerfile'\n"
        "[[build]]\ndockerfile='other/Dockerfile'\n"
    )
    write(tmp_path, {"other/Dockerfile": ""})
    builds = tuple(listed(tmp_path, text, Dockerfile=""))
    assert select(builds, ("one",)) == (builds[0],)
    assert select(builds, ("other/Dockerfile",)) == (builds[1],)
    assert select(builds, ()) == builds
    with pytest.raises(UsageError, match="no build is called `two`"):
        select(builds, ("two",))


def test_the_file_is_found_upwards_and_only_one_counts(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    write(tmp_path, {"pyproject.toml": "[tool.imagegate.coverage]\n"})
    assert find_file(tmp_path / "a/b") == tmp_path / "pyproject.toml"
    write(tmp_path, {"a/pyproject.toml": "[tool.ruff]\n"})
    assert find_file(tmp_path / "a/b") == tmp_path / "pyproject.toml"
    write(tmp_path, {"a/coverage.toml": ""})
    assert find_file(tmp_path / "a/b") == tmp_path / "a/coverage.toml"
    write(tmp_path, {"coverage.toml": ""})
    with pytest.raises(CoverageError, match="both say what to judge"):
        find_file(tmp_path)


@pytest.mark.parametrize(
    ("value", "title"),
    [
        ("docker-image://alpine:3.20", "the image `alpine:3.20`"),
        ("oci-layout:///srv/layout:tag", "the OCI layout `/srv/layout:tag`"),
        (
            "https://github.com/a/b.git#main:dir",
            "the git repository `https://github.com/a/b.git#main:dir`",
        ),
        ("git@github.com:a/b.git", "the git repository `git@github.com:a/b.git`"),
        ("ssh://git@host/a", "the git repository `ssh://git@host/a`"),
        ("github.com/a/b", "the git repository `github.com/a/b`"),
        ("https://host/context.tar.gz", "the archive `https://host/context.tar.gz` from the web"),
        ("target:base", "what the bake target `base` builds"),
        ("-", "an archive on standard input"),
        ("recipes", None),
        ("./a:b", None),
        ("../x", None),
        ("/abs/x.git", None),
    ],
)
def test_a_context_that_is_no_folder_is_named_as_what_it_is(value: str, title: str | None) -> None:
    assert foreign_context(value) == title
