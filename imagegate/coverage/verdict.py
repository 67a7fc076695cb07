"""Where each asset of each model recipe ends, and why not where it should.

An asset is covered only when the image holds, at the expected path, the asset's own content. Any
other state has an outcome of its own, with the line that decided. What a RUN may have done is
doubt, and a doubt counts only where it can be about the asset.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from imagegate.coverage.building.carrying import Carrying
from imagegate.coverage.building.evaluate import evaluate
from imagegate.coverage.golang.paths import inside
from imagegate.coverage.identity import Identity
from imagegate.coverage.outcome import Asset, AssetVerdict, Combined, Outcome, Place
from imagegate.coverage.packaged import Packaged
from imagegate.coverage.packages import NotPacked, Packed
from imagegate.coverage.reading.operations import Copy
from imagegate.coverage.sending.ignorefile import IgnoreFile
from imagegate.coverage.tree import (
    Doubt,
    Kind,
    LinkLoopError,
    Node,
    Weight,
    clone,
    directory,
    lookup,
    resolve,
    walk,
)
from imagegate.errors import CoverageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from imagegate.coverage.building.build import Build, Evaluation
    from imagegate.coverage.building.builder import Builder
    from imagegate.coverage.building.carrying import Hold
    from imagegate.coverage.reading.operations import Failure
    from imagegate.coverage.tree import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdicts of one Dockerfile with one builder.

    Attributes:
        build: what was judged.
        evaluation: what the build comes to.
        verdicts: one per asset, in the order of the assets.
    """

    build: Build
    evaluation: Evaluation
    verdicts: tuple[AssetVerdict, ...]
    refused: str = field(default="", init=False)

    @property
    def builder(self) -> str:
        """Name of the builder."""
        return self.build.builder.name

    @property
    def covered(self) -> bool:
        """Every asset is where it should be; without assets nothing is."""
        return self.passes(strict=False)

    def passes(self, *, strict: bool) -> bool:
        """Say whether every asset is good enough; without assets nothing is."""
        return bool(self.verdicts) and all(found.passes(strict=strict) for found in self.verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A builder that refuses the Dockerfile or the ignore file before it builds anything.

    Attributes:
        builder: its name.
        error: why.
        verdicts: one per asset: the build fails.
    """

    builder: str
    error: CoverageError | UsageError
    verdicts: tuple[AssetVerdict, ...]

    @property
    def covered(self) -> bool:
        """Nothing is built."""
        return False

    @property
    def refused(self) -> str:
        """Why, as a person reads it."""
        return str(self.error)

    def passes(self, *, strict: bool) -> bool:  # noqa: ARG002 - as `Judgement.passes`
        """Say no: nothing is built."""
        return False


def judge(build: Build, assets: Sequence[Asset]) -> Judgement:
    """Judge every asset of `assets`.

    Raises:
        CoverageError: the Dockerfile or the ignore file is broken.
    """
    evaluation = evaluate(build)
    with_paths = expect(build, evaluation, assets)
    judged = _Judge(build, evaluation, with_paths)
    verdicts = [judged.verdict(asset) for asset in with_paths]
    ignored = [found.asset for found in verdicts if found.outcome is Outcome.IGNORED]
    if ignored:
        sent = _as_if_sent(build, evaluation, ignored)
        behind = _Judge(sent, evaluate(sent), with_paths)
        verdicts = [
            replace(verdict, behind=behind.verdict(verdict.asset))
            if verdict.outcome is Outcome.IGNORED
            else verdict
            for verdict in verdicts
        ]
    return Judgement(
        build=build,
        evaluation=evaluation,
        verdicts=tuple(_merged(verdicts)),
    )


def judge_each(
    builders: Sequence[Builder],
    open_build: Callable[[Builder], Build],
    assets: Sequence[Asset],
) -> tuple[Judgement | Refusal, ...]:
    """Judge with every builder; one that refuses the files does not end the others.

    Args:
        builders: who builds.
        open_build: makes up the build for one of them; it may raise `CoverageError` too.
        assets: what has to be in the image.
    """
    found: list[Judgement | Refusal] = []
    for builder in builders:
        try:
            found.append(judge(open_build(builder), assets))
        except (CoverageError, UsageError) as refused:
            found.append(_refusal(builder.name, refused, assets))
    return tuple(found)


def _refusal(builder: str, error: CoverageError | UsageError, assets: Sequence[Asset]) -> Refusal:
    verdicts = tuple(
        AssetVerdict(asset=asset, builder=builder, outcome=Outcome.BUILD_FAILS, reason=str(error))
        for asset in assets
    )
    return Refusal(builder=builder, error=error, verdicts=verdicts)


def _as_if_sent(build: Build, evaluation: Evaluation, assets: Sequence[Asset]) -> Build:
    """Return the build with `assets` sent in spite of the ignore file, and nothing else."""
    whole = build.main.context.root
    root = clone(evaluation.filter.send(whole))
    for asset in assets:
        paths = {asset.path}
        try:
            paths.add(resolve(whole, asset.path))
        except LinkLoopError:
            continue
        for path in paths:
            _graft(root, whole, path)
    context = replace(build.main.context, root=root)
    return replace(build, main=replace(build.main, context=context, ignore=IgnoreFile(path=None)))


def _graft(root: Node, whole: Node, path: str) -> None:
    node = lookup(whole, path)
    here = root
    *above, name = path.split("/")
    for part in above:
        here = here.children.setdefault(part, directory())
        if here.kind is not Kind.DIRECTORY:
            return
    if node is not None:
        here.children[name] = node


def _merged(verdicts: Sequence[AssetVerdict]) -> list[AssetVerdict]:
    """Say where the folders of several recipes became one, so that their names are lost."""
    roots: dict[str, set[str]] = {}
    for verdict in verdicts:
        root = _merged_into(verdict)
        if root is not None:
            roots.setdefault(root, set()).add(verdict.asset.folder)
    noted: list[AssetVerdict] = []
    for verdict in verdicts:
        root = _merged_into(verdict)
        folders = sorted(roots.get(root, ())) if root is not None else []
        if len(folders) > 1:
            names = ", ".join(f"`{folder}`" for folder in folders[:3])
            more = f" and {len(folders) - 3} more" if len(folders) > 3 else ""
            note = f"merged: {names}{more} end in one folder, `{root or '/'}`, without their names"
            verdict = replace(verdict, notes=(*verdict.notes, note))
        noted.append(verdict)
    return noted


def _merged_into(verdict: AssetVerdict) -> str | None:
    asset = verdict.asset
    if not verdict.covered or not verdict.found or asset.single or not asset.folder or asset.tail:
        return None
    found = verdict.found[0]
    if not found.endswith("/" + asset.inner):
        return None
    root = found.removesuffix("/" + asset.inner)
    last = asset.folder.rpartition("/")[2]
    return None if root.endswith("/" + last) else root


def expect(build: Build, evaluation: Evaluation, assets: Sequence[Asset]) -> list[Asset]:
    """Fill in expected paths that nobody stated, from where the other recipes end.

    A recipe folder that ends as ``<root>/<model>`` in the image votes for ``<root>``; where the
    recipes agree, the missing ones are expected there too.
    """
    votes: dict[str, Counter[str]] = {}
    by_path = _by_path(assets)
    identity = Identity(build)
    for path, node in walk(evaluation.image):
        known = identity.main_path(node.origin) if node.origin is not None else None
        for asset in by_path.get(known, ()) if known is not None else ():
            tail = f"/{asset.kept}"
            if f"/{path}".endswith(tail):
                votes.setdefault(asset.group, Counter())[f"/{path}".removesuffix(tail)] += 1
    roots = {
        group: min(found, key=lambda prefix: (-found[prefix], prefix))
        for group, found in votes.items()
    }
    return [
        asset
        if asset.expected is not None or asset.group not in roots
        else replace(asset, expected=f"{roots[asset.group]}/{asset.kept}")
        for asset in assets
    ]


def _by_path(assets: Iterable[Asset]) -> Mapping[str, list[Asset]]:
    grouped: dict[str, list[Asset]] = {}
    for asset in assets:
        grouped.setdefault(asset.path, []).append(asset)
    return grouped


@dataclass(slots=True, kw_only=True)
class _Copies:
    """Where the files of one tree come from."""

    placed: dict[str, list[str]] = field(default_factory=dict)
    replaced: dict[str, tuple[str, Origin]] = field(default_factory=dict)


def _copies(tree: Node, identity: Identity, wanted: Collection[str]) -> _Copies:
    """Find what became of the context files `wanted` in a tree that may hold many others."""
    copies = _Copies()
    for path, node in walk(tree):
        origin = node.origin
        if origin is None:
            continue
        known = identity.main_path(origin)
        if known is not None and known in wanted:
            copies.placed.setdefault(known, []).append(path)
        for before in node.replaced:
            was = identity.main_path(before)
            if was is not None and was != known and was in wanted:
                copies.replaced.setdefault(was, (path, origin))
    return copies


_CERTAIN = frozenset({Outcome.COVERED, Outcome.UNKNOWN, Outcome.BY_RUN, Outcome.PACKAGED})
"""Outcomes that give way to a fact that holds whatever else is unknown."""


class _Judge:
    def __init__(self, build: Build, evaluation: Evaluation, assets: Sequence[Asset]) -> None:
        self._build = build
        self._evaluation = evaluation
        self._assets = _by_path(assets)
        self._image = evaluation.image
        self._identity = Identity(build)
        wanted = {path for asset in assets for path in (asset.path, self._real(asset.path)) if path}
        self._copies = _copies(self._image, self._identity, wanted)
        self._others = {
            index: _copies(tree, self._identity, wanted)
            for index, tree in evaluation.trees.items()
            if index != evaluation.target
        }
        self._lines: dict[int, list[Copy]] = {}
        for stage in evaluation.stages if evaluation.failures else ():
            for operation in stage.operations:
                if isinstance(operation, Copy) and not operation.from_:
                    self._lines.setdefault(operation.line, []).append(operation)
        self._open = evaluation.clouds[evaluation.target].open
        self._carrying = Carrying(evaluation.trees, evaluation.clouds, self._identity.main_path)
        self._packaged = Packaged(build, evaluation, self._identity)

    def verdict(self, asset: Asset) -> AssetVerdict:
        found = self._in_context(asset) or self._in_image(asset) or self._missing(asset)
        if found.outcome in {Outcome.ELSEWHERE, Outcome.NOT_COPIED, Outcome.OTHER_STAGE}:
            failed = self._failed_line(asset)
            if failed is not None:
                found = replace(self._fails(asset, failed), found=found.found)
        if found.outcome not in _CERTAIN:
            return replace(found, notes=(*found.notes, *_besides(asset)))
        if self._evaluation.failures:
            fails = self._fails(asset, self._evaluation.failures[0])
            return replace(fails, found=found.found, notes=_besides(asset))
        if asset.pointer:
            return replace(
                found, outcome=Outcome.LFS_POINTER, reason="the file on disk only points to it"
            )
        if asset.tracked is False:
            return replace(
                found,
                outcome=Outcome.UNTRACKED,
                reason="the file is here and will not be in a fresh checkout",
            )
        return found

    def _say(
        self,
        asset: Asset,
        outcome: Outcome,
        reason: str,
        *,
        place: Place | None = None,
        found: Iterable[str] = (),
    ) -> AssetVerdict:
        return AssetVerdict(
            asset=asset,
            builder=self._build.builder.name,
            outcome=outcome,
            reason=reason,
            place=place,
            found=tuple(f"/{path}" for path in found),
        )

    def _failed_line(self, asset: Asset) -> Failure | None:
        """Return the failure of a line that names the asset or a folder above it."""
        for failure in self._evaluation.failures:
            for operation in self._lines.get(failure.line, ()):
                named = (inside(source) for source in operation.sources)
                if any(f"{asset.path}/".startswith(f"{path}/") for path in named if path):
                    return failure
        return None

    def _fails(self, asset: Asset, failure: Failure) -> AssetVerdict:
        return self._say(
            asset, Outcome.BUILD_FAILS, failure.message, place=self._line(failure.line)
        )

    def _unknown(
        self, asset: Asset, doubt: Doubt | Hold, found: Iterable[str] = ()
    ) -> AssetVerdict:
        place = self._line(doubt.line)
        return self._say(asset, Outcome.UNKNOWN, doubt.text, place=place, found=found)

    def _line(self, number: int) -> Place:
        return Place(path=self._build.dockerfile.path, line=number)

    def _in_context(self, asset: Asset) -> AssetVerdict | None:
        node = lookup(self._build.main.context.root, asset.path)
        if node is None or asset.missing:
            reason = asset.missing or "the context has no such file"
            return self._say(asset, Outcome.NOT_IN_CONTEXT, reason)
        if self._real(asset.path) is None:
            return self._say(asset, Outcome.DANGLING, f"it points to `{node.target}`")
        return None

    def _real(self, path: str) -> str | None:
        """Return the context file that `path` is, links followed."""
        root = self._build.main.context.root
        try:
            real = resolve(root, path)
        except LinkLoopError:
            return None
        node = lookup(root, real)
        return real if node is not None and node.kind is Kind.FILE else None

    def _in_image(self, asset: Asset) -> AssetVerdict | None:
        """Judge by what lies at the expected path; ``None`` when nothing does."""
        real = self._real(asset.path)
        assert real is not None
        places = [*self._copies.placed.get(asset.path, ()), *self._copies.placed.get(real, ())]
        if asset.expected is None:
            return self._anywhere(asset, real, places)
        try:
            path = resolve(self._image, inside(asset.expected))
        except LinkLoopError:
            return self._say(asset, Outcome.DANGLING, f"links at `{asset.expected}` go in circles")
        node = lookup(self._image, path)
        linked = self._link_by_run(inside(asset.expected), path)
        if node is None:
            return None if linked else self._through_link(asset, path)
        found = self._at(asset, path, node, real)
        if linked is not None and found is not None and found.outcome is Outcome.COVERED:
            return replace(
                found,
                outcome=Outcome.BY_RUN,
                reason=linked.text,
                place=self._line(linked.line),
            )
        return found

    def _link_by_run(self, written: str, path: str) -> Doubt | None:
        """Return the doubt of a link made by a RUN that `written` leads through."""
        if written == path:
            return None
        parts = written.split("/")
        for depth in range(1, len(parts) + 1):
            node = lookup(self._image, "/".join(parts[:depth]))
            if node is None:
                return None
            if node.kind is Kind.LINK:
                return node.doubt
        return None

    def _anywhere(self, asset: Asset, real: str, places: list[str]) -> AssetVerdict | None:
        found: list[AssetVerdict] = []
        for place in places:
            try:
                path = resolve(self._image, place)
            except LinkLoopError:
                continue
            node = lookup(self._image, path)
            judged = self._at(asset, path, node, real) if node is not None else None
            if judged is not None:
                found.append(judged)
            elif node is None:
                reason = f"the link at `/{place}` leads nowhere"
                found.append(self._say(asset, Outcome.DANGLING, reason))
        best = [one for one in found if one.covered] or found
        if best:
            return best[0]
        same = self._identity.same_elsewhere(asset.path, self._image)
        return self._at(asset, *same, real) if same is not None else None

    def _through_link(self, asset: Asset, path: str) -> AssetVerdict | None:
        """Tell a link that leads nowhere from a path that nothing was copied to."""
        assert asset.expected is not None
        parts = inside(asset.expected).split("/")
        for depth in range(1, len(parts) + 1):
            above = "/".join(parts[:depth])
            written = lookup(self._image, above)
            if written is not None and written.kind is Kind.LINK:
                if self._carrying.holder(self._evaluation.target, path, asset.path) is not None:
                    return None
                reason = f"`/{above}` links to `{written.target}`, and `/{path}` is not there"
                return self._say(asset, Outcome.DANGLING, reason)
        return None

    def _at(self, asset: Asset, path: str, node: Node, real: str) -> AssetVerdict | None:
        if node.kind is Kind.DIRECTORY:
            return None
        origin, doubt = node.origin, node.doubt
        if origin is None:
            return self._base_file(asset, path)
        emptied = origin.emptied and self._identity.is_asset(real, origin)
        own = self._identity.is_asset(real, origin) or self._identity.same_bytes(real, node)
        if doubt is not None and doubt.weight is Weight.ALTERED:
            moved = asset.expected is None and own and " moves it" in doubt.text
            if not moved:
                return self._unknown(asset, doubt, found=[path])
            return self._by_run(asset, doubt, path)
        if not own:
            if doubt is not None and doubt.weight is Weight.BY_RUN:
                return self._unknown(asset, doubt, found=[path])
            return self._overwritten(asset, path, origin)
        if emptied and not self._identity.same_bytes(real, node):
            decided = self._evaluation.filter.decide(asset.path, self._build.main.context.root)
            place = self._ignore_line(decided.rule.line) if decided.rule else None
            reason = f"the builder sends it with 0 bytes because of `{decided.rule}`"
            return self._say(asset, Outcome.EMPTY, reason, place=place, found=[path])
        if doubt is not None and doubt.weight is Weight.BY_RUN:
            return self._by_run(asset, doubt, path)
        place = self._line(origin.steps[-1])
        found = self._say(asset, Outcome.COVERED, "own content", place=place, found=[path])
        return replace(found, notes=self._notes(origin, doubt, path))

    def _by_run(self, asset: Asset, doubt: Doubt, path: str) -> AssetVerdict:
        return self._say(
            asset, Outcome.BY_RUN, doubt.text, place=self._line(doubt.line), found=[path]
        )

    def _notes(self, origin: Origin, doubt: Doubt | None, path: str) -> tuple[str, ...]:
        kept = (inside(keep) for keep in self._build.run_keeps)
        if any(f"{path}/".startswith(f"{keep}/") for keep in kept):
            return ()
        notes: list[str] = []
        if doubt is not None:
            notes.append(f"{doubt.text}, which may lie over it")
        opaque = self._carrying.opaque_after(self._evaluation.target, origin.steps)
        if opaque is not None:
            line, text = opaque
            notes.append(f"RUN in line {line} (`{text}`) runs after it and may change anything")
        return tuple(notes)

    def _base_file(self, asset: Asset, path: str) -> AssetVerdict:
        hold = self._carrying.holder(self._evaluation.target, path, asset.path)
        if hold is not None:
            return self._unknown(asset, hold, found=[path])
        reason = "the base image's own file lies there"
        return self._say(asset, Outcome.OVERWRITTEN, reason, found=[path])

    def _overwritten(self, asset: Asset, path: str, origin: Origin) -> AssetVerdict:
        what = f"`{origin.path}`" if origin.path else "inline content"
        if origin.fetched:
            what = f"what is fetched from `{origin.fetched}`"
        if origin.member:
            what = f"`{origin.member}` of the archive `{origin.path}`"
        siblings = self._assets.get(origin.path, ())
        if siblings and not origin.member:
            what += f" of `{siblings[0].model}`"
        place = self._line(origin.steps[-1])
        return self._say(
            asset, Outcome.OVERWRITTEN, f"`/{path}` holds {what}", place=place, found=[path]
        )

    def _missing(self, asset: Asset) -> AssetVerdict:
        real = self._real(asset.path)
        assert real is not None
        for path in dict.fromkeys((asset.path, real)):
            ignored = self._ignored(asset, path)
            if ignored is not None:
                return ignored
        for path in (asset.path, real):
            if path in self._copies.replaced:
                return self._overwritten(asset, *self._copies.replaced[path])
        brought = self._brought(asset, real)
        if brought is not None:
            return brought
        places = self._copies.placed.get(real, [])
        if asset.expected is not None and self._open:
            for path in places:
                if inside(asset.expected) == f"{path}/{real.rpartition('/')[2]}":
                    reason = (
                        f"whether the base has the folder `/{path}` is not known; "
                        f"written `/{path}/` it is one"
                    )
                    return self._say(asset, Outcome.UNKNOWN, reason, found=places)
        if places:
            reason = f"expected `{asset.expected}`, found `/{places[0]}`"
            origin = lookup(self._image, places[0])
            steps = origin.origin.steps if origin is not None and origin.origin else ()
            place = self._line(steps[-1]) if steps else None
            return self._say(asset, Outcome.ELSEWHERE, reason, place=place, found=places)
        return self._in_other_stage(asset, real)

    def _brought(self, asset: Asset, real: str) -> AssetVerdict | None:
        """Judge by what a line may have brought that the trees do not list."""
        path = None if asset.expected is None else inside(asset.expected)
        hold = self._carrying.holder(self._evaluation.target, path, real)
        if hold is None:
            return None
        if not hold.package:
            return self._unknown(asset, hold)
        if path is not None and "-packages/" not in path:
            return None
        return self._installed(asset, real, hold)

    def _installed(self, asset: Asset, real: str, hold: Hold) -> AssetVerdict:
        """Judge by the rules of the project that is installed, where its text tells them."""
        place = self._line(hold.line)
        answer = self._packaged.answer(real)
        if isinstance(answer, NotPacked):
            reason = f"{hold.text}, and the package leaves it out: {answer.reason}"
            return self._say(asset, Outcome.NOT_COPIED, reason, place=place)
        if not isinstance(answer, Packed):
            return self._say(asset, Outcome.PACKAGED, hold.text, place=place)
        if asset.expected is not None and not asset.expected.endswith(f"-packages/{answer.place}"):
            reason = f"expected `{asset.expected}`, the package has it at `{answer.place}`"
            return self._say(asset, Outcome.ELSEWHERE, reason, place=place)
        reason = f"{hold.text}, at `{answer.place}`: {answer.reason}"
        return self._say(asset, Outcome.PACKAGED, reason, place=place)

    def _in_other_stage(self, asset: Asset, real: str) -> AssetVerdict:
        for index, copies in self._others.items():
            places = copies.placed.get(real)
            if places:
                stage = self._evaluation.stages[index]
                called = f"`{stage.name}`" if stage.name else f"number {index}"
                reason = f"stage {called} has it at `/{places[0]}`, the target has not"
                return self._say(asset, Outcome.OTHER_STAGE, reason, place=self._line(stage.line))
        named = [
            failure
            for failure in self._evaluation.failures
            # a line that is refused for its form may be the one that was to bring it
            if not failure.source or (asset.path + "/").startswith(failure.source + "/")
        ]
        if named:
            return self._fails(asset, named[0])
        more = "; a RUN would have to fetch it from elsewhere" if self._open else ""
        return self._say(asset, Outcome.NOT_COPIED, f"no COPY or ADD brings it to the target{more}")

    def _ignored(self, asset: Asset, path: str) -> AssetVerdict | None:
        decided = self._evaluation.filter.decide(path, self._build.main.context.root)
        if decided.kept or decided.rule is None:
            return None
        reason = f"`{decided.rule}` drops `{decided.at}`"
        if decided.pruned:
            reason += f", and the builder does not enter `{decided.pruned}`"
        return self._say(asset, Outcome.IGNORED, reason, place=self._ignore_line(decided.rule.line))

    def _ignore_line(self, number: int) -> Place:
        ignore = self._build.main.ignore
        return Place(path=ignore.path or "", line=number, text=ignore.written(number))


def _besides(asset: Asset) -> tuple[str, ...]:
    """Return facts that hold whatever became of the asset."""
    notes: list[str] = []
    if asset.pointer:
        notes.append("the file on disk is a Git LFS pointer, not the asset")
    if asset.tracked is False:
        notes.append("git does not track it: it will not be in a fresh checkout")
    return tuple(notes)


def combine(judgements: Sequence[Judgement | Refusal]) -> tuple[Combined, ...]:
    """Group the verdicts of several builders on one Dockerfile by asset."""
    return tuple(
        Combined(verdicts=verdicts)
        for verdicts in zip(*(judgement.verdicts for judgement in judgements), strict=True)
    )
