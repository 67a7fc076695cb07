"""What a stage may hold besides what its tree lists, and which assets that can be.

A RUN can put anything anywhere, and yet an asset cannot come from nowhere: it has to be in the
stage, or in a mount, before the RUN. So a stage keeps the places at which there may be more, each
with the line that is the reason, and what that line could read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import inside
from imagegate.coverage.tree import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from imagegate.coverage.tree import Node, Origin

_DEEPEST = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """There may be more at one place of a stage than its tree lists.

    Attributes:
        path: the place; files may be at it or below.
        line: the line that is the reason.
        text: what that line does, one clause.
        stage: for a copy from a stage, its number: what is there may be here.
        source: the place in that stage.
        within: what the line could read: paths of its own stage.
        sources: what it could read: paths of the main context.
        package: it installs these as a package.
        anything: it can bring any asset, whatever it can read (an archive, a download to this
            very path).
        exact: it is about the path itself and nothing below.
    """

    path: str
    line: int
    text: str
    stage: int | None = None
    source: str = ""
    within: tuple[str, ...] = ("",)
    sources: tuple[str, ...] | None = None
    package: bool = False
    anything: bool = False
    exact: bool = False


@dataclass(slots=True, kw_only=True)
class Cloud:
    """What is not in the tree of a stage.

    Attributes:
        parent: the stage that it starts from, or ``None``.
        open: there may be files that nobody lists: the base is not known, or a RUN made them.
        holds: where there may be files of a context, in the order of the lines.
        opaque: line and command of each RUN that may have changed anything.
        copied: for each line that copies from a stage, that stage.
    """

    parent: int | None = None
    open: bool = False
    holds: list[Hold] = field(default_factory=list)
    opaque: list[tuple[int, str]] = field(default_factory=list)
    copied: dict[int, int] = field(default_factory=dict)


class Carrying:
    """Questions about what stages may hold.

    Args:
        trees: the tree of each stage.
        clouds: what is not in it.
        is_asset: returns the path in the main context that an origin stands for, or ``None``.
    """

    def __init__(
        self,
        trees: Mapping[int, Node],
        clouds: Mapping[int, Cloud],
        is_asset: Callable[[Origin], str | None],
    ) -> None:
        self._trees = trees
        self._clouds = clouds
        self._is_asset = is_asset
        self._places: dict[int, dict[str, list[tuple[str, int]]]] = {}
        self._known: dict[tuple[int, str | None, str, int | None], Hold | None] = {}

    def lineage(self, stage: int) -> Iterator[Cloud]:
        """Yield the clouds of a stage and of those that it starts from."""
        here: int | None = stage
        while here is not None and here in self._clouds:
            yield self._clouds[here]
            here = self._clouds[here].parent

    def holder(
        self, stage: int, path: str | None, asset: str, before: int | None = None, depth: int = 0
    ) -> Hold | None:
        """Return the line that may have brought `asset` to `path`, or below it.

        Args:
            stage: number of the stage.
            path: in the stage; ``None`` for anywhere.
            asset: its path in the main context.
            before: look at earlier lines alone.
            depth: how many stages were passed already.
        """
        key = (stage, path, asset, before)
        if key in self._known:
            return self._known[key]
        self._known[key] = None
        found: Hold | None = None
        for cloud in self.lineage(stage):
            for hold in reversed(cloud.holds):
                if before is not None and hold.line >= before:
                    continue
                found = self._through(stage, hold, path, asset, depth)
                if found is not None:
                    break
            if found is not None:
                break
        self._known[key] = found
        return found

    def _through(
        self, stage: int, hold: Hold, path: str | None, asset: str, depth: int
    ) -> Hold | None:
        if not _related(hold, path):
            return None
        if depth > _DEEPEST or hold.anything:
            return hold if path is not None or depth > _DEEPEST else None
        if hold.stage is not None:
            return self.holder(hold.stage, _mapped(hold, path), asset, None, depth + 1)
        if hold.sources is not None:
            return hold if any(_below(asset, source) for source in hold.sources) else None
        if self.present(stage, hold.within, asset, hold.line):
            return hold
        for place in hold.within:
            if self.holder(stage, place or None, asset, hold.line, depth + 1) is not None:
                return hold
        return None

    def present(self, stage: int, within: tuple[str, ...], asset: str, before: int) -> bool:
        """Say whether the tree lists `asset` below one of `within`, from a line before `before`."""
        return any(
            line < before and any(_below(place, root) for root in within)
            for place, line in self._index(stage).get(asset, ())
        )

    def _index(self, stage: int) -> Mapping[str, list[tuple[str, int]]]:
        if stage not in self._places:
            places: dict[str, list[tuple[str, int]]] = {}
            for path, node in walk(self._trees[stage]):
                own = (node.origin,) if node.origin is not None else ()
                for origin in (*own, *node.replaced):
                    asset = self._is_asset(origin)
                    if asset is not None and origin.steps:
                        places.setdefault(asset, []).append((path, origin.steps[-1]))
            self._places[stage] = places
        return self._places[stage]

    def opaque_after(self, stage: int, steps: tuple[int, ...]) -> tuple[int, str] | None:
        """Return the last opaque RUN that a file outlived on its way, or ``None``.

        Args:
            stage: where it ended.
            steps: the lines that carried it there.
        """
        here: int | None = stage
        for line in reversed(steps):
            if here is None:
                return None
            copied: int | None = None
            for cloud in self.lineage(here):
                later = [found for found in cloud.opaque if found[0] > line]
                if later:
                    return later[-1]
                copied = cloud.copied.get(line, copied)
            here = copied
        return None


def _below(path: str, root: str) -> bool:
    return not root or path == root or path.startswith(root + "/")


def _related(hold: Hold, path: str | None) -> bool:
    if path is None:
        return True
    if hold.exact:
        return path == hold.path or _below(hold.path, path)
    return _below(path, hold.path) or _below(hold.path, path)


def _mapped(hold: Hold, path: str | None) -> str | None:
    """Return where `path` lies in the stage that a copy is from."""
    if path is None or not _below(path, hold.path) or path == hold.path:
        return hold.source or None
    rest = path[len(hold.path) :].lstrip("/")
    return inside(f"{hold.source}/{rest}")
