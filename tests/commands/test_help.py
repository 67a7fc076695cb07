"""Help answers at once and names what exists."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from imagegate.cli import COMMANDS, cli, run
from imagegate.cli.manual import MANUALS

HEAVY = {
    "pydantic",
    "requests",
    "docker",
    "python_on_whales",
    "rich",
    "jinja2",
    "isal",
    "packaging",
    "installer",
}


def test_help_imports_none_of_the_heavy_libraries() -> None:
    program = (
        "import sys\nfrom imagegate.cli import run\ncode = run(['--help'])\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)\nsys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stderr == "[]\n"
    assert "verify" in done.stdout


@pytest.mark.parametrize(
    "command", ["lock", "build", "verify", "promote", "drift", "mirror", "explain"]
)
def test_each_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    assert command in capsys.readouterr().out


def test_every_check_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    from imagegate.checks.image import CHECKS

    for check in CHECKS:
        assert run(["explain", check.id]) == 0
        text = capsys.readouterr().out
        assert check.why in text
        assert check.fix in text


def _commands() -> list[tuple[str, click.Command]]:
    """Every command and command of a group, by what is typed."""
    found: list[tuple[str, click.Command]] = []
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {sub}", one) for sub, one in command.commands.items()]
    return found


@pytest.mark.parametrize("name", [name for name, _ in _commands()])
def test_each_help_is_a_page_of_a_manual(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*name.split(), "--help"]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"Usage: imagegate {name} ")
    for section in ("Options:", "Examples:", "Exit codes:"):
        assert f"\n{section}\n" in page
    # 0 and one more at least: a command that cannot end otherwise does nothing
    codes = page.partition("\nExit codes:\n")[2].partition("\n\n")[0]
    assert re.search(r"^  0 +\S", codes, re.MULTILINE)
    assert re.search(r"^  [123] +\S", codes, re.MULTILINE)
    lines = [line for line in page.splitlines() if not line.startswith("  $ ")]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(("name", "command"), _commands())
def test_the_examples_of_a_page_are_command_lines_that_are_understood(
    name: str, command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for key in ("release.key", "release.pub"):
        (tmp_path / key).touch()
    assert MANUALS[name].examples
    for line, _ in MANUALS[name].examples:
        words = shlex.split(line)
        assert words[: 1 + len(name.split())] == ["imagegate", *name.split()]
        if not isinstance(command, click.Group):
            command.make_context(name, words[1 + len(name.split()) :])


# --- completion


def _world(folder: Path) -> None:
    for recipe in ("glm", "glm-next", "kimi"):
        (folder / "images" / recipe).mkdir(parents=True)
        (folder / "images" / recipe / "image.toml").touch()
    (folder / "locks").mkdir()
    program = folder / "imagegate"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m imagegate "$@"\n')
    program.chmod(0o755)


def _environment(folder: Path) -> dict[str, str]:
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_bash_completes_commands_options_recipes_and_checks(tmp_path: Path) -> None:
    _world(tmp_path)
    script = """
    eval "$(_IMAGEGATE_COMPLETE=bash_source imagegate)"
    ask() {
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        _imagegate_completion imagegate
        echo "${COMPREPLY[*]}"
    }
    complete -p imagegate >/dev/null
    ask imagegate prom
    ask imagegate verify g
    ask imagegate promote kimi --attes
    ask imagegate verify --only python.p
    """
    done = subprocess.run(
        ["bash", "-eu", "-c", script],
        cwd=tmp_path,
        env=_environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["promote", "glm glm-next", "--attested", "python.pins"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_help_says_how_each_shell_learns_to_complete(shell: str, tmp_path: Path) -> None:
    _world(tmp_path)
    environment = _environment(tmp_path)
    page = subprocess.run(
        ["imagegate", "--help"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert f"_IMAGEGATE_COMPLETE={shell}_source imagegate" in page
    source = subprocess.run(
        ["imagegate"],
        env={**environment, "_IMAGEGATE_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # what the script asks for while somebody types
    assert f"_IMAGEGATE_COMPLETE={shell}_complete" in source
    asked = subprocess.run(
        ["imagegate"],
        cwd=tmp_path,
        env={
            **environment,
            "_IMAGEGATE_COMPLETE": f"{shell}_complete",
            "COMP_WORDS": "imagegate lock k",
            "COMP_CWORD": "k" if shell == "fish" else "2",
        },
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "kimi" in asked
    assert "glm" not in asked


# each is a turn of phrase that readers stumbled over, with what to write instead
ODD_WORDS = {
    r"(?<!there )(?<!There )\bis no (?!longer\b|denied\b|larger\b|such\b|reason\b)": "is not a",
    r"\bmay be given often\b": "repeatable",
    r"\b[Ww]hoever\b": "if you",
    r"\bif it counts\b|\block counts\b|\blocks count\b": "if it is still valid, is trusted",
    r"\bplain http\b": "plain HTTP",
    r"\bhas it so\b": "also true of",
    r"\bfiles that were there\b": "existing files",
    r"\bwhat it said last\b": "its last output",
    r"\ball that has to be there\b": "the only prerequisite",
    r"\bHow standard output tells\b": "report format",
    r"(?:^|\s)Say (?:what|where|how)\b": "Show",
    r"\bstands in its\b": "is in its",
    r"\bof one's own\b": "your own",
}


def _odd(text: str) -> list[str]:
    """The odd turns of phrase in a text, each with its surroundings and what to write."""
    flat = " ".join(text.split())
    return [
        f"{flat[max(0, found.start() - 40) : found.end() + 40]!r}: write {better!r}"
        for pattern, better in ODD_WORDS.items()
        for found in re.finditer(pattern, flat)
    ]


@pytest.mark.parametrize("name", ["", *(name for name, _ in _commands())])
def test_help_is_written_in_plain_english(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*name.split(), "--help"]) == 0

    text = capsys.readouterr().out
    assert "Usage: imagegate" in text
    assert not _odd(text)


def test_what_checks_explain_is_written_in_plain_english() -> None:
    from imagegate.checks.image import CHECKS

    odd = {check.id: _odd(f"{check.why} {check.fix}") for check in CHECKS}

    assert odd
    assert not {name: found for name, found in odd.items() if found}


def _outside_docstrings(module: ast.Module) -> list[ast.AST]:
    """Every node but the strings that stand alone, which are docstrings."""
    nodes = list(ast.walk(module))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [node for node in nodes if id(node) not in alone]


def test_messages_are_written_in_plain_english() -> None:
    package = Path(sys.modules["imagegate"].__file__ or "").parent
    literals = [
        (path.relative_to(package), node.lineno, node.value)
        for path in sorted(package.rglob("*.py"))
        for node in _outside_docstrings(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]

    assert len(literals) > 1000
    odd = [f"{path}:{line}: {found}" for path, line, text in literals for found in _odd(text)]
    assert not odd, "\n".join(odd)


@pytest.mark.parametrize(
    "text",
    ["`x` is no regular file", "Say where each model's assets end", "a repository of one's own"],
)
def test_odd_words_are_found(text: str) -> None:
    assert _odd(text)
