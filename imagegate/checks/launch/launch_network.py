"""``launch.network``: links, RDMA devices and ports of each node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.launch.links import node_variables, usable_devices
from imagegate.recipe.serve import PER_NODE

if TYPE_CHECKING:
    from imagegate.checks.launch.evidence import LaunchEvidence
    from imagegate.launch.facts import NodeFacts
    from imagegate.verdict import CheckReport


def _judge(evidence: LaunchEvidence) -> CheckReport:
    findings = Findings(CHECK.id)
    compared = []
    for node in evidence.nodes:
        alive = [link.name for link in node.network.links if link.carrier]
        compared.append(f"{node.name}: links with carrier: {', '.join(alive) or 'none'}")
        _links(evidence, node, findings)
        _ports(evidence, node, findings)
        _values(evidence, node, findings)
    return findings.report(compared)


def _links(evidence: LaunchEvidence, node: NodeFacts, findings: Findings) -> None:
    if evidence.section.nodes < 2:
        return
    for link in node.network.links:
        if link.rdma and not link.carrier:
            findings.note("no-carrier", f"{node.name}: {link.name}",
                          f"no carrier; its RDMA device {', '.join(link.rdma)} is dead",
                          hint="a warm reboot leaves links down at times: power-cycle or re-seat")  # fmt: skip
    wants = {"NCCL_IB_HCA", "UCX_NET_DEVICES"} & set(evidence.section.network)
    if wants and not usable_devices(node.network):
        findings.fail("no-rdma", node.name, "no RDMA device has a link with carrier",
                      locked="at least one active device", found=_devices(node))  # fmt: skip
    if wants and node.network.rdma and not node.network.dev_infiniband:
        findings.fail("no-verbs", node.name, "RDMA devices are there and /dev/infiniband is not",
                      locked="/dev/infiniband/uverbs*", found="nothing")  # fmt: skip
    try:
        node_variables(evidence.section.network, node.network)
    except LookupError as error:
        findings.fail("not-computed", node.name, str(error.args[0]),
                      locked=", ".join(evidence.section.network), found="no such link")  # fmt: skip


def _devices(node: NodeFacts) -> str:
    return ", ".join(f"{one.name} ({one.state})" for one in node.network.rdma) or "no devices"


def _ports(evidence: LaunchEvidence, node: NodeFacts, findings: Findings) -> None:
    """Name ports that are taken before the containers that need them run."""
    if evidence.own(node):
        return
    for port, what in wanted_ports(evidence).items():
        if node is evidence.nodes[0] and port in node.network.listeners:
            findings.fail("port-taken", f"{node.name}: {port}", f"something listens on the port of {what}",
                          locked=f"port {port} free", found="in use",
                          hint=f"`ss -ltnp 'sport = :{port}'` on {node.name} names it")  # fmt: skip


def wanted_ports(evidence: LaunchEvidence) -> dict[int, str]:
    """Return the ports that the first node listens on, and what for."""
    found = {_port(evidence.section.arguments, 8000): "the server"}
    if evidence.section.ray_head:
        found[_port(evidence.section.ray_head, 6379)] = "ray"
    return found


def _port(arguments: tuple[str, ...], default: int) -> int:
    for number, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == "--port":
            text = value if equals else next(iter(arguments[number + 1 : number + 2]), "")
            return int(text) if text.isdigit() else default
    return default


def _values(evidence: LaunchEvidence, node: NodeFacts, findings: Findings) -> None:
    """Compare the running containers' values with what the node's links give."""
    live = {name for link in node.network.links if link.carrier for name in (link.name, *link.rdma)}
    known = {name for link in node.network.links for name in (link.name, *link.rdma)}
    for container in evidence.own(node):
        for name in PER_NODE:
            value = container.environment.get(name)
            if not value or name == "VLLM_HOST_IP":
                continue
            for part in value.lstrip("=^").split(","):
                device = part.partition(":")[0].strip()
                rdma = {d for link in node.network.links for d in link.rdma}
                if device in known and device not in live:
                    findings.fail("dead-device", f"{node.name}: {name}",
                                  "the running container was given a device without carrier",
                                  locked=f"one of {', '.join(sorted(live))}", found=value)  # fmt: skip
                elif name == "UCX_NET_DEVICES" and rdma and device in known - rdma:
                    findings.fail("link-for-device", f"{node.name}: {name}",
                                  "a link's name stands where UCX wants a device with its port",
                                  locked=", ".join(f"{d}:1" for d in sorted(rdma)), found=value)  # fmt: skip


CHECK = Check(
    id="launch.network",
    question="do the links that the nodes speak over have carrier, and are the ports free",
    why="a dead device or a missing /dev/infiniband makes NCCL hang or fall back to slow TCP",
    fix="bring the link up; let `launch args` compute the variables of each node",
    judge=_judge,
    revision=1,
)
