"""Answers about several builds as one report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from imagegate.checks.coverage import CHECKS
from imagegate.checks.coverage.covering import CoverageVerdict, Covering
from imagegate.coverage.render import to_github, to_json, to_text
from imagegate.foreign import shown
from imagegate.foreign.credentials import redact_document
from imagegate.report.formats import Format

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from imagegate.usecases.coverage import Answer


def render(answers: Sequence[Answer], format_: str) -> str:
    """Return one document about all of `answers`, those that could not be judged included.

    Args:
        answers: what can be said of each build.
        format_: ``text``, ``json``, ``github``, or one of the forms that every verdict has:
            ``markdown``, ``sarif``, ``junit``, or ``html``.
    """
    if format_ == "html":
        from imagegate.usecases.covering.page import render_page

        return render_page([_verdict(answer) for answer in answers])
    own = {"text": _text, "json": _json, "github": _github}.get(format_)
    return own(answers) if own is not None else _generic(answers, Format(format_))


def _generic(answers: Sequence[Answer], form: Format) -> str:
    from imagegate import __version__
    from imagegate.report.formats import render as render_verdicts

    verdicts = [_verdict(answer) for answer in answers]
    return render_verdicts(verdicts, form, version=__version__, details=False)


def _verdict(answer: Answer) -> CoverageVerdict:
    report = answer.report
    covering = Covering(
        report=report,
        refused=answer.error.message if answer.error is not None else "",
        hint=(answer.error.hint or "") if answer.error is not None else "",
        notes=answer.notes,
        strict=answer.strict,
    )
    return CoverageVerdict(
        subject=answer.title,
        reports=tuple(check.judge(covering) for check in CHECKS),
        dockerfile=answer.title.partition(" [")[0],
        builders=tuple(judgement.builder for judgement in report.judgements)
        if report is not None
        else (),
        assets=len(report.assets) if report is not None else 0,
    )


def _text(answers: Sequence[Answer]) -> str:
    parts = [
        to_text((answer.report,))
        if answer.report is not None
        else "".join(f"{shown(line)}\n" for line in _unjudged(answer))
        for answer in answers
    ]
    if len(answers) > 1:
        parts.append(_sum(answers))
    return "".join(parts)


def _unjudged(answer: Answer) -> Iterator[str]:
    assert answer.error is not None
    first, *more = answer.error.message.splitlines()
    yield f"{answer.title}: not judged: {first}"
    for line in more:
        yield f"  {line}"
    if answer.error.hint:
        yield f"  hint: {answer.error.hint}"


def _sum(answers: Sequence[Answer]) -> str:
    codes = [answer.exit_code for answer in answers]
    unjudged = sum(answer.report is None for answer in answers)
    counted = {
        "covered": codes.count(0),
        "not covered": len(codes) - codes.count(0) - unjudged,
        "not judged": unjudged,
    }
    listed = ", ".join(f"{number} {word}" for word, number in counted.items() if number)
    return f"{len(answers)} builds: {listed}\n"


def _json(answers: Sequence[Answer]) -> str:
    document = json.loads(to_json([answer.report for answer in answers if answer.report]))
    unjudged = [answer for answer in answers if answer.error is not None]
    document["covered"] = document["covered"] and not unjudged
    document["not_judged"] = [
        {
            "path": answer.title,
            "message": answer.error.message,
            "hint": answer.error.hint,
            "exit_code": answer.exit_code,
        }
        for answer in unjudged
        if answer.error is not None
    ]
    document["notes"] = list(dict.fromkeys(note for answer in answers for note in answer.notes))
    hidden = redact_document(document)
    return json.dumps(hidden, indent=2, sort_keys=True, ensure_ascii=True) + "\n"


def _github(answers: Sequence[Answer]) -> str:
    lines = [to_github([answer.report for answer in answers if answer.report])]
    for answer in answers:
        if answer.error is not None:
            message = f"{answer.title}: not judged: {answer.error.message}"
            escaped = shown(message).replace("%", "%25")
            lines.append(f"::error title=COPY coverage::{escaped}\n")
    return "".join(lines)
