"""``launch.memory``: does the model fit on the tighter node, above every killer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.launch.evidence import UNSEEN, LaunchEvidence
from imagegate.launch.memory import gib, show

if TYPE_CHECKING:
    from imagegate.launch.facts import NodeFacts
    from imagegate.verdict import CheckReport


def _judge(evidence: LaunchEvidence) -> CheckReport:
    findings = Findings(CHECK.id)
    compared: list[str] = []
    if evidence.problems is None:
        findings.fail(UNSEEN, "arguments", "the arguments are not known, so no share can be computed",
                      locked="the image's table of options", found="none")  # fmt: skip
        return findings.report(())
    checkpoint = _checkpoint(evidence)
    share = checkpoint / max(1, evidence.tensor_parallel) if checkpoint else None
    for node in evidence.nodes:
        moment = node.memory.moment
        if moment is None:
            findings.fail(UNSEEN, node.name, "its memory could not be read",
                          locked="/proc/meminfo", found="nothing")  # fmt: skip
            continue
        _budget(evidence, node, findings, compared, share)
        _after(evidence, node, findings, compared, share)
    if not compared and not findings.report(()).findings:
        findings.note("nothing-declared", "memory", "neither a checkpoint nor a share is known")
    return findings.report(compared, nothing_because="" if compared else "no figures were declared")


def _checkpoint(evidence: LaunchEvidence) -> float | None:
    """Return the size of the model's checkpoint in GiB, drafters apart."""
    declared = evidence.section.memory.checkpoint
    if declared is not None:
        return declared
    paths = {one.path: one for one in evidence.section.weights if one.role == "model"}
    known = [one.gib for one in paths.values() if one.gib is not None]
    if known:
        return sum(known)
    sizes = [
        sum(w.bytes for w in node.weights if w.path in paths) / 2**30 for node in evidence.nodes
    ]
    return max(sizes, default=0.0) or None


def _drafters(evidence: LaunchEvidence) -> float:
    return sum(one.gib or 0.0 for one in evidence.section.weights if one.role == "drafter")


def _budget(
    evidence: LaunchEvidence,
    node: NodeFacts,
    findings: Findings,
    compared: list[str],
    share: float | None,
) -> None:
    """VLLM refuses to start where less is available than utilisation times the total."""
    memory = node.memory.moment
    assert memory is not None
    if evidence.utilization is None or evidence.running:
        return
    budget = evidence.utilization * gib(memory.total)
    available = gib(memory.available)
    tightest = min(evidence.nodes, key=lambda one: _headroom(evidence, one))
    word = " (the tighter node)" if node is tightest and len(evidence.nodes) > 1 else ""
    compared.append(
        f"{node.name}{word}: needed={show(budget)} found={show(available)}, "
        f"{available - budget:+.2f}"
    )
    if available < budget:
        findings.fail("budget", node.name,
                      f"vLLM will refuse to start: less is available than its share{word}",
                      locked=f"{show(budget)} ({evidence.utilization:g} of {show(gib(memory.total))})",
                      found=f"{show(available)} available",
                      hint=f"lower --gpu-memory-utilization to {_lower(available / gib(memory.total))} or free memory")  # fmt: skip
    if share is not None and share > budget and evidence.kv_bytes is None:
        findings.fail("weights", node.name, "the weights of one GPU alone are more than its share",
                      locked=f"at most {show(budget)}", found=f"{show(share)} (checkpoint over tensor parallel size)",
                      hint="split over more GPUs")  # fmt: skip
    elif share is not None:
        compared.append(
            f"{node.name}: {budget - share:.2f} GiB of the share are left beside {show(share)} "
            "of weights (estimate: checkpoint over tensor parallel size)"
        )


def _headroom(evidence: LaunchEvidence, node: NodeFacts) -> float:
    """Return what is available beyond the share, in GiB; without figures, infinity."""
    memory = node.memory.moment
    if memory is None:
        return float("inf")
    return gib(memory.available - (evidence.utilization or 0) * memory.total)


def _lower(value: float) -> str:
    return f"{max(0.0, int(value * 100) / 100):.2f}"


def _after(
    evidence: LaunchEvidence,
    node: NodeFacts,
    findings: Findings,
    compared: list[str],
    share: float | None,
) -> None:
    """Predict what is available with the model resident, and compare with the highest killer."""
    memory = node.memory.moment
    assert memory is not None
    figures = evidence.section.memory
    stored = dict(evidence.measured).get(node.name)
    resident = stored.resident if stored else figures.resident
    other = stored.other if stored else figures.other
    how = "measured after a start of this digest" if stored else "declared"
    if resident is None and share is not None:
        resident, how = share, "estimate: checkpoint over tensor parallel size"
    killer = evidence.highest_killer(node)
    at = killer.at if killer else 0.0
    if evidence.running:
        left = gib(memory.available)
        taken = "the model is resident"
    elif resident is None or (evidence.kv_bytes is None and evidence.utilization is None):
        return
    else:
        kv = (evidence.kv_bytes or 0) / 2**30
        drafter = _drafters(evidence)
        if evidence.kv_bytes is None:
            # the rest of the share becomes cache
            needed = (evidence.utilization or 0) * gib(memory.total) + drafter
        else:
            needed = resident + kv + drafter + (other or 0.0)
        left = gib(memory.available) - needed
        taken = (
            f"{resident:.2f} weights ({how}) + {kv:.2f} KV"
            + (f" + {drafter:.2f} drafter" if drafter else "")
            + (f" + {other:.2f} other" if other else "")
        )
    needed_left = at + figures.margin
    name = killer.name if killer else "no killer"
    compared.append(f"{node.name}: {left:.2f} GiB stay available; {name} acts at {at:.2f} GiB")
    if left < needed_left:
        # the share is the most that the engine takes, not what it took
        upper = evidence.kv_bytes is None and not evidence.running
        findings.weigh("above-killer", node.name,
                      f"too little stays available with the model resident: {taken}",
                      because="if the whole share is taken" if upper else "",
                      locked=f"{show(needed_left)} ({name} at {at:.2f} + margin {figures.margin:g})",
                      found=show(left),
                      hint="lower the KV cache or the context, leave the drafter out, or lower the killer's threshold")  # fmt: skip


CHECK = Check(
    id="launch.memory",
    question="is the model's share available on the tighter node, and enough left above killers",
    why="the engine refuses after minutes, or a killer ends it in the first long request",
    fix="lower the share or the cache, or free memory on the node that is named",
    judge=_judge,
    revision=1,
)
