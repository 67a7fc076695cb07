"""Verdicts -> the least edits of Dockerfile and ignore file that cover what is not covered.

Every proposal is tried on the text and judged again before it is made: an edit stays only if it
covers an asset that was not covered and uncovers none. Text goes in, text comes out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import inside
from imagegate.coverage.outcome import Asset, AssetVerdict, Outcome
from imagegate.coverage.reading.frontend import reads
from imagegate.coverage.sending.ignorefile import read_ignore_file
from imagegate.coverage.tree import Node, lookup
from imagegate.coverage.verdict import Judgement, judge
from imagegate.errors import CoverageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from imagegate.coverage.building.build import Build
    from imagegate.coverage.reading.dockerfile import Dockerfile, Instruction

_UNSENT = frozenset({Outcome.IGNORED, Outcome.EMPTY})
_FIXABLE = frozenset(
    {Outcome.NOT_COPIED, Outcome.OTHER_STAGE, Outcome.ELSEWHERE, Outcome.OVERWRITTEN}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One line to insert.

    Attributes:
        path: the file.
        after: number of the line it goes behind, in the text as it is now; 0 is the top.
        text: the line.
        model: the recipe it is for.
    """

    path: str
    after: int
    text: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What would cover the assets.

    Attributes:
        edits: lines to insert, in the order of their files and lines.
        texts: the new text of each file that changes, by path.
        judgements: the verdicts after the edits.
    """

    edits: tuple[Edit, ...]
    texts: Mapping[str, bytes]
    judgements: tuple[Judgement, ...]


def propose(judgements: Sequence[Judgement], texts: Mapping[str, bytes]) -> Repair:
    """Find the edits that cover the assets of `judgements` with every builder in them.

    Args:
        judgements: one Dockerfile, judged with one or more builders.
        texts: the bytes of the Dockerfile and of every ignore file in use, by their path.
    """
    bench = _Bench(judgements, texts)
    for sending in (_beside_siblings, _at_the_end, _file_by_file):
        bench.try_edits(sending(bench), _sent)
    for copying in (_like_sibling, _folder_into_target, _files_into_target):
        bench.try_edits(copying(bench), _covered)
    return bench.repair()


def _covered(verdict: AssetVerdict) -> bool:
    return verdict.covered


def _sent(verdict: AssetVerdict) -> bool:
    return verdict.outcome not in _UNSENT


class _Bench:
    """The texts as edited so far, and what they come to."""

    def __init__(self, judgements: Sequence[Judgement], texts: Mapping[str, bytes]) -> None:
        self._texts = texts
        self._builds = [judgement.build for judgement in judgements]
        self._assets = [verdict.asset for verdict in judgements[0].verdicts]
        self.edits: list[Edit] = []
        self.judgements = tuple(judgements)

    @property
    def dockerfile(self) -> Dockerfile:
        """The Dockerfile before any edit; line numbers of edits refer to it."""
        return self._builds[0].dockerfile

    def raw(self, path: str) -> list[str]:
        """Return the lines of the unedited file at `path`."""
        return _lines(self._texts[path])

    def ignore_paths(self) -> list[str]:
        """Return the ignore files in use, each once."""
        paths = [build.main.ignore.path for build in self._builds]
        return [path for path in dict.fromkeys(paths) if path is not None]

    def needing(self, outcomes: frozenset[Outcome]) -> list[Asset]:
        """Return assets that some builder gives one of `outcomes`."""
        wanted: dict[str, Asset] = {}
        for judgement in self.judgements:
            for verdict in judgement.verdicts:
                if verdict.outcome in outcomes:
                    wanted[verdict.asset.path] = verdict.asset
        return list(wanted.values())

    def try_edits(self, edits: list[Edit], good: Callable[[AssetVerdict], bool]) -> None:
        """Keep those of `edits` that help and harm nothing."""
        proposed = [edit for edit in edits if edit not in self.edits]
        if not proposed:
            return
        before = self._good(self.judgements, good)
        after = self._judge([*self.edits, *proposed])
        if after is None:
            return
        gained = self._good(after, good) - before
        models = {model for _, model, _ in gained}
        kept = [edit for edit in proposed if edit.model in models]
        if not kept:
            return
        if len(kept) < len(proposed):
            after = self._judge([*self.edits, *kept])
        if after is None or before - self._good(after, good):
            return
        self.edits += kept
        self.judgements = after

    @staticmethod
    def _good(
        judgements: Sequence[Judgement], good: Callable[[AssetVerdict], bool]
    ) -> set[tuple[str, str, str]]:
        return {
            (verdict.builder, verdict.asset.model, verdict.asset.path)
            for judgement in judgements
            for verdict in judgement.verdicts
            if good(verdict)
        }

    def _judge(self, edits: Sequence[Edit]) -> tuple[Judgement, ...] | None:
        texts = apply_edits(self._texts, edits)
        try:
            return tuple(judge(_rebuilt(build, texts), self._assets) for build in self._builds)
        except CoverageError:
            return None

    def repair(self) -> Repair:
        """Return what was kept."""
        edits = tuple(sorted(self.edits, key=lambda edit: (edit.path, edit.after)))
        changed = {edit.path for edit in edits}
        texts = apply_edits(self._texts, edits)
        return Repair(
            edits=edits,
            texts={path: text for path, text in texts.items() if path in changed},
            judgements=self.judgements,
        )


def _rebuilt(build: Build, texts: Mapping[str, bytes]) -> Build:
    path = build.dockerfile.path
    ignore = build.main.ignore
    if ignore.path is not None:
        ignore = read_ignore_file(texts[ignore.path], ignore.path, build.builder.client.reader)
    return replace(
        build,
        dockerfile=reads(build.builder.frontend, texts[path], path),
        main=replace(build.main, ignore=ignore),
    )


def apply_edits(texts: Mapping[str, bytes], edits: Sequence[Edit]) -> dict[str, bytes]:
    """Insert the lines of `edits`; line ends are those of each file, nothing else changes."""
    changed = dict(texts)
    for path in {edit.path for edit in edits}:
        lines = _lines(texts[path])
        ending = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
        inserted: dict[int, list[str]] = {}
        for edit in edits:
            if edit.path == path:
                inserted.setdefault(edit.after, []).append(edit.text + ending)
        out: list[str] = list(inserted.get(0, ()))
        for number, line in enumerate(lines, start=1):
            more = inserted.get(number, [])
            out.append(line if not more or line.endswith("\n") else line + ending)
            out += more
        changed[path] = "".join(out).encode("utf-8", "surrogateescape")
    return changed


def _lines(text: bytes) -> list[str]:
    return [line for line in re.split(r"(?<=\n)", text.decode("utf-8", "surrogateescape")) if line]


# -- ignore lines


def _folders(assets: Iterable[Asset]) -> dict[str, Asset]:
    """Return one asset per recipe folder; a file that was asked for alone has none."""
    return {
        asset.folder: asset for asset in reversed(list(assets)) if asset.folder and not asset.single
    }


def _exceptions(bench: _Bench, pick: Callable[[str], int]) -> list[Edit]:
    folders = _folders(bench.needing(_UNSENT))
    return [
        Edit(path=path, after=pick(path), text=f"!{_literal(folder)}", model=asset.model)
        for path in bench.ignore_paths()
        for folder, asset in sorted(folders.items())
    ]


def _beside_siblings(bench: _Bench) -> list[Edit]:
    """``!recipes/k`` behind the last exception for a recipe next to it."""
    parents = {f"!{folder.rpartition('/')[0]}/" for folder in _folders(bench.needing(_UNSENT))}

    def last(path: str) -> int:
        lines = bench.raw(path)
        beside = [
            number
            for number, line in enumerate(lines, start=1)
            if any(line.strip().replace("!/", "!").startswith(parent) for parent in parents)
        ]
        return beside[-1] if beside else len(lines)

    return _exceptions(bench, last)


def _at_the_end(bench: _Bench) -> list[Edit]:
    """``!recipes/k`` as the last line, after everything that could drop it again."""
    return _exceptions(bench, lambda path: len(bench.raw(path)))


def _file_by_file(bench: _Bench) -> list[Edit]:
    """``!recipes/k/file`` for each file, where a folder's line is not enough."""
    return [
        Edit(
            path=path,
            after=len(bench.raw(path)),
            text=f"!{_literal(asset.path)}",
            model=asset.model,
        )
        for path in bench.ignore_paths()
        for asset in bench.needing(_UNSENT)
    ]


