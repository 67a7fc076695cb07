"""``imagegate launch precompile``: build the kernels while no model is resident."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.checks.launch.launch_caches import folder_of, missing_kernels
from imagegate.checks.launch.launch_jobs import free_for_compilers
from imagegate.errors import EngineError, RefusedError, UsageError
from imagegate.launch.facts import read_node_facts
from imagegate.launch.memory import jobs_that_fit
from imagegate.nodes.collecting import Wanted, collect_behind, collect_here, command_behind
from imagegate.usecases.launch_check import evidence_of

if TYPE_CHECKING:
    from imagegate.checks.launch.evidence import LaunchEvidence
    from imagegate.launch.facts import NodeFacts
    from imagegate.usecases.launch_check import Sources
    from imagegate.usecases.launching.plan import Plan
    from imagegate.usecases.ports import Reporter
    from imagegate.workspace import Workspace

BUILD_SECONDS = 4 * 3600
_MODELS = ("vllm", "sglang", "ray")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What one node has now.

    Attributes:
        node: its name.
        jobs: how many compilers ran.
        libraries: how many are there.
        missing: patterns that nothing matches.
    """

    node: str
    jobs: int
    libraries: int
    missing: tuple[str, ...]


def precompile(
    workspace: Workspace,
    plan: Plan,
    sources: Sources,
    reporter: Reporter,
    *,
    engine: str = "docker",
) -> tuple[Compiled, ...]:
    """Build the kernels on every node in turn, in a throw-away container of exactly the image.

    Raises:
        UsageError: the section does not say how, or no node is named.
        RefusedError: a model is resident somewhere, or not one compiler fits.
        EngineError: a node is not reached, or the build fails.
    """
    section = plan.section
    if section.precompile is None or not section.caches:
        raise UsageError(
            f"the profile `{plan.profile}` does not say how kernels are compiled",
            hint="write [serve.precompile] with `command` and `expects`, and [[serve.caches]]",
        )
    places = ([None] if sources.here else []) + list(sources.commands)
    if not places:
        raise UsageError("no node is named", hint="give `--here` or `--on 'ssh NODE'` for each")
    before = [(place, _facts(place, plan, sources)) for place in places]
    sized = [(p, node, _jobs(workspace, plan, node)) for p, node in before]
    return tuple(
        _build(workspace, plan, sources, reporter, place, jobs, engine=engine)
        for place, _, jobs in sized
    )


def _facts(place: str | None, plan: Plan, sources: Sources) -> NodeFacts:
    caches = tuple(one.path.partition("{digest}")[0].rstrip("/") for one in plan.section.caches)
    wanted = Wanted(caches=tuple(dict.fromkeys(caches)))
    said = (
        collect_behind(place, wanted, seconds=sources.seconds)
        if place
        else collect_here(wanted, seconds=sources.seconds)
    )
    return read_node_facts(said, place or "this host")


def _jobs(workspace: Workspace, plan: Plan, node: NodeFacts) -> int:
    evidence = evidence_of(workspace, plan, [node], precompiling=True)
    resident = [
        one.name
        for one in node.containers
        if one in evidence.own(node)
        or one.gpus
        or any(word in " ".join(one.command) for word in _MODELS)
    ]
    if resident:
        raise RefusedError(
            f"{node.name}: {', '.join(resident)} runs: compilers beside a resident model wake the "
            "killers",
            hint="end it first: `imagegate launch down`",
        )
    free, why = free_for_compilers(evidence, node)
    if free is None:
        raise EngineError(f"{node.name}: its memory could not be read")
    section = plan.section
    fit = min(
        jobs_that_fit(free, section.jobs.gib_per_job, node.host.cpus), section.jobs.precompile
    )
    if fit < 1:
        raise RefusedError(
            f"{node.name}: not one compiler fits: needed={section.jobs.gib_per_job:.2f} GiB "
            f"found={free:.2f} GiB ({why})"
        )
    return fit


def _build(
    workspace: Workspace,
    plan: Plan,
    sources: Sources,
    reporter: Reporter,
    place: str | None,
    jobs: int,
    *,
    engine: str,
) -> Compiled:
    section = plan.section
    assert section.precompile is not None
    words = build_words(plan, jobs, engine=engine)
    reporter.say(f"{place or 'this host'}: compiling with {jobs} jobs")
    command = command_behind(place, words) if place else list(words)
    try:
        done = subprocess.run(command, capture_output=True, timeout=BUILD_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{place or 'this host'}: the build did not end: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise EngineError(
            f"{place or 'this host'}: the build failed: {said[-1] if said else done.returncode}"
        )
    node = _facts(place, plan, sources)
    evidence: LaunchEvidence = evidence_of(workspace, plan, [node])
    folder = folder_of(evidence, node, section.caches[0].path)
    missing = missing_kernels(evidence, folder) if folder else list(section.precompile.expects)
    return Compiled(
        node=node.name,
        jobs=jobs,
        libraries=len(folder.libraries) if folder else 0,
        missing=tuple(missing),
    )


def build_words(plan: Plan, jobs: int, *, engine: str) -> tuple[str, ...]:
    """Return the command of the throw-away container: its cache by digest, its jobs, its record."""
    section = plan.section
    assert section.precompile is not None
    digest = plan.state.env.get("IMAGE_DIGEST", "").rpartition(":")[2]
    mounts = [
        word
        for one in section.caches
        for word in ("--volume", f"{one.path.replace('{digest}', digest)}:{one.target}")
    ]
    env = {**section.precompile.env, "MAX_JOBS": str(jobs)}
    given = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
    record = json.dumps(
        {"image": plan.state.env.get("IMAGE", ""), "command": list(section.precompile.command),
         "env": env}, sort_keys=True,
    )  # fmt: skip
    # the record is written by the container, which is who can write to its cache
    script = 'set -e; "$@"; printf "%s\\n" "$IMAGEGATE_RECORD" > "$IMAGEGATE_CACHE/imagegate-precompiled.json"'
    return (
        engine, "run", "--rm", "--gpus", "all", *mounts, *given,
        "--env", f"IMAGEGATE_RECORD={record}", "--env", f"IMAGEGATE_CACHE={section.caches[0].target}",
        "--entrypoint", "sh", plan.state.env["IMAGE"], "-c", script, "sh", *section.precompile.command,
    )  # fmt: skip
