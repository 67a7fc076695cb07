"""Signed statements: written when an image passed, and read back to see that they count."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from imagegate import __version__
from imagegate.attestation.components import Installed
from imagegate.attestation.provenance import BuildRecord, provenance
from imagegate.attestation.result import detailed_result
from imagegate.attestation.sbom import sbom
from imagegate.attestation.spdx import spdx
from imagegate.attestation.statement import Subject
from imagegate.attestation.summary import Expectation, policy_digest, summarise
from imagegate.catalog.requirements import installed, marker_environment
from imagegate.checks.image import CHECKS
from imagegate.errors import AttestationError, RefusedError
from imagegate.localfiles import read_regular
from imagegate.report.document import render_json
from imagegate.signing.keys import BundleSigner
from imagegate.signing.layout import LayoutStore
from imagegate.signing.publish import Published, publish, publish_bundles
from imagegate.signing.stored import look_up

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from imagegate.attestation.statement import Statement
    from imagegate.checks.image.evidence import Evidence
    from imagegate.lock import Lock
    from imagegate.oci.image import Image
    from imagegate.recipe import Recipe
    from imagegate.signing.keys import Signer, Verifier
    from imagegate.signing.store import ArtifactStore
    from imagegate.usecases.ports import Reporter
    from imagegate.verdict import ImageVerdict
    from imagegate.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict and what can be stated and published with it.

    Attributes:
        verdict: the verdict.
        recipe: the recipe as it was judged.
        lock: the lock that it was judged by.
        image: the image; its layers need not be there.
        pins: what the image's bytes say of the versions that launchers are told.
        verified_at: when the verdict was given.
        installed: what the interpreter of the image finds, where the image was read.
    """

    verdict: ImageVerdict
    recipe: Recipe
    lock: Lock
    image: Image
    pins: Mapping[str, str]
    verified_at: datetime
    installed: Installed | None = None

    @classmethod
    def now(cls, verdict: ImageVerdict, evidence: Evidence, at: datetime) -> Judgement:
        """Take a verdict that was given from bytes at this moment."""
        return cls(
            verdict=verdict,
            recipe=evidence.recipe,
            lock=evidence.lock,
            image=evidence.image,
            pins=verdict.pins,
            verified_at=at,
            installed=_installed(evidence),
        )


def _installed(evidence: Evidence) -> Installed:
    python = evidence.recipe.python.version
    return Installed(
        distributions=installed(evidence.facts.distributions, evidence.sites),
        markers=marker_environment(evidence.image.config.platform, python),
        requested=evidence.requested,
    )


def subject_of(recipe: Recipe, image: Image) -> Subject:
    """Name the image that statements are about.

    Raises:
        RefusedError: it has no manifest and so no digest that a statement could name.
    """
    if image.digest is None:
        raise RefusedError(
            f"{image.location} holds no manifest: there is no digest to attest",
            hint="use an OCI layout or a registry",
        )
    return Subject(
        repository=recipe.document.repository,
        digest=image.digest,
        index=image.index_digest,
        architecture=recipe.platform.architecture,
    )


def statements_of(
    workspace: Workspace, judgement: Judgement, *, reporter: Reporter
) -> tuple[Statement, ...]:
    """Write everything that can be stated of a judged image.

    Provenance is stated only of the image that a build of this workspace made.

    Raises:
        RefusedError: the image has no digest.
        AttestationError: verdict and lock do not belong together, or the build record is damaged.
    """
    verdict, lock, image = judgement.verdict, judgement.lock, judgement.image
    recipe = judgement.recipe
    subject = subject_of(recipe, image)
    moment = timestamp(judgement.verified_at)
    result = detailed_result(
        verdict,
        lock,
        image,
        subject,
        document=render_json(verdict),
        pins=judgement.pins,
    )
    statements = [
        summarise(
            verdict,
            lock,
            subject,
            recipe=policy_digest(recipe),
            checks=revisions(),
            result=result,
            verified_at=moment,
            version=__version__,
        ),
        result,
        *(
            write(
                lock,
                subject,
                installed=judgement.installed,
                created=moment,
                version=__version__,
            )
            for write in (sbom, spdx)
        ),
    ]
    made = _provenance(workspace, recipe, lock, subject)
    if made is None:
        reporter.say("no provenance: this image is not the one that the last build here made")
    return tuple([*statements, made] if made is not None else statements)


def _provenance(
    workspace: Workspace, recipe: Recipe, lock: Lock, subject: Subject
) -> Statement | None:
    path = workspace.layout(recipe.name).with_name(f"{recipe.name}.build.json")
    if not path.is_file():
        return None
    record = BuildRecord.parse(read_regular(path), workspace.relative(path))
    if (record.digest, record.lock) != (subject.digest, lock.digest):
        return None
    return provenance(record, recipe, lock, subject)


def sign_verdict(
    workspace: Workspace,
    judgement: Judgement,
    *,
    store: ArtifactStore,
    signer: Signer | BundleSigner,
    reporter: Reporter,
) -> tuple[Published, ...]:
    """Sign an image that passed, and require that the summary counts where it was put.

    What is signed states when the verdict was given: a stored one does not become younger.

    Raises:
        RefusedError: the image did not pass, or has no digest.
        AttestationError: what was written does not count when it is read back.
    """
    verdict, at = judgement.verdict, judgement.verified_at
    if not verdict.passed:
        raise RefusedError(f"`{verdict.recipe}` did not pass: nothing is signed")
    subject = subject_of(judgement.recipe, judgement.image)
    statements = statements_of(workspace, judgement, reporter=reporter)
    if isinstance(store, LayoutStore):
        store.mark_image(subject.digest)
    verifier: Verifier
    if isinstance(signer, BundleSigner):
        published, verifier = publish_bundles(
            store, subject, statements, signer, created=timestamp(at)
        )
    else:
        published = publish(store, subject, statements, signer, created=timestamp(at))
        verifier = signer.verifier
    expected = expectation(judgement.recipe, judgement.lock, subject, at, timedelta(minutes=5))
    found = look_up(store, verifier, expected)
    if found.verdict is None:
        raise AttestationError(
            f"the summary was written and does not count: {'; '.join(found.reasons)}",
            hint="the store changed it, or another writer removed it",
        )
    return published


def revisions() -> dict[str, int]:
    """Return every check that an image is judged by, with its revision."""
    return {check.id: check.revision for check in CHECKS}


def expectation(
    recipe: Recipe, lock: Lock, subject: Subject, now: datetime, max_age: timedelta
) -> Expectation:
    """Say what a stored summary has to state so that it counts now."""
    return Expectation(
        subject=subject,
        recipe=recipe.name,
        lock=lock.digest,
        recipe_digest=policy_digest(recipe),
        checks=revisions(),
        now=now,
        max_age=max_age,
    )


def timestamp(moment: datetime) -> str:
    """Write a moment as RFC 3339 in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
