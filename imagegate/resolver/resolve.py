"""Choosing the added distributions against a base that does not move.

uv resolves for the image's platform; its ``pylock.toml`` (PEP 751) is an intermediate out of
which one wheel a distribution is taken. Addresses in it are not kept.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.pylock import Pylock, PylockSelectError, PylockValidationError
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from imagegate.errors import ResolveError
from imagegate.lock import LockedWheel
from imagegate.resolver.pipconfig import pip_settings, uv_environment, uv_options
from imagegate.resolver.stubs import Stubs, write_stubs
from imagegate.workspace.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from imagegate.facts import Distribution
    from imagegate.resolver.target import Target

_NO_STUBS = Stubs(constraints=(), names=(), unrepresentable=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be resolved.

    Attributes:
        requirements: PEP 508 lines.
        base: the base's distributions; none of them may move.
        overrides: requirements that replace what distributions say of these names.
        exclude_newer: what was uploaded later does not exist.
        cache: folder for uv's own cache.
    """

    requirements: Sequence[str]
    base: Sequence[Distribution]
    overrides: Sequence[str]
    exclude_newer: datetime | None
    target: Target
    cache: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The chosen wheels, their bytes in all, and the base names that could not be held."""

    wheels: tuple[LockedWheel, ...]
    size: int
    not_held: tuple[str, ...]


def resolve(question: Question) -> Resolution:
    """Choose one wheel for each distribution that the layer has to add.

    Raises:
        ResolveError: there is no answer; where the base is the reason, both sides are named.
    """
    with scratch_folder() as name:
        folder = Path(name)
        stubs = write_stubs(folder, question.base)
        answer = _ask(question, folder, stubs)
        if answer.pylock is None:
            raise _explain(question, folder, stubs, answer.explanation)
        return _choose(answer.pylock, question.target, stubs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    pylock: Pylock | None
    explanation: str


def _ask(question: Question, folder: Path, stubs: Stubs, *more: str) -> _Answer:
    """Run uv once, with further options where they are given."""
    from uv import find_uv_bin

    target = question.target
    output = folder / "pylock.answer.toml"
    output.unlink(missing_ok=True)
    command = [
        find_uv_bin(),
        "pip",
        "compile",
        _write(folder, "requirements.in", question.requirements),
    ]
    command += ["--python-platform", target.uv_platform, "--python-version", target.python_version]
    # nothing is built, so any interpreter will do; uv would download one of the target's version
    command += ["--python", sys.executable, "--no-python-downloads"]
    command += ["--only-binary", ":all:", "--no-header", "--no-config", "--quiet"]
    command += ["--output-file", str(output), "--format", "pylock.toml"]
    if question.exclude_newer is not None:
        command += ["--exclude-newer", question.exclude_newer.isoformat().replace("+00:00", "Z")]
    if stubs.constraints:
        command += ["--constraints", _write(folder, "base.txt", stubs.constraints)]
        command += [word for held in stubs.names for word in ("--no-emit-package", held)]
    if stubs.unrepresentable:
        command += ["--excludes", _write(folder, "excludes.txt", stubs.unrepresentable)]
    if question.overrides:
        command += ["--overrides", _write(folder, "overrides.txt", question.overrides)]
    settings = pip_settings()
    command += [*uv_options(settings), *more]
    environment = uv_environment(settings, str(question.cache))
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        return _Answer(pylock=None, explanation=done.stderr.strip())
    try:
        pylock = Pylock.from_dict(tomllib.loads(output.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, PylockValidationError) as error:
        raise ResolveError(f"uv's answer cannot be read: {error}") from error
    return _Answer(pylock=pylock, explanation="")


def _choose(pylock: Pylock, target: Target, stubs: Stubs) -> Resolution:
    """Take the one best wheel of each package (PEP 751, "Installing from a lock file")."""
    wheels: list[LockedWheel] = []
    size = 0
    try:
        for package, chosen in pylock.select(environment=target.environment, tags=target.tags):
            sha256 = getattr(chosen, "hashes", {}).get("sha256")
            if package.version is None or sha256 is None:
                raise ResolveError(f"no wheel with a SHA-256 is published for `{package.name}`")
            size += getattr(chosen, "size", None) or 0
            name = canonicalize_name(package.name)
            wheels.append(LockedWheel(name=name, version=str(package.version), sha256=sha256))
    except PylockSelectError as error:
        raise ResolveError(f"no published wheel fits the image: {error}") from error
    return Resolution(wheels=tuple(sorted(wheels)), size=size, not_held=stubs.unrepresentable)


def _explain(question: Question, folder: Path, stubs: Stubs, explanation: str) -> ResolveError:
    """Find out whether the base is the reason, and which of its distributions stand in the way.

    The same question without the base tells what would be installed; each distribution of the
    base that would then move is set free alone to see whether it was the obstacle.
    """
    hint = "uv says: " + " ".join(explanation.split())
    free = (
        _ask(question, folder, _NO_STUBS) if stubs.names else _Answer(pylock=None, explanation="")
    )
    if free.pylock is None:
        return _unpublished(question, folder) or ResolveError(
            "the requirements cannot be resolved, with or without the base", hint=hint
        )
    locked = {str(canonicalize_name(found.name)): found.version for found in question.base}
    wanted = {str(canonicalize_name(p.name)): str(p.version) for p in free.pylock.packages}
    moving = [name for name in stubs.names if name in wanted and wanted[name] != locked[name]]
    obstacles = [name for name in moving if _is_obstacle(question, folder, stubs, name)] or moving
    sides = "; ".join(f"`{name}`: base={locked[name]} needed={wanted[name]}" for name in obstacles)
    return ResolveError(
        f"the requirements cannot be met without moving the base: {sides or 'no single distribution is the reason'}",
        hint=f"ask for an older version in requirements.in, or take a newer base. {hint}",
    )


def _unpublished(question: Question, folder: Path) -> ResolveError | None:
    """Say which requirements no configured index has a wheel for, and which version it has.

    A distribution may be published elsewhere than on PyPI from some version on.
    """
    missing = []
    for line in question.requirements:
        try:
            name = canonicalize_name(Requirement(line).name)
        except InvalidRequirement:
            continue
        alone = replace(question, requirements=(line,))
        if _ask(alone, folder, _NO_STUBS, "--no-deps").pylock is not None:
            continue
        newest = _ask(
            replace(question, requirements=(name,)), folder, _NO_STUBS, "--no-deps"
        ).pylock
        found = str(newest.packages[0].version) if newest and newest.packages else "nothing"
        missing.append(f"`{name}`: needed={line} newest={found}")
    if not missing:
        return None
    return ResolveError(
        "the requirements cannot be resolved, with or without the base: no configured index has a "
        f"wheel that fits for {'; '.join(missing)}",
        hint="an index may be missing: add the publisher's with `--extra-index-url` in pip's "
        "configuration (`pip config set global.extra-index-url …`)",
    )


def _is_obstacle(question: Question, folder: Path, stubs: Stubs, name: str) -> bool:
    position = stubs.names.index(name)
    without = Stubs(
        constraints=stubs.constraints[:position] + stubs.constraints[position + 1 :],
        names=stubs.names[:position] + stubs.names[position + 1 :],
        unrepresentable=stubs.unrepresentable,
    )
    return _ask(question, folder, without).pylock is not None


def _write(folder: Path, name: str, lines: Sequence[str]) -> str:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)
