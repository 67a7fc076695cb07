"""``launch.jobs``: do the compilers of this phase fit beside what is resident."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.launch.evidence import UNSEEN
from imagegate.launch.memory import gib, jobs_that_fit, read_max_jobs, show

if TYPE_CHECKING:
    from imagegate.checks.launch.evidence import LaunchEvidence
    from imagegate.launch.facts import NodeFacts
    from imagegate.verdict import CheckReport


def _judge(evidence: LaunchEvidence) -> CheckReport:
    findings = Findings(CHECK.id)
    compared = []
    if evidence.problems is None and not evidence.precompiling:
        findings.fail(UNSEEN, "arguments", "the arguments are not known, so no room can be computed",
                      locked="the image's table of options", found="none")  # fmt: skip
        return findings.report(())
    for node in evidence.nodes:
        free, why = free_for_compilers(evidence, node)
        if free is None:
            continue
        per_job = evidence.section.jobs.gib_per_job
        threads = evidence.env.get("FLASHINFER_NVCC_THREADS", "1")
        per_job *= int(threads) if threads.isdigit() and int(threads) > 0 else 1
        fits = jobs_that_fit(free, per_job, node.host.cpus)
        value = (
            str(evidence.section.jobs.precompile)
            if evidence.precompiling
            else _value(evidence, node)
        )
        jobs = read_max_jobs(value, node.host.cpus)
        compared.append(f"{node.name}: {jobs.why}; {fits} fit into {show(free)} ({why})")
        if jobs.count is None or jobs.count * per_job > free:
            count = "without limit" if jobs.count is None else f"{jobs.count} x {per_job:.2f}"
            total = "" if jobs.count is None else f" = {show(jobs.count * per_job)}"
            if not evidence.precompiling and fits == 0:
                hint = "not even one fits: compile before the start, `imagegate launch precompile`"
            else:
                hint = f"MAX_JOBS={max(1, fits)}"
            findings.weigh(
                "too-many",
                node.name,
                f"the compilers take more than is free: {jobs.why}",
                because="the kernels are there already" if _compiled(evidence, node) else "",
                locked=f"needed={count}{total}",
                found=f"found={show(free)} ({why})",
                hint=hint,
            )
    return findings.report(compared, nothing_because="" if compared else "memory was not seen")


def _value(evidence: LaunchEvidence, node: NodeFacts) -> str | None:
    own = evidence.own(node)
    if own and "MAX_JOBS" in own[0].environment:
        return own[0].environment["MAX_JOBS"]
    return evidence.env.get("MAX_JOBS")


def free_for_compilers(evidence: LaunchEvidence, node: NodeFacts) -> tuple[float | None, str]:
    """Return the GiB that compilers may take on a node in this phase, and what that counts."""
    moment = node.memory.moment
    if moment is None:
        return None, ""
    killer = evidence.highest_killer(node)
    kept = (killer.at if killer else 0.0) + evidence.section.memory.reserve
    available = gib(moment.available)
    if evidence.precompiling or evidence.running:
        return available - kept, f"{available:.2f} available - {kept:.2f} killer and reserve"
    checkpoint = evidence.section.memory.checkpoint
    weights = evidence.section.memory.resident
    if weights is None and checkpoint is not None:
        weights = checkpoint / max(1, evidence.tensor_parallel)
    if evidence.utilization is not None and evidence.kv_bytes is None:
        if weights is not None:
            # inside of its share the engine compiles before it allocates the cache
            share = evidence.utilization * gib(moment.total) - weights
            left = available - weights - kept
            if share <= left:
                return share, f"share - {weights:.2f} weights"
            return (
                left,
                f"{available:.2f} available - {weights:.2f} weights - {kept:.2f} killer and reserve",
            )
        free = available - evidence.utilization * gib(moment.total) - kept
        return free, "available - share - killer and reserve"
    if weights is None:
        return None, ""
    free = available - weights - (evidence.kv_bytes or 0) / 2**30 - kept
    return free, "available - weights - KV - killer and reserve"


def _compiled(evidence: LaunchEvidence, node: NodeFacts) -> bool:
    """Whether the cache of this digest holds what precompiling promises."""
    from imagegate.checks.launch.launch_caches import complete

    return complete(evidence, node)


CHECK = Check(
    id="launch.jobs",
    question="do the compilers that this phase starts fit into what is free on each node",
    why="each takes about 5 GiB; beside a resident model a few of them wake the killers",
    fix="precompile before the model is loaded and serve with one or two jobs",
    judge=_judge,
    revision=1,
)
