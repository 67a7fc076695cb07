"""``launch.watermarks``: how much memory the kernel keeps out of reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.launch.memory import gib
from imagegate.launch.watermarks import reserved, watermarks

if TYPE_CHECKING:
    from imagegate.checks.launch.evidence import LaunchEvidence
    from imagegate.verdict import CheckReport

# `vm.min_free_kbytes` of a large host that nobody touched (mm/page_alloc.c: sqrt, at most 256 MiB)
_USUAL_KIB = 262144


def _judge(evidence: LaunchEvidence) -> CheckReport:
    findings = Findings(CHECK.id)
    compared = []
    for node in evidence.nodes:
        memory = node.memory
        zones = memory.known_zones
        if memory.min_free_kbytes is None or not zones:
            findings.note("not-seen", node.name, "the watermarks could not be read")
            continue
        page = memory.page_size // 1024
        if not any(zone.high for zone in zones):
            zones = watermarks(
                zones, memory.min_free_kbytes, memory.watermark_scale_factor or 10, page
            )
        high = gib(sum(zone.high for zone in zones) * page)
        hidden = gib(reserved(zones) * page)
        text = f"vm.min_free_kbytes={memory.min_free_kbytes} hides {high:.2f} GiB ({hidden:.2f} with the zones' reserves)"
        compared.append(f"{node.name}: {text}")
        if memory.min_free_kbytes > _USUAL_KIB:
            halved = watermarks(
                zones, memory.min_free_kbytes // 2, memory.watermark_scale_factor or 10, page
            )
            back = high - gib(sum(zone.high for zone in halved) * page)
            moment = memory.moment
            found = gib(moment.available) if moment else 0.0
            needed = (
                evidence.utilization * gib(moment.total)
                if moment and evidence.utilization
                else None
            )
            findings.note("hides-memory", node.name, f"{text} from what counts as available",
                          locked=f"needed={needed:.2f} GiB" if needed else f"at most {_USUAL_KIB} kB",
                          found=f"found={found:.2f} GiB available, {high:.2f} GiB hidden",
                          hint=f"halving it gives {back:.2f} GiB back")  # fmt: skip
    return findings.report(compared, nothing_because="" if compared else "no watermark was seen")


CHECK = Check(
    id="launch.watermarks",
    question="how much memory do the kernel's watermarks keep out of what counts as available",
    why="a raised vm.min_free_kbytes takes gigabytes from every engine, and no tool names it",
    fix="lower vm.min_free_kbytes to what the network needs",
    judge=_judge,
    revision=1,
)
