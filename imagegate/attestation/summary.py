"""The verdict as a SLSA Verification Summary v1, and the question whether a stored one counts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imagegate.attestation.statement import (
    SUMMARY_TYPE,
    TOOL,
    ReadStatement,
    Statement,
    Subject,
    digest_set,
    make_statement,
)
from imagegate.errors import AttestationError
from imagegate.oci.digest import Digest
from imagegate.oci.documents import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from imagegate.lock import Lock
    from imagegate.recipe import Recipe
    from imagegate.verdict import ImageVerdict

# says that no claim about the build level is made (SLSA 1.2, "SlsaResult")
_NO_BUILD_LEVEL = "SLSA_BUILD_LEVEL_UNEVALUATED"
# custom levels must not start with `SLSA_`; each check that passed is one
_LEVEL = "IMAGEGATE_"
# clocks of signing and verifying machines may differ by this much
_SKEW = timedelta(minutes=5)

Digests = Annotated[dict[str, str], Field(min_length=1)]


class _Section(BaseModel):
    # a verifier ignores fields that it does not know (in-toto, "Parsing rules")
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


class _Verifier(_Section):
    id: str


class _Annotations(_Section):
    """What is ours to say of a policy (in-toto, ResourceDescriptor, `annotations`)."""

    recipe: str = "nothing"
    checks: dict[str, Annotated[int, Field(strict=True, ge=1)]] | None = None


class _Policy(_Section):
    uri: str = ""
    digest: Digests
    annotations: _Annotations = _Annotations()


class _Reference(_Section):
    uri: str = ""
    digest: Digests


class _Summary(_Section):
    """The predicate as it is read (slsa.dev/spec, "Verification Summary Attestation", v1)."""

    verifier: _Verifier
    time_verified: str = Field(alias="timeVerified")
    resource_uri: str = Field(alias="resourceUri")
    policy: _Policy
    input_attestations: tuple[_Reference, ...] = Field(default=(), alias="inputAttestations")
    verification_result: Literal["PASSED", "FAILED"] = Field(alias="verificationResult")
    verified_levels: tuple[str, ...] = Field(alias="verifiedLevels")


def summarise(
    verdict: ImageVerdict,
    lock: Lock,
    subject: Subject,
    *,
    recipe: Digest,
    checks: Mapping[str, int],
    result: Statement,
    verified_at: str,
    version: str,
) -> Statement:
    """Write the summary of a verdict.

    Args:
        verdict: what was judged; its result is stated as it is.
        lock: the policy.
        subject: the image.
        recipe: digest of everything in the recipe that the gate reads.
        checks: the checks that the verdict was given by, each with its revision.
        result: the detailed verdict's statement; the only attestation that went in.
        verified_at: when, RFC 3339 in UTC.
        version: this tool's version.

    Raises:
        AttestationError: the verdict is about another image or lock.
    """
    _require_same(verdict, lock, subject)
    passed = verdict.passed
    levels = [level_of(report.check) for report in verdict.reports]
    predicate = {
        "verifier": {"id": TOOL, "version": {"imagegate": version}},
        "timeVerified": verified_at,
        "resourceUri": subject.uri,
        "policy": {
            "uri": policy_uri(verdict.recipe),
            "digest": digest_set(verdict.lock),
            "annotations": {"recipe": str(recipe), "checks": dict(checks)},
        },
        "inputAttestations": [{"uri": result.predicate_type, "digest": digest_set(result.digest)}],
        "verificationResult": "PASSED" if passed else "FAILED",
        "verifiedLevels": [_NO_BUILD_LEVEL, *levels] if passed else ["FAILED"],
        "slsaVersion": "1.1",
    }
    return make_statement(subject, SUMMARY_TYPE, predicate)


def _require_same(verdict: ImageVerdict, lock: Lock, subject: Subject) -> None:
    if verdict.image is None or verdict.image != subject.digest:
        raise AttestationError(
            f"the verdict is about another image: verdict={verdict.image} subject={subject.digest}"
        )
    if verdict.lock != lock.digest:
        raise AttestationError(
            f"the verdict is by another lock: verdict={verdict.lock} lock={lock.digest}"
        )


def policy_digest(recipe: Recipe) -> Digest:
    """Digest of a recipe as the gate reads it.

    A lock holds the part that the image is made of. What accepts or asks for more without a new
    lock, such as the profile's settings, is policy too: a verdict under another one is another.
    """
    document = recipe.document.model_dump(mode="json", by_alias=True, exclude={"description"})
    return Digest.of(canonical_json(document))


def level_of(check: str) -> str:
    """Name the verified level that a passed check stands for."""
    return _LEVEL + check.upper().replace(".", "_")


def policy_uri(recipe: str) -> str:
    """Name the lock of a recipe."""
    return f"{TOOL}#locks/{recipe}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a stored summary has to say so that it counts.

    Attributes:
        subject: the image that is asked about.
        recipe: the recipe's name.
        lock: digest of the lock as it is now.
        recipe_digest: digest of everything in the recipe that the gate reads now.
        checks: every check that is known now, with its revision.
        now: the moment of asking.
        max_age: how old a summary may be.
    """

    subject: Subject
    recipe: str
    lock: Digest
    recipe_digest: Digest
    checks: Mapping[str, int]
    now: datetime
    max_age: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedSummary:
    """A summary that says what was expected.

    Attributes:
        verified_at: when the verdict was given.
        result: digest of the detailed verdict's statement.
    """

    verified_at: datetime
    result: Digest


