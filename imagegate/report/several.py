"""Reports of several images in one document: what could not be judged is a result as well.

Limits of GitHub's: a SARIF file has at most 20 runs and 25,000 results a run (code scanning,
"SARIF support"), a job's summary of one step at most 1 MiB.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from imagegate.foreign import Foreign, shown
from imagegate.foreign.credentials import redact
from imagegate.oci.documents import canonical_json
from imagegate.report.document import escape_unseen, render_json
from imagegate.report.text import render_text
from imagegate.verdict import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from xml.etree import ElementTree as ET

    from imagegate.verdict import Verdict

SCHEMA = "imagegate-results-1"
_RUNS = 20
_RESULTS = 25_000
# what is left of 1 MiB for other steps' words in the same summary
_SUMMARY_BYTES = 900_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """An image that could not be judged.

    Attributes:
        subject: the recipe or profile.
        message: why.
        hint: what a person can do, or empty.
        exit_code: of the error.
        file: the file of the repository that it is about.
    """

    subject: str
    message: str
    hint: str
    exit_code: int
    file: str


def exit_code(results: Sequence[Verdict | Unjudged]) -> int:
    """Return the worst code of all: 3 before 2 before 1 before 0; of nothing, 3."""
    return max(map(code_of, results), default=3)


def code_of(one: Verdict | Unjudged) -> int:
    """Return the exit code that one result alone would have."""
    return one.exit_code if isinstance(one, Unjudged) else 0 if one.sound else 1


def word_of(one: Verdict | Unjudged) -> str:
    """Name a result in one word or two."""
    return "NOT JUDGED" if isinstance(one, Unjudged) else one.word


# --- text


def several_as_text(results: Sequence[Verdict | Unjudged], *, details: bool) -> str:
    """Write one report after the other, and what came of all at the end, failures first.

    Of an image that passed the last line is enough, unless details are asked for.
    """
    if len(results) == 1:
        return "".join(_text(one, details=details) for one in results)
    whole = [one for one in results if details or code_of(one)]
    parts = [_text(one, details=details) for one in whole]
    return "\n".join([*parts, "".join(f"{shown(line)}\n" for line in _closing(results))])


def _text(one: Verdict | Unjudged, *, details: bool) -> str:
    if not isinstance(one, Unjudged):
        return render_text(one, details=details)
    lines = [f"image     {one.subject}", "", f"NOT JUDGED  {one.message}"]
    lines += [f"            hint: {one.hint}"] if one.hint else []
    return "".join(f"{shown(line)}\n" for line in lines)


def _closing(results: Sequence[Verdict | Unjudged]) -> Iterator[str]:
    """Say what came of each image, the worst first."""
    counts = Counter(word_of(one) for one in results)
    said = ", ".join(f"{number} {word}" for word, number in sorted(counts.items()))
    yield f"{len(results)} images: {said}"
    for one in sorted(results, key=lambda one: (-code_of(one), one.subject)):
        if isinstance(one, Unjudged):
            yield f"NOT JUDGED  {one.subject}: {one.message}"
            continue
        severities = Counter(finding.severity for finding in one.findings)
        numbers = f"{severities[Severity.FAIL]} failures, {severities[Severity.NOTE]} notes"
        yield f"{one.word:<10}  {one.subject}: {numbers}"


# --- JSON


def several_as_json(results: Sequence[Verdict | Unjudged]) -> str:
    """Write one document; of a single image that was judged it is the verdict itself."""
    if len(results) == 1 and not isinstance(results[0], Unjudged):
        return render_json(results[0]).decode()
    document = {
        "schema": SCHEMA,
        "exit_code": exit_code(results),
        "counts": dict(sorted(Counter(word_of(one) for one in results).items())),
        "results": [_document(one) for one in results],
    }
    return escape_unseen(json.loads(canonical_json(document))).decode()


def _document(one: Verdict | Unjudged) -> dict[str, Any]:
    if isinstance(one, Unjudged):
        error = {"message": one.message, "hint": one.hint, "exit_code": one.exit_code}
        return {"subject": one.subject, "result": word_of(one), "error": error}
    return {
        "subject": one.subject,
        "result": word_of(one),
        "verdict": json.loads(render_json(one)),
    }


# --- Markdown


def several_as_markdown(results: Sequence[Verdict | Unjudged]) -> str:
    """Write a table of all, then what failed, then what passed as far as there is room."""
    from imagegate.report import markdown

    if len(results) == 1:
        return "\n".join(_section(results[0]))
    counts = Counter(word_of(one) for one in results)
    said = ", ".join(f"{number} {word}" for word, number in sorted(counts.items()))
    lines = [f"## {len(results)} images: {said}", "", "| image | result | |", "| --- | --- | --- |"]
    worst_first = sorted(results, key=lambda one: (-code_of(one), one.subject))
    lines += map(_row, worst_first)
    lines.append("")
    text = "\n".join(lines) + "\n"
    left_out: list[str] = []
    for one in worst_first:
        section = "\n".join(_section(one)) + "\n"
        if code_of(one) == 0:
            section = (
                f"<details><summary>{markdown.escaped(one.subject)}</summary>\n\n{section}\n"
                "</details>\n\n"
            )
        if len(text.encode()) + len(section.encode()) > _SUMMARY_BYTES:
            left_out.append(one.subject)
        else:
            text += section
    if left_out:
        text += (
            f"{len(left_out)} reports are left out, for a job's summary holds 1 MiB; the table "
            "names every result.\n"
        )
    return text


def _row(one: Verdict | Unjudged) -> str:
    from imagegate.report import markdown

    if isinstance(one, Unjudged):
        return f"| {markdown.escaped(one.subject)} | **NOT JUDGED** | {markdown.plain(one.message[:300])} |"
    failures = f"{len(one.failures)} failures" if one.failures else ""
    word = one.word if code_of(one) == 0 else f"**{one.word}**"
    return f"| {markdown.escaped(one.subject)} | {word} | {failures} |"


def _section(one: Verdict | Unjudged) -> Iterator[str]:
    from imagegate.report import markdown

    if not isinstance(one, Unjudged):
        yield markdown.render_markdown([one])
        return
    yield f"## {markdown.escaped(one.subject)}: NOT JUDGED"
    yield ""
    yield markdown.said(one.message)
    yield ""
    if one.hint:
        yield f"hint: {markdown.said(one.hint)}"
        yield ""


# --- SARIF


def several_as_sarif(results: Sequence[Verdict | Unjudged], *, version: str) -> str:
    """Write a run an image, or one run for all where that would be more runs than are taken."""
    from imagegate.report import sarif

    runs = [
        _unjudged_run(one, version) if isinstance(one, Unjudged) else sarif.run_of(one, version)
        for one in results
    ]
    if len(runs) > _RUNS:
        runs = [_merged(results, runs, version)]
    return sarif.document_of([_within(run) for run in runs])


def _unjudged_run(one: Unjudged, version: str) -> dict[str, Any]:
    """Write an image that could not be judged (sarif-v2.1.0, 3.20.21, "toolExecutionNotifications")."""
    from imagegate.report import sarif

    text = f"{one.subject} could not be judged: {one.message}"
    return {
        "tool": {"driver": {"name": "imagegate", "semanticVersion": version, "rules": []}},
        "automationDetails": {"id": f"imagegate/{one.subject}/"},
        "invocations": [
            {
                "executionSuccessful": False,
                "exitCode": one.exit_code,
                "toolExecutionNotifications": [
                    {
                        "level": "error",
                        "message": {
                            "text": sarif.link_free(
                                Foreign(f"{text}; hint: {one.hint}" if one.hint else text)
                            )
                        },
                        "locations": [
                            {"physicalLocation": {"artifactLocation": {"uri": quote(one.file)}}}
                        ],
                    }
                ],
            }
        ],
        "results": [],
        "properties": {"verdict": "NOT JUDGED"},
    }


def _merged(
    judged: Sequence[Verdict | Unjudged], runs: Sequence[dict[str, Any]], version: str
) -> dict[str, Any]:
    """Put the results of several runs into one; each says in its properties which image it is of."""
    rules: dict[str, dict[str, Any]] = {}
    results: list[dict[str, Any]] = []
    notifications: list[object] = []
    images: dict[str, Any] = {}
    for one, run in zip(judged, runs, strict=True):
        subject = Foreign(one.subject).written(str)
        images[subject] = run["properties"]["verdict"]
        for rule in run["tool"]["driver"]["rules"]:
            rules.setdefault(rule["id"], rule)
        results += [
            {**result, "properties": {**result["properties"], "image": subject}}
            for result in run["results"]
        ]
        for invocation in run["invocations"]:
            notifications += invocation.get("toolExecutionNotifications", ())
    order = list(rules)
    told: dict[str, Any] = {"executionSuccessful": not notifications}
    if notifications:
        told["toolExecutionNotifications"] = notifications
    return {
        "tool": {
            "driver": {
                "name": "imagegate",
                "semanticVersion": version,
                "rules": list(rules.values()),
            }
        },
        "automationDetails": {"id": "imagegate/"},
        "invocations": [told],
        "results": [{**it, "ruleIndex": order.index(str(it["ruleId"]))} for it in results],
        "properties": {"images": images},
    }


def _within(run: dict[str, Any]) -> dict[str, Any]:
    """Keep a run within the number of results that is taken, failures first; says what is cut."""
    results = run["results"]
    if len(results) <= _RESULTS:
        return run
    kept = sorted(results, key=lambda one: one["level"] != "error")[:_RESULTS]
    note = {
        "level": "warning",
        "message": {"text": f"{len(results) - _RESULTS} further results are left out"},
    }
    (invocation,) = run["invocations"]
    told = [*invocation.get("toolExecutionNotifications", ()), note]
    return {
        **run,
        "results": kept,
        "invocations": [{**invocation, "toolExecutionNotifications": told}],
    }


# --- JUnit


def several_as_junit(results: Sequence[Verdict | Unjudged]) -> str:
    """Write a suite an image; one that could not be judged is an error of its suite."""
    from imagegate.report import junit

    return junit.document_of(
        [
            _unjudged_suite(one) if isinstance(one, Unjudged) else junit.suite_of(one)
            for one in results
        ]
    )


def _unjudged_suite(one: Unjudged) -> ET.Element:
    from xml.etree import ElementTree as ET

    from imagegate.report import junit

    suite = ET.Element(
        "testsuite", name=f"imagegate.{one.subject}", tests="1", failures="0", errors="1"
    )
    case = ET.SubElement(suite, "testcase", classname=f"imagegate.{one.subject}", name="judged")
    error = ET.SubElement(
        case, "error", message=junit.written(Foreign(one.message)), type="not judged"
    )
    error.text = junit.written(Foreign(one.hint))
    return suite


# --- GitHub


def several_as_github(results: Sequence[Verdict | Unjudged]) -> str:
    """Write the annotations of each."""
    from imagegate.report import github

    return "".join(
        f"{github.annotation('error', one.file, f'{one.subject}: not judged', _said(one))}\n"
        if isinstance(one, Unjudged)
        else github.render_github([one])
        for one in results
    )


def _said(one: Unjudged) -> str:
    return f"{one.message}\nhint: {one.hint}" if one.hint else one.message


def without_secrets(one: Verdict | Unjudged) -> Verdict | Unjudged:
    """Hide credentials in what an error quotes; those of findings are hidden already."""
    if not isinstance(one, Unjudged):
        return one
    return replace(one, message=redact(one.message), hint=redact(one.hint))
