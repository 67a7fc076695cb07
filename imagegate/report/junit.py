"""The JUnit XML report: one suite a verdict, one case a check."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from imagegate.foreign import visible
from imagegate.report.text import finding_lines
from imagegate.report.told import ToldVerdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.foreign import Foreign
    from imagegate.report.told import ToldReport
    from imagegate.verdict import Verdict

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
    return _suite(ToldVerdict(verdict))


def _suite(verdict: ToldVerdict) -> ET.Element:
    reports, name = verdict.reports, written(verdict.subject)
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
        {"name": f"imagegate.{name}", **{key: str(n) for key, n in counts.items()}},
    )
    properties = ET.SubElement(suite, "properties")
    for label, value in verdict.heading:
        ET.SubElement(properties, "property", name=label, value=written(value))
    for report in reports:
        suite.append(_case(name, report))
    if not reports:
        case = ET.SubElement(suite, "testcase", classname=name, name="checks")
        ET.SubElement(case, "failure", message="no check was run", type="nothing")
    return suite


def _case(name: str, report: ToldReport) -> ET.Element:
    case = ET.Element("testcase", classname=f"imagegate.{name}", name=report.check)
    lines = "\n".join(
        visible(line) for finding in report.findings for line in finding_lines(finding)
    )
    if report.left_out:
        ET.SubElement(case, "skipped", message=written(report.left_out))
    elif not report.passed:
        said = ", ".join(report.failing) or "nothing was compared"
        failure = ET.SubElement(case, "failure", message=_text(said), type=report.check)
        failure.text = _text(lines)
    compared = "\n".join(map(written, report.compared)) or written(report.nothing_because)
    notes = f"\n{lines}" if report.passed and lines else ""
    ET.SubElement(case, "system-out").text = _text(f"{compared}{notes}")
    return case


def written(text: Foreign) -> str:
    """Write one line of a field."""
    return text.written(_text)


def _text(text: str) -> str:
    """Write a text of several lines of ours; XML's own characters are escaped by the writer."""
    return _NO_CHAR.sub(lambda match: visible(match[0]), visible(text, "\n"))