def examine(statement: ReadStatement, expected: Expectation) -> CountedSummary:
    """Require that a summary, whose signature was verified, says what is expected.

    Follows SLSA, "Verifying VSAs", whose step 1 (the signature) comes before this.

    Raises:
        AttestationError: it says something else; the message says what.
    """
    # step 4: the predicate type; a statement of another type says nothing about the verdict
    if statement.predicate_type != SUMMARY_TYPE:
        raise AttestationError(f"`{statement.predicate_type}` is not a verification summary")
    # step 2: the subject is the artifact; an index that holds it is not it
    if expected.subject.digest not in statement.subjects:
        found = ", ".join(map(str, sorted(statement.subjects))) or "nothing"
        raise AttestationError(
            f"the summary is about another image: expected={expected.subject.digest} found={found}"
        )
    try:
        summary = _Summary.model_validate_json(statement.predicate)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise AttestationError(f"the summary is malformed: `{where}`: {first['msg']}") from error
    for what, wanted, found in _statements(summary, expected):
        if found != wanted:
            raise AttestationError(
                f"the summary has another {what}: expected={wanted} found={found}"
            )
    # step 7: every check of this version was passed; a summary by an older gate has fewer
    missing = [check for check in expected.checks if level_of(check) not in summary.verified_levels]
    if missing or not expected.checks:
        raise AttestationError(f"the summary does not speak of {', '.join(missing) or 'any check'}")
    _require_as_strict(summary.policy.annotations.checks, expected.checks)
    return CountedSummary(
        verified_at=_moment(summary.time_verified, expected), result=_result(summary)
    )


def _require_as_strict(given: Mapping[str, int] | None, wanted: Mapping[str, int]) -> None:
    """Require that no check was laxer than it is now.

    A check's revision rises when it refuses more. A gate that knows further checks, or later
    revisions, is stricter; that is no reason to judge again.
    """
    if given is None:
        raise AttestationError(
            "the summary does not say which revisions its checks had: "
            "expected=revisions found=nothing; an older imagegate gave it",
            hint="verify again, and sign anew",
        )
    laxer = [name for name in wanted if given.get(name, 0) < wanted[name]]
    if laxer:
        sides = (
            ", ".join(f"{name} {of.get(name, 'nothing')}" for name in laxer)
            for of in (wanted, given)
        )
        expected, found = sides
        raise AttestationError(
            f"the summary was given by laxer checks: expected={expected} found={found}",
            hint="verify again, and sign anew",
        )


def _statements(summary: _Summary, expected: Expectation) -> Iterable[tuple[str, str, str]]:
    """List what has to be equal: name, expected, found."""
    yield "verifier", TOOL, summary.verifier.id  # step 3
    yield "resource", expected.subject.uri, summary.resource_uri  # step 5
    yield "result", "PASSED", summary.verification_result  # step 6
    yield "policy", policy_uri(expected.recipe), summary.policy.uri
    locked = summary.policy.digest.get(expected.lock.algorithm, "nothing")
    yield "lock", str(expected.lock), f"{expected.lock.algorithm}:{locked}"
    yield "recipe", str(expected.recipe_digest), summary.policy.annotations.recipe


def _moment(text: str, expected: Expectation) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise AttestationError(f"the summary's time is malformed: `{text}`") from error
    if moment.tzinfo is None:
        raise AttestationError(f"the summary's time names no zone: `{text}`")
    age = expected.now - moment
    if age < -_SKEW:
        raise AttestationError(f"the summary is of the future: `{text}`")
    if age > expected.max_age:
        raise AttestationError(
            f"the summary is too old: allowed={expected.max_age} found={age}", hint="verify again"
        )
    return moment.astimezone(UTC)


def _result(summary: _Summary) -> Digest:
    for reference in summary.input_attestations:
        if "sha256" in reference.digest:
            return Digest.parse(f"sha256:{reference.digest['sha256']}")
    raise AttestationError("the summary names no detailed verdict")


def is_failure(statement: ReadStatement, expected: Expectation) -> bool:
    """Say whether an authentic summary states that this image fails this policy.

    Its age does not matter: under the same lock, recipe and gate the bytes will not pass later.
    """
    if (
        statement.predicate_type != SUMMARY_TYPE
        or expected.subject.digest not in statement.subjects
    ):
        return False
    try:
        summary = _Summary.model_validate_json(statement.predicate)
    except ValidationError:
        return False
    locked = summary.policy.digest.get(expected.lock.algorithm)
    return summary.verification_result == "FAILED" and locked == expected.lock.encoded
