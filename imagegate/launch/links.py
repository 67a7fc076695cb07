"""Network variables of one node, out of its links."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.launch.facts import LinkFacts, NetworkFacts


def usable_devices(network: NetworkFacts) -> list[str]:
    """Return the RDMA devices whose link has carrier and whose port is active."""
    live = {link.name for link in network.links if link.carrier}
    return sorted(
        {
            one.name
            for one in network.rdma
            if any(link in live for link in one.links) and "ACTIVE" in (one.state or "ACTIVE")
        }
    )


def chosen_link(network: NetworkFacts) -> LinkFacts:
    """Return the fastest link with carrier and an address, RDMA ones first.

    Raises:
        LookupError: there is none.
    """
    live = [link for link in network.links if link.carrier and link.addresses]
    if not live:
        raise LookupError("no link has carrier and an address")
    return max(live, key=lambda one: (bool(one.rdma), one.speed_mbits or 0, one.name))


def node_variables(names: Sequence[str], network: NetworkFacts) -> dict[str, str]:
    """Compute the variables that differ from node to node.

    Raises:
        LookupError: a variable has no link or device to name.
    """
    found = {}
    for name in names:
        if name in ("NCCL_IB_HCA", "UCX_NET_DEVICES"):
            devices = usable_devices(network)
            if not devices:
                raise LookupError(f"`{name}` has no RDMA device with carrier to name")
            # UCX names a device with its port; NCCL takes `=` for an exact name
            found[name] = (
                ",".join(f"{d}:1" for d in devices)
                if name == "UCX_NET_DEVICES"
                else "=" + ",".join(devices)
            )
        elif name == "VLLM_HOST_IP":
            found[name] = chosen_link(network).addresses[0]
        else:
            found[name] = chosen_link(network).name
    return found
