"""The JSON report: the same finding model, with stable names, and its published schema."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imagegate.errors import AttestationError, ImageError
from imagegate.foreign import visible
from imagegate.oci.documents import DigestField, canonical_json, parse_json
from imagegate.verdict import Acceptance, CheckReport, Cost, Finding, ImageVerdict, Place, Severity

if TYPE_CHECKING:
    from typing import Self

    from pydantic.config import JsonDict

    from imagegate.verdict import Verdict

SCHEMA = ImageVerdict.schema
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_DIGEST: JsonDict = {"pattern": r"^sha(256:[0-9a-f]{64}|384:[0-9a-f]{96}|512:[0-9a-f]{128})$"}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Place(_Section):
    path: str = Field(description="path in the image, empty where the finding is about no path")
    layer: int = Field(ge=0, description="the layer's number from the bottom, 0 for none")
    layer_digest: str
    step: str = Field(description="the history's text of the step that made the layer")


class _Acceptance(_Section):
    reason: str
    expires: date = Field(description="the last day on which the finding is accepted")
    days_left: int = Field(ge=0, description="days from the judgement until then")

    @property
    def acceptance(self) -> Acceptance:
        return Acceptance(reason=self.reason, expires=self.expires, days_left=self.days_left)


class _Finding(_Section):
    code: str = Field(pattern=r"^[a-z]+\.[a-z]+/[a-z0-9-]+$")
    severity: Severity
    subject: str
    message: str
    locked: str
    found: str
    place: _Place
    hint: str
    about: DigestField | None = Field(
        json_schema_extra=_DIGEST,
        description="digest of what the finding is about, which a waiver has to name; null where "
        "it cannot be waived",
    )
    cause: str = Field(description="what explains this and other findings, empty for itself")
    accepted: _Acceptance | None = Field(description="by which waiver, where there is one")

    @property
    def finding(self) -> Finding:
        return Finding(
            code=self.code,
            severity=self.severity,
            subject=self.subject,
            message=self.message,
            locked=self.locked,
            found=self.found,
            place=Place(**self.place.model_dump()),
            hint=self.hint,
            about=self.about,
            cause=self.cause,
            accepted=self.accepted.acceptance if self.accepted is not None else None,
        )


class _Check(_Section):
    id: str
    passed: bool
    compared: tuple[str, ...] = Field(description="what was compared, a line each")
    nothing_because: str
    summary: str = Field(description="one line about what was compared, empty for none")
    left_out: str = Field(
        description="why it was not asked: what another finding says makes it meaningless"
    )
    findings: tuple[_Finding, ...]

    @property
    def report(self) -> CheckReport:
        return CheckReport(
            check=self.id,
            compared=self.compared,
            findings=tuple(one.finding for one in self.findings),
            nothing_because=self.nothing_because,
            left_out=self.left_out,
            summary=self.summary,
        )


class _Image(_Section):
    digest: DigestField | None = Field(json_schema_extra=_DIGEST)
    id: DigestField | None = Field(json_schema_extra=_DIGEST, description="digest of the config")
    location: str
    platform: str


class _Cost(_Section):
    read: int = Field(ge=0, description="compressed bytes of layers that were read")
    added: int = Field(ge=0, description="compressed bytes of the added layers")
    total: int = Field(ge=0, description="compressed bytes of all layers")
    base_layers_read: int = Field(ge=0)


class VerdictDocument(_Section):
    """A verdict of imagegate on one image."""

    schema_name: Literal["imagegate-verdict-2"] = Field(alias="schema")
    verdict: Literal["PASSED", "FAILED", "PARTIAL"]
    recipe: str
    image: _Image
    base: DigestField | None = Field(json_schema_extra=_DIGEST)
    lock: DigestField = Field(json_schema_extra=_DIGEST)
    policy: DigestField | None = Field(
        json_schema_extra=_DIGEST, description="digest of the recipe's pins and waivers"
    )
    pins: dict[str, str] = Field(description="what the bytes say of versions, by variable")
    cost: _Cost
    skipped: tuple[str, ...] = Field(description="checks that were left out on request")
    checks: tuple[_Check, ...]

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Read a verdict's JSON.

        Raises:
            AttestationError: it is another document, or states another result than its checks.
        """
        try:
            # not pydantic's own reader: it refuses the escapes that stand for paths beyond UTF-8
            return cls.model_validate(parse_json(content, "the verdict"))
        except ImageError as error:
            raise AttestationError(f"not a verdict: {error.message}") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "document"
            raise AttestationError(
                f"not a verdict of this version: `{where}`: {first['msg'].lower()}"
            ) from error


