"""``launch.ray``: what the image's own Python sees on every node of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.launch.evidence import UNSEEN, LaunchEvidence

if TYPE_CHECKING:
    from imagegate.verdict import CheckReport


def _judge(evidence: LaunchEvidence) -> CheckReport:
    findings = Findings(CHECK.id)
    if evidence.ray is None:
        return findings.report((), nothing_because="no probe was asked for (--ray)")
    for one in evidence.ray:
        if one.error:
            findings.fail(UNSEEN, one.host or one.node, f"its probe gave nothing: {one.error}",
                          locked="an answer within the time limit", found="none",
                          hint="the node may be dead; Ray lists it as alive for a while")  # fmt: skip
            continue
        for name in evidence.section.forward:
            wanted, found = evidence.env.get(name), one.environment.get(name)
            if found != wanted:
                findings.fail("variable", f"{one.host}: {name}",
                              "a worker process has another value than the profile",
                              locked=wanted or "nothing", found="not set" if found is None else found)  # fmt: skip
        for target, size in dict(one.weights).items():
            if size <= 0:
                findings.fail("weights", f"{one.host}: {target}", "the container does not see the checkpoint",
                              locked="safetensors below it", found="none")  # fmt: skip
    sizes = {
        t: {o.host: dict(o.weights).get(t) for o in evidence.ray if not o.error}
        for o in evidence.ray
        for t in dict(o.weights)
    }
    for target, by_host in sizes.items():
        if len(set(by_host.values())) > 1:
            findings.fail("weights-differ", target, "the containers see checkpoints of different size",
                          locked="one size", found=", ".join(f"{h}: {s} B" for h, s in by_host.items()))  # fmt: skip
    hosts = {one.host for one in evidence.ray if not one.error}
    if len(hosts) < evidence.section.nodes and not any(o.error for o in evidence.ray):
        findings.fail("hosts", "ray", "the cluster has fewer hosts than the profile needs",
                      locked=f"{evidence.section.nodes} hosts", found=f"{len(hosts)} hosts: {', '.join(sorted(hosts))}")  # fmt: skip
    gpus = sum(one.gpus for one in evidence.ray if not one.error)
    needed = evidence.section.nodes * evidence.section.gpus_per_node
    if gpus < needed:
        findings.fail("gpus", "ray", "the cluster counts fewer GPUs than the profile needs",
                      locked=f"{needed} GPUs", found=f"{gpus:g} GPUs", hint="`ray start --num-gpus=1` on each node")  # fmt: skip
    versions = {one.host: one.versions for one in evidence.ray if not one.error}
    if len(set(versions.values())) > 1:
        findings.fail("versions", "ray", "Python or ray differ between the nodes",
                      locked="one version of each", found=", ".join(f"{h}: {' '.join(v)}" for h, v in versions.items()))  # fmt: skip
    return findings.report([f"{one.host}: {one.gpus:g} GPUs" for one in evidence.ray])


CHECK = Check(
    id="launch.ray",
    question="do the processes of every node have the profile's values and see the weights",
    why="a variable on the head only, or a mount on one node only, shows minutes into the start",
    fix="start the container of the node that is named again, with the profile's values",
    judge=_judge,
    revision=1,
)
