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
from imagegate.coverage.building.carrying import Cloud, Hold
from imagegate.coverage.building.placing import (
    BuildFailureError,
    Job,
    NotKnownError,
    Source,
    follow,
    image_node,
    lay_doubt,
    make_directories,
    mounting,
    put,
)
from imagegate.coverage.building.references import References, mount_options
from imagegate.coverage.building.running import Running, find
from imagegate.coverage.golang.paths import base, inside, join, split_wildcards
from imagegate.coverage.reading.operations import REMOTE, Copy, Failure, Run, Stage, Workdir
from imagegate.coverage.reading.platforms import platform_args
from imagegate.coverage.reading.stages import StageReader
from imagegate.coverage.sending.walk import ContextFilter
from imagegate.coverage.shell.acts import Act, Deed
from imagegate.coverage.shell.runs import acts_of_run, shown
from imagegate.coverage.tree import (
    Doubt,
    Kind,
    Node,
    Origin,
    Weight,
    clone,
    directory,
    file,
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
            platforms=platform_args(build.platform, build.host),
        )
        self._stages = reader.read()
        self._references = References(build, self._stages)
        self._filter = ContextFilter(build.main.ignore, self._builder.client)
        self._trees: dict[int, Node] = {}
        self._clouds: dict[int, Cloud] = {}
        self._failures: list[Failure] = list(reader.failures)
        self._told = set(self._failures)
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
            clouds=self._clouds,
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
        if failure not in self._told:
            self._told.add(failure)
            self._failures.append(failure)

    def _stage(self, stage: Stage) -> None:
        self._clouds[stage.index] = Cloud(parent=stage.parent)
        self._trees[stage.index] = tree = self._start(stage)
        for operation in stage.operations:
            try:
                self._operation(operation, stage, tree)
            except BuildFailureError as failed:
                self._fail(operation.line, failed.message, failed.source)

    def _start(self, stage: Stage) -> Node:
        cloud = self._clouds[stage.index]
        if stage.parent is not None:
            parent = self._trees.get(stage.parent)
            known = self._clouds.get(stage.parent)
            cloud.open = known is None or known.open
            return clone(parent) if parent is not None else directory()
        if stage.base == "scratch":
            return directory()
        base = self._build.bases.get(stage.base)
        if base is not None and stage.doubt is None:
            return clone(base.root)
        cloud.open = True
        if stage.base in self._build.named and stage.doubt is None:
            return self._from_context(stage)
        foreign = stage.base in self._build.foreign
        if stage.doubt is None and not foreign:
            repository = _repository(stage.base)
            if repository != repository.lower():
                self._fail(stage.line, f"`{stage.base}`: a repository name has no upper case")
        return directory()

    def _from_context(self, stage: Stage) -> Node:
        """``FROM`` a named context: its files are the base."""
        filtered = self._build.named[stage.base]
        rules = ContextFilter(filtered.ignore, self._builder.client)
        source = self._builder.open(
            Opening(filtered=filtered, rules=rules, named=lambda: [""], main=False)
        )
        job = self._job(source, stage.line)
        return _as_image(job, source.root, "")

    def _operation(
        self, operation: Copy | Run | Workdir | Failure, stage: Stage, tree: Node
    ) -> None:
        match operation:
            case Failure():
                self._fail(operation.line, operation.message, operation.source)
            case Workdir():
                self._builder.working_directory(tree, operation.path)
            case Run():
                self._run(operation, stage, tree)
            case Copy():
                self._copy(operation, stage, tree)

    def _run(self, operation: Run, stage: Stage, tree: Node) -> None:
        cloud = self._clouds[stage.index]
        mounted = self._mounted(operation, stage)
        keeps = tuple(inside(path) for path in self._build.run_keeps)
        running = Running(
            tree=tree, cloud=cloud, line=operation.line, workdir=operation.workdir, keeps=keeps
        )
        removed = [f"/{inside(target)}" for target in self._builder.removed_after(operation)]
        acts = (
            (Act(deed=Deed.OPAQUE, text=shown(operation.text)),)
            if operation.foreign_shell
            else acts_of_run(
                operation.text, operation.words, operation.environment, operation.workdir
            )
        )
        with mounting(tree, mounted):
            running.do(acts)
        if removed:
            running.do([Act(deed=Deed.CHANGE, text="--mount", paths=tuple(removed))])
        # a package manager does nothing to what is there, and yet makes files that nobody lists
        cloud.open = True

    def _mounted(self, operation: Run, stage: Stage) -> list[tuple[str, Node]]:
        """Return where a RUN sees what of a context or of another stage."""
        found: list[tuple[str, Node]] = []
        for mount in operation.mounts:
            options = mount_options(mount)
            if options["type"] != "bind":
                continue
            name, path = options.get("from", ""), inside(options.get("source", "/"))
            target = inside(join(operation.workdir, options.get("target", "/")))
            if options.get("target", "").startswith("/"):
                target = inside(options["target"])
            source = self._mount_source(operation, stage, name, target)
            if source is None:
                continue
            node = lookup(source.root, follow(source.root, path))
            if node is None and not name:
                raise BuildFailureError(f"`--mount`: `/{path}` not found", source=path)
            if node is not None:
                found.append((target, _as_image(self._job(source, operation.line), node, path)))
        return found

    def _mount_source(self, operation: Run, stage: Stage, name: str, target: str) -> Source | None:
        if not name:
            return self._main()
        if name in self._build.named:
            return self._named(name)
        index = self._references.named(name)
        if index is None or index >= stage.index:
            return None
        source = Source(root=self._trees[index], context=None)
        if self._clouds[index].open:
            # what a RUN reads from a mount it may put anywhere
            text = f"RUN in line {operation.line} reads stage {index}"
            self._clouds[stage.index].holds.append(
                Hold(path="", line=operation.line, text=text, stage=index)
            )
        del target
        return source

    def _job(self, source: Source, line: int) -> Job:
        """Return a job that copies nothing: it says where nodes come from."""
        return Job(
            line=line,
            sources=(),
            source=source,
            destination="/",
            into_directory=True,
            client=self._builder.client,
            frontend=self._builder.frontend,
        )

    def _copy(self, operation: Copy, stage: Stage, tree: Node) -> None:
        cloud = self._clouds[stage.index]
        if operation.doubt:
            self._copy_somewhere(operation, cloud)
            return
        target, into = self._builder.destination(operation)
        local = tuple(src for src in operation.sources if not src.startswith(REMOTE))
        remote = [src for src in operation.sources if src.startswith(REMOTE)]
        if remote and not operation.add:
            raise BuildFailureError("source can't be a URL for COPY")
        for url in remote:
            self._fetch(operation, tree, cloud, url, target, into=into)
        if not local and not operation.documents:
            return
        source = self._source(operation, stage, tree, target)
        if source is None:
            return
        _require_owner(operation.owner, tree, cloud)
        self._do(operation, stage, tree, source, local, target, into=into)

    def _copy_somewhere(self, operation: Copy, cloud: Cloud) -> None:
        """Where the line copies to, or what, hangs on a value that nobody knows."""
        index = self._references.named(operation.from_) if operation.from_ else None
        text = f"line {operation.line}: {operation.doubt}"
        sources = None
        if not operation.from_:
            sources = tuple(
                split_wildcards(inside(source.partition("$")[0]))[0] for source in operation.sources
            )
        cloud.holds.append(
            Hold(
                path=inside(operation.anchor),
                line=operation.line,
                text=text,
                stage=index if index is not None and index < len(self._stages) else None,
                sources=sources if index is None else None,
            )
        )

    def _fetch(
        self, operation: Copy, tree: Node, cloud: Cloud, url: str, target: str, *, into: bool
    ) -> None:
        """ADD of an address: one file, or the tree of a repository."""
        text = f"line {operation.line} fetches `{url}`"
        place = follow(tree, inside(target))
        path, _, fragment = url.partition("#")
        if fragment or path.endswith(".git") or not path.startswith("http"):
            there = lookup(tree, place)
            if there is not None:
                lay_doubt(tree, place, Doubt(weight=Weight.MAYBE, line=operation.line, text=text))
            make_directories(tree, place)
            cloud.open = True
            return
        there = lookup(tree, place)
        name = base(path.partition("?")[0])
        if (into or (there is not None and there.kind is Kind.DIRECTORY)) and name not in (
            "/",
            ".",
        ):
            place = f"{place}/{name}" if place else name
        make_directories(tree, place.rpartition("/")[0])
        put(tree, place, file(origin=Origin(fetched=url, steps=(operation.line,))))

    def _do(
        self,
        operation: Copy,
        stage: Stage,
        tree: Node,
        source: Source,
        local: tuple[str, ...],
        target: str,
        *,
        into: bool,
    ) -> None:
        cloud = self._clouds[stage.index]
        if source.stage is not None:
            local, into = self._from_stage(operation, tree, cloud, source, local, target, into=into)
            if not local and not operation.documents:
                return
        job = replace(
            self._job(source, operation.line),
            sources=local,
            documents=operation.documents,
            destination=target,
            into_directory=into,
            workdir=operation.workdir,
            add=operation.add,
            unpacks=operation.add if operation.unpack is None else operation.unpack,
            link=operation.link,
            parents=operation.parents,
            excludes=operation.excludes,
        )
        try:
            self._builder.copy(job, tree)
        except NotKnownError as unknown:
            sources = tuple(split_wildcards(inside(path))[0] for path in local)
            cloud.holds.append(
                Hold(
                    path=inside(target),
                    line=operation.line,
                    text=f"line {operation.line}: {unknown}",
                    stage=source.stage,
                    sources=sources if source.context is not None else None,
                    anything=unknown.anything,
                )
            )

    def _from_stage(
        self,
        operation: Copy,
        tree: Node,
        cloud: Cloud,
        source: Source,
        local: tuple[str, ...],
        target: str,
        *,
        into: bool,
    ) -> tuple[tuple[str, ...], bool]:
        """Leave out sources that nobody lists but that may be there, and remember them."""
        assert source.stage is not None
        cloud.copied[operation.line] = source.stage
        known = self._clouds[source.stage]
        if not known.open:
            return local, into
        cloud.open = True
        makes = self._makes(source.stage)
        for written in local:
            fixed, pattern = split_wildcards(inside(written))
            goal = inside(target)
            if makes is not None:
                # a file that a command made there may have the name of one that is here
                text = f"line {operation.line} copies what {makes} may have made"
                doubt = Doubt(weight=Weight.MAYBE, line=operation.line, text=text)
                lay_doubt(tree, follow(tree, goal), doubt)
            named = lookup(source.root, follow(source.root, fixed))
            if not pattern and into and (named is None or named.kind is not Kind.DIRECTORY):
                # a file keeps its name; what is not listed may be a folder, whose name is lost
                goal = inside(target) if named is None else f"{goal}/{base(fixed)}"
            cloud.holds.append(
                Hold(
                    path=goal.lstrip("/"),
                    line=operation.line,
                    text=f"line {operation.line} copies it from stage {source.stage}",
                    stage=source.stage,
                    source=fixed,
                )
            )
        present = tuple(path for path in local if find(source.root, f"/{inside(path)}"))
        return present, into or len(present) < len(local)

    def _source(self, operation: Copy, stage: Stage, tree: Node, target: str) -> Source | None:
        name = operation.from_
        if not name or (operation.documents and not operation.sources):
            if not operation.sources:
                return Source(root=directory(), context=None)
            return self._main()
        if name in self._build.named:
            return self._named(name)
        if name in self._build.foreign:
            self._foreign(operation, tree, target, self._build.foreign[name])
            return None
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
            self._foreign(operation, tree, target, f"the image `{name}`")
            return None
        if index >= len(self._stages) or index >= stage.index:
            raise BuildFailureError(f"stage `{name}` is not built before stage {stage.index}")
        return Source(root=self._trees[index], context=None, stage=index)

    def _makes(self, stage: int) -> str | None:
        """Return the last RUN of a stage that may have made files nobody lists, or ``None``."""
        here: int | None = stage
        while here is not None:
            cloud = self._clouds[here]
            found = [hold.line for hold in cloud.holds] + [line for line, _ in cloud.opaque]
            if found:
                return f"line {max(found)}"
            here = cloud.parent
        return None

    def _foreign(self, operation: Copy, tree: Node, target: str, what: str) -> None:
        """Files of somebody else land in a folder: they may lie over what is there."""
        text = f"line {operation.line} copies from {what}"
        doubt = Doubt(weight=Weight.MAYBE, line=operation.line, text=text)
        lay_doubt(tree, follow(tree, inside(target)), doubt)

    def _named(self, name: str) -> Source:
        if name not in self._sources:
            known = self._build.named[name]
            rules = ContextFilter(known.ignore, self._builder.client)
            self._sources[name] = self._open(known, rules, name)
        return self._sources[name]


def _require_owner(owner: str, tree: Node, cloud: Cloud) -> None:
    """A user or group by name has to be in the image's own files.

    Raises:
        BuildFailureError: there certainly is no such file.
    """
    user, _, group = owner.partition(":")
    for name, place in ((user, "etc/passwd"), (group, "etc/group")):
        if not name or name.isdigit() or cloud.open:
            continue
        if lookup(tree, place) is None:
            raise BuildFailureError(f"`--chown={owner}`: the image has no `/{place}`")


def _as_image(job: Job, node: Node, path: str) -> Node:
    """Return a context's or a stage's node as it is in an image, with all below it."""
    if node.kind is not Kind.DIRECTORY:
        return image_node(job, node, path)
    made = directory()
    for name, child in node.children.items():
        made.children[name] = _as_image(job, child, f"{path}/{name}" if path else name)
    return made


def _repository(image: str) -> str:
    """Return the path of an image reference, without host, tag and digest."""
    named = image.partition("@")[0]
    host, slash, path = named.partition("/")
    if slash and ("." in host or ":" in host or host == "localhost"):
        named = path
    above, slash, last = named.rpartition("/")
    return above + slash + last.partition(":")[0]
