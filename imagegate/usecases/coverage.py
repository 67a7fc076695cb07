"""COPY coverage of a project: reads context, Dockerfiles and git, writes the repair."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from imagegate.coverage.building.build import Base, Build, FilteredContext
from imagegate.coverage.building.profiles import find_profile
from imagegate.coverage.reading.dockerfile import parse_dockerfile
from imagegate.coverage.render import FileReport
from imagegate.coverage.repair import propose
from imagegate.coverage.sending.ignorefile import NO_IGNORE_FILE, IgnoreFile, read_ignore_file
from imagegate.coverage.sending.walk import ContextFilter, Decision
from imagegate.coverage.tree import (
    Context,
    Kind,
    Node,
)
from imagegate.coverage.verdict import Judgement, judge
from imagegate.errors import CoverageError, ImagegateError
from imagegate.usecases.covering.assets import find_assets, heads
from imagegate.usecases.covering.contexts import ignore_bytes, label_of, read_bytes, read_context
from imagegate.usecases.covering.git import git_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from imagegate.coverage.building.builder import Builder
    from imagegate.coverage.outcome import Asset


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to judge.

    Attributes:
        dockerfiles: paths as the user wrote them.
        context: the build context.
        recipes: globs of recipe folders, relative to the context.
        expects: pairs of templates (context path, image path) with ``{model}`` in both.
        target: the stage to build, or ``None`` for the last.
        build_args: values of ``--build-arg``.
        build_contexts: named contexts.
        builders: names of profiles.
        run_keeps: image paths that no RUN touches.
        bases: base images that are known, by the name in FROM.
    """

    dockerfiles: tuple[Path, ...]
    context: Path
    recipes: tuple[str, ...] = ()
    expects: tuple[tuple[str, str], ...] = ()
    target: str | None = None
    build_args: Mapping[str, str] = field(default_factory=dict)
    build_contexts: Mapping[str, Path] = field(default_factory=dict)
    builders: tuple[str, ...] = ("buildkit",)
    run_keeps: tuple[str, ...] = ()
    bases: Mapping[str, Base] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One line of ``--list-context``.

    Attributes:
        path: path in the context; a directory that is not entered ends with ``/``.
        state: ``sent``, ``dropped`` or ``empty``.
        by: the line that decided, ``path:line`` with its text, or an empty string.
    """

    path: str
    state: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Texts:
    """The files that were read for one Dockerfile: their bytes and where they lie."""

    contents: dict[str, bytes] = field(default_factory=dict)
    places: dict[str, Path] = field(default_factory=dict)


def check_coverage(request: Request, *, fix: bool = False) -> tuple[FileReport, ...]:
    """Judge every Dockerfile of `request`.

    Args:
        request: what to judge.
        fix: write the edits that cover what is not covered, and judge again.

    Raises:
        CoverageError: a file, a context or the recipes cannot be used.
    """
    context = read_context(request.context)
    git = git_state(request.context, heads(request.recipes))
    expects = tuple(f"{source}={goal}" for source, goal in request.expects)
    assets = find_assets(request.recipes, expects, context, git).assets
    return tuple(
        _check_one(request, dockerfile, context, assets, fix=fix)
        for dockerfile in request.dockerfiles
    )


def _check_one(
    request: Request, dockerfile: Path, context: Context, assets: Sequence[Asset], *, fix: bool
) -> FileReport:
    texts = _Texts()
    judgements = [
        judge(_build(request, dockerfile, context, find_profile(name), texts), assets)
        for name in request.builders
    ]
    left_out = _left_out(judgements)
    judgements = [_without(judgement, left_out) for judgement in judgements]
    if not judgements[0].verdicts:
        raise CoverageError("every file of the recipes is git-ignored and none is copied")
    label = label_of(dockerfile)
    if all(judgement.covered for judgement in judgements):
        return FileReport(
            dockerfile=label, judgements=tuple(judgements), left_out=tuple(sorted(left_out))
        )
    repair = propose(judgements, texts.contents)
    if fix:
        for path, text in repair.texts.items():
            write_atomically(texts.places[path], text)
        judgements = list(repair.judgements)
    return FileReport(
        dockerfile=label,
        judgements=tuple(judgements),
        edits=repair.edits,
        written=fix,
        left_out=tuple(sorted(left_out)),
    )


def _left_out(judgements: list[Judgement]) -> set[str]:
    """Return git-ignored files that no builder copies: they are neither kept nor wanted."""
    wanted = {
        verdict.asset.path
        for judgement in judgements
        for verdict in judgement.verdicts
        if not verdict.asset.gitignored or verdict.found
    }
    return {verdict.asset.path for verdict in judgements[0].verdicts} - wanted


def _without(judgement: Judgement, paths: set[str]) -> Judgement:
    if not paths:
        return judgement
    kept = tuple(verdict for verdict in judgement.verdicts if verdict.asset.path not in paths)
    return replace(judgement, verdicts=kept)


def list_context(request: Request) -> Iterator[tuple[str, Sent]]:
    """Yield what each builder sends and drops, as (builder, line), in path order.

    Raises:
        CoverageError: a file or the context cannot be used.
    """
    context = read_context(request.context)
    for dockerfile in request.dockerfiles:
        for name in request.builders:
            builder = find_profile(name)
            ignore = ignore_for(request, dockerfile, builder)
            rules = ContextFilter(ignore, builder.client)
            rules.send(context.root)  # a broken line is heard of before anything is printed
            for path, node, decision in rules.decisions(context.root):
                yield name, _sent(path, node, decision, ignore)


def _sent(path: str, node: Node, decision: Decision, ignore: IgnoreFile) -> Sent:
    by = ""
    if decision.rule is not None:
        line = decision.rule.line
        by = f"{ignore.path}:{line} `{ignore.written(line).strip()}`"
    state = "empty" if decision.emptied else "sent" if decision.kept else "dropped"
    return Sent(path=path + "/" if node.kind is Kind.DIRECTORY else path, state=state, by=by)


# -- reading


def _build(
    request: Request, dockerfile: Path, context: Context, builder: Builder, texts: _Texts
) -> Build:
    label = label_of(dockerfile)
    content = read_bytes(dockerfile, f"no Dockerfile `{dockerfile}`")
    texts.contents[label] = content
    texts.places[label] = dockerfile
    return Build(
        dockerfile=parse_dockerfile(content, label),
        dockerfile_path=_in_context(request, dockerfile),
        builder=builder,
        main=FilteredContext(
            context=context, ignore=ignore_for(request, dockerfile, builder, texts)
        ),
        named={
            name: FilteredContext(
                context=read_context(folder, name), ignore=_root_ignore(folder, builder)
            )
            for name, folder in request.build_contexts.items()
        },
        build_args=request.build_args,
        args_complete=False,
        target=request.target,
        bases=request.bases,
        run_keeps=request.run_keeps,
    )


def _in_context(request: Request, dockerfile: Path) -> str:
    """Return the Dockerfile's path relative to the context root, empty when it is outside."""
    try:
        return dockerfile.absolute().resolve().relative_to(request.context.resolve()).as_posix()
    except ValueError:
        return ""


