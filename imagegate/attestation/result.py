"""The detailed verdict as an in-toto test result v0.1."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imagegate.attestation.statement import (
    TEST_RESULT_TYPE,
    ReadStatement,
    Statement,
    Subject,
    compact_json,
    digest_set,
    make_statement,
)
from imagegate.errors import AttestationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.lock import Lock
    from imagegate.oci.image import Image
    from imagegate.verdict import ImageVerdict

# extension fields have URIs as names (in-toto, "Parsing rules")
VERDICT_FIELD = "pkg:pypi/imagegate#verdict"
PINS_FIELD = "pkg:pypi/imagegate#pins"


def detailed_result(
    verdict: ImageVerdict,
    lock: Lock,
    image: Image,
    subject: Subject,
    *,
    document: bytes,
    pins: Mapping[str, str],
) -> Statement:
    """Write the detailed verdict.

    Args:
        verdict: what was judged.
        lock: what it was judged by.
        image: what was read.
        subject: the image.
        document: the verdict as the JSON report has it.
        pins: what the image's bytes say of the versions that launchers are told.
    """
    failed = [report.check for report in verdict.reports if not report.passed]
    warned = [report.check for report in verdict.reports if report.passed and report.findings]
    passed = [report.check for report in verdict.reports if report.passed and not report.findings]
    # test-result.md: WARNED means passed with something worth saying
    result = "FAILED" if not verdict.passed else "WARNED" if warned else "PASSED"
    predicate = {
        "result": result,
        "configuration": _inputs(lock, image),
        "passedTests": passed,
        "warnedTests": warned,
        "failedTests": failed,
        VERDICT_FIELD: json.loads(document),
        PINS_FIELD: dict(pins),
    }
    return make_statement(subject, TEST_RESULT_TYPE, predicate)


def _inputs(lock: Lock, image: Image) -> list[dict[str, object]]:
    """List everything that the judgement read, as ResourceDescriptors."""
    name = lock.contents.name
    found: list[dict[str, object]] = [
        {"name": f"locks/{name}", "digest": digest_set(lock.digest)},
        {"name": f"images/{name}/image.toml", "digest": digest_set(lock.contents.recipe)},
        {
            "name": f"images/{name}/requirements.in",
            "digest": digest_set(lock.contents.requirements),
        },
    ]
    found += [
        {"name": f"images/{name}/{asset.source}", "digest": {"sha256": asset.sha256}}
        for asset in lock.assets
    ]
    if image.manifest is not None:
        config = image.manifest.config.digest
        found.append({"name": "image config", "digest": digest_set(config)})
    found += [
        {"name": f"layer {layer.number}", "digest": digest_set(layer.descriptor.digest)}
        for layer in image.layers
        if layer.descriptor is not None
    ]
    return found


class _TestResult(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    result: str
    verdict: dict[str, object] = Field(alias="pkg:pypi/imagegate#verdict")
    pins: dict[str, str] = Field(alias="pkg:pypi/imagegate#pins")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResult:
    """What a detailed verdict holds.

    Attributes:
        verdict: the verdict's JSON.
        pins: what the image's bytes said of the versions that launchers are told.
    """

    verdict: bytes
    pins: Mapping[str, str]


def stored_result(statement: ReadStatement) -> StoredResult:
    """Return the verdict and the pins out of a statement whose signature was verified.

    Raises:
        AttestationError: the statement holds none.
    """
    if statement.predicate_type != TEST_RESULT_TYPE:
        raise AttestationError(f"`{statement.predicate_type}` is not a test result")
    try:
        found = _TestResult.model_validate_json(statement.predicate)
    except ValidationError as error:
        raise AttestationError("the test result holds no verdict of imagegate") from error
    return StoredResult(verdict=compact_json(found.verdict), pins=found.pins)
