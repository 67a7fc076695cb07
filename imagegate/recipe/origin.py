"""What a recipe may leave out because its base says it: platform, Python, site directory, glibc."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog.elfheader import machine_of
from imagegate.catalog.startup import SYSTEM_PREFIXES, prefix_of
from imagegate.errors import RecipeError
from imagegate.rootfs import FileTree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.facts import Facts
    from imagegate.lock import BaseLock
    from imagegate.oci.platform import Platform
    from imagegate.recipe.sections import PythonKeys
    from imagegate.rootfs import PathIndex

NAMED = re.compile(r"python(3\.\d+)t?")
_STARTED = re.compile(r"/(?:.*/)?python(?:3(?:\.\d+)?)?")
_GLIBC = re.compile(r"GLIBC_2\.(\d+)")
# what a container's PATH is where the config sets none (moby, oci/defaults; podman, likewise)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSTEM_SCRIPTS = "/usr/local/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a base says; ``None`` where it does not show a thing.

    Attributes:
        platform: the base's.
        version: ``major.minor`` of the interpreter.
        site: where pip installs with this interpreter.
        scripts: where the commands of distributions go.
        interpreter: the Python that the image starts.
        glibc: version of the C library.
        others: further interpreters of the base, which a recipe has to name to get.
    """

    platform: Platform
    version: str | None = None
    site: str | None = None
    scripts: str | None = None
    interpreter: str | None = None
    glibc: str | None = None
    others: tuple[str, ...] = ()


def read_origin(base: BaseLock, keys: PythonKeys) -> Origin:
    """Read from a base's lock what a recipe leaves out.

    Args:
        base: the lock.
        keys: what the recipe says all the same; it chooses among several interpreters.
    """
    facts, tree = base.document.facts, FileTree(base.files)
    platform = base.config.platform
    glibc = keys.glibc or glibc_of(platform, facts)
    found = list(_interpreters(base, keys, tree))
    wanted = [one for one in found if keys.version in (None, one[1])]
    if not wanted:
        return Origin(
            platform=platform, glibc=glibc, others=tuple(sorted({path for path, _, _ in found}))
        )
    interpreter, version, program = wanted[0]
    prefix = prefix_of(interpreter)
    scripts = _SYSTEM_SCRIPTS if prefix in SYSTEM_PREFIXES else f"/{prefix}/bin"
    programs = {f"/{one.path}" for one in facts.interpreters if NAMED.fullmatch(_name(one.path))}
    return Origin(
        platform=platform,
        version=version,
        site=_site(prefix, version, program, facts, base.files),
        scripts=scripts,
        interpreter=interpreter,
        glibc=glibc,
        others=tuple(sorted(programs - {f"/{program}", interpreter})),
    )


def _interpreters(
    base: BaseLock, keys: PythonKeys, tree: FileTree
) -> Iterator[tuple[str, str, str]]:
    """Yield interpreters as path, version and program: the one that the image starts first."""
    seen = set()
    for path in _places(base, keys):
        program = tree.resolve(path)
        if program is None or path in seen:
            continue
        seen.add(path)
        named = NAMED.fullmatch(_name(program))
        if named is not None:
            yield path, named[1], program
    if seen:
        return
    # none along PATH: one that stands alone is meant
    alone = [one for one in base.document.facts.interpreters if NAMED.fullmatch(_name(one.path))]
    if len(alone) == 1:
        yield f"/{alone[0].path}", alone[0].python, alone[0].path


def _places(base: BaseLock, keys: PythonKeys) -> Iterator[str]:
    if keys.interpreter is not None:
        yield keys.interpreter
        return
    config = base.config.config
    started = (*(config.entrypoint or ()), *(config.cmd or ())) if config else ()
    if started and _STARTED.fullmatch(started[0]):
        yield started[0]
    path = (config.environment if config else {}).get("PATH") or _PATH
    folders = [folder.rstrip("/") for folder in path.split(":") if folder.startswith("/")]
    for name in ("python3", "python"):
        yield from (f"{folder}/{name}" for folder in folders)
    if keys.version is not None:
        yield from (f"{folder}/python{keys.version}" for folder in folders)


def _site(prefix: str, version: str, program: str, facts: Facts, files: PathIndex) -> str:
    """Return where pip installs: sysconfig's `purelib`, which Debian moves below /usr/local."""
    if prefix not in SYSTEM_PREFIXES:
        return f"/{prefix}/lib/python{version}/site-packages"
    real = prefix_of(f"/{program}")
    folders = {
        one.folder
        for one in facts.interpreters
        if one.folder and one.path.startswith(f"{real}/") and f"/python{version}/" in one.path
    }
    if "dist-packages" in folders:
        return f"/usr/local/lib/python{version}/dist-packages"
    # Fedora's pip installs below /usr/local too (PEP 668's neighbour, sysconfig's rpm_prefix)
    local = f"usr/local/lib/python{version}/site-packages"
    if real == "usr/local" or files.get(local) is not None:
        return f"/{local}"
    return f"/{real}/lib/python{version}/site-packages"


def glibc_of(platform: Platform, facts: Facts) -> str | None:
    """Return the version of the base's C library, ``None`` where it shows none."""
    machine = machine_of(platform)
    minors = [
        int(match[1])
        for file in facts.elf
        if file.machine == machine and _name(file.path) == "libc.so.6"
        for line in file.provides
        if (match := _GLIBC.search(line))
    ]
    return f"2.{max(minors)}" if minors else None


def _name(path: str) -> str:
    return posixpath.basename(path)


def missing(name: str, keys: str, origin: Origin | None) -> RecipeError:
    """Say why a value that the recipe leaves out is not known.

    Args:
        name: the recipe.
        keys: the key.
        origin: what the base says; ``None`` where no lock of a base was read.
    """
    where = f"`images/{name}/image.toml` leaves out `{keys}`"
    if origin is None:
        return RecipeError(
            f"{where}, and no lock says what its base has",
            hint=f"run `imagegate lock {name}`, which reads it from the base, or write the key",
        )
    if keys == "python.glibc":
        return RecipeError(
            f"{where}, and its base shows no glibc: it has no `libc.so.6` for {origin.platform}",
            hint="write the version of the base's glibc; wheels for musl are not supported",
        )
    there = f": it has {', '.join(origin.others)}" if origin.others else ""
    return RecipeError(
        f"{where}, and its base does not show which Python is meant{there}",
        hint="write `version`, `site` and `interpreter` below `[python]`",
    )