def ignore_for(
    request: Request, dockerfile: Path, builder: Builder, texts: _Texts | None = None
) -> IgnoreFile:
    """Return the ignore file that `profile` reads for `dockerfile`.

    Raises:
        CoverageError: it cannot be read.
    """
    texts = texts if texts is not None else _Texts()
    own = dockerfile.with_name(dockerfile.name + "\0")
    for candidate in builder.client.ignore_files("\0"):
        place = (
            own.with_name(dockerfile.name + candidate.removeprefix("\0"))
            if candidate.startswith("\0")
            else request.context / candidate
        )
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


# -- assets


# -- writing


def write_atomically(place: Path, content: bytes) -> None:
    """Replace the file at `place`; its mode stays, and a reader never sees half of it.

    Raises:
        ImagegateError: it cannot be written.
    """
    goal = place.resolve()
    try:
        handle, name = tempfile.mkstemp(dir=goal.parent, prefix=f".{goal.name}.")
        try:
            with os.fdopen(handle, "wb") as opened:
                opened.write(content)
                opened.flush()
                os.fsync(opened.fileno())
            Path(name).chmod(goal.stat().st_mode & 0o7777)
            Path(name).replace(goal)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as failed:
        raise ImagegateError(f"`{place}` cannot be written: {failed}") from failed
