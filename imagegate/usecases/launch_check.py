"""``imagegate launch check``: what was judged, against what the nodes have."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from imagegate.checks.launch import CHECKS
from imagegate.checks.launch.evidence import (
    LaunchEvidence,
    LaunchVerdict,
    Measured,
    RayNode,
)
from imagegate.checks.launch.served import HEARD
from imagegate.errors import EngineError, ImagegateError, UsageError
from imagegate.launch.facts import NodeFacts, read_node_facts
from imagegate.localfiles import read_regular
from imagegate.nodes.collecting import Wanted, collect_behind, collect_here, run_script
from imagegate.usecases.launching.measured import stored_measurements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from imagegate.recipe.serve import ServeSection
    from imagegate.usecases.launching.plan import Plan
    from imagegate.workspace import Workspace

RAY_SECONDS = 30.0
# facts of a checkpoint with thousands of shards are a few megabytes
FACTS_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the facts of the nodes come from.

    Attributes:
        files: documents of ``imagegate node facts``.
        commands: commands that reach a host each.
        here: whether this host is one.
        ray: the command that reaches the head's container, for the probe; ``None`` for none.
        full: whether the content of the weights is hashed too.
        seconds: how long each may take.
    """

    files: tuple[Path, ...] = ()
    commands: tuple[str, ...] = ()
    here: bool = False
    ray: str | None = None
    full: bool = False
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What the sources gave.

    Attributes:
        nodes: in the order of the sources.
        silent: which gave nothing, and why.
    """

    nodes: tuple[NodeFacts, ...]
    silent: tuple[tuple[str, str], ...]


def check_launch(
    workspace: Workspace,
    plan: Plan,
    sources: Sources,
    *,
    running: bool = False,
    precompiling: bool = False,
) -> LaunchVerdict:
    """Judge a launch; a node that gave nothing is told and hides no other.

    Raises:
        UsageError: no source is named.
    """
    gathered = gather(plan.section, sources)
    evidence = evidence_of(
        workspace, plan, gathered.nodes, running=running, precompiling=precompiling
    )
    silent = list(gathered.silent)
    if sources.ray is not None and not _ray_would_hang(evidence):
        try:
            seen = probe_ray(plan.section, sources.ray, sources.seconds or RAY_SECONDS)
            evidence = _with_ray(evidence, seen)
        except ImagegateError as error:
            silent.append((f"ray through `{sources.ray}`", error.message))
    reports = tuple(check.judge(evidence) for check in CHECKS) if gathered.nodes else ()
    if silent:
        reports = (HEARD.judge(silent), *reports)
    return LaunchVerdict(
        subject=plan.profile,
        reports=reports,
        nodes=tuple(node.name for node in gathered.nodes),
        image=plan.state.env.get("IMAGE", ""),
        variant=plan.variant,
    )


def gather(section: ServeSection, sources: Sources) -> Gathered:
    """Read the files and ask the hosts, all at once.

    Raises:
        UsageError: no source is named.
    """
    digestless = tuple(one.path.partition("{digest}")[0].rstrip("/") for one in section.caches)
    wanted = Wanted(
        weights=tuple(one.path for one in section.weights),
        caches=tuple(dict.fromkeys(digestless)),
        full=sources.full,
    )
    asked: list[tuple[str, Callable[[], bytes]]] = [
        (str(path), partial(read_regular, path, limit=FACTS_LIMIT)) for path in sources.files
    ]
    if sources.here:
        asked.append(("this host", partial(collect_here, wanted, seconds=sources.seconds)))
    asked += [
        (prefix, partial(collect_behind, prefix, wanted, seconds=sources.seconds))
        for prefix in sources.commands
    ]
    if not asked:
        raise UsageError(
            "no node is named",
            hint="give `--facts FILE` or `--on 'ssh NODE'` for each, or `--here`",
        )

    def one(item: tuple[str, Callable[[], bytes]]) -> NodeFacts | tuple[str, str]:
        where, read = item
        try:
            return read_node_facts(read(), where)
        except ImagegateError as error:
            return where, error.message
        except OSError as error:
            return where, f"`{where}`: {(error.strerror or str(error)).lower()}"

    with ThreadPoolExecutor(max_workers=min(32, len(asked))) as pool:
        answers = list(pool.map(one, asked))
    return Gathered(
        nodes=tuple(one for one in answers if isinstance(one, NodeFacts)),
        silent=tuple(one for one in answers if not isinstance(one, NodeFacts)),
    )


def evidence_of(
    workspace: Workspace,
    plan: Plan,
    nodes: Sequence[NodeFacts],
    *,
    running: bool = False,
    precompiling: bool = False,
) -> LaunchEvidence:
    """Put together what the checks judge."""
    values = plan.parsed.values if plan.parsed is not None else {}
    kv = values.get("kv_cache_memory_bytes")
    share = values.get("gpu_memory_utilization", values.get("mem_fraction_static"))
    split = values.get("tensor_parallel_size", values.get("tp_size", 1))
    stages = values.get("pipeline_parallel_size", values.get("pp_size", 1))
    measured = stored_measurements(workspace, plan.profile, plan.state.env.get("IMAGE_DIGEST", ""))
    return LaunchEvidence(
        profile=plan.profile,
        env=plan.state.env,
        section=plan.section,
        nodes=tuple(nodes),
        problems=plan.problems,
        program=plan.program,
        utilization=float(share) if isinstance(share, int | float) else None,
        kv_bytes=float(kv) if isinstance(kv, int | float) else None,
        tensor_parallel=(split if isinstance(split, int) else 1)
        * (stages if isinstance(stages, int) else 1),
        running=running,
        precompiling=precompiling,
        measured={name: Measured(resident=r, other=o) for name, (r, o) in measured.items()},
    )


def _with_ray(evidence: LaunchEvidence, seen: tuple[RayNode, ...]) -> LaunchEvidence:
    from dataclasses import replace

    return replace(evidence, ray=seen)


def _ray_would_hang(evidence: LaunchEvidence) -> bool:
    """Whether the containers' tokens or modes differ: then a probe would only wait."""
    seen = set()
    for node in evidence.nodes:
        for container in evidence.own(node)[:1]:
            names = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
            seen.add(tuple(container.environment.get(name) for name in names))
    return len(seen) > 1


def probe_ray(section: ServeSection, prefix: str, seconds: float) -> tuple[RayNode, ...]:
    """Ask every node of a Ray cluster by the image's own Python.

    Raises:
        EngineError: the head's container is not reached, or the cluster does not answer in time.
    """
    asked = {
        "names": list(section.forward),
        "weights": [one.target or one.path for one in section.weights],
        "seconds": seconds,
    }
    said = run_script(prefix, "rayprobe.py", [json.dumps(asked)], seconds=2 * seconds + 10)
    try:
        lines = [
            line for line in said.decode("utf-8", "replace").splitlines() if line.startswith("{")
        ]
        document = json.loads(lines[-1])
        if "error" in document:
            raise EngineError(f"Ray did not answer: {document['error']}")
        return tuple(
            RayNode(
                node=str(one["node"]),
                host=str(one.get("host") or one["node"]),
                environment=dict(one.get("environment", {})),
                error=str(one.get("error", "")),
                weights=dict(one.get("weights", {})),
                gpus=float(one.get("gpus", 0)),
                versions=tuple(one.get("versions", ())),
            )
            for one in document["nodes"]
        )
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise EngineError(f"`{prefix}` gave no answer of the probe") from error
