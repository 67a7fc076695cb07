"""Dockerfiles, ignore files and contexts of the builds that are judged, each read once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.coverage.building.build import Build, FilteredContext
from imagegate.coverage.reading.frontend import reads
from imagegate.coverage.sending.ignorefile import NO_IGNORE_FILE, IgnoreFile, read_ignore_file
from imagegate.usecases.covering.assets import heads
from imagegate.usecases.covering.contexts import ignore_bytes, label_of, read_bytes, read_context
from imagegate.usecases.covering.git import Git

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from imagegate.coverage.building.builder import Builder
    from imagegate.coverage.tree import Context
    from imagegate.usecases.covering.git import GitState
    from imagegate.usecases.covering.wanted import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The files that were read for one build: their bytes and where they lie."""

    contents: dict[str, bytes] = field(default_factory=dict)
    places: dict[str, Path] = field(default_factory=dict)


class Shelf:
    """Contexts and git's answers, shared by builds that have them in common."""

    def __init__(self, wanted: Iterable[Wanted]) -> None:
        """Remember what will be asked for; nothing is read yet."""
        below: dict[Path, list[str]] = {}
        for one in wanted:
            below.setdefault(one.context, []).extend(heads(one.assets))
        self._git = Git(below)
        self._contexts: dict[tuple[Path, str], Context] = {}

    def context(self, folder: Path, name: str = "") -> Context:
        """Return a context.

        Raises:
            CoverageError: it is not a readable folder.
        """
        if (folder, name) not in self._contexts:
            self._contexts[folder, name] = read_context(folder, name)
        return self._contexts[folder, name]

    def git(self, folder: Path) -> GitState | None:
        """Return what git knows of a context."""
        return self._git.state(folder)


def dockerfile_of(wanted: Wanted, texts: Texts) -> tuple[str, bytes]:
    """Return what messages call the Dockerfile, and its bytes.

    Raises:
        CoverageError: it cannot be read.
    """
    if wanted.dockerfile is None:
        assert wanted.text is not None
        label, content = wanted.label, wanted.text
    else:
        label = label_of(wanted.dockerfile)
        content = read_bytes(wanted.dockerfile, f"no Dockerfile `{wanted.dockerfile}`")
        texts.places[label] = wanted.dockerfile
    texts.contents[label] = content
    return label, content


def build_of(wanted: Wanted, builder: Builder, shelf: Shelf, texts: Texts) -> Build:
    """Return what `builder` is called with.

    Raises:
        CoverageError: a file or a context cannot be read, or a line of a file is broken.
    """
    label, content = dockerfile_of(wanted, texts)
    return Build(
        dockerfile=reads(builder.frontend, content, label),
        dockerfile_path=_in_context(wanted),
        builder=builder,
        main=FilteredContext(
            context=shelf.context(wanted.context),
            ignore=ignore_for(wanted.context, wanted.dockerfile, builder, texts),
        ),
        named={
            name: FilteredContext(
                context=shelf.context(folder, name), ignore=_root_ignore(folder, builder)
            )
            for name, folder in wanted.build_contexts.items()
        },
        foreign=wanted.foreign,
        build_args=wanted.build_args,
        args_complete=wanted.args_complete,
        target=wanted.target,
        bases=wanted.bases,
        platform=wanted.platform,
        run_keeps=wanted.run_keeps,
    )


def _in_context(wanted: Wanted) -> str:
    """Return the Dockerfile's path relative to the context root, empty when it is outside."""
    if wanted.dockerfile is None:
        return ""
    try:
        place = wanted.dockerfile.absolute().resolve()
        return place.relative_to(wanted.context.resolve()).as_posix()
    except ValueError:
        return ""


def ignore_for(
    context: Path, dockerfile: Path | None, builder: Builder, texts: Texts | None = None
) -> IgnoreFile:
    """Return the ignore file that `builder` reads for `dockerfile`, ``None`` on standard input.

    Raises:
        CoverageError: it cannot be read.
    """
    texts = texts if texts is not None else Texts()
    for candidate in builder.client.ignore_files("\0" if dockerfile is not None else ""):
        place = context / candidate
        if dockerfile is not None and candidate.startswith("\0"):
            place = dockerfile.with_name(dockerfile.name + candidate.removeprefix("\0"))
        found = ignore_bytes(place, builder.client)
        if found is not None:
            texts.contents[label_of(place)] = found
            texts.places[label_of(place)] = place
            return read_ignore_file(found, label_of(place), builder.client.reader)
    return NO_IGNORE_FILE


def _root_ignore(folder: Path, builder: Builder) -> IgnoreFile:
    for candidate in builder.client.ignore_files(""):
        found = ignore_bytes(folder / candidate, builder.client)
        if found is not None:
            return read_ignore_file(found, label_of(folder / candidate), builder.client.reader)
    return NO_IGNORE_FILE
