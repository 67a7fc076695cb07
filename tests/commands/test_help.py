"""Help answers at once and names what exists."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
    from imagegate.cli import run

    assert run([command, "--help"]) == 0
    assert command in capsys.readouterr().out


def test_every_check_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    from imagegate.checks import CHECKS
    from imagegate.cli import run

    for check in CHECKS:
        assert run(["explain", check.id]) == 0
        text = capsys.readouterr().out
        assert check.why in text
        assert check.fix in text
