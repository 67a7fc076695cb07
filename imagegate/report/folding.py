"""One cause is told once: failing findings put together by what explains them, and by step.

A distribution that a step installs anew makes a finding for each of its files, in several checks.
A reader wants the cause first (the distribution is not locked), how much hangs on it, and the
whole list only on request.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.verdict import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from imagegate.verdict import Finding

# what says more about a cause than what follows from it: the second half of a code
_FIRST = (
    *("layer-absent", "not-a-prefix", "not-locked", "undeclared", "version-moved", "removed"),
    *("other-version", "missing", "second-copy", "metadata-moved", "unexplained", "unfit"),
)
# of findings that have nothing but their code in common, so many are told one by one
_ALONE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Findings of one cause.

    Attributes:
        lead: the finding that says the cause.
        likewise: of the same code and step, one for each further cause.
        others: everything else that hangs on them.
    """

    lead: Finding
    likewise: tuple[Finding, ...]
    others: tuple[Finding, ...]

    @property
    def codes(self) -> tuple[tuple[str, int], ...]:
        """The codes of the others, with how many there are of each, the most first."""
        return tuple(Counter(finding.code for finding in self.others).most_common())


def fold(findings: Iterable[Finding]) -> tuple[Fold, ...]:
    """Put failing findings together by cause and step, in the order in which they were found.

    Args:
        findings: any; those that do not fail the verdict are left out.
    """
    failing = [finding for finding in findings if finding.severity is Severity.FAIL]
    by_cause: dict[tuple[str, int], list[Finding]] = {}
    alone: dict[tuple[str, int], list[Finding]] = {}
    for finding in failing:
        if cause := _cause_of(finding):
            by_cause.setdefault((cause, finding.place.layer), []).append(finding)
        else:
            alone.setdefault((finding.code, finding.place.layer), []).append(finding)
    _join_those_of_no_layer(by_cause)
    folds: list[Fold] = []
    groups: dict[tuple[str, int], list[list[Finding]]] = {}
    for (_, layer), found in by_cause.items():
        ordered = sorted(found, key=_rank)
        groups.setdefault((ordered[0].code, layer), []).append(ordered)
    for every in groups.values():
        # the one on which most hangs is most likely what somebody asked for
        every.sort(key=len, reverse=True)
        lead, *likewise = [found[0] for found in every]
        others = tuple(finding for found in every for finding in found[1:])
        folds.append(Fold(lead=lead, likewise=tuple(likewise), others=others))
    for found in alone.values():
        if len(found) > _ALONE:
            folds.append(Fold(lead=found[0], likewise=(), others=tuple(found[1:])))
        else:
            folds.extend(Fold(lead=one, likewise=(), others=()) for one in found)
    position = {id(finding): number for number, finding in enumerate(failing)}
    return tuple(sorted(folds, key=lambda one: position[id(one.lead)]))


def _join_those_of_no_layer(by_cause: dict[tuple[str, int], list[Finding]]) -> None:
    """Put what is about no layer (something is missing) to what a layer made of one cause."""
    for cause, layer in [key for key in by_cause if key[1] == 0]:
        layers = [other for name, other in by_cause if name == cause and other]
        if layers:
            by_cause[cause, min(layers)].extend(by_cause.pop((cause, layer)))


def _cause_of(finding: Finding) -> str:
    """Return the cause without its version: what was there and what came are one."""
    return finding.cause.partition("=")[0].lower().replace("_", "-")


def _rank(finding: Finding) -> int:
    what = finding.code.partition("/")[2]
    return _FIRST.index(what) if what in _FIRST else len(_FIRST)
