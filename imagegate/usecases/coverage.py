"""COPY coverage of builds: each is judged, each is told, none hides another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from imagegate.coverage.building.profiles import find_profile
from imagegate.coverage.render import FileReport
from imagegate.coverage.repair import propose
from imagegate.coverage.sending.walk import ContextFilter, Decision
from imagegate.coverage.tree import Kind, Node
from imagegate.coverage.verdict import Judgement, Refusal, judge_each
from imagegate.errors import CoverageError, ImagegateError, UsageError
from imagegate.usecases.covering.assets import find_assets
from imagegate.usecases.covering.contexts import label_of
from imagegate.usecases.covering.reading import Shelf, Texts, build_of, ignore_for
from imagegate.usecases.covering.wanted import Refused, Wanted
from imagegate.workspace.atomic import write_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from imagegate.coverage.outcome import Asset
    from imagegate.coverage.sending.ignorefile import IgnoreFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What can be said of one build.

    Attributes:
        title: what reports call it.
        report: the judgement; ``None`` where there is none.
        error: why it could not be judged; ``None`` where it could.
        notes: what was not looked at, and why, a sentence each.
        strict: notes fail, too.
    """

    title: str
    report: FileReport | None = None
    error: ImagegateError | None = None
    notes: tuple[str, ...] = ()
    strict: bool = False

    @property
    def exit_code(self) -> int:
        """Exit code of this answer alone."""
        if self.report is None:
            return self.error.exit_code if self.error is not None else ImagegateError.exit_code
        return 0 if self.report.passes(strict=self.strict) else 1


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


def check_coverage(
    wanted: Sequence[Wanted | Refused], *, fix: bool = False, propose_edits: bool = True
) -> tuple[Answer, ...]:
    """Judge every build; one that cannot be judged is an answer of its own.

    Args:
        wanted: what to judge.
        fix: write the edits that cover what is not covered, and judge again.
        propose_edits: look for such edits at all.
    """
    shelf = Shelf(one for one in wanted if isinstance(one, Wanted))
    answers: list[Answer] = []
    for one in wanted:
        if isinstance(one, Refused):
            answers.append(Answer(title=one.title, error=one.error))
            continue
        try:
            answers.append(_answer(one, shelf, fix=fix, propose_edits=propose_edits or fix))
        except ImagegateError as error:
            answers.append(Answer(title=title_of(one), error=error, strict=one.strict))
    return tuple(answers)


def title_of(wanted: Wanted) -> str:
    """Name a build: its Dockerfile, and what tells it from others of the same Dockerfile."""
    file = wanted.label if wanted.dockerfile is None else label_of(wanted.dockerfile)
    return f"{file} [{wanted.variant}]" if wanted.variant else file


def _answer(wanted: Wanted, shelf: Shelf, *, fix: bool, propose_edits: bool) -> Answer:
    context = shelf.context(wanted.context)
    git = shelf.git(wanted.context)
    asked = find_assets(wanted.assets, wanted.expects, context, git, exclude=wanted.exclude)
    notes = list(asked.notes)
    if git is not None and git.refused:
        hint = f" ({git.hint})" if git.hint else ""
        notes.append(f"whether the assets are committed is not known, {git.refused}{hint}")
    report, texts = _report(wanted, shelf, asked.assets)
    if propose_edits and not report.covered:
        report = _repaired(report, texts, fix=fix)
    if report.left_out:
        notes.append(f"git-ignored and not copied, so no assets: {', '.join(report.left_out)}")
    return Answer(title=title_of(wanted), report=report, notes=tuple(notes), strict=wanted.strict)


def _report(wanted: Wanted, shelf: Shelf, assets: Sequence[Asset]) -> tuple[FileReport, Texts]:
    texts = Texts()
    judgements = judge_each(
        [find_profile(name) for name in wanted.builders],
        lambda builder: build_of(wanted, builder, shelf, texts),
        assets,
    )
    refusals = [found for found in judgements if isinstance(found, Refusal)]
    if len(refusals) == len(judgements):
        raise refusals[0].error
    left_out = _left_out(judgements)
    judgements = tuple(_without(judgement, left_out) for judgement in judgements)
    if not judgements[0].verdicts:
        raise CoverageError("every file of the recipes is git-ignored and none is copied")
    report = FileReport(
        dockerfile=title_of(wanted),
        judgements=judgements,
        left_out=tuple(sorted(left_out)),
    )
    return report, texts


def _repaired(report: FileReport, texts: Texts, *, fix: bool) -> FileReport:
    """Add the edits that cover what is not covered, written if `fix`.

    Raises:
        UsageError: what would have to be written is not a file.
        ImagegateError: a file cannot be written.
    """
    repair = propose(report.judged, texts.contents)
    if not fix:
        return replace(report, edits=repair.edits)
    for path in repair.texts:
        if path not in texts.places:
            raise UsageError(
                f"`--fix` cannot write to `{path}`: it is not a file of its own",
                hint="without `--fix` the lines are printed",
            )
    for path, text in repair.texts.items():
        write_atomically(texts.places[path], text)
    after = iter(repair.judgements)
    judgements = tuple(
        found if isinstance(found, Refusal) else next(after) for found in report.judgements
    )
    return replace(report, judgements=judgements, edits=repair.edits, written=True)


def _left_out(judgements: Sequence[Judgement | Refusal]) -> set[str]:
    """Return git-ignored files that no builder copies: they are neither kept nor wanted."""
    wanted = {
        verdict.asset.path
        for judgement in judgements
        for verdict in judgement.verdicts
        if not verdict.asset.gitignored or verdict.found
    }
    return {verdict.asset.path for verdict in judgements[0].verdicts} - wanted


def _without(judgement: Judgement | Refusal, paths: set[str]) -> Judgement | Refusal:
    if not paths:
        return judgement
    kept = tuple(verdict for verdict in judgement.verdicts if verdict.asset.path not in paths)
    return replace(judgement, verdicts=kept)


def list_context(wanted: Sequence[Wanted]) -> Iterator[tuple[str, Sent]]:
    """Yield what each builder sends and drops, as (builder, line), in path order.

    Raises:
        CoverageError: a file or the context cannot be used.
    """
    shelf = Shelf(())
    for one in wanted:
        context = shelf.context(one.context)
        for name in one.builders:
            builder = find_profile(name)
            ignore = ignore_for(one.context, one.dockerfile, builder)
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


def write_atomically(place: Path, content: bytes) -> None:
    """Replace the file at `place`; its mode stays, and a reader never sees half of it.

    Raises:
        ImagegateError: it cannot be written.
    """
    try:
        write_file(place, content)
    except OSError as failed:
        raise ImagegateError(f"`{place}` cannot be written: {failed}") from failed
