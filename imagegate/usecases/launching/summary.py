"""A host's facts in a few lines, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.launch.killers import (
    earlyoom_fires,
    earlyoom_thresholds,
    ray_fires,
    ray_is_off,
    uses_anonymous,
)
from imagegate.launch.memory import gib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.launch.facts import KillerFacts, NodeFacts


def summarise(node: NodeFacts) -> Iterator[str]:
    """Yield label and value, a line each; what was not seen comes last."""
    yield f"host        {node.name}, {node.host.architecture}, {node.host.cpus} CPUs, kernel {node.host.kernel}"
    memory = node.memory
    moment = memory.moment
    if moment is not None:
        yield (
            f"memory      {gib(moment.total):.2f} GiB, {gib(moment.available):.2f} GiB available, "
            f"swap {gib(moment.swap_free):.2f} of {gib(moment.swap_total):.2f} GiB free, "
            f"swappiness {memory.swappiness}"
        )
    if memory.min_free_kbytes is not None:
        high = sum(zone.high for zone in memory.zones) * memory.page_size / 2**30
        yield f"watermarks  vm.min_free_kbytes={memory.min_free_kbytes} hides {high:.2f} GiB"
    for killer in node.killers:
        yield f"killer      {_killer(node, killer)}"
    yield f"driver      {node.driver.loaded or 'not loaded'}"
    for engine in node.engines:
        running = ", ".join(one.name for one in engine.containers) or "nothing"
        yield f"engine      {engine.kind} {engine.version}, {len(engine.images)} images, runs {running}"
    for weights in node.weights:
        faults = (
            ", ".join(f"{one.what} {one.file}" for one in weights.faults) or "whole by its headers"
        )
        yield f"weights     {weights.path}: {weights.bytes} B, {weights.tensors} tensors, {faults}"
    for cache in node.caches:
        yield (
            f"cache       {cache.path}: {len(cache.folders)} images"
            if cache.there
            else f"cache       {cache.path}: not there"
        )
    for link in node.network.links:
        if link.physical:
            state = "carrier" if link.carrier else "no carrier"
            yield f"link        {link.name}: {state}" + (
                f", RDMA {', '.join(link.rdma)}" if link.rdma else ""
            )
    for unseen in node.unseen:
        yield f"not seen    {unseen.what}: {unseen.why}"


def _killer(node: NodeFacts, killer: KillerFacts) -> str:
    moment = node.memory.moment
    if killer.pid is None:
        return f"{killer.kind}: installed, not running"
    if moment is None:
        return f"{killer.kind}: runs"
    if killer.kind == "ray":
        if ray_is_off(killer.refresh_ms):
            return "Ray's monitor: off"
        return f"Ray's monitor: acts at {gib(ray_fires(moment.total, killer.threshold)):.2f} GiB available"
    if killer.kind != "earlyoom":
        return f"{killer.kind}: acts on pressure"
    thresholds = earlyoom_thresholds(killer.arguments, moment)
    if thresholds.error:
        return f"earlyoom: ends at once: {thresholds.error}"
    fires = earlyoom_fires(thresholds, moment, anonymous=bool(uses_anonymous(killer.version)))
    if fires.inert:
        return f"earlyoom {killer.version or ''}: cannot fire: {fires.inert}"
    return (
        f"earlyoom {killer.version or ''}: SIGTERM at {gib(fires.term or 0):.2f} GiB available, now"
    )
