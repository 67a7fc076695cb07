"""One build that is to be judged, wherever it was described."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.errors import CoverageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from imagegate.coverage.building.build import Base
    from imagegate.errors import ImagegateError

STANDARD_INPUT = "-"

# what docker, buildx and podman take for a context that is not a folder, in their order of asking
_FOREIGN = (
    (re.compile(r"docker-image://(?P<it>.+)"), "the image `{it}`"),
    (re.compile(r"container-image://(?P<it>.+)"), "the image `{it}`"),
    (re.compile(r"oci-layout://(?P<it>.+)"), "the OCI layout `{it}`"),
    (re.compile(r"target:(?P<it>.+)"), "what the bake target `{it}` builds"),
    (re.compile(r"service:(?P<it>.+)"), "what the service `{it}` builds"),
    (re.compile(r"input:(?P<it>.+)"), "the builder's input `{it}`"),
    (re.compile(r"(?P<it>-)"), "an archive on standard input"),
    (
        re.compile(
            r"(?P<it>(?:git|ssh)://.+|git@[^/:]+:.+|[\w.-]+@[\w.-]+:.+|github\.com/.+"
            r"|https?://[^#?]+\.git(?:[#?].*)?)"
        ),
        "the git repository `{it}`",
    ),
    (re.compile(r"(?P<it>https?://.+)"), "the archive `{it}` from the web"),
)


def foreign_context(value: str) -> str | None:
    """Name what a context is that is not a folder, or return ``None`` for a folder."""
    for form, title in _FOREIGN:
        found = form.fullmatch(value)
        if found is not None:
            return title.format(it=found["it"])
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One build and what is asked of it.

    Attributes:
        dockerfile: where the Dockerfile lies; ``None`` where only its text is known.
        text: the Dockerfile's text, where it is not in a file.
        label: what messages call a Dockerfile that is not in a file.
        context: the build context.
        assets: patterns of what has to be in the image.
        exclude: patterns of what of it is not wanted.
        expects: where it has to be, ``SRC=DST``.
        target: the stage to build, or ``None`` for the last.
        build_args: values of ``--build-arg``.
        args_complete: the real build is given these and no others.
        build_contexts: named contexts that are folders.
        foreign: named contexts that are something else, as what they are.
        builders: names of builders.
        platform: what is built for; ``None`` where it does not matter.
        run_keeps: image paths that no RUN changes.
        strict: notes fail, too.
        variant: what tells this build from others of the same Dockerfile.
        bases: base images that are known, by the name in FROM.
    """

    dockerfile: Path | None
    text: bytes | None = None
    label: str = ""
    context: Path
    assets: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    expects: tuple[str, ...] = ()
    target: str | None = None
    build_args: Mapping[str, str] = field(default_factory=dict)
    args_complete: bool = False
    build_contexts: Mapping[str, Path] = field(default_factory=dict)
    foreign: Mapping[str, str] = field(default_factory=dict)
    builders: tuple[str, ...] = ("buildkit",)
    platform: str | None = None
    run_keeps: tuple[str, ...] = ()
    strict: bool = False
    variant: str = ""
    bases: Mapping[str, Base] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A build that cannot be judged.

    Attributes:
        title: what reports call it.
        error: why.
    """

    title: str
    error: ImagegateError


def local_context(value: str, folder: Path) -> Path:
    """Return a main context as a folder.

    Args:
        value: as it was written.
        folder: what relative paths are relative to.

    Raises:
        CoverageError: it is something else, which is named.
    """
    title = foreign_context(value)
    if title is not None and not (folder / value).is_dir():
        raise CoverageError(
            f"the context is {title}, which the builder fetches by itself",
            hint="check it out or unpack it, and give that folder as the context",
        )
    return folder / value


def split_contexts(
    contexts: Mapping[str, str], folder: Path
) -> tuple[dict[str, Path], dict[str, str]]:
    """Part named contexts into folders and what is named as what it is."""
    folders: dict[str, Path] = {}
    foreign: dict[str, str] = {}
    for name, value in contexts.items():
        title = foreign_context(value)
        if title is None or (folder / value).is_dir():
            folders[name] = folder / value
        else:
            foreign[name] = title
    return folders, foreign
