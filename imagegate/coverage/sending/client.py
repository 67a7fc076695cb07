"""The half of a builder that runs beside the context and filters it, as data.

The filter runs in the client (docker CLI, buildx, buildctl, buildah), so the client's version and
not the daemon's decides what is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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
class Client:
    """What filters a context.

    Attributes:
        reader: how its ignore file is read.
        grammar: how its patterns match.
        algorithm: how its patterns are combined over a tree.
        opener_checks: the file opener applies last-match-wins on its own, so that a file which
            the walk keeps can arrive with 0 bytes (BuildKit since 0.13).
        own_suffixes: endings of ignore files beside the Dockerfile, the first existing one wins.
        root_names: ignore files at the context's root, looked for when there is none beside it.
        utf8_names: a file name that is not UTF-8 cannot be sent.
        skips_folders: a directory with an ignore file's name counts as none; otherwise it fails.
    """

    reader: Reader
    grammar: Grammar
    algorithm: Algorithm
    opener_checks: bool = False
    own_suffixes: tuple[str, ...] = ()
    root_names: tuple[str, ...] = (".dockerignore",)
    skips_folders: bool = False
    utf8_names: bool = False

    def ignore_files(self, dockerfile: str) -> tuple[str, ...]:
        """Return the ignore files that are looked for, the first existing one is read.

        Args:
            dockerfile: the Dockerfile's path, relative to the context root (``../x`` when
                outside), or an empty string when it comes on standard input.

        Returns:
            Paths relative to the context root. One that exists is read even when it is empty.
        """
        own = tuple(dockerfile + suffix for suffix in self.own_suffixes) if dockerfile else ()
        return (*own, *self.root_names)


FSUTIL = Client(
    reader=Reader.MOBY,
    grammar=Grammar.MOBY,
    algorithm=Algorithm.FSUTIL,
    opener_checks=True,
    own_suffixes=(".dockerignore",),
    skips_folders=True,
    utf8_names=True,
)
FSUTIL_20 = Client(
    reader=Reader.MOBY,
    grammar=Grammar.DOCKER_20,
    algorithm=Algorithm.FSUTIL_20,
    own_suffixes=(".dockerignore",),
    skips_folders=True,
)
TAR = Client(reader=Reader.MOBY, grammar=Grammar.MOBY, algorithm=Algorithm.TAR)
TAR_20 = Client(reader=Reader.MOBY, grammar=Grammar.DOCKER_20, algorithm=Algorithm.TAR_20)
COPIER = Client(
    reader=Reader.IMAGEBUILDER,
    grammar=Grammar.STORAGE,
    algorithm=Algorithm.COPIER,
    # ContainerIgnoreFile tests `.containerignore` first and lets `.dockerignore` overwrite it
    own_suffixes=(".dockerignore", ".containerignore"),
    root_names=(".containerignore", ".dockerignore"),
)
