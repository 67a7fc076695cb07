"""What one version of one builder does, as data.

The filter for a context runs in the client (docker CLI, buildx, buildctl, buildah) and the
Dockerfile is read by the frontend in the daemon, so a profile names both halves and a test may
combine them freely with `dataclasses.replace`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import Enum

from imagegate.coverage.frontend import (
    BUILDAH_128_FRONTEND,
    BUILDAH_FRONTEND,
    BUILDKIT_20_FRONTEND,
    BUILDKIT_FRONTEND,
    CLASSIC_20_FRONTEND,
    CLASSIC_FRONTEND,
    Frontend,
)
from imagegate.errors import UsageError


class Family(Enum):
    """The code base that copies files into an image."""

    BUILDKIT = "buildkit"
    CLASSIC = "classic"
    BUILDAH = "buildah"


class Reader(Enum):
    """How an ignore file is split into patterns."""

    MOBY = "moby/patternmatcher ignorefile"
    IMAGEBUILDER = "openshift/imagebuilder ParseIgnore"


class Grammar(Enum):
    """How one pattern becomes a test of a path."""

    MOBY = "moby/patternmatcher"
    DOCKER_20 = "docker 20.10 pkg/fileutils"
    STORAGE = "containers/storage pkg/fileutils"


class Algorithm(Enum):
    """How the lines of an ignore file and the directories of a context are combined."""

    FSUTIL = "fsutil FilterFS: results inherited per pattern, wildcard exceptions are walked"
    FSUTIL_20 = "fsutil of Docker 20.10: one parent looked at, text prefixes only"
    TAR = "moby TarWithOptions since 23: results inherited per pattern, text prefixes only"
    TAR_20 = "moby TarWithOptions of 20.10"
    COPIER = "buildah copier: last match wins on the full path, text prefixes only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copier:
    """What buildah's copier does with globs.

    Attributes:
        deep_globs: ``**`` in a source is any depth.
        globs_again: the name that a glob matched is taken for a glob once more.
    """

    deep_globs: bool = False
    globs_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One builder in one version.

    Attributes:
        name: the word for it on the command line and in reports.
        title: the builder as a person would name it.
        family: whose copy semantics apply.
        reader: how its ignore file is read.
        grammar: how its patterns match.
        algorithm: how its patterns are combined over a tree.
        opener_checks: the file opener applies last-match-wins on its own, so that a file which
            the walk keeps can arrive with 0 bytes (BuildKit since 0.13).
        frontend: what its Dockerfile may say.
        copier: what its sources mean, where it is buildah.
    """

    name: str
    title: str
    family: Family
    reader: Reader
    grammar: Grammar
    algorithm: Algorithm
    opener_checks: bool = False
    frontend: Frontend = field(repr=False)
    copier: Copier = Copier()


BUILDKIT = Profile(
    name="buildkit",
    title="BuildKit 0.25 and later",
    family=Family.BUILDKIT,
    reader=Reader.MOBY,
    grammar=Grammar.MOBY,
    algorithm=Algorithm.FSUTIL,
    opener_checks=True,
    frontend=BUILDKIT_FRONTEND,
)
BUILDKIT_20 = Profile(
    name="buildkit-20.10",
    title="BuildKit in Docker 20.10",
    family=Family.BUILDKIT,
    reader=Reader.MOBY,
    grammar=Grammar.DOCKER_20,
    algorithm=Algorithm.FSUTIL_20,
    frontend=BUILDKIT_20_FRONTEND,
)
CLASSIC = Profile(
    name="classic",
    title="classic builder, docker CLI 23 and later",
    family=Family.CLASSIC,
    reader=Reader.MOBY,
    grammar=Grammar.MOBY,
    algorithm=Algorithm.TAR,
    frontend=CLASSIC_FRONTEND,
)
CLASSIC_20 = replace(
    CLASSIC,
    name="classic-20.10",
    title="classic builder of Docker 20.10",
    grammar=Grammar.DOCKER_20,
    algorithm=Algorithm.TAR_20,
    frontend=CLASSIC_20_FRONTEND,
)
BUILDAH = Profile(
    name="buildah",
    title="buildah 1.43",
    family=Family.BUILDAH,
    reader=Reader.IMAGEBUILDER,
    grammar=Grammar.STORAGE,
    algorithm=Algorithm.COPIER,
    frontend=BUILDAH_FRONTEND,
    copier=Copier(deep_globs=True),
)
BUILDAH_128 = replace(
    BUILDAH,
    name="buildah-1.28",
    title="buildah 1.28",
    frontend=BUILDAH_128_FRONTEND,
    copier=Copier(globs_again=True),
)

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (BUILDKIT, BUILDKIT_20, CLASSIC, CLASSIC_20, BUILDAH, BUILDAH_128)
}


