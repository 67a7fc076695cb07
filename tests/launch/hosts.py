"""Facts of hosts, as documents of ``imagegate node facts``: figures of public reports."""

from __future__ import annotations

import json
from typing import Any

from imagegate.checks.launch import CHECKS
from imagegate.checks.launch.evidence import LaunchEvidence
from imagegate.launch.facts import NodeFacts, read_node_facts
from imagegate.recipe.serve import ServeSection
from imagegate.verdict import Finding, Severity

KIB = 1024 * 1024
DIGEST = "sha256:" + "ab" * 32
IMAGE_ID = "sha256:" + "cd" * 32
# a DGX Spark as its operators report it: 121.63 GiB
TOTAL = round(121.63 * KIB)
KERNEL = "6.17.0-1026-nvidia"


def merged(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Put one document over another."""
    found = dict(base)
    for key, value in more.items():
        inner = found.get(key)
        found[key] = (
            merged(inner, value) if isinstance(value, dict) and isinstance(inner, dict) else value
        )
    return found


def document(name: str = "pulsar", available: float = 106.94, **more: Any) -> dict[str, Any]:
    """A healthy host; `available` in GiB, further keys replace."""
    base = {
        "schema": 1,
        "host": {"name": name, "boot_id": f"boot-{name}", "kernel": KERNEL, "architecture": "aarch64", "cpus": 20},
        "memory": {
            "total_kib": TOTAL, "available_kib": round(available * KIB), "free_kib": round(available * KIB),
            "anonymous_kib": 8 * KIB, "swap_total_kib": 16 * KIB, "swap_free_kib": 16 * KIB,
            "min_free_kbytes": 67584, "swappiness": 60, "watermark_scale_factor": 10, "page_size": 4096,
            "zones": [{"name": "Normal", "managed": TOTAL // 4}],
        },
        "killers": [{"kind": "earlyoom", "pid": 5, "version": "1.7",
                     "arguments": ["-m", "4,2", "-s", "100,100"],
                     "configured": ["-m", "4,2", "-s", "100,100"]}],
        "processes_seen": 300,
        "ssh": {"pid": 9, "oom_score_adj": -1000},
        "driver": {"running_kernel": KERNEL, "loaded": "580.173.02", "modules_seen": True,
                   "modules": {KERNEL: [f"/lib/modules/{KERNEL}/nvidia.ko"]}, "packages_seen": True,
                   "packages": [{"name": f"linux-image-{KERNEL}", "version": "1", "state": "installed"}],
                   "libraries": ["580.173.02"]},
        "gpus": [{"name": "NVIDIA GB10", "compute_cap": "12.1"}],
        "network": {"links": [{"name": "enp1s0f0", "carrier": True, "addresses": ["10.0.0.1"],
                               "rdma": ["rocep1s0f0"], "speed_mbits": 200000}],
                    "rdma": [{"name": "rocep1s0f0", "state": "4: ACTIVE", "links": ["enp1s0f0"]}],
                    "dev_infiniband": ["uverbs0"], "listeners": [22]},
        "engines": [{"kind": "docker", "cgroup_driver": "cgroupfs", "containers": [],
                     "images": [{"id": IMAGE_ID, "digests": [f"localhost/glm@{DIGEST}"]}]}],
        "weights": [], "caches": [], "unseen": [],
    }  # fmt: skip
    return merged(base, more)


def host(name: str = "pulsar", available: float = 106.94, **more: Any) -> NodeFacts:
    """The same, read."""
    return read_node_facts(json.dumps(document(name, available, **more)).encode(), name)


def container(**more: Any) -> dict[str, Any]:
    """A container that runs the judged image."""
    return {"name": "glm", "image": IMAGE_ID, "image_name": f"localhost/glm@{DIGEST}",
            "command": ["vllm", "serve"], "environment": {"MAX_JOBS": "2"}, "mounts": [],
            "gpus": True, **more}  # fmt: skip


def running(*containers: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """An engine that runs containers."""
    return [{"kind": "docker", "cgroup_driver": "cgroupfs", "containers": list(containers),
             "images": [{"id": IMAGE_ID, "digests": [f"localhost/glm@{DIGEST}"], **more}]}]  # fmt: skip


def section(**more: Any) -> ServeSection:
    """What the GB10 report starts: two nodes, one GPU each."""
    return ServeSection.model_validate({"model": "/models/glm", "nodes": 2, **more})


def evidence(*nodes: NodeFacts, **more: Any) -> LaunchEvidence:
    """What the checks get."""
    values: dict[str, Any] = {
        "profile": "glm",
        "env": {"IMAGE": f"localhost/glm@{DIGEST}", "IMAGE_DIGEST": DIGEST, "IMAGE_ID": IMAGE_ID,
                "MAX_JOBS": "2"},
        "section": section(),
        "nodes": nodes or (host(), host("magnetar", 110.97)),
        "problems": (),
        "tensor_parallel": 2,
    }  # fmt: skip
    return LaunchEvidence(**{**values, **more})


def findings(given: LaunchEvidence, check: str) -> list[Finding]:
    """What one check says."""
    found = next(one for one in CHECKS if one.id == f"launch.{check}").judge(given)
    assert found.check == f"launch.{check}"
    return list(found.findings)


def fails(given: LaunchEvidence, check: str) -> list[str]:
    """The codes of its failures, without the check's name."""
    return [f.code.partition("/")[2] for f in findings(given, check) if f.severity is Severity.FAIL]


def notes(given: LaunchEvidence, check: str) -> list[str]:
    """The codes of its notes."""
    return [f.code.partition("/")[2] for f in findings(given, check) if f.severity is Severity.NOTE]