def escape_unseen(document: object) -> bytes:
    """Write canonical JSON in which what does not print is escaped.

    The escapes are JSON's own: readers get the same text, terminals and editors see it.
    """
    text = canonical_json(document).decode()
    if text.isascii():
        return text.encode()
    return _NOT_ASCII.sub(_json_escape, text).encode()


def _json_escape(match: re.Match[str]) -> str:
    character = match[0]
    return character if visible(character) == character else json.dumps(character)[1:-1]


def render_json(verdict: Verdict) -> bytes:
    """Write a verdict as canonical JSON; the same verdict gives the same bytes."""
    return escape_unseen(
        {
            "schema": verdict.schema,
            "verdict": verdict.word,
            **verdict.particulars(),
            "skipped": list(verdict.skipped),
            "checks": [_check(report) for report in verdict.reports],
        }
    )


def parse_json_report(content: bytes) -> ImageVerdict:
    """Read back what :func:`render_json` wrote.

    Raises:
        AttestationError: it is another document, or states another result than its checks.
    """
    document = VerdictDocument.read(content)
    verdict = ImageVerdict(
        subject=document.recipe,
        image=document.image.digest,
        location=document.image.location,
        platform=document.image.platform,
        base=document.base,
        lock=document.lock,
        reports=tuple(check.report for check in document.checks),
        cost=Cost(**document.cost.model_dump()),
        skipped=document.skipped,
        policy=document.policy,
        image_id=document.image.id,
        pins=document.pins,
    )
    stated = [("verdict", document.verdict == "PASSED", verdict.passed)]
    stated += [
        (check.id, check.passed, report.passed)
        for check, report in zip(document.checks, verdict.reports, strict=True)
    ]
    for what, said, is_so in stated:
        if said != is_so:
            raise AttestationError(
                f"the stored verdict contradicts itself in `{what}`: stated passed={said} "
                f"by its findings passed={is_so}"
            )
    return verdict


def verdict_schema() -> dict[str, object]:
    """Return the JSON Schema (2020-12) of the JSON report."""
    schema = VerdictDocument.model_json_schema(by_alias=True, mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:imagegate:schema:{SCHEMA}",
        **schema,
    }


def _check(report: CheckReport) -> dict[str, object]:
    return {
        "id": report.check,
        "passed": report.passed,
        "compared": list(report.compared),
        "nothing_because": report.nothing_because,
        "left_out": report.left_out,
        "summary": report.summary,
        "findings": [_finding(finding) for finding in report.findings],
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "subject": finding.subject,
        "message": finding.message,
        "locked": finding.locked,
        "found": finding.found,
        "place": {
            "path": finding.place.path,
            "layer": finding.place.layer,
            "layer_digest": finding.place.layer_digest,
            "step": finding.place.step,
        },
        "hint": finding.hint,
        "about": None if finding.about is None else str(finding.about),
        "cause": finding.cause,
        "accepted": _acceptance(finding.accepted),
    }


def _acceptance(accepted: Acceptance | None) -> dict[str, object] | None:
    if accepted is None:
        return None
    return {
        "reason": accepted.reason,
        "expires": accepted.expires.isoformat(),
        "days_left": accepted.days_left,
    }
