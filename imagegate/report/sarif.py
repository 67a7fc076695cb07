"""The SARIF 2.1.0 report, for code scanning (OASIS, sarif-v2.1.0)."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from imagegate.checks.index import find
from imagegate.report.told import ToldVerdict
from imagegate.verdict import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.foreign import Foreign
    from imagegate.report.told import ToldFinding
    from imagegate.verdict import Verdict

_SURROGATE = re.compile("[\ud800-\udfff]")
_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def render_sarif(verdicts: Sequence[Verdict], *, version: str) -> str:
    """Write one run a verdict.

    Args:
        verdicts: what to report.
        version: this tool's version.
    """
    return document_of([run_of(verdict, version) for verdict in verdicts])


def document_of(runs: Sequence[dict[str, object]]) -> str:
    """Write a SARIF file of these runs."""
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": list(runs)}
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
    # JSON could escape a lone surrogate, but strict readers refuse it: it stays text
    return _SURROGATE.sub(lambda match: f"\\\\u{ord(match[0]):04x}", text) + "\n"


def run_of(verdict: Verdict, version: str) -> dict[str, object]:
    """Write one verdict as a run."""
    return _run(ToldVerdict(verdict), version)


def _run(verdict: ToldVerdict, version: str) -> dict[str, object]:
    # every check is a rule, those without a finding too: a reader sees what was asked
    rules = [report.check for report in verdict.reports]
    rules += [*verdict.skipped, *(f.check for f in verdict.findings)]
    return {
        "tool": {
            "driver": {
                "name": "imagegate",
                "semanticVersion": version,
                "rules": [_rule(rule) for rule in dict.fromkeys(rules)],
            }
        },
        "automationDetails": {"id": f"imagegate/{_text(verdict.subject)}/"},
        "invocations": [{"executionSuccessful": True}],
        "results": [_result(finding, verdict, rules) for finding in verdict.findings],
        "properties": {
            "verdict": "PASSED" if verdict.passed else "FAILED",
            **{name: _text(value) for name, value in verdict.heading},
        },
    }


def _rule(identifier: str) -> dict[str, object]:
    check = find(identifier)
    if check is None:
        return {"id": identifier}
    return {
        "id": check.id,
        "shortDescription": {"text": f"{check.question}?"},
        "fullDescription": {"text": check.why},
        "help": {"text": check.fix},
    }


def _result(finding: ToldFinding, verdict: ToldVerdict, rules: list[str]) -> dict[str, object]:
    place = finding.place
    location: dict[str, object] = {
        # code scanning wants a file of the repository: the one that says what the image should be
        "physicalLocation": {
            "artifactLocation": {"uri": (place.file or verdict.file).written(quote)},
            "region": {"startLine": place.line or 1},
        }
    }
    if place.path:
        location["logicalLocations"] = [
            {"fullyQualifiedName": f"/{_text(place.path)}", "kind": "resource"}
        ]
    return {
        "ruleId": finding.check,
        "ruleIndex": list(dict.fromkeys(rules)).index(finding.check),
        "level": "error" if finding.severity is Severity.FAIL else "note",
        "message": {"text": _message(finding)},
        "locations": [location],
        "partialFingerprints": {"imagegate/v1": _fingerprint(finding, _text(verdict.subject))},
        "properties": {
            "code": finding.code,
            "subject": _text(finding.subject),
            "locked": _text(finding.locked),
            "found": _text(finding.found),
            "layer": place.layer,
            "layerDigest": _text(place.layer_digest),
            "step": _text(place.step),
        },
    }


def _text(foreign: Foreign) -> str:
    """Write a property, which is plain text; the JSON's writer escapes what is JSON's."""
    return foreign.written(str)


def _message(finding: ToldFinding) -> str:
    subject, message = link_free(finding.subject), link_free(finding.message)
    locked, found = link_free(finding.locked), link_free(finding.found)
    parts = [f"{subject}: {message}" if subject else message]
    if locked or found:
        parts.append(f"locked={locked or 'nothing'} found={found or 'nothing'}")
    if finding.hint:
        parts.append(f"hint: {link_free(finding.hint)}")
    return "; ".join(parts)


def link_free(foreign: Foreign) -> str:
    """Take the meaning from ``[text](address)``, a link (sarif-v2.1.0, 3.11.6)."""
    return foreign.written(lambda text: re.sub(r"([\\\[\]])", r"\\\1", text))


def _fingerprint(finding: ToldFinding, subject: str) -> str:
    """Name the finding so that it is the same one in the next run, whatever the values are then."""
    return hashlib.sha256(finding.key(subject)).hexdigest()