def find_profile(name: str) -> Profile:
    """Return the profile called `name`.

    Raises:
        UsageError: there is none.
    """
    if name not in PROFILES:
        raise UsageError(f"no builder `{name}`", hint=f"known builders: {', '.join(PROFILES)}")
    return PROFILES[name]


# docker 23 took BuildKit 0.10 in, podman 5 buildah 1.35
_MODERN_DOCKER = 23
_MODERN_PODMAN = 5


def profile_of_engine(builder: str, version: str) -> Profile:
    """Return what an engine builds as.

    Args:
        builder: ``buildx``, ``buildkit``, ``classic`` or ``podman``.
        version: of the docker daemon or of podman; one that cannot be read is taken for current.
    """
    major = version.partition(".")[0]
    number = int(major) if major.isdigit() else None
    if builder == "podman":
        return BUILDAH if number is None or number >= _MODERN_PODMAN else BUILDAH_128
    modern = number is None or number >= _MODERN_DOCKER
    if builder == "classic":
        return CLASSIC if modern else CLASSIC_20
    if modern:
        return BUILDKIT
    if builder == "buildx":
        # the plugin filters the context, the daemon's older frontend reads the Dockerfile
        return replace(
            BUILDKIT,
            name="buildx-20.10",
            title="buildx on Docker 20.10",
            frontend=BUILDKIT_20.frontend,
        )
    return BUILDKIT_20


_SYNTAX = re.compile(r"(?:docker\.io/)?docker/dockerfile(?::(?P<tag>[\w.-]+))?(?:@.*)?")
_SINCE = {"chmod": (1, 2), "link": (1, 4), "exclude": (1, 19), "parents": (1, 20)}
_LABS = (1, 7)
_HEREDOCS = (1, 4)


def with_syntax(profile: Profile, syntax: str | None) -> Profile:
    """Return `profile` with the frontend that ``# syntax=`` picks.

    Only BuildKit reads the directive. A flag that a frontend does not have is a parse error with
    it, whatever the daemon knows. A frontend that is not Docker's own is taken for the profile's.
    """
    found = _SYNTAX.fullmatch(syntax or "")
    if profile.family is not Family.BUILDKIT or found is None:
        return profile
    version, _, channel = (found["tag"] or "1").partition("-")
    if version in {"latest", "1", "experimental", "labs"}:
        numbers: tuple[int, ...] = (1, 10_000)
    elif re.fullmatch(r"\d+(\.\d+)*", version):
        numbers = tuple(int(part) for part in version.split("."))[:2]
    else:
        return profile
    labs = channel == "labs" and numbers >= _LABS
    missing = {
        flag
        for flag, since in _SINCE.items()
        if numbers < since and not (labs and flag in {"exclude", "parents"})
    }
    modern = numbers >= _HEREDOCS
    frontend = BUILDKIT.frontend if modern else BUILDKIT_20.frontend
    return replace(
        profile,
        frontend=replace(
            frontend,
            flags=frontend.flags - missing,
            heredocs=modern,
            merges_links=profile.frontend.merges_links,
        ),
    )