def _literal(path: str) -> str:
    return re.sub(r"([\\*?\[])", r"\\\1", path)


# -- COPY lines


def _like_sibling(bench: _Bench) -> list[Edit]:
    """The COPY that brings a covered recipe, written again for a missing one."""
    found = _sibling(bench)
    if found is None:
        return []
    sibling, instruction = found
    lines = bench.raw(bench.dockerfile.path)[instruction.line - 1 : instruction.end]
    written = "".join(lines).rstrip("\r\n")
    edits: list[Edit] = []
    for asset in _folders(bench.needing(_FIXABLE)).values():
        text = _renamed(written, sibling.model, asset.model)
        if text != written:
            edits.append(
                Edit(
                    path=bench.dockerfile.path,
                    after=instruction.end,
                    text=text,
                    model=asset.model,
                )
            )
    return sorted(edits, key=lambda edit: edit.model)


def _sibling(bench: _Bench) -> tuple[Asset, Instruction] | None:
    """Return the covered recipe whose own COPY line comes last, and that line."""
    best: tuple[Asset, Instruction] | None = None
    by_line = {instruction.line: instruction for instruction in bench.dockerfile.instructions}
    for judgement in bench.judgements:
        placed = judgement.evaluation.image
        for verdict in judgement.verdicts:
            if not verdict.covered or not verdict.found:
                continue
            line = _first_step(placed, verdict)
            instruction = by_line.get(line)
            if instruction is None or not _names(instruction, verdict.asset.model):
                continue
            if best is None or instruction.line > best[1].line:
                best = verdict.asset, instruction
    return best


