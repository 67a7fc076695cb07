"""A verdict as renderers get it: every text that may come out of an image is :class:`Foreign`.

A renderer of this package works on these views and never on a finding itself. It cannot print one
of their texts by accident: formatting it is an error, joining it to other text does not
type-check, and :meth:`~imagegate.foreign.Foreign.written` wants the escaping of the format.
What stays ``str`` is imagegate's own: codes, names of checks, labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.foreign import Foreign
from imagegate.report.folding import fold
from imagegate.report.waiver import waiver_of
from imagegate.verdict import Severity

if TYPE_CHECKING:
    from datetime import date

    from imagegate.oci.digest import Digest
    from imagegate.report.folding import Fold
    from imagegate.verdict import Acceptance, CheckReport, Finding, Place, Verdict

_LIKEWISE_SHOWN = 20


class ToldPlace:
    """Where something was found; see :class:`imagegate.verdict.Place`."""

    __slots__ = ("_place",)

    def __init__(self, place: Place) -> None:
        self._place = place

    @property
    def path(self) -> Foreign:
        """The path in the image."""
        return Foreign(self._place.path)

    @property
    def layer(self) -> int:
        """The layer's number, 0 for none."""
        return self._place.layer

    @property
    def layer_digest(self) -> Foreign:
        """The layer's digest, as its medium names it."""
        return Foreign(self._place.layer_digest)

    @property
    def step(self) -> Foreign:
        """The step of the history that made the layer."""
        return Foreign(self._place.step)

    @property
    def file(self) -> Foreign:
        """A file of the repository."""
        return Foreign(self._place.file)

    @property
    def line(self) -> int:
        """Its line, 0 for none."""
        return self._place.line


class ToldAcceptance:
    """By which waiver a finding was accepted; see :class:`imagegate.verdict.Acceptance`."""

    __slots__ = ("_accepted",)

    def __init__(self, accepted: Acceptance) -> None:
        self._accepted = accepted

    @property
    def reason(self) -> Foreign:
        """Why."""
        return Foreign(self._accepted.reason)

    @property
    def expires(self) -> date:
        """The last day."""
        return self._accepted.expires

    @property
    def days_left(self) -> int:
        """Days from the judgement until then."""
        return self._accepted.days_left


class ToldFinding:
    """One finding; see :class:`imagegate.verdict.Finding`."""

    __slots__ = ("_finding",)

    def __init__(self, finding: Finding) -> None:
        self._finding = finding

    @property
    def code(self) -> str:
        """The code, a word of imagegate's."""
        return self._finding.code

    @property
    def check(self) -> str:
        """The check's name, a word of imagegate's."""
        return self._finding.check

    @property
    def severity(self) -> Severity:
        """What it means for the verdict."""
        return self._finding.severity

    @property
    def about(self) -> Digest | None:
        """What a waiver has to name."""
        return self._finding.about

    @property
    def subject(self) -> Foreign:
        """The distribution, path or setting."""
        return Foreign(self._finding.subject)

    @property
    def message(self) -> Foreign:
        """The sentence; literals in it stand in backticks."""
        return Foreign(self._finding.message)

    @property
    def locked(self) -> Foreign:
        """What the lock has."""
        return Foreign(self._finding.locked)

    @property
    def found(self) -> Foreign:
        """What the image has."""
        return Foreign(self._finding.found)

    @property
    def hint(self) -> Foreign:
        """What a person can do."""
        return Foreign(self._finding.hint)

    @property
    def place(self) -> ToldPlace:
        """Where."""
        return ToldPlace(self._finding.place)

    @property
    def accepted(self) -> ToldAcceptance | None:
        """By which waiver."""
        accepted = self._finding.accepted
        return None if accepted is None else ToldAcceptance(accepted)

    @property
    def names_its_subject(self) -> bool:
        """Whether the message has the subject in it."""
        return self._finding.subject in self._finding.message

    def key(self, subject: str) -> bytes:
        """Name the finding for a fingerprint, which is hashed and never printed."""
        one = self._finding
        parts = (subject, one.code, one.subject, one.place.path)
        return "\0".join(parts).encode("utf-8", "backslashreplace")

    def waiver(self, base: str) -> tuple[str, ...]:
        """Return the waiver that accepts it, as lines of TOML."""
        return waiver_of(self._finding, base)


