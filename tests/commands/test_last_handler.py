"""An exception that nobody foresaw is no verdict: exit 3, one line, and where to go with it."""

from __future__ import annotations

import sys
from types import ModuleType

import click
import pytest

from imagegate.cli import COMMANDS, run


class UnforeseenError(Exception):
    """What no handler knows."""


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A command of its own that ends with the given exception."""

    @click.command()
    def command() -> None:
        raise request.param

    module = ModuleType("a_broken_command")
    module.command = command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, "broken", (module.__name__, "end badly"))
    return "broken"


HOSTILE = "first\n::stop-commands::x\n\x1b]0;title\x07\u202e " + "long " * 1000


@pytest.mark.parametrize(
    "broken",
    [
        UnforeseenError(HOSTILE),
        RecursionError(HOSTILE),
        MemoryError(),
        AssertionError(),
        KeyError("k"),
    ],
    indirect=True,
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("traceback", [False, True])
def test_an_unforeseen_exception(
    broken: str,
    traceback: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if traceback:
        monkeypatch.setenv("IMAGEGATE_TRACEBACK", "1")
    else:
        monkeypatch.delenv("IMAGEGATE_TRACEBACK", raising=False)
    assert run([broken]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert ("Traceback" in said.err) is traceback
    if traceback:
        return
    line, hint = said.err.splitlines()
    assert line.startswith("imagegate: unexpected ")
    assert len(line) < 400
    assert hint.startswith("hint: ")
    assert "please report it" in hint
    assert "IMAGEGATE_TRACEBACK" in hint
    assert not {"\x1b", "\x07", "\u202e"} & set(said.err)


@pytest.mark.parametrize(
    ("broken", "code"),
    [(KeyboardInterrupt(), 130), (BlockingIOError(11, "Try again"), 3)],
    indirect=["broken"],
)
def test_what_is_no_fault_is_not_called_one(
    broken: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([broken]) == code
    said = capsys.readouterr()
    assert "unexpected" not in said.err
    assert len(said.err.strip().splitlines()) == 1  # click ends the line of ^C first
