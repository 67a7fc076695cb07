"""Answers about several builds as one report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from imagegate.coverage.render import to_github, to_json, to_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from imagegate.usecases.coverage import Answer


def render(answers: Sequence[Answer], format_: str) -> str:
    """Return one document about all of `answers`, those that could not be judged included."""
    return {"text": _text, "json": _json, "github": _github}[format_](answers)


def _text(answers: Sequence[Answer]) -> str:
    parts = [
        to_text((answer.report,))
        if answer.report is not None
        else "\n".join(_unjudged(answer)) + "\n"
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
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=True) + "\n"


def _github(answers: Sequence[Answer]) -> str:
    lines = [to_github([answer.report for answer in answers if answer.report])]
    for answer in answers:
        if answer.error is not None:
            message = f"{answer.title}: not judged: {answer.error.message}"
            escaped = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
            lines.append(f"::error title=COPY coverage::{escaped}\n")
    return "".join(lines)
