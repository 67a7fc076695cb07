"""Runs the facts module where a host is reached: here, or behind a command such as ``ssh node``."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from imagegate.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 120
# programs that hand their arguments to a shell on the other side
_THROUGH_SHELL = frozenset({"ssh", "autossh", "mosh", "pdsh", "su"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is looked at beside the host itself."""

    weights: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    full: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the facts module."""
        return (
            *(word for path in self.weights for word in ("--weights", path)),
            *(word for path in self.caches for word in ("--cache", path)),
            *(word for engine in self.engines for word in ("--engine", engine)),
            *(("--full",) if self.full else ()),
        )


def collect_here(wanted: Wanted, *, seconds: float | None = None) -> bytes:
    """Return the facts of this host."""
    return _run([sys.executable, "-", *wanted.arguments], "facts.py", seconds, "this host")


def collect_behind(prefix: str, wanted: Wanted, *, seconds: float | None = None) -> bytes:
    """Return the facts of a host that a command reaches.

    Args:
        prefix: the command, for instance ``ssh spark-1`` or ``docker exec glm``.
        wanted: what is looked at.
        seconds: how long it may take.

    Raises:
        EngineError: the command is not there, failed or did not answer in time.
    """
    return run_script(prefix, "facts.py", wanted.arguments, seconds=seconds)


def run_script(
    prefix: str, script: str, arguments: Sequence[str], *, seconds: float | None = None
) -> bytes:
    """Run a script of this package by the Python that a command reaches; see above."""
    return _run(command_behind(prefix, ["python3", "-", *arguments]), script, seconds, prefix)


def command_behind(prefix: str, command: Sequence[str]) -> list[str]:
    """Put a command behind another that reaches a host, quoted where a shell is in between.

    Raises:
        EngineError: the prefix is not a command.
    """
    try:
        words = shlex.split(prefix)
    except ValueError as error:
        raise EngineError(f"`{prefix}` is not a command: {error}") from error
    if not words:
        raise EngineError("an empty command reaches no host")
    for place, (word, following) in enumerate(pairwise(words)):
        # without -i the program inside would read an empty standard input
        if PurePosixPath(word).name in ("docker", "podman") and following == "exec":
            words = [*words[: place + 2], "-i", *words[place + 2 :]]
            break
    if PurePosixPath(words[0]).name in _THROUGH_SHELL:
        return [*words, shlex.join(command)]
    return [*words, *command]


def _run(command: list[str], script: str, seconds: float | None, where: str) -> bytes:
    source = resources.files("imagegate.nodes").joinpath(script).read_bytes()
    limit = seconds if seconds is not None else SECONDS
    try:
        done = subprocess.run(
            command, input=source, capture_output=True, timeout=limit, check=False
        )
    except FileNotFoundError as error:
        raise EngineError(f"`{command[0]}` is not there, so `{where}` was not reached") from error
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"`{where}` did not answer within {limit:g} s") from error
    except OSError as error:
        raise EngineError(f"`{where}` was not reached: {error.strerror}") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise EngineError(
            f"`{where}` gave nothing: {said[-1] if said else f'exit {done.returncode}'}"
        )
    return done.stdout
