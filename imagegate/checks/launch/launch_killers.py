"""``launch.killers``: do the programs that end processes fire, and not too early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.launch.evidence import UNSEEN, Killer, LaunchEvidence
from imagegate.launch.killers import uses_anonymous
from imagegate.launch.memory import gib, show

if TYPE_CHECKING:
    from imagegate.launch.facts import KillerFacts, NodeFacts
    from imagegate.verdict import CheckReport


def _judge(evidence: LaunchEvidence) -> CheckReport:
    findings = Findings(CHECK.id)
    compared = []
    for node in evidence.nodes:
        if not node.processes_seen:
            findings.fail(UNSEEN, node.name, "no process could be seen, so no killer either",
                          locked="/proc of the host", found="no processes")  # fmt: skip
            continue
        killers = evidence.killers(node)
        for killer in killers:
            compared.append(f"{node.name}: {_told(killer)}")
            if killer.facts.kind == "earlyoom":
                _earlyoom(node, killer, findings)
            elif not killer.facts.seen:
                findings.note("ray-not-seen", node.name,
                              "the variables of Ray's memory monitor could not be read; its default counts")  # fmt: skip
        _stopped(node, findings)
        _order(node, killers, findings)
        _none(node, killers, findings)
    return findings.report(compared, nothing_because="" if compared else "no killer runs")


def _told(killer: Killer) -> str:
    if killer.fires.inert:
        return f"{killer.name}: cannot fire: {killer.fires.inert}"
    parts = [
        f"{signal} at {show(gib(value))}"
        for signal, value in (("SIGTERM", killer.fires.term), ("SIGKILL", killer.fires.kill))
        if value is not None
    ]
    return f"{killer.name}: {', '.join(parts)} available, now"


def _earlyoom(node: NodeFacts, killer: Killer, findings: Findings) -> None:
    facts, thresholds = killer.facts, killer.thresholds
    assert thresholds is not None
    if thresholds.error:
        findings.fail("refused", node.name, f"earlyoom ends at once: {thresholds.error}",
                      locked="arguments that it takes", found=" ".join(facts.arguments))  # fmt: skip
        return
    if facts.configured is not None and list(facts.configured) != list(facts.arguments):
        findings.fail("not-restarted", node.name,
                      "earlyoom runs with other arguments than its file has",
                      locked=f"file: {' '.join(facts.configured)}",
                      found=f"running: {' '.join(facts.arguments)}",
                      hint="`systemctl restart earlyoom`")  # fmt: skip
    if killer.fires.inert:
        swappiness = node.memory.swappiness
        pair = " and vm.swappiness=0 keeps it free" if swappiness == 0 else ""
        findings.fail("inert", node.name,
                      f"earlyoom cannot fire: {killer.fires.inert}{pair}",
                      locked=f"swap threshold 100 (now {thresholds.swap_term:g})",
                      found=f"vm.swappiness={swappiness}, swap free",
                      hint="add `-s 100,100`, which takes the swap out of it")  # fmt: skip
    elif killer.fires.kill == 0 and killer.fires.term:
        findings.note(
            "kill-at-zero", node.name, "it sends SIGTERM, and SIGKILL only when nothing is left"
        )
    anonymous = uses_anonymous(facts.version)
    if anonymous is None:
        findings.note("version-unknown", node.name,
                      "earlyoom's version is not known; its percentages are read as up to 1.7 does "
                      "(of all memory), from 1.8 on they are of available plus anonymous memory")  # fmt: skip
    elif anonymous and not killer.fires.inert:
        moment = node.memory.moment
        assert moment is not None
        before = thresholds.term / 100 * moment.total
        if killer.fires.term is not None and killer.fires.term < before / 2:
            findings.note("percent-of-less", node.name,
                          f"from 1.8 on {thresholds.term:g} % are of available plus anonymous memory, "
                          "and memory of the GPU is not anonymous: it fires late",
                          locked=f"{show(gib(before))} as 1.7 reads it",
                          found=f"{show(gib(killer.fires.term))} now")  # fmt: skip
    for name, pattern in (("--prefer", thresholds.prefer),):
        if pattern and "sshd" in pattern:
            findings.note("prefers-sshd", node.name, f"{name} ends sshd first: {pattern}")


def _stopped(node: NodeFacts, findings: Findings) -> None:
    for one in node.killers:
        if one.kind == "earlyoom" and one.pid is None:
            findings.fail("stopped", node.name, "earlyoom is installed and does not run",
                          locked="a running earlyoom", found="no process",
                          hint=f"`systemctl status earlyoom`; its file says: {_words(one)}")  # fmt: skip


def _words(one: KillerFacts) -> str:
    return " ".join(one.configured) if one.configured else "nothing"


def _order(node: NodeFacts, killers: tuple[Killer, ...], findings: Findings) -> None:
    """Ray's monitor acts above the others at its default, and looks like a system error."""
    ray = next((k for k in killers if k.facts.kind == "ray" and k.at > 0), None)
    others = [k for k in killers if k.facts.kind != "ray" and k.at > 0]
    if ray is None:
        return
    second = max(others, key=lambda k: k.at, default=None)
    found = f"{show(ray.at)} > {show(second.at)} ({second.name})" if second else show(ray.at)
    findings.note("ray-first", node.name,
                  "Ray's memory monitor is on and ends workers first; it shows as SYSTEM_ERROR",
                  locked="RAY_memory_monitor_refresh_ms=0 in every container",
                  found=f"it acts at {found}")  # fmt: skip


def _none(node: NodeFacts, killers: tuple[Killer, ...], findings: Findings) -> None:
    oomd = [one for one in node.killers if one.kind in ("systemd-oomd", "nohang", "oomd")]
    for one in oomd:
        units = ", ".join(str(unit.get("unit")) for unit in one.units)
        findings.note("other-killer", node.name,
                      f"{one.kind} runs and acts on pressure, not on a figure of memory; units: {units or 'none'}")  # fmt: skip
    if not killers and not oomd and not any(one.kind == "earlyoom" for one in node.killers):
        findings.note("none", node.name,
                      "no killer is there: a full memory stops the host instead of one process",
                      hint="earlyoom with `-m 4,2 -s 100,100` acts before that")  # fmt: skip


CHECK = Check(
    id="launch.killers",
    question="does each killer that runs fire, at which figure now, and in which order",
    why="an inert killer lets the host freeze; one that fires too early ends the model",
    fix="set the thresholds for this memory and restart the killer",
    judge=_judge,
    revision=1,
)
