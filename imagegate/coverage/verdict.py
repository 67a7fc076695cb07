"""Where each asset of each model recipe ends, and why not where it should.

An asset is covered only when the image holds, at the expected path, the asset's own content. Any
other state has an outcome of its own, with the line that decided.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from imagegate.coverage.building.evaluate import evaluate
from imagegate.coverage.golang.paths import inside
from imagegate.coverage.outcome import Asset, AssetVerdict, Combined, Outcome, Place
from imagegate.coverage.sending.ignorefile import IgnoreFile
from imagegate.coverage.tree import (
    BaseDoubt,
    Kind,
    LineDoubt,
    LinkLoopError,
    Node,
    lookup,
    resolve,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from imagegate.coverage.building.build import Build, Evaluation
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

    @property
    def covered(self) -> bool:
        """Every asset is where it should be; without assets nothing is."""
        return bool(self.verdicts) and all(verdict.covered for verdict in self.verdicts)


def judge(build: Build, assets: Sequence[Asset]) -> Judgement:
    """Judge every asset of `assets`.

    Raises:
        CoverageError: the Dockerfile or the ignore file is broken.
    """
    evaluation = evaluate(build)
    with_paths = expect(evaluation, assets)
    judged = _Judge(build, evaluation, with_paths)
    verdicts = [judged.verdict(asset) for asset in with_paths]
    if any(verdict.outcome is Outcome.IGNORED for verdict in verdicts):
        unfiltered = replace(build, main=replace(build.main, ignore=IgnoreFile(path=None)))
        behind = _Judge(unfiltered, evaluate(unfiltered), with_paths)
        verdicts = [
            replace(verdict, behind=behind.verdict(verdict.asset))
            if verdict.outcome is Outcome.IGNORED
            else verdict
            for verdict in verdicts
        ]
    return Judgement(build=build, evaluation=evaluation, verdicts=tuple(verdicts))


def expect(evaluation: Evaluation, assets: Sequence[Asset]) -> list[Asset]:
    """Fill in expected paths that nobody stated, from where the other recipes end.

    A recipe folder that ends as ``<root>/<model>`` in the image votes for ``<root>``; where the
    recipes agree, the missing ones are expected there too.
    """
    votes: dict[str, Counter[str]] = {}
    by_path = _by_path(assets)
    for path, node in walk(evaluation.image):
        origin = node.origin
        if origin is None or origin.context or origin.member:
            continue
        for asset in by_path.get(origin.path, ()):
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


def _copies(tree: Node) -> _Copies:
    copies = _Copies()
    for path, node in walk(tree):
        origin = node.origin
        if origin is None:
            continue
        if not origin.context and not origin.member and origin.inline is None:
            copies.placed.setdefault(origin.path, []).append(path)
        for before in node.replaced:
            if not before.context and before.path != origin.path:
                copies.replaced.setdefault(before.path, (path, origin))
    return copies


class _Judge:
    def __init__(self, build: Build, evaluation: Evaluation, assets: Sequence[Asset]) -> None:
        self._build = build
        self._evaluation = evaluation
        self._assets = _by_path(assets)
        self._image = evaluation.image
        self._copies = _copies(self._image)
        self._others = {
            index: _copies(tree)
            for index, tree in evaluation.trees.items()
            if index != evaluation.target
        }

    def verdict(self, asset: Asset) -> AssetVerdict:
        found = self._in_context(asset) or self._in_image(asset) or self._missing(asset)
        if found.covered and self._evaluation.failures:
            fails = self._fails(asset, self._evaluation.failures[0])
            return replace(fails, found=found.found)
        if found.covered and asset.pointer:
            return replace(
                found, outcome=Outcome.LFS_POINTER, reason="the file on disk only points to it"
            )
        if found.covered and asset.tracked is False:
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

    def _fails(self, asset: Asset, failure: Failure) -> AssetVerdict:
        return self._say(
            asset, Outcome.BUILD_FAILS, failure.message, place=self._line(failure.line)
        )

    def _unknown(self, asset: Asset, doubt: str, found: Iterable[str] = ()) -> AssetVerdict:
        place = self._line(doubt.line) if isinstance(doubt, LineDoubt) else None
        return self._say(asset, Outcome.UNKNOWN, doubt, place=place, found=found)

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
        if node is None:
            return self._through_link(asset, path)
        return self._at(asset, path, node, real)

    def _anywhere(self, asset: Asset, real: str, places: list[str]) -> AssetVerdict | None:
        for place in places:
            try:
                path = resolve(self._image, place)
            except LinkLoopError:
                continue
            node = lookup(self._image, path)
            if node is not None:
                return self._at(asset, path, node, real)
            return self._say(asset, Outcome.DANGLING, f"the link at `/{place}` leads nowhere")
        return None

    def _through_link(self, asset: Asset, path: str) -> AssetVerdict | None:
        """Tell a link that leads nowhere from a path that nothing was copied to."""
        assert asset.expected is not None
        parts = inside(asset.expected).split("/")
        for depth in range(1, len(parts) + 1):
            above = "/".join(parts[:depth])
            written = lookup(self._image, above)
            if written is not None and written.kind is Kind.LINK:
                reason = f"`/{above}` links to `{written.target}`, and `/{path}` is not there"
                return self._say(asset, Outcome.DANGLING, reason)
        return None

    def _at(self, asset: Asset, path: str, node: Node, real: str) -> AssetVerdict | None:
        if node.kind is Kind.DIRECTORY:
            return None
        if node.doubt:
            return self._unknown(asset, node.doubt, found=[path])
        origin = node.origin
        if origin is None:
            return self._say(
                asset, Outcome.OVERWRITTEN, "the base image's own file lies there", found=[path]
            )
        own = origin.path == real and not (origin.context or origin.member)
        if not own or origin.inline is not None:
            return self._overwritten(asset, path, origin)
        if origin.emptied:
            decided = self._evaluation.filter.decide(asset.path, self._build.main.context.root)
            place = self._ignore_line(decided.rule.line) if decided.rule else None
            reason = f"the builder sends it with 0 bytes because of `{decided.rule}`"
            return self._say(asset, Outcome.EMPTY, reason, place=place, found=[path])
        place = self._line(origin.steps[-1])
        return self._say(asset, Outcome.COVERED, "own content", place=place, found=[path])

    def _overwritten(self, asset: Asset, path: str, origin: Origin) -> AssetVerdict:
        what = f"`{origin.path}`" if origin.path else "inline content"
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
        places = self._copies.placed.get(real, [])
        if places:
            reason = f"expected `{asset.expected}`, found `/{places[0]}`"
            origin = lookup(self._image, places[0])
            steps = origin.origin.steps if origin is not None and origin.origin else ()
            place = self._line(steps[-1]) if steps else None
            return self._say(asset, Outcome.ELSEWHERE, reason, place=place, found=places)
        doubt = self._doubt(asset)
        if doubt:
            return self._unknown(asset, doubt)
        return self._in_other_stage(asset, real)

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
        return self._say(asset, Outcome.NOT_COPIED, "no COPY or ADD of the target names it")

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

    def _doubt(self, asset: Asset) -> str | None:
        """Return why something that is not known may have put the asset where it should be."""
        here: Node | None = self._image
        doubt: str | None = None
        parts = inside(asset.expected).split("/") if asset.expected else []
        for part in ["", *parts]:
            here = here if part == "" else here.children.get(part) if here is not None else None
            if here is None:
                break
            if here.doubt and not isinstance(here.doubt, BaseDoubt):
                doubt = here.doubt
        if doubt is None and asset.expected is None:
            doubt = next(
                (
                    node.doubt
                    for _, node in walk(self._image)
                    if node.doubt and not isinstance(node.doubt, BaseDoubt)
                ),
                None,
            )
        return doubt


def combine(judgements: Sequence[Judgement]) -> tuple[Combined, ...]:
    """Group the verdicts of several builders on one Dockerfile by asset."""
    return tuple(
        Combined(verdicts=verdicts)
        for verdicts in zip(*(judgement.verdicts for judgement in judgements), strict=True)
    )
