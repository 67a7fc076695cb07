"""Every form of report says the same, is well formed, and lets nothing out of an image act."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from jsonschema import Draft4Validator, Draft202012Validator
from junitparser import Failure, JUnitXml
from xmlschema import XMLSchema

from imagegate.checks.image import CHECKS
from imagegate.cli import run
from imagegate.oci.documents import canonical_json
from imagegate.report.document import SCHEMA, parse_json_report, render_json, verdict_schema
from imagegate.report.formats import Format, render
from imagegate.verdict import Severity
from tests.attested.cases import VERSION, Judged, nothing_compared, with_failure

if TYPE_CHECKING:
    from imagegate.verdict import ImageVerdict
    from tests.workspaces import Built

SCHEMAS = Path(__file__).parent / "schemas"
# the characters that XML 1.0 forbids, C0 controls among them
_ESCAPE = "\x1b"


def _written(verdicts: list[ImageVerdict], form: Format) -> str:
    return render(verdicts, form, version=VERSION, details=False)


@pytest.mark.parametrize("form", list(Format))
def test_every_form_tells_passed_from_failed_and_names_the_finding(
    judged: Judged, form: Format
) -> None:
    failed = _written([with_failure(judged.verdict)], form)
    assert "python.pins" in failed
    assert "2.13.0+cu130" in failed
    assert failed != _written([judged.verdict], form)


@pytest.mark.parametrize("form", list(Format))
def test_every_form_is_the_same_in_a_second_run(judged: Judged, form: Format) -> None:
    assert _written([judged.verdict], form) == _written([judged.verdict], form)


@pytest.mark.parametrize("form", [form for form in Format if form is not Format.JSON])
def test_no_form_lets_a_terminal_obey_a_path(judged: Judged, form: Format) -> None:
    text = _written([with_failure(judged.verdict)], form)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", text)


# --- JSON


def test_the_published_schema_is_the_reports_own() -> None:
    shipped = resources.files("imagegate.report") / "schema" / f"{SCHEMA}.json"
    assert shipped.read_bytes() == canonical_json(verdict_schema())


def test_verify_writes_what_the_published_schema_describes(
    built: Built, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", "served", "-w", str(built.root), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema = verdict_schema()
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(document)
    broken = {**document, "verdict": "MAYBE"}
    assert not Draft202012Validator(schema).is_valid(broken)


def test_json_comes_back_as_the_verdict_it_was(judged: Judged) -> None:
    for verdict in (
        judged.verdict,
        nothing_compared(judged.verdict),
        with_failure(judged.verdict),
    ):
        assert parse_json_report(render_json(verdict)) == verdict


# --- SARIF


def _sarif_errors(text: str) -> list[str]:
    schema = json.loads((SCHEMAS / "sarif-schema-2.1.0.json").read_text())
    validator = Draft4Validator(schema, format_checker=Draft4Validator.FORMAT_CHECKER)
    return [
        f"{error.json_path}: {error.message}" for error in validator.iter_errors(json.loads(text))
    ]


def test_sarif_is_valid_by_the_schema_that_oasis_publishes(judged: Judged) -> None:
    verdicts = [
        judged.verdict,
        with_failure(judged.verdict),
        nothing_compared(judged.verdict),
        replace(judged.verdict, reports=()),
    ]
    for chosen in (verdicts, *([one] for one in verdicts)):
        assert _sarif_errors(_written(chosen, Format.SARIF)) == []
    log = json.loads(_written(verdicts, Format.SARIF))
    assert log["version"] == "2.1.0"
    assert [len(one["results"]) for one in log["runs"]][:2] == [0, 1]
    # the schema is one that can say no
    log["runs"][0]["tool"]["driver"].pop("name")
    assert _sarif_errors(json.dumps(log))


def test_a_sarif_result_has_what_code_scanning_needs(judged: Judged) -> None:
    document = json.loads(_written([with_failure(judged.verdict)], Format.SARIF))
    (result,) = document["runs"][0]["results"]
    rules = document["runs"][0]["tool"]["driver"]["rules"]
    # sarif-v2.1.0, 3.27.6: ruleIndex leads to the rule of ruleId
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "python.pins"
    assert result["level"] == "error"
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "images/served/image.toml"
    assert location["region"]["startLine"] == 1
    assert [rule["id"] for rule in rules] == [check.id for check in CHECKS]


def test_a_sarif_fingerprint_stays_when_only_the_found_value_changes(judged: Judged) -> None:
    prints = set()
    for found in ("2.14.0", "2.15.0"):
        text = _written([with_failure(judged.verdict, found=found)], Format.SARIF)
        prints.add(json.loads(text)["runs"][0]["results"][0]["partialFingerprints"]["imagegate/v1"])
    assert len(prints) == 1


# --- JUnit


def test_junit_is_valid_by_the_schema_that_ci_servers_check(judged: Judged) -> None:
    schema = XMLSchema(SCHEMAS / "junit-10.xsd")
    for verdict in (
        judged.verdict,
        with_failure(judged.verdict),
        nothing_compared(judged.verdict),
        replace(judged.verdict, reports=()),
    ):
        schema.validate(_written([verdict], Format.JUNIT))
    text = _written([judged.verdict, with_failure(judged.verdict)], Format.JUNIT)
    schema.validate(text)
    assert not schema.is_valid(text.replace("<testcase ", "<testcase unknown='' "))


def test_junit_is_red_exactly_where_the_verdict_is(judged: Judged) -> None:
    for verdict, failures in (
        (judged.verdict, 0),
        (with_failure(judged.verdict), 1),
        (nothing_compared(judged.verdict), 1),
        (replace(judged.verdict, reports=()), 1),
    ):
        assert verdict.passed == (failures == 0)
        read = JUnitXml.fromstring(_written([verdict], Format.JUNIT).encode())
        cases = [case for suite in read for case in suite]
        assert sum(isinstance(r, Failure) for case in cases for r in case.result) == failures
        assert ET.fromstring(_written([verdict], Format.JUNIT))[0].get("failures") == str(failures)


def test_junit_can_hold_what_xml_cannot(judged: Judged) -> None:
    text = _written([with_failure(judged.verdict)], Format.JUNIT)
    assert _ESCAPE not in text
    assert "\\x1b[31m" in text


# --- Markdown and annotations


def test_markdown_lets_nothing_out_of_an_image_act(judged: Judged) -> None:
    text = _written([with_failure(judged.verdict)], Format.MARKDOWN)
    assert "<script" not in text
    rows = [line for line in text.splitlines() if "moved" in line]
    (row,) = rows
    # GitHub Flavored Markdown, "Tables": a row has as many cells as bars plus one
    assert row.count("|") == 6
    assert "::error::" not in row


def test_an_annotation_is_one_line_whatever_the_finding_says(judged: Judged) -> None:
    lines = _written([with_failure(judged.verdict)], Format.GITHUB).splitlines()
    assert len(lines) == 2
    # docs.github.com, "Workflow commands": ::error file={name},line={line},title={title}::{message}
    for line in lines:
        assert re.fullmatch(r"::(error|notice) file=[^:,]+,line=1,title=[^:,]+::.*", line)
    assert "%2525" not in lines[0]
    assert "%250A" in lines[0]  # what stood in the finding; %0A is our own line end


def test_a_note_is_no_error_annotation(judged: Judged) -> None:
    failed = with_failure(judged.verdict)
    reports = tuple(
        replace(r, findings=tuple(replace(f, severity=Severity.NOTE) for f in r.findings))
        for r in failed.reports
    )
    text = _written([replace(failed, reports=reports)], Format.GITHUB)
    assert not [line for line in text.splitlines() if line.startswith("::error")]


def test_the_jobs_summary_gets_the_report(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert run(["verify", "served", "-w", str(built.root)]) == 0
    assert summary.read_text().startswith("before\n## served: PASSED")
