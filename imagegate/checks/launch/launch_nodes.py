"""``launch.nodes``: are these the hosts that the profile needs, each once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.launch.evidence import UNSEEN, LaunchEvidence

if TYPE_CHECKING:
    from imagegate.verdict import CheckReport


def _judge(evidence: LaunchEvidence) -> CheckReport:
    findings = Findings(CHECK.id)
    needed, names = evidence.section.nodes, [node.name for node in evidence.nodes]
    hosts = {node.host.boot_id or node.name for node in evidence.nodes}
    if len(hosts) < len(names):
        twice = [name for name, count in Counter(names).items() if count > 1]
        findings.fail(
            "same-host",
            ", ".join(twice or names),
            "two of the nodes are one host: both shards would lie on it",
            locked=f"{len(names)} hosts",
            found=f"{len(hosts)} hosts",
            hint="start the worker on the other machine",
        )
    if len(hosts) != needed:
        findings.fail(
            "count",
            "nodes",
            "the number of hosts is not what the profile needs",
            locked=f"{needed} hosts",
            found=f"{len(hosts)} hosts: {', '.join(sorted(set(names)))}",
        )
    architectures = {node.host.architecture for node in evidence.nodes}
    if len(architectures) > 1:
        findings.fail("architecture", "nodes", "the hosts are of several architectures",
                      locked="one", found=", ".join(sorted(architectures)))  # fmt: skip
    for node in evidence.nodes:
        if node.host.in_container:
            findings.fail(
                UNSEEN,
                node.name,
                "its facts come from inside a container: killers, packages, modules and engines "
                "are not the host's",
                locked="facts of the host",
                found="facts of a container",
                hint="run `imagegate node facts` on the host; add a probe by `--ray` beside it",
            )
        for what in node.unseen:
            findings.note("not-seen", node.name, f"`{what.what}` could not be seen: {what.why}")
    return findings.report([f"{node.name}: {node.host.kernel}" for node in evidence.nodes])


CHECK = Check(
    id="launch.nodes",
    question="are these as many different hosts as the profile needs, and were they seen whole",
    why="a worker that was started on the head's machine puts both halves of a model on one host",
    fix="give the facts of every host, each once, taken outside of containers",
    judge=_judge,
    revision=1,
)