class ToldFold:
    """Findings of one cause; see :class:`imagegate.report.folding.Fold`."""

    __slots__ = ("_fold",)

    def __init__(self, one: Fold) -> None:
        self._fold = one

    @property
    def lead(self) -> ToldFinding:
        """The finding that says the cause."""
        return ToldFinding(self._fold.lead)

    @property
    def hanging(self) -> tuple[Foreign, ...]:
        """What else the cause makes: further subjects of the same step, and a count by code."""
        one, lines = self._fold, []
        if one.likewise:
            shown = one.likewise[:_LIKEWISE_SHOWN]
            named = ", ".join(f"{f.subject} ({f.found or 'nothing'})" for f in shown)
            more = len(one.likewise) - len(shown)
            lines.append(f"likewise {named}{f' and {more} more' if more else ''}")
        if one.others:
            codes = ", ".join(f"{code} ({count})" for code, count in one.codes)
            several = "" if len(one.others) == 1 else "s"
            lines.append(f"and {len(one.others)} more finding{several} of the same cause: {codes}")
        return tuple(map(Foreign, lines))


class ToldReport:
    """What one check said; see :class:`imagegate.verdict.CheckReport`."""

    __slots__ = ("_report",)

    def __init__(self, report: CheckReport) -> None:
        self._report = report

    @property
    def check(self) -> str:
        """The check's name, a word of imagegate's."""
        return self._report.check

    @property
    def passed(self) -> bool:
        """Whether it passed."""
        return self._report.passed

    @property
    def compared(self) -> tuple[Foreign, ...]:
        """What was compared, a line each."""
        return tuple(map(Foreign, self._report.compared))

    @property
    def looked_at(self) -> int:
        """How many comparisons there were."""
        return len(self._report.compared)

    @property
    def nothing_because(self) -> Foreign:
        """Why there was nothing to compare."""
        return Foreign(self._report.nothing_because)

    @property
    def left_out(self) -> Foreign:
        """Why it was not asked."""
        return Foreign(self._report.left_out)

    @property
    def summary(self) -> Foreign:
        """What is said in the place of the number of comparisons."""
        return Foreign(self._report.summary)

    @property
    def findings(self) -> tuple[ToldFinding, ...]:
        """What it found."""
        return tuple(map(ToldFinding, self._report.findings))

    @property
    def failing(self) -> tuple[str, ...]:
        """The codes that fail the verdict, each once."""
        codes = (f.code for f in self._report.findings if f.severity is Severity.FAIL)
        return tuple(dict.fromkeys(codes))


class ToldVerdict:
    """A judgement; see :class:`imagegate.verdict.Verdict`."""

    __slots__ = ("_folds", "_verdict")

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self._folds: tuple[Fold, ...] | None = None

    @property
    def subject(self) -> Foreign:
        """What was judged."""
        return Foreign(self._verdict.subject)

    @property
    def file(self) -> Foreign:
        """The file of the repository that says what should be."""
        return Foreign(self._verdict.file)

    @property
    def word(self) -> str:
        """The word that follows."""
        return self._verdict.word

    @property
    def passed(self) -> bool:
        """Whether it may be promoted."""
        return self._verdict.passed

    @property
    def sound(self) -> bool:
        """Whether every check that ran passed."""
        return self._verdict.sound

    @property
    def skipped(self) -> tuple[str, ...]:
        """Names of the checks that were left out."""
        return self._verdict.skipped

    @property
    def heading(self) -> tuple[tuple[str, Foreign], ...]:
        """What stands above the checks."""
        return tuple((label, Foreign(value)) for label, value in self._verdict.heading)

    @property
    def footing(self) -> tuple[tuple[str, Foreign], ...]:
        """What stands below the checks."""
        return tuple((label, Foreign(value)) for label, value in self._verdict.footing)

    @property
    def reports(self) -> tuple[ToldReport, ...]:
        """One a check."""
        return tuple(map(ToldReport, self._verdict.reports))

    @property
    def findings(self) -> tuple[ToldFinding, ...]:
        """All findings, failures first."""
        return tuple(map(ToldFinding, self._verdict.findings))

    @property
    def failures(self) -> int:
        """How many findings fail it."""
        return len(self._verdict.failures)

    @property
    def waivable_on(self) -> str:
        """What a waiver names as its base: a digest, ``scratch`` or ``""``."""
        return self._verdict.waivable_on

    @property
    def folds(self) -> tuple[ToldFold, ...]:
        """Failures by cause, in the order in which they were found."""
        return tuple(map(ToldFold, self._folded()))

    def led_by(self, report: ToldReport) -> tuple[tuple[ToldFinding, ToldFold | None], ...]:
        """Pair each finding of a check with the cause that it leads, if it leads one."""
        folds = {id(one.lead): one for one in self._folded()}
        return tuple(
            (ToldFinding(found), ToldFold(folds[id(found)]) if id(found) in folds else None)
            for found in report._report.findings  # noqa: SLF001 - views of one module
        )

    def _folded(self) -> tuple[Fold, ...]:
        if self._folds is None:
            self._folds = fold(self._verdict.findings)
        return self._folds
