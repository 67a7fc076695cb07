"""What a check is, and how it says what it found; the same for images, launches and coverage."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar, Unpack

from imagegate.foreign.credentials import REDACTED, redact, redact_value
from imagegate.oci.digest import Digest
from imagegate.oci.documents import canonical_json
from imagegate.verdict import NOT_WAIVABLE, CheckReport, Finding, Place, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

E = TypeVar("E")

# what a fact of a finding may be: what JSON can say
Fact = str | int | bool | None | list["Fact"] | dict[str, "Fact"]

_NOTHING = "nothing"
_NOWHERE = Place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[E]):
    """One question, asked of evidence of one kind.

    Attributes:
        id: stable name, ``<room>.<what>``.
        question: what it asks, one sentence.
        why: what goes wrong where the answer is no.
        fix: what a person does then.
        judge: answers it.
        revision: rises whenever the check becomes stricter, so that a stored verdict of a
            laxer one no longer counts.
        rests_on: what has to be true before the question makes sense, in words that a report
            can give as the reason why it was not asked; ``""`` for nothing.
    """

    id: str
    question: str
    why: str
    fix: str
    judge: Callable[[E], CheckReport]
    revision: int
    rests_on: str = ""


class Said(TypedDict, total=False):
    """What a finding may say beside its message; a misspelt name is a type error.

    Attributes:
        locked: what should be there.
        found: what is there; never the same text as `locked`.
        place: where.
        hint: what a person can do about exactly this.
        facts: what else makes the finding what it is, for its digest; see :func:`digest_of`.
        cause: the distribution, package or setting that explains several findings at once.
    """

    locked: object
    found: object
    place: Place
    hint: str
    facts: Mapping[str, Fact]
    cause: str


class Findings:
    """Collects the findings of one check."""

    def __init__(self, check: str) -> None:
        self._check = check
        self._found: list[Finding] = []

    def fail(self, what: str, subject: str, message: str, **said: Unpack[Said]) -> None:
        """Add a finding that fails the verdict; `what` is the second half of its code."""
        self._add(Severity.FAIL, what, subject, message, said)

    def note(self, what: str, subject: str, message: str, **said: Unpack[Said]) -> None:
        """Add a finding that is said and does not fail the verdict."""
        self._add(Severity.NOTE, what, subject, message, said)

    def compare(
        self, what: str, subject: str, message: str, *, known: bool, **said: Unpack[Said]
    ) -> None:
        """Add a failure, or a note that says so where the same is true of the base.

        Args:
            what: the second half of the code.
            subject: the finding's subject.
            message: what is wrong.
            known: whether exactly this is also true of what it stands on.
            said: as for :meth:`fail`.
        """
        self.weigh(what, subject, message, because="also true of the base" if known else "", **said)

    def weigh(
        self, what: str, subject: str, message: str, *, because: str, **said: Unpack[Said]
    ) -> None:
        """Add a failure, or a note where there is a reason that it is none.

        Args:
            what: the second half of the code.
            subject: the finding's subject.
            message: what is wrong.
            because: why it does not fail the verdict, said behind the message; ``""`` where it
                does.
            said: as for :meth:`fail`.
        """
        if because:
            self._add(Severity.NOTE, what, subject, f"{message}; {because}", said)
        else:
            self._add(Severity.FAIL, what, subject, message, said)

    def report(
        self, compared: Iterable[str], *, nothing_because: str = "", summary: str = ""
    ) -> CheckReport:
        """Close the check; `summary` is shown in the place of the number of comparisons."""
        return CheckReport(
            check=self._check,
            compared=tuple(map(redact, compared)),
            findings=tuple(self._found),
            nothing_because=redact(nothing_because),
            summary=redact(summary),
        )

    def _add(self, severity: Severity, what: str, subject: str, message: str, said: Said) -> None:
        if unknown := said.keys() - Said.__annotations__.keys():
            raise TypeError(f"a finding says no {', '.join(sorted(unknown))}")
        given = str(said.get("locked", "")), str(said.get("found", ""))
        # the last word of `Env HF_TOKEN` says what its value is
        name = subject.rpartition(" ")[2]
        sides = _apart(redact_value(name, given[0]), redact_value(name, given[1]))
        place = said.get("place", _NOWHERE)
        told = redact(subject)
        # what was hidden tells two findings apart only where the check sealed it
        hidden = REDACTED in "".join((told, *sides))
        waivable = severity is Severity.FAIL and self._check not in NOT_WAIVABLE
        if hidden and not said.get("facts"):
            waivable = False
        code = f"{self._check}/{what}"
        self._found.append(
            Finding(
                code=code,
                severity=severity,
                subject=told,
                message=redact(message),
                locked=sides[0],
                found=sides[1],
                place=replace(place, path=redact(place.path), step=redact(place.step)),
                hint=redact(said.get("hint", "")),
                about=digest_of(code, told, sides, place, said.get("facts", {}))
                if waivable
                else None,
                cause=said.get("cause", "") or place.owner,
            )
        )


def digest_of(
    code: str,
    subject: str,
    sides: tuple[str, str],
    place: Place,
    facts: Mapping[str, Fact],
) -> Digest:
    """Name what a finding is about, so that a waiver accepts this and nothing else.

    It covers the code, the subject, both sides, the path and what stands there (kind, mode,
    owner, content; :attr:`Place.content`), and what the check adds in `facts`. The number, digest
    and step of the layer are left out: the same content of another build is the same finding.

    A value that nobody may guess goes into `facts` sealed (:func:`seal`), never as it is.
    """
    about = {
        "code": code,
        "subject": subject,
        "locked": sides[0],
        "found": sides[1],
        "path": place.path,
        "content": place.content,
        "facts": dict(facts),
    }
    return Digest.of(canonical_json(about))


def seal(value: str | bytes, key: bytes) -> str:
    """Name a secret value by a digest that cannot be tried out without the image.

    A plain hash of a short password is found by trying all short passwords. Keyed with bytes of
    the image that hold the value themselves, trying needs these bytes, and who has them has the
    value.

    Args:
        value: what must not be shown.
        key: bytes that only somebody with the image has: its config, or the file.

    Returns:
        Hex of the keyed digest (RFC 2104, HMAC with SHA-256).
    """
    import hmac

    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return hmac.new(hashlib.sha256(key).digest(), raw, hashlib.sha256).hexdigest()


def _apart(locked: str, found: str) -> tuple[str, str]:
    """Make sure that no finding has two equal sides, as a reader sees them.

    An empty side is shown as ``nothing``, so an empty value beside ``nothing`` is named; two
    sides that are one text though something differs say that the difference is not visible.
    """
    if not locked and not found:
        return "", ""
    if (locked or _NOTHING) != (found or _NOTHING):
        return locked, found
    if locked != found:
        return locked or "an empty value", found or "an empty value"
    return locked, f"{found} (another one that reads the same)"


def ids(checks: Sequence[Check[E]]) -> tuple[str, ...]:
    """Return the checks' names in their order."""
    return tuple(check.id for check in checks)
