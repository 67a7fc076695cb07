"""``imagegate verify --attested``: a verdict that was given before, if it is still valid now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.errors import AttestationError, LockError, UsageError
from imagegate.report.document import parse_json_report
from imagegate.signing.locations import open_store
from imagegate.signing.stored import look_up
from imagegate.usecases.attest import expectation, subject_of, timestamp
from imagegate.usecases.copying import copying_of
from imagegate.usecases.gate import judge
from imagegate.usecases.verify import open_judged, require_fresh

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime, timedelta

    from imagegate.attestation.summary import Expectation
    from imagegate.lock import Lock
    from imagegate.oci.image import Image
    from imagegate.recipe import Recipe
    from imagegate.signing.keys import Verifier
    from imagegate.usecases.invocation import Invocation
    from imagegate.verdict import ImageVerdict
    from imagegate.workspace import RecipeState


def verify_attested(
    call: Invocation, name: str, *, image: str | None, verifier: Verifier, max_age: timedelta
) -> ImageVerdict:
    """Take a stored verdict on a recipe's image if it is still valid, and judge the image otherwise.

    Args:
        call: where the recipe and its lock are; its reporter is told what counts and what does not.
        name: the recipe.
        image: where the image is, its build if ``None``.
        verifier: the key that has to have signed the verdict.
        max_age: how old a stored verdict may be.

    Raises:
        UsageError: there is no image.
        LockError: the lock cannot be used.
        ImageError: the image cannot be read.
    """
    workspace = call.workspace
    state = workspace.state(name)
    lock = workspace.lock(name)
    source = open_judged(call, state, image)
    found = attested_verdict(
        call,
        state,
        lock,
        source.image,
        location=image or f"oci:{workspace.layout(name)}",
        verifier=verifier,
        max_age=max_age,
    )
    if found is not None:
        return found.verdict
    copying = copying_of(workspace, state, lock, source.image.digest)
    verdict, _ = judge(state, lock, source, call.reporter, copying=copying, today=call.today)
    return verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestedVerdict:
    """A verdict that was given before and counts now.

    Attributes:
        verdict: the verdict.
        pins: what the image's bytes said of the versions that launchers are told.
        verified_at: when it was given.
    """

    verdict: ImageVerdict
    pins: Mapping[str, str]
    verified_at: datetime


def attested_verdict(
    call: Invocation,
    state: RecipeState,
    lock: Lock,
    image: Image,
    *,
    location: str,
    verifier: Verifier,
    max_age: timedelta,
) -> AttestedVerdict | None:
    """Take a stored verdict if it is still valid; ``None`` says that the image has to be judged.

    Args:
        call: the moment, and who is told what counts and why other stored verdicts do not.
        state: the recipe as it is now.
        lock: the lock as it is now.
        image: the image, of which only manifest and config were read.
        location: where the image is, and so its statements.
        verifier: the key that has to have signed them.
        max_age: how old a verdict may be.
    """
    reporter, now = call.reporter, call.now
    if image.digest is None:
        return None
    try:
        store = open_store(location, call.connection)
    except UsageError as error:
        # an archive or an engine keeps none: that is no reason not to judge
        reporter.say(f"{error.message}: the image is judged from its bytes")
        return None
    try:
        require_fresh(state, lock)
    except LockError as error:
        reporter.say(f"stored verdicts do not count: {error.message}")
        return None
    expected = expectation(state.recipe, lock, subject_of(state.recipe, image), now, max_age)
    found = look_up(store, verifier, expected)
    for reason in found.reasons:
        reporter.say(f"does not count: {reason}")
    if found.verdict is None:
        reporter.say("no stored verdict counts: the image is judged from its bytes")
        return None
    stored = found.verdict
    try:
        verdict = parse_json_report(stored.result.verdict)
        reason = _why_not(verdict, expected, state.recipe, lock)
    except AttestationError as error:
        reason = error.message
    if reason:
        reporter.say(f"does not count: {stored.where}: {reason}")
        reporter.say("no stored verdict counts: the image is judged from its bytes")
        return None
    reporter.say(
        f"`{state.recipe.name}` was judged at {timestamp(stored.verified_at)}; "
        f"signed by the key {verifier.fingerprint}"
    )
    return AttestedVerdict(
        verdict=verdict,
        pins=stored.result.pins,
        verified_at=stored.verified_at,
    )


def _why_not(verdict: ImageVerdict, expected: Expectation, recipe: Recipe, lock: Lock) -> str:
    """Say why the details do not count, ``""`` where they do."""
    for what, wanted, found in _sides(verdict, expected, recipe, lock):
        if wanted != found:
            return f"its details are of another {what}: expected={wanted} found={found}"
    today = expected.now.date()
    days = [one.accepted.expires for one in verdict.findings if one.accepted is not None]
    if any(day < today for day in days):
        return f"a waiver has expired since: its last day={min(days)} today={today}"
    return ""


def _sides(
    verdict: ImageVerdict, expected: Expectation, recipe: Recipe, lock: Lock
) -> Iterator[tuple[str, str, str]]:
    """Require of the details what was required of the summary: what, expected, found."""
    yield "recipe", expected.recipe, verdict.recipe
    yield "image", str(expected.subject.digest), str(verdict.image)
    yield "lock", str(expected.lock), str(verdict.lock)
    yield "base", str(lock.base.digest), str(verdict.base)
    yield "platform", str(recipe.platform), verdict.platform
    # pins and waivers change without a new lock
    yield "policy", str(recipe.policy), str(verdict.policy)
    yield "result", "PASSED", verdict.word
    judged = {report.check for report in verdict.reports}
    missing = ", ".join(sorted(set(expected.checks) - judged))
    yield (
        "set of checks",
        "nothing left out",
        f"without {missing}" if missing else "nothing left out",
    )
