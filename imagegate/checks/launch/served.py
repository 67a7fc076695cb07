"""What a served model answered: health, thought and content, a tool call; and who was heard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from imagegate.checks.check import Check, Findings
from imagegate.checks.launch.evidence import UNSEEN
from imagegate.launch.answers import middle, rate, thought_and_content, tool_call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imagegate.verdict import CheckReport

# a first request that takes so many times the others' median was compiling
COMPILED = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One answer of a server: HTTP status, JSON, seconds until it was whole."""

    status: int
    document: Mapping[str, Any]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What was asked of a server.

    Attributes:
        health: its ``/health``.
        models: its ``/v1/models``.
        first: the first question; ``None`` where none was asked.
        answers: the same question again.
        tool: a question with a tool; ``None`` where no tool parser is set.
        reasons: whether a reasoning parser is set.
    """

    health: Answered
    models: Answered
    first: Answered | None = None
    answers: tuple[Answered, ...] = ()
    tool: Answered | None = None
    reasons: bool = False

    @property
    def names(self) -> list[str]:
        """The models that the server names."""
        data = self.models.document.get("data")
        listed = data if isinstance(data, list) else []
        return [str(one.get("id")) for one in listed if isinstance(one, dict)]

    def results(self) -> dict[str, Any]:
        """Return what was measured."""
        found: dict[str, Any] = {}
        if self.first is not None and self.answers:
            found["first_seconds"] = round(self.first.seconds, 3)
            found["median_seconds"] = round(middle([one.seconds for one in self.answers]), 3)
            rates = [
                r for one in self.answers if (r := rate(one.document, one.seconds)) is not None
            ]
            if rates:
                found["tokens_per_second"] = round(middle(rates), 2)
        return found


def _health(served: Served) -> CheckReport:
    findings = Findings(HEALTH.id)
    if served.health.status != 200:
        findings.fail("health", "/health", "the server is not healthy",
                      locked="200", found=str(served.health.status))  # fmt: skip
    if not served.names:
        findings.fail("models", "/v1/models", "the server names no model",
                      locked="at least one", found=f"status {served.models.status}")  # fmt: skip
    return findings.report(
        [f"/health {served.health.status}", f"models: {', '.join(served.names)}"]
    )


def _answers(served: Served) -> CheckReport:
    findings = Findings(ANSWERS.id)
    if served.first is None:
        findings.fail("not-asked", "/v1/chat/completions", "no question was asked")
        return findings.report(())
    asked = (served.first, *served.answers)
    wrong = next((one for one in asked if one.status != 200), None)
    if wrong is not None:
        findings.fail("status", "/v1/chat/completions", "a question is not answered",
                      locked="200", found=str(wrong.status))  # fmt: skip
        return findings.report(["one question"])
    problem = next(
        (p for one in asked if (p := thought_and_content(one.document, reasons=served.reasons))), ""
    )
    if problem:
        findings.fail("answer", served.names[0], problem,
                      locked="reasoning and content" if served.reasons else "content",
                      found="not both" if served.reasons else "none",
                      hint="compare --reasoning-parser with the model's template")  # fmt: skip
    _speed(served, findings)
    return findings.report([f"{len(asked)} questions"])


def _speed(served: Served, findings: Findings) -> None:
    results = served.results()
    assert served.first is not None
    name = served.names[0]
    if "tokens_per_second" not in results:
        findings.note("not-counted", name, "the server does not say how many tokens it wrote")
    usual = results.get("median_seconds", 0.0)
    if usual and served.first.seconds > COMPILED * usual:
        findings.note("first-slow", name,
                      "the first question took much longer: it compiled; it is not in the median",
                      locked=f"about {usual:.2f} s", found=f"{served.first.seconds:.2f} s",
                      hint="`imagegate launch precompile` before the next start")  # fmt: skip


def _tools(served: Served) -> CheckReport:
    findings = Findings(TOOLS.id)
    if served.tool is None:
        return findings.report((), nothing_because="no --tool-call-parser is set")
    tool = served.tool
    problem = tool_call(tool.document) if tool.status == 200 else f"status {tool.status}"
    if problem:
        findings.fail("tool", served.names[0] if served.names else "model", problem,
                      locked="a call of `get_weather` with a city", found="none",
                      hint="compare --tool-call-parser with the model's template")  # fmt: skip
    return findings.report(["one question with a tool"])


def _heard(silent: Sequence[tuple[str, str]]) -> CheckReport:
    """Tell which sources gave nothing: what was not seen never passes."""
    findings = Findings(HEARD.id)
    for where, why in silent:
        findings.fail(UNSEEN, where, f"this node is not judged: {why}",
                      locked="facts of it", found="none")  # fmt: skip
    return findings.report(())


HEALTH = Check(
    id="probe.health",
    question="does the server say that it is well, and name its model",
    why="a port that answers is not yet a model",
    fix="read the server's log",
    judge=_health,
    revision=1,
)
ANSWERS = Check(
    id="probe.answers",
    question="do thought and content both come, and how fast",
    why="a reasoning parser that does not fit drops the thought or the answer without a word",
    fix="set the parser of this model",
    judge=_answers,
    revision=1,
)
TOOLS = Check(
    id="probe.tools",
    question="does a question with a tool give a call that can be read",
    why="a tool parser that does not fit hands the call on as text",
    fix="set the parser of this model",
    judge=_tools,
    revision=1,
)
HEARD = Check(
    id="launch.heard",
    question="did every named node give its facts",
    why="a node that was not seen is not known to be right",
    fix="reach the node that is named, or leave it out of the launch",
    judge=_heard,
    revision=1,
)
