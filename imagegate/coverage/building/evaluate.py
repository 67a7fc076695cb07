"""A Dockerfile and a context -> the file system of each stage, for one builder.

Each file of a tree knows the context file that it came from and the lines that carried it. Where
the builder gives up, the failure is noted and the evaluation goes on, so that one report names
everything that is wrong; an image exists only without failures.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from imagegate.coverage.building.build import Build, Evaluation, FilteredContext
from imagegate.coverage.building.builder import Opening
from imagegate.coverage.building.placing import (
    BuildFailureError,
    Job,
    NotKnownError,
    Source,
    becloud,
    exists_for_sure,
    follow,
    make_directories,
    require_certain,
)
from imagegate.coverage.building.references import References, mount_options
from imagegate.coverage.golang.paths import inside
from imagegate.coverage.reading.operations import REMOTE, Copy, Failure, Run, Stage, Workdir
from imagegate.coverage.reading.stages import StageReader
from imagegate.coverage.sending.walk import ContextFilter
from imagegate.coverage.shell.runs import EVERYTHING, touched_by
from imagegate.coverage.tree import (
    BaseDoubt,
    Kind,
    LineDoubt,
    Node,
    clone,
    directory,
    lookup,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


def evaluate(build: Build) -> Evaluation:
    """Evaluate a build.

    Raises:
        CoverageError: the Dockerfile or the ignore file is broken, or the target does not exist.
    """
    return _Evaluator(build).run()


class _Evaluator:
    def __init__(self, build: Build) -> None:
        self._builder = build.builder.reading(build.dockerfile.syntax)
        self._build = build = replace(build, builder=self._builder)
        configs = {name: base.config for name, base in build.bases.items()}
        reader = StageReader(
            build.dockerfile,
            self._builder.frontend,
            build.build_args,
            configs,
            args_complete=build.args_complete,
        )
        self._stages = reader.read()
        self._references = References(build, self._stages)
        self._filter = ContextFilter(build.main.ignore, self._builder.client)
        self._trees: dict[int, Node] = {}
        self._failures: list[Failure] = list(reader.failures)
        self._sources: dict[str, Source] = {}

    def run(self) -> Evaluation:
        target = self._references.target()
        needed = self._references.needed(target)
        for line, message in self._references.problems(needed):
            self._fail(line, message)
        self._read_by = self._reading(needed)
        for index in sorted(needed):
            self._stage(self._stages[index])
        # stages that are not built are still looked at, as if they were: "only in another stage"
        # is an answer
        spare = list(self._failures)
        self._sources.clear()
        self._read_by = self._reading(range(len(self._stages)))
        for stage in self._stages:
            if stage.index not in self._trees:
                self._stage(stage)
        return Evaluation(
            stages=tuple(self._stages),
            trees=self._trees,
            target=target,
            needed=frozenset(needed),
            failures=tuple(spare),
            filter=self._filter,
        )

    def _reading(self, stages: Iterable[int]) -> list[Copy | Run]:
        """Return the operations of `stages` that read a context."""
        return [
            operation
            for index in sorted(stages)
            for operation in self._stages[index].operations
            if isinstance(operation, Copy | Run)
        ]

    # -- sources

    def _main(self) -> Source:
        """Return the main context as the builder sees it, filtering it at the first use."""
        if "" not in self._sources:
            self._sources[""] = self._open(self._build.main, self._filter, "")
        return self._sources[""]

    def _open(self, filtered: FilteredContext, rules: ContextFilter, name: str) -> Source:
        return self._builder.open(
            Opening(
                filtered=filtered,
                rules=rules,
                named=lambda: self._named_paths(name),
                dockerfile_path=self._build.dockerfile_path,
                main=not name,
            )
        )

    def _named_paths(self, name: str) -> list[str]:
        paths: list[str] = []
        for operation in self._read_by:
            if isinstance(operation, Copy):
                if operation.from_ == name:
                    paths += [src for src in operation.sources if not src.startswith(REMOTE)]
                continue
            for mount in operation.mounts:
                options = mount_options(mount)
                if options["type"] == "bind" and options.get("from", "") == name:
                    paths.append(options.get("source", "/"))
        return paths

    # -- operations

    def _fail(self, line: int, message: str, source: str = "") -> None:
        failure = Failure(line=line, message=message, source=source)
        if failure not in self._failures:
            self._failures.append(failure)

    def _stage(self, stage: Stage) -> None:
        self._trees[stage.index] = tree = self._start(stage)
        for operation in stage.operations:
            try:
                self._operation(operation, stage, tree)
            except BuildFailureError as failed:
                self._fail(operation.line, failed.message, failed.source)

    def _start(self, stage: Stage) -> Node:
        if stage.parent is not None:
            parent = self._trees.get(stage.parent)
            return clone(parent) if parent is not None else directory(doubt="its base stage")
        if stage.base == "scratch":
            return directory()
        known = self._build.bases.get(stage.base)
        if known is not None and stage.doubt is None:
            return clone(known.root)
        if stage.base in self._build.named:
            return directory(doubt=f"the context `{stage.base}` as a base is not looked into")
        if stage.doubt is None and _repository(stage.base) != _repository(stage.base).lower():
            self._fail(stage.line, f"`{stage.base}`: a repository name has no upper case")
        reason = stage.doubt or f"what the base image `{stage.base}` holds is not known"
        return directory(doubt=BaseDoubt(reason))

    def _operation(
        self, operation: Copy | Run | Workdir | Failure, stage: Stage, tree: Node
    ) -> None:
        match operation:
            case Failure():
                self._fail(operation.line, operation.message, operation.source)
            case Workdir():
                if operation.path is None:
                    return
                self._builder.working_directory(tree, operation.path)
            case Run():
                self._run(operation, tree)
            case Copy():
                self._copy(operation, stage, tree)

    def _run(self, operation: Run, tree: Node) -> None:
        for mount in operation.mounts:
            options = mount_options(mount)
            if options["type"] == "bind" and not options.get("from"):
                path = inside(options.get("source", "/"))
                source = self._main()
                if lookup(source.root, follow(source.root, path)) is None:
                    raise BuildFailureError(f"`--mount`: `/{path}` not found", source=path)
        for target in self._builder.removed_after(operation):
            becloud(
                tree,
                inside(target),
                LineDoubt.at(operation.line, f"line {operation.line} mounts over it"),
            )
        touched = (
            EVERYTHING
            if operation.foreign_shell
            else touched_by(operation.text, operation.words, operation.workdir)
        )
        reason = LineDoubt.at(operation.line, f"RUN in line {operation.line} may change it")
        kept = [inside(path) for path in self._build.run_keeps]
        if touched.paths is None:
            _becloud_but(tree, "", reason, kept)
            return
        for path in touched.paths:
            # a command that names a path through a link changes what the link leads to
            named = inside(path)
            for reached in dict.fromkeys((named, follow(tree, named))):
                _becloud_but(tree, reached, reason, kept)

    def _copy(self, operation: Copy, stage: Stage, tree: Node) -> None:
        destination = self._builder.destination(operation)
        if destination is None:
            becloud(
                tree,
                "",
                LineDoubt.at(operation.line, f"where line {operation.line} copies to is not known"),
            )
            return
        target, into = destination
        if operation.doubt:
            becloud(
                tree, "", LineDoubt.at(operation.line, f"line {operation.line}: {operation.doubt}")
            )
            return
        local = tuple(src for src in operation.sources if not src.startswith(REMOTE))
        remote = [src for src in operation.sources if src.startswith(REMOTE)]
        if remote and not operation.add:
            raise BuildFailureError("source can't be a URL for COPY")
        for url in remote:
            becloud(
                tree,
                inside(target),
                LineDoubt.at(operation.line, f"line {operation.line} fetches `{url}`"),
            )
        if not local and not operation.documents:
            return
        source = self._source(operation, stage, tree, inside(target))
        if source is None:
            return
        _require_owner(operation.owner, tree)
        self._do(operation, tree, source, local, target, into=into)

    def _do(
        self,
        operation: Copy,
        tree: Node,
        source: Source,
        local: tuple[str, ...],
        target: str,
        *,
        into: bool,
    ) -> None:
        job = Job(
            line=operation.line,
            sources=local,
            source=source,
            documents=operation.documents,
            destination=target,
            into_directory=into,
            workdir=operation.workdir or "/",
            add=operation.add,
            unpacks=operation.add if operation.unpack is None else operation.unpack,
            link=operation.link,
            parents=operation.parents,
            excludes=operation.excludes,
            client=self._builder.client,
            frontend=self._builder.frontend,
        )
        try:
            if source.context is None:
                for written in local:
                    require_certain(source.root, written)
            self._builder.copy(job, tree)
        except NotKnownError as unknown:
            becloud(
                tree,
                inside(target),
                LineDoubt.at(operation.line, f"line {operation.line}: {unknown}"),
            )

    def _source(self, operation: Copy, stage: Stage, tree: Node, target: str) -> Source | None:
        name = operation.from_
        if not name or (operation.documents and not operation.sources):
            if not operation.sources:
                return Source(root=directory(), context=None)
            return self._main()
        if name in self._build.named:
            return self._named(name)
        index = self._references.named(name)
        if index is None and name == "scratch":
            if self._builder.frontend.scratch_is_reserved:
                raise BuildFailureError("`scratch` is a reserved name")
            return Source(root=directory(), context=None)
        if index is None:
            repository = _repository(name)
            if any(repository.lower() == stage.name.lower() for stage in self._stages) or (
                repository != repository.lower()
            ):
                raise BuildFailureError(
                    f"no stage `{name}`: this builder tells upper from lower case in names"
                )
            becloud(
                tree,
                target,
                LineDoubt.at(
                    operation.line, f"line {operation.line} copies from the image `{name}`"
                ),
            )
            return None
        if index >= len(self._stages) or index >= stage.index:
            raise BuildFailureError(f"stage `{name}` is not built before stage {stage.index}")
        return Source(root=self._trees[index], context=None)

    def _named(self, name: str) -> Source:
        if name not in self._sources:
            known = self._build.named[name]
            rules = ContextFilter(known.ignore, self._builder.client)
            self._sources[name] = self._open(known, rules, name)
        return self._sources[name]


def _require_owner(owner: str, tree: Node) -> None:
    """A user or group by name has to be in the image's own files.

    Raises:
        BuildFailureError: there certainly is no such file.
    """
    user, _, group = owner.partition(":")
    for name, place in ((user, "etc/passwd"), (group, "etc/group")):
        if not name or name.isdigit():
            continue
        try:
            known = exists_for_sure(tree, place)
        except NotKnownError:
            continue
        if known is None:
            raise BuildFailureError(f"`--chown={owner}`: the image has no `/{place}`")


def _repository(image: str) -> str:
    """Return the path of an image reference, without host, tag and digest."""
    named = image.partition("@")[0]
    host, slash, path = named.partition("/")
    if slash and ("." in host or ":" in host or host == "localhost"):
        named = path
    above, slash, last = named.rpartition("/")
    return above + slash + last.partition(":")[0]


def _becloud_but(tree: Node, path: str, reason: str, kept: list[str]) -> None:
    """Mark everything at `path` as uncertain but what the caller vouches for."""
    saved = [(keep, lookup(tree, keep)) for keep in kept]
    copies = [(keep, clone(node)) for keep, node in saved if node is not None]
    becloud(tree, path, reason)
    for keep, node in copies:
        above, _, name = keep.rpartition("/")
        parent = make_directories(tree, above)
        if parent.children.get(name) is not None and node.kind is not Kind.SPECIAL:
            parent.children[name] = node
