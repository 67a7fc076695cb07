"""``imagegate launch probe``: ask what was started, and keep what it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from imagegate.checks.launch.served import ANSWERS, HEALTH, TOOLS, Answered, Served
from imagegate.errors import UsageError
from imagegate.launch.answers import question, tool_question
from imagegate.launch.memory import gib
from imagegate.nodes.openai import OpenAiServer
from imagegate.usecases.attest import timestamp
from imagegate.usecases.launch_check import gather
from imagegate.usecases.launching.measured import NodeMeasurement, ProbeRecord, store_record
from imagegate.verdict import Verdict

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from imagegate.nodes.openai import Answer
    from imagegate.usecases.launch_check import Sources
    from imagegate.usecases.launching.plan import Plan
    from imagegate.workspace import Workspace

REPEATS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeVerdict(Verdict):
    """What a served model answered.

    Attributes:
        url: whom was asked.
        image: the image that the profile names.
        results: what was measured.
    """

    kind: ClassVar[str] = "probe"
    schema: ClassVar[str] = "imagegate-probe-1"

    url: str
    image: str
    results: dict[str, Any]

    @property
    def file(self) -> str:
        """The published profile."""
        return f"profiles/{self.subject}.env"

    @property
    def heading(self) -> tuple[tuple[str, str], ...]:
        """The image and the server."""
        return (("image", self.image), ("server", self.url))

    @property
    def footing(self) -> tuple[tuple[str, str], ...]:
        """What was measured."""
        return tuple((name, f"{value}") for name, value in self.results.items())

    def particulars(self) -> dict[str, object]:
        """Return profile, image, server and results."""
        return {
            "profile": self.subject,
            "image": self.image,
            "server": self.url,
            "results": self.results,
        }


def probe_launch(
    workspace: Workspace,
    plan: Plan,
    url: str,
    *,
    now: datetime,
    key: str | None = None,
    seconds: float = 600.0,
    around: tuple[Sources, Sources] | None = None,
) -> tuple[ProbeVerdict, Path]:
    """Ask a server and store the result with the image's digest.

    Args:
        workspace: where the profile is.
        plan: what was started.
        url: the server.
        now: the moment, for the record.
        key: what the server's API asks for.
        seconds: how long one answer may take.
        around: facts of the nodes before and after the start, to store what it took.

    Raises:
        EngineError: the server is not reached.
        UsageError: what the start took cannot be told.
    """
    taken = _taken(plan, *around) if around is not None else {}
    values = plan.parsed.values if plan.parsed is not None else {}
    served = _ask(
        OpenAiServer(url, key=key, seconds=seconds),
        reasons=bool(values.get("reasoning_parser")),
        tools=bool(values.get("tool_call_parser")),
    )
    checks = (HEALTH, ANSWERS, TOOLS) if served.first is not None else (HEALTH,)
    verdict = ProbeVerdict(
        subject=plan.profile,
        reports=tuple(check.judge(served) for check in checks),
        url=url,
        image=plan.state.env.get("IMAGE", ""),
        results=served.results(),
    )
    record = ProbeRecord(
        digest=plan.state.env.get("IMAGE_DIGEST", ""),
        at=timestamp(now),
        passed=verdict.passed,
        results=verdict.results,
        nodes=taken,
    )
    return verdict, store_record(workspace, plan.profile, record)


def _ask(server: OpenAiServer, *, reasons: bool, tools: bool) -> Served:
    """Ask everything; a server that is not well is asked no further."""
    served = Served(
        health=_kept(server.get("/health")),
        models=_kept(server.get("/v1/models")),
        reasons=reasons,
    )
    if served.health.status != 200 or not served.names:
        return served
    name = served.names[0]
    first = _kept(server.chat(question(name)))
    again = REPEATS if first.status == 200 else 0
    answers = [_kept(server.chat(question(name))) for _ in range(again)]
    return Served(
        health=served.health,
        models=served.models,
        first=first,
        answers=tuple(answers),
        tool=_kept(server.chat(tool_question(name))) if tools else None,
        reasons=reasons,
    )


def _kept(answer: Answer) -> Answered:
    return Answered(status=answer.status, document=answer.document, seconds=answer.seconds)


def _taken(plan: Plan, before: Sources, after: Sources) -> dict[str, NodeMeasurement]:
    """Return what the start took on each node: the difference of MemAvailable, cache apart."""
    values = plan.parsed.values if plan.parsed is not None else {}
    kv = values.get("kv_cache_memory_bytes")
    if not isinstance(kv, int | float):
        raise UsageError(
            "what the start took cannot be told apart from the cache",
            hint="only with `--kv-cache-memory-bytes` is the cache's size known",
        )
    old = {one.name: one.memory.moment for one in gather(plan.section, before).nodes}
    new = {one.name: one.memory.moment for one in gather(plan.section, after).nodes}
    found = {}
    for name, earlier in old.items():
        later = new.get(name)
        if earlier is None or later is None:
            continue
        taken = gib(earlier.available - later.available) - kv / 2**30
        resident = plan.section.memory.resident
        known = min(taken, resident) if resident is not None else taken
        found[name] = NodeMeasurement(resident=max(0.0, known), other=max(0.0, taken - known))
    return found
