"""``launch.host``: hardening of the hosts, and what the image demands of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings

if TYPE_CHECKING:
    from imagegate.checks.launch.evidence import LaunchEvidence
    from imagegate.launch.facts import NodeFacts
    from imagegate.verdict import CheckReport


def _judge(evidence: LaunchEvidence) -> CheckReport:
    findings = Findings(CHECK.id)
    compared = []
    for node in evidence.nodes:
        for engine in node.engines:
            compared.append(f"{node.name}: {engine.kind} with {engine.cgroup_driver}")
            if engine.kind == "docker" and engine.cgroup_driver == "systemd":
                findings.fail("cgroup-driver", node.name,
                              "with systemd's cgroup driver any `daemon-reload` takes the GPU from running containers",
                              locked="cgroupfs", found="systemd",
                              hint='"exec-opts": ["native.cgroupdriver=cgroupfs"] in daemon.json')  # fmt: skip
        if node.ssh is not None and (node.ssh.oom_score_adj or 0) > -1000:
            findings.note("sshd-score", node.name,
                          "the sshd that listens may be ended when memory is short",
                          locked="oom_score_adj=-1000", found=str(node.ssh.oom_score_adj))  # fmt: skip
        for word in node.host.boot_words:
            if word in ("kho=on", "kho=1", "kho"):
                findings.note(
                    "kho", node.name, "KHO sets gigabytes of memory aside at boot", found=word
                )
        _capabilities(evidence, node, findings)
    return findings.report(compared, nothing_because="" if compared else "no engine answered")


def _capabilities(evidence: LaunchEvidence, node: NodeFacts, findings: Findings) -> None:
    held = next((one for one in node.images if evidence.is_image(one.id, None, node)), None)
    if held is None or not node.gpus:
        return
    demand = held.requires.get("NVIDIA_REQUIRE_CUDA", "")
    drivers = re.findall(r"driver([<>=]+)(\d+)", demand)
    driver = node.driver.loaded
    if driver and drivers:
        major = int(driver.split(".")[0])
        # alternatives are separated by blanks, what must hold together by commas
        met = any(
            all(
                _holds(major, op, int(number))
                for op, number in re.findall(r"driver([<>=]+)(\d+)", part)
            )
            for part in demand.split()
            if "driver" in part
        )
        if not met:
            findings.note("require-cuda", node.name,
                          "NVIDIA_REQUIRE_CUDA of the image does not name this driver; the runtime may refuse it",
                          locked=demand, found=f"driver {driver}")  # fmt: skip
    listed = held.requires.get("TORCH_CUDA_ARCH_LIST") or held.requires.get(
        "FLASHINFER_CUDA_ARCH_LIST"
    )
    for gpu in node.gpus:
        if not listed or not gpu.compute_cap:
            continue
        names = [re.sub(r"[a-z+].*$", "", one) for one in re.split(r"[ ;,]+", listed) if one]
        if gpu.compute_cap not in names:
            findings.note("architectures", node.name,
                          "kernels are compiled for other architectures than this device is",
                          locked=gpu.compute_cap, found=listed)  # fmt: skip


def _holds(major: int, operator: str, number: int) -> bool:
    return {"<": major < number, "<=": major <= number, ">": major > number,
            ">=": major >= number, "=": major == number}.get(operator, True)  # fmt: skip


CHECK = Check(
    id="launch.host",
    question="is the host set up so that it keeps its GPU and can be reached when memory is short",
    why="a daemon-reload can take the GPU away, and an ended sshd locks everybody out",
    fix="set what the finding names on the host",
    judge=_judge,
    revision=1,
)