def _first_step(image: Node, verdict: AssetVerdict) -> int:
    node = lookup(image, inside(verdict.found[0]))
    assert node is not None
    assert node.origin is not None
    return node.origin.steps[0]


def _names(instruction: Instruction, model: str) -> bool:
    return any(_renamed(word, model, "") != word for word in instruction.words)


def _renamed(text: str, before: str, after: str) -> str:
    """Replace `before` where it is a whole path component."""
    return re.sub(rf"(?<![\w.-]){re.escape(before)}(?![\w.-])", lambda _: after, text)


def _folder_into_target(bench: _Bench) -> list[Edit]:
    """``COPY recipes/k /expected/k/`` as the last copy of the target stage."""
    edits: list[Edit] = []
    for asset in _folders(bench.needing(_FIXABLE)).values():
        if asset.expected is None:
            continue
        folder = asset.expected.removesuffix(asset.inner)
        edits.append(_copy_edit(bench, asset, f"{asset.folder}/", folder))
    return sorted(edits, key=lambda edit: edit.model)


def _files_into_target(bench: _Bench) -> list[Edit]:
    """``COPY recipes/k/file /expected/k/file`` for each file that a folder's line did not help."""
    return [
        _copy_edit(bench, asset, asset.path, asset.expected)
        for asset in bench.needing(_FIXABLE)
        if asset.expected is not None
    ]


def _copy_edit(bench: _Bench, asset: Asset, source: str, destination: str) -> Edit:
    if re.search(r"[\s\"'$\\]", source + destination):
        text = f'COPY ["{source}", "{destination}"]'
    else:
        text = f"COPY {source} {destination}"
    return Edit(
        path=bench.dockerfile.path, after=_end_of_target(bench), text=text, model=asset.model
    )


def _end_of_target(bench: _Bench) -> int:
    """Return the line behind which the target stage can take another COPY."""
    evaluation = bench.judgements[0].evaluation
    start = evaluation.stages[evaluation.target].line
    after = start
    for instruction in bench.dockerfile.instructions:
        if instruction.line == start:
            after = instruction.end
        elif instruction.line > start:
            if instruction.name == "FROM":
                break
            if instruction.name in {"COPY", "ADD", "RUN", "WORKDIR"}:
                after = instruction.end
    return after
