"""The JUnit XML report: one suite a verdict, one case a check."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from imagegate.foreign import visible
from imagegate.report.text import finding_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.verdict import CheckReport, Verdict

# what XML 1.0 cannot hold, escaped or not ("Char")
_NO_CHAR = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(verdicts: Sequence[Verdict]) -> str:
    """Write verdicts so that a CI server counts a check as a test."""
    return document_of([suite_of(verdict) for verdict in verdicts])


def document_of(suites: Sequence[ET.Element]) -> str:
    """Write a document of these suites."""
    root = ET.Element("testsuites", name="imagegate")
    root.extend(suites)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def suite_of(verdict: Verdict) -> ET.Element:
    """Write one verdict as a suite."""
    reports = verdict.reports
    failed = sum(not report.passed and not report.left_out for report in reports)
    left_out = sum(bool(report.left_out) for report in reports)
    counts = {"tests": len(reports), "failures": failed, "errors": 0}
    if left_out:
        counts["skipped"] = left_out
    if not reports:
        # no check is no pass: a server that counts nothing would call it green
        counts = {"tests": 1, "failures": 1, "errors": 0}
    suite = ET.Element(
        "testsuite",
        {"name": f"imagegate.{verdict.subject}", **{key: str(n) for key, n in counts.items()}},
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in verdict.heading:
        ET.SubElement(properties, "property", name=name, value=plain(value))
    for report in reports:
        suite.append(_case(verdict, report))
    if not reports:
        case = ET.SubElement(suite, "testcase", classname=verdict.subject, name="checks")
        ET.SubElement(case, "failure", message="no check was run", type="nothing")
    return suite


def _case(verdict: Verdict, report: CheckReport) -> ET.Element:
    case = ET.Element("testcase", classname=f"imagegate.{verdict.subject}", name=report.check)
    lines = "\n".join(
        visible(line) for finding in report.findings for line in finding_lines(finding)
    )
    if report.left_out:
        ET.SubElement(case, "skipped", message=plain(report.left_out))
    elif not report.passed:
        failing = [finding.code for finding in verdict.failures if finding in report.findings]
        said = ", ".join(dict.fromkeys(failing)) or "nothing was compared"
        failure = ET.SubElement(case, "failure", message=plain(said), type=report.check)
        failure.text = plain(lines)
    compared = "\n".join(map(visible, report.compared)) or report.nothing_because
    notes = f"\n{lines}" if report.passed and lines else ""
    ET.SubElement(case, "system-out").text = plain(f"{compared}{notes}")
    return case


def plain(text: str) -> str:
    """Write a text of several lines of ours; XML's own characters are escaped by the writer."""
    return _NO_CHAR.sub(lambda match: visible(match[0]), visible(text, "\n"))
