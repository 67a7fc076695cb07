"""Which stage a name or number means, and which stages need which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.coverage.reading.frontend import Looks, StageNumbers
from imagegate.coverage.reading.operations import Copy, Run, Stage
from imagegate.errors import CoverageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from imagegate.coverage.building.build import Build


class References:
    """The references between the stages of one build."""

    def __init__(self, build: Build, stages: Sequence[Stage]) -> None:
        self._build = build
        self._frontend = build.builder.frontend
        self._stages = stages
        self._called = self._names()
        self._edges = [self._of(stage) for stage in stages]
        self._forward = any(
            index >= number for number, edges in enumerate(self._edges) for _, index in edges
        )
        self._reached: dict[int, set[int]] = {}

    def target(self) -> int:
        """Return the index of the stage that becomes the image.

        Raises:
            CoverageError: ``--target`` names none.
        """
        wanted = self._build.target
        if wanted is None:
            return len(self._stages) - 1
        frontend = self._frontend
        named = [stage.index for stage in self._stages if self._is_called(stage, wanted)]
        if named:
            return named[0] if frontend.first_target_wins else named[-1]
        names = ", ".join(f"`{stage.name}`" for stage in self._stages if stage.name)
        raise CoverageError(
            f"{self._build.dockerfile.path}: no stage `{wanted}`",
            hint=f"stages of this file: {names or 'none has a name'}",
        )

    def _is_called(self, stage: Stage, wanted: str) -> bool:
        """Say whether ``--target=wanted`` may mean `stage`."""
        frontend = self._frontend
        numbered = frontend.target_numbers is StageNumbers.ALL or (
            frontend.target_numbers is StageNumbers.UNNAMED and not stage.name
        )
        if numbered and wanted == str(stage.index):
            return True
        if frontend.stage_names_fold_case:
            return bool(stage.name) and stage.name.lower() == wanted.lower()
        return bool(stage.name) and stage.name == wanted

    def named(self, name: str) -> int | None:
        """Return the stage that ``--from=name`` means, which may be a later one."""
        if name in self._build.named or name in self._build.foreign:
            return None
        wanted = name.lower() if self._frontend.stage_names_fold_case else name
        if wanted in self._called:
            return self._called[wanted]
        return int(name) if name.isascii() and name.isdigit() and len(name) < 10 else None

    def _names(self) -> dict[str, int]:
        """Return the stage that each name means: the last one that has it."""
        names: dict[str, int] = {}
        for stage in self._stages:
            called = stage.name.lower() if self._frontend.stage_names_fold_case else stage.name
            if not called and self._frontend.numbers_are_names:
                called = str(stage.index)
            if called:
                names[called] = stage.index
        return names

    def _of(self, stage: Stage) -> list[tuple[int, int]]:
        """Return (line, stage index) of everything that a stage copies from or starts from."""
        found = [(stage.line, stage.parent)] if stage.parent is not None else []
        for operation in stage.operations:
            names = [operation.from_] if isinstance(operation, Copy) else []
            if isinstance(operation, Run):
                names = [mount_options(mount).get("from", "") for mount in operation.mounts]
            for name in filter(None, names):
                index = self.named(name)
                if index is not None:
                    found.append((operation.line, index))
        return found

    def problems(self, needed: Iterable[int]) -> Iterator[tuple[int, str]]:
        """Yield line and message of indexes out of range and of circles.

        They fail a build, in Docker even in stages that nobody needs.
        """
        where = self._frontend.references_looked_at
        if where is Looks.NEEDED:
            looked_at = [self._stages[index] for index in sorted(needed)]
        elif where is Looks.UP_TO_TARGET:
            looked_at = list(self._stages[: max(needed) + 1])
        else:
            looked_at = list(self._stages)
        for stage in looked_at:
            for line, index in self._edges[stage.index]:
                if index >= len(self._stages):
                    yield line, f"invalid stage index `{index}`"
                elif index == stage.index or (
                    # a circle has a line that names a later stage
                    self._forward and stage.index in self._reachable(index)
                ):
                    yield line, f"circular dependency on stage `{index}`"

    def _reachable(self, index: int) -> set[int]:
        if index in self._reached:
            return self._reached[index]
        found: set[int] = set()
        waiting = [index]
        while waiting:
            here = waiting.pop()
            for _, following in self._edges[here]:
                if following not in found and following < len(self._stages):
                    found.add(following)
                    waiting.append(following)
        self._reached[index] = found
        return found

    def needed(self, target: int) -> set[int]:
        """Return the stages that the builder builds for `target`."""
        if not self._frontend.skips_unneeded_stages:
            return set(range(target + 1))
        return {target} | {index for index in self._reachable(target) if index < len(self._stages)}


def mount_options(mount: str) -> dict[str, str]:
    """Parse ``--mount`` options; ``type`` is always there, other names are the long ones."""
    options = {"type": "bind"}
    names = {"src": "source", "dst": "target", "destination": "target"}
    for part in mount.split(","):
        key, _, value = part.partition("=")
        options[names.get(key.strip().lower(), key.strip().lower())] = value.strip()
    return options
