"""``imagegate coverage`` on a repository: the file, the discovery, standard input, bake, compose."""

from __future__ import annotations

import io
import json
import stat
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from imagegate.cli.coverage import command
from imagegate.errors import ImagegateError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def run(*arguments: str) -> Outcome:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = command.main(list(arguments), standalone_mode=False) or 0
        except ImagegateError as failed:
            code = failed.exit_code
            err.write(f"{failed.message}\n{failed.hint or ''}")
    return Outcome(int(code), out.getvalue(), err.getvalue())


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two images of one repository: one forgets a recipe, one has them all."""
    write(
        tmp_path,
        {
            "recipes/llama/template.jinja": "l",
            "recipes/qwen/template.jinja": "q",
            "recipes/kimi/template.jinja": "k",
            "models.json": "{}",
            "docker/Dockerfile.some": (
                "FROM scratch\nCOPY recipes/llama /r/llama\nCOPY recipes/qwen /r/qwen\n"
            ),
            "docker/Dockerfile.all": "FROM scratch\nCOPY recipes /r/\nCOPY models.json /etc/\n",
            "coverage.toml": (
                'schema = 1\n[defaults]\nassets = "recipes/*"\n'
                '[[build]]\nname = "some"\ndockerfile = "docker/Dockerfile.some"\n'
                '[[build]]\ndockerfile = "docker/Dockerfile.all"\n'
                'assets = ["recipes/*", "models.json"]\n'
                'expect = { recipes = "/r", "models.json" = "/etc/" }\n'
            ),
        },
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_without_arguments_the_file_says_what_to_judge() -> None:
    told = run()
    assert told.code == 1
    assert "docker/Dockerfile.some [some] (buildkit): 2 of 3 assets covered" in told.out
    assert "docker/Dockerfile.all (buildkit): 4 of 4 assets covered" in told.out
    assert told.out.endswith("2 builds: 1 covered, 1 not covered\n")


def test_the_file_is_found_from_a_folder_below(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "recipes/kimi")
    told = run()
    assert "../../docker/Dockerfile.all (buildkit): 4 of 4 assets covered" in told.out


@pytest.mark.usefixtures("project")
def test_a_name_picks_a_build() -> None:
    assert run("docker/Dockerfile.all").code == 0
    assert run("some").code == 1
    told = run("kimi")
    assert (told.code, told.err.splitlines()[0]) == (2, "no build is called `kimi`")


def test_a_table_of_pyproject_counts_as_the_file(project: Path) -> None:
    (project / "coverage.toml").unlink()
    write(
        project,
        {
            "pyproject.toml": '[[tool.imagegate.coverage.build]]\nassets = "recipes/*"\n'
            'dockerfile = "docker/Dockerfile.all"\n'
        },
    )
    assert run().code == 0


def test_what_cannot_be_judged_is_told_and_the_worst_code_counts(project: Path) -> None:
    with (project / "coverage.toml").open("a") as file:
        file.write('[[build]]\ndockerfile = "docker/gone"\n')
        file.write('[[build]]\ndockerfile = "docker/Dockerfile.all"\ncontext = "gone"\n')
    told = run()
    assert told.code == 2
    assert "docker/gone: not judged: no Dockerfile matches `docker/gone`" in told.out
    assert "docker/Dockerfile.all: not judged: no build context `gone`" in told.out
    assert "4 builds: 1 covered, 1 not covered, 2 not judged" in told.out

    document = json.loads(run("--format", "json").out)
    assert document["covered"] is False
    assert [one["path"] for one in document["not_judged"]] == [
        "docker/gone",
        "docker/Dockerfile.all",
    ]
    assert [one["path"] for one in document["dockerfiles"]] == [
        "docker/Dockerfile.some [some]",
        "docker/Dockerfile.all",
    ]
    annotated = run("--format", "github").out
    assert "::error title=COPY coverage::docker/gone: not judged" in annotated


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("form", ["markdown", "sarif", "junit", "html"])
def test_every_form_of_report_tells_every_build(form: str) -> None:
    told = run("--format", form)
    assert told.code == 1
    assert "docker/Dockerfile.some" in told.out
    assert "docker/Dockerfile.all" in told.out
    assert "recipes/kimi/template.jinja" in told.out


def test_a_page_escapes_what_it_shows(project: Path) -> None:
    write(project, {"recipes/<img src=x>/t": "t"})
    told = run("--format", "html")
    assert "<img" not in told.out
    assert "&lt;img src=x&gt;" in told.out


def test_the_proposed_lines_are_written_to_every_file(project: Path) -> None:
    told = run("--fix")
    assert told.code == 0
    assert "COPY recipes/kimi /r/kimi" in (project / "docker/Dockerfile.some").read_text()
    assert run().code == 0


@pytest.mark.usefixtures("project")
def test_a_file_and_options_that_describe_a_build_do_not_go_together() -> None:
    told = run("some", "--context", ".", "--recipes", "recipes/*")
    assert (told.code, "options describe a build" in told.err) == (2, True)


def test_nothing_says_what_to_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = run()
    assert told.code == 2
    assert "no coverage.toml" in told.err
    assert "--discover" in told.err


def test_the_schema_is_printed() -> None:
    assert json.loads(run("--schema").out)["title"] == "CoverageToml"


@pytest.mark.parametrize("pattern", ["models.json", "*.json", "."])
def test_a_single_file_is_repaired_by_its_own_line(project: Path, pattern: str) -> None:
    write(
        project,
        {"Dockerfile": "FROM scratch\nCOPY models.json /etc/m.json\n", ".dockerignore": "*.json\n"},
    )
    told = run("-f", "Dockerfile", "--recipes", pattern, "--expect", f"{pattern}=/etc/", "--fix")
    assert "COPY / /etc/" not in told.out
    text = (project / "Dockerfile").read_text()
    assert "COPY models.json /etc/models.json" in text
    assert "!models.json" in (project / ".dockerignore").read_text()
    if pattern != ".":
        assert told.code == 0


# -- discovery


def test_a_first_file_is_written_and_runs(project: Path) -> None:
    (project / "coverage.toml").unlink()
    told = run("--discover")
    assert told.code == 0
    assert "wrote coverage.toml: 2 of 2 Dockerfiles with assets to judge" in told.err
    text = (project / "coverage.toml").read_text()
    assert '"recipes/*"' in text
    judged = run()
    assert judged.code == 1
    assert "kimi (kimi/template.jinja)" in judged.out or "kimi (template.jinja)" in judged.out
    assert "docker/Dockerfile.all (buildkit): 4 of 4 assets covered" in judged.out


def test_what_is_there_is_not_replaced(project: Path) -> None:
    before = (project / "coverage.toml").read_text()
    told = run("--discover")
    assert told.code == 2
    assert "nothing is replaced" in told.err
    assert (project / "coverage.toml").read_text() == before


def test_a_context_is_where_the_sources_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path,
        {
            "service/Dockerfile": "FROM scratch\nCOPY conf /conf\nCOPY main.py /\n",
            "service/conf/a.yaml": "a",
            "service/main.py": "m",
            "web/Containerfile": "FROM scratch\nCOPY web/x /x\n",
            "web/x": "x",
            "lint/Dockerfile": "FROM scratch\nRUN lint\n",
            "broken/Dockerfile": "nothing of that\n",
            "docs/Dockerfile.md": "a text",
        },
    )
    told = run("--discover")
    assert told.code == 0
    text = (tmp_path / "coverage.toml").read_text()
    assert 'dockerfile = "service/Dockerfile"\ncontext = "service"' in text
    assert 'dockerfile = "web/Containerfile"\nbuilders = "buildah"\nassets = ["web/x"]' in text
    assert "# lint/Dockerfile: brings nothing of its context into the image" in text
    assert "# broken/Dockerfile: " in text
    assert "Dockerfile.md" not in text
    assert run().code == 0


def test_what_the_ignore_file_names_is_excluded_and_what_was_forgotten_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path,
        {
            "Dockerfile": "FROM scratch\nCOPY src /app\n",
            ".dockerignore": "src/tests\n",
            "src/main.py": "m",
            "src/tests/t.py": "t",
            "two/Dockerfile": "FROM scratch\nCOPY recipes /r\n",
            "two/.dockerignore": "*\n!recipes/a\n",
            "two/recipes/a/t": "a",
            "two/recipes/b/t": "b",
        },
    )
    assert run("--discover").code == 0
    text = (tmp_path / "coverage.toml").read_text()
    assert 'assets = ["src"]\n# the ignore file names these\nexclude = ["src/tests"]' in text
    told = run()
    assert "Dockerfile (buildkit): 1 of 1 assets covered" in told.out
    assert "two/Dockerfile (buildkit): 1 of 2 assets covered" in told.out


def test_a_repository_without_a_dockerfile_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = run("--discover")
    assert (told.code, "holds no Dockerfile" in told.err) == (2, True)
    assert not (tmp_path / "coverage.toml").exists()


# -- standard input


@pytest.mark.usefixtures("project")
def test_a_dockerfile_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"FROM scratch\nCOPY recipes/llama /r/llama\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    told = run("--dockerfile", "-", "--recipes", "recipes/*")
    assert told.code == 1
    assert "- (buildkit): 1 of 3 assets covered" in told.out

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    told = run("--dockerfile", "-", "--recipes", "recipes/*", "--fix")
    assert (told.code, "`--fix` cannot write to `-`" in told.err) == (2, True)


@pytest.mark.parametrize(
    ("context", "title"),
    [
        ("https://github.com/a/b.git", "the git repository `https://github.com/a/b.git`"),
        ("-", "an archive on standard input"),
        ("https://host/x.tar", "the archive `https://host/x.tar` from the web"),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_context_that_is_fetched_is_named(context: str, title: str) -> None:
    told = run("--context", context, "--recipes", "recipes/*")
    assert (told.code, title in told.err) == (2, True)


# -- bake and compose


def a_tool(folder: Path, name: str, said: str, code: int = 0) -> str:
    """Put a program into `folder` that answers as the real one did when this was written."""
    place = folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.out").write_text(said)
    place.write_text(
        f'#!/bin/sh\ncase "$*" in *version*) exit 0;; esac\ncat "{place}.out"\nexit {code}\n'
    )
    place.chmod(place.stat().st_mode | stat.S_IXUSR)
    return f"{folder}:/usr/bin:/bin"


# docker-buildx 0.29.1: `docker-buildx bake --print`
BAKED = {
    "group": {"default": {"targets": ["some"]}},
    "target": {
        "all": {
            "context": ".",
            "dockerfile": "docker/Dockerfile.all",
            "args": {"A": "1"},
            "contexts": {"x": "docker-image://alpine"},
            "platforms": ["linux/amd64", "linux/arm64"],
        },
        "inline": {"context": ".", "dockerfile-inline": "FROM scratch\nCOPY recipes /r/\n"},
        "remote": {"context": "https://github.com/a/b.git", "dockerfile": "Dockerfile"},
    },
}
# docker-compose 2.26: `docker-compose config --format json`
COMPOSED = {
    "name": "x",
    "services": {
        "api": {"build": {"context": "CONTEXT", "dockerfile": "docker/Dockerfile.all"}},
        "db": {"image": "postgres"},
        "web": {
            "build": {"context": "CONTEXT", "dockerfile_inline": "FROM scratch\nCOPY recipes/a /\n"}
        },
    },
}


def test_bake_is_asked(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path_factory.mktemp("tools")
    monkeypatch.setenv("PATH", a_tool(tools, "docker-buildx", json.dumps(BAKED)))
    write(project, {"coverage.toml": '[[bake]]\nfile = "docker-bake.hcl"\nassets = "recipes/*"\n'})
    told = run()
    assert told.code == 2
    head = "docker/Dockerfile.all [docker-bake.hcl target all, linux/"
    assert f"{head}amd64] (buildkit): 3 of 3 assets covered" in told.out
    assert f"{head}arm64] (buildkit): 3 of 3 assets covered" in told.out
    assert "docker-bake.hcl target inline (inline)" in told.out
    assert "docker-bake.hcl target remote: not judged: the context is the git rep" in told.out


def test_compose_is_asked(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path_factory.mktemp("tools")
    said = json.dumps(COMPOSED).replace("CONTEXT", str(project))
    monkeypatch.setenv("PATH", a_tool(tools, "docker-compose", said))
    write(project, {"coverage.toml": '[[compose]]\nfile = "compose.yaml"\nassets = "recipes/*"\n'})
    told = run()
    assert told.code == 1
    assert "docker/Dockerfile.all [compose.yaml service api] (buildkit): 3 of 3" in told.out
    assert "service db" not in told.out
    write(
        project,
        {
            "coverage.toml": '[[compose]]\nfile = "compose.yaml"\nassets = "recipes/*"\n'
            'services = ["db"]\n'
        },
    )
    told = run()
    assert (told.code, "builds no service `db`" in told.err) == (2, True)


def test_a_tool_that_refuses_is_quoted(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path_factory.mktemp("tools")
    monkeypatch.setenv("PATH", a_tool(tools, "docker-buildx", "nothing\n", code=1))
    write(project, {"coverage.toml": '[[bake]]\nfile = "docker-bake.hcl"\nassets = "recipes/*"\n'})
    told = run()
    assert told.code == 2
    assert "`docker-buildx bake --print --file docker-bake.hcl` ended with 1" in told.err


@pytest.mark.peers
def test_the_real_tools_are_understood(project: Path) -> None:
    write(
        project,
        {
            "docker-bake.hcl": 'variable "KIND" { default = "all" }\n'
            'target "default" {\n  dockerfile = "docker/Dockerfile.${KIND}"\n}\n',
            "compose.yaml": "services:\n  api:\n    build:\n      context: .\n"
            "      dockerfile: docker/Dockerfile.all\n",
            "coverage.toml": '[defaults]\nassets = "recipes/*"\n[[bake]]\nfile = "docker-bake.hcl"\n'
            '[[compose]]\nfile = "compose.yaml"\n',
        },
    )
    told = run()
    assert told.code == 0, told
    assert told.out.endswith("2 builds: 2 covered\n")
