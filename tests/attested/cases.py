"""What the tests of attestations and reports start from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from imagegate.attestation.provenance import BuildRecord, provenance
from imagegate.attestation.result import detailed_result
from imagegate.attestation.sbom import sbom
from imagegate.attestation.spdx import spdx
from imagegate.attestation.statement import Statement, Subject
from imagegate.attestation.summary import policy_digest, summarise
from imagegate.report.document import render_json
from imagegate.usecases.attest import Judgement, revisions
from imagegate.verdict import CheckReport, Finding, ImageVerdict, Place, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.checks.image.evidence import Evidence
    from tests.workspaces import Built

MOMENT = datetime(2026, 11, 29, 12, tzinfo=UTC)
NOW = "2026-11-29T12:00:00Z"
VERSION = "0.1.0"


@dataclass(frozen=True)
class Judged:
    """A built workspace, its verdict and evidence."""

    built: Built
    verdict: ImageVerdict
    evidence: Evidence

    @property
    def subject(self) -> Subject:
        assert self.verdict.image is not None
        return Subject(
            repository=self.evidence.recipe.document.repository,
            digest=self.verdict.image,
            architecture="arm64",
        )

    def judgement(self, at: datetime = MOMENT) -> Judgement:
        """The verdict as it is signed and published."""
        return Judgement.now(self.verdict, self.evidence, at)

    def statements(
        self,
        *,
        at: str = NOW,
        verdict: ImageVerdict | None = None,
        details: ImageVerdict | None = None,
        checks: Mapping[str, int] | None = None,
    ) -> dict[str, Statement]:
        """All four statements by a short name.

        Args:
            at: when the verdict was given.
            verdict: what the summary says, the right one if ``None``.
            details: what the detailed verdict says, the same if ``None``.
            checks: the checks' revisions, today's if ``None``.
        """
        verdict = verdict or self.verdict
        lock, image = self.evidence.lock, self.evidence.image
        result = detailed_result(
            verdict,
            lock,
            image,
            self.subject,
            document=render_json(details or verdict),
            pins=self.judgement().pins,
        )
        path = self.built.root / "build" / "served.build.json"
        record = BuildRecord.parse(path.read_bytes(), str(path))
        return {
            "summary": summarise(
                verdict,
                lock,
                self.subject,
                recipe=policy_digest(self.evidence.recipe),
                checks=revisions() if checks is None else checks,
                result=result,
                verified_at=at,
                version=VERSION,
            ),
            "result": result,
            "provenance": provenance(record, self.evidence.recipe, lock, self.subject),
            "sbom": sbom(lock, self.subject, created=at, version=VERSION),
            "spdx": spdx(lock, self.subject, created=at, version=VERSION),
        }


def with_failure(verdict: ImageVerdict, **changes: str) -> ImageVerdict:
    """The same verdict with one failing finding, whose texts tempt every format."""
    texts = {
        "subject": "torch",
        "message": "moved | `to` <script>alert(1)</script> %0A::error:: \x1b[31m & \ud800",
        "locked": "2.13.0+cu130",
        "found": "2.14.0\nsecond line",
        "hint": 'say "no", <b>never</b>',
        **changes,
    }
    finding = Finding(
        code="python.pins/moved",
        severity=Severity.FAIL,
        place=Place(
            path="usr/lib/a file|b",
            layer=3,
            layer_digest="sha256:" + "a" * 64,
            step="RUN pip install -U torch\n# x",
        ),
        subject=texts["subject"],
        message=texts["message"],
        locked=texts["locked"],
        found=texts["found"],
        hint=texts["hint"],
    )
    reports = tuple(
        replace(report, findings=(finding,)) if report.check == "python.pins" else report
        for report in verdict.reports
    )
    return replace(verdict, reports=reports)


def nothing_compared(verdict: ImageVerdict) -> ImageVerdict:
    """The same verdict with one check that compared nothing and says no reason."""
    return replace(verdict, reports=(*verdict.reports, CheckReport(check="x.y", compared=())))
