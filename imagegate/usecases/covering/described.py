"""Builds as ``docker buildx bake --print`` and ``docker compose config`` describe them.

Bake files are HCL with functions and variables, compose files are merged and interpolated: only
the tools themselves know what they come to, so they are asked, where they are installed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from imagegate.errors import CoverageError, EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_BAKE = (("docker", "buildx"), ("docker-buildx",), ("buildx",))
_COMPOSE = (("docker", "compose"), ("docker-compose",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One build as a tool describes it.

    Attributes:
        title: what reports call it.
        folder: what its paths are relative to.
        context: the build context.
        dockerfile: relative to the context.
        inline: the Dockerfile's text, where it has no file.
        target: the stage to build.
        arguments: build arguments.
        contexts: named contexts.
        platforms: what is built for.
    """

    title: str
    folder: Path
    context: str = "."
    dockerfile: str = "Dockerfile"
    inline: str | None = None
    target: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    contexts: Mapping[str, str] = field(default_factory=dict)
    platforms: tuple[str, ...] = ()


def baked(
    files: Sequence[str],
    targets: Sequence[str] | None,
    root: Path,
    environment: Mapping[str, str],
) -> Iterator[Described]:
    """Ask ``docker buildx bake --print``.

    Raises:
        EngineError: buildx is not installed.
        CoverageError: it refuses the files.
    """
    tool = _tool(_BAKE, "bake files", "docker buildx", root, environment)
    given = [word for file in files for word in ("--file", file)]
    said = _ask([*tool, "bake", "--print", *given, *(targets or ())], root, environment)
    for name, target in sorted(_table(said, "target").items()):
        yield Described(
            title=f"{files[0]} target {name}",
            folder=root,
            context=target.get("context") or ".",
            dockerfile=target.get("dockerfile") or "Dockerfile",
            inline=target.get("dockerfile-inline"),
            target=target.get("target"),
            arguments=_values(target.get("args")),
            contexts=target.get("contexts") or {},
            platforms=tuple(target.get("platforms") or ()),
        )


def composed(
    files: Sequence[str],
    services: Sequence[str] | None,
    root: Path,
    environment: Mapping[str, str],
) -> Iterator[Described]:
    """Ask ``docker compose config``.

    Raises:
        EngineError: compose is not installed.
        CoverageError: it refuses the files, or a service that is named is not there or not built.
    """
    tool = _tool(_COMPOSE, "compose files", "docker compose", root, environment)
    given = [word for file in files for word in ("--file", file)]
    said = _ask([*tool, *given, "--profile", "*", "config", "--format", "json"], root, environment)
    found = {
        name: service["build"]
        for name, service in sorted(_table(said, "services").items())
        if service.get("build")
    }
    for name in services or ():
        if name not in found:
            listed = ", ".join(f"`{known}`" for known in found) or "none"
            raise CoverageError(
                f"`{files[0]}` builds no service `{name}`",
                hint=f"services that it builds: {listed}",
            )
    for name in services or found:
        build = found[name]
        yield Described(
            title=f"{files[0]} service {name}",
            folder=root,
            context=build.get("context") or ".",
            dockerfile=build.get("dockerfile") or "Dockerfile",
            inline=build.get("dockerfile_inline"),
            target=build.get("target") or None,
            arguments=_values(build.get("args")),
            contexts=build.get("additional_contexts") or {},
            platforms=tuple(build.get("platforms") or ()),
        )


def _values(arguments: Mapping[str, str | None] | None) -> dict[str, str]:
    """Return arguments that have a value; the others are taken from the builder's environment."""
    return {name: value for name, value in (arguments or {}).items() if value is not None}


def _table(said: Any, key: str) -> dict[str, dict[str, Any]]:  # noqa: ANN401
    table = said.get(key) if isinstance(said, dict) else None
    return table if isinstance(table, dict) else {}


def _tool(
    ways: Sequence[tuple[str, ...]],
    what: str,
    wanted: str,
    root: Path,
    environment: Mapping[str, str],
) -> tuple[str, ...]:
    """Return how the tool is called here.

    Raises:
        EngineError: it is not installed.
    """
    for way in ways:
        if shutil.which(way[0], path=environment.get("PATH")) is None:
            continue
        try:
            done = subprocess.run(
                [*way, "version"], capture_output=True, check=False, cwd=root, env=dict(environment)
            )
        except OSError:
            continue
        if done.returncode == 0:
            return way
    raise EngineError(
        f"{what} are read by `{wanted}`, which is not installed here",
        hint="install it, or describe the build under `[[build]]`",
    )


def _ask(command: list[str], root: Path, environment: Mapping[str, str]) -> object:
    done = subprocess.run(
        command, capture_output=True, check=False, cwd=root, env=dict(environment)
    )
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "")
        raise CoverageError(
            f"`{' '.join(command)}` ended with {done.returncode}: {last.strip()}",
            hint="run it in the folder of coverage.toml until it prints what you mean",
        )
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise CoverageError(f"`{' '.join(command)}` printed no JSON: {error}") from error
