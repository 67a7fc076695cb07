"""The detailed verdict as an in-toto test result v0.1."""

from __future__ import annotations

import json
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
    from imagegate.lock import Lock
    from imagegate.oci.image import Image
    from imagegate.verdict import Verdict

# extension fields have URIs as names (in-toto, "Parsing rules")
VERDICT_FIELD = "pkg:pypi/imagegate#verdict"


def detailed_result(
    verdict: Verdict, lock: Lock, image: Image, subject: Subject, *, document: bytes
) -> Statement:
    """Write the detailed verdict.

    Args:
        verdict: what was judged.
        lock: what it was judged by.
        image: what was read.
        subject: the image.
        document: the verdict as the JSON report has it.
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


def stored_verdict(statement: ReadStatement) -> bytes:
    """Return the verdict's JSON out of a statement whose signature was verified.

    Raises:
        AttestationError: the statement holds none.
    """
    if statement.predicate_type != TEST_RESULT_TYPE:
        raise AttestationError(f"`{statement.predicate_type}` is no test result")
    try:
        return compact_json(_TestResult.model_validate_json(statement.predicate).verdict)
    except ValidationError as error:
        raise AttestationError("the test result holds no verdict of imagegate") from error
