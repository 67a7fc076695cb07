"""``imagegate launch down``: end what a profile started, and name what is left."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.errors import EngineError
from imagegate.launch.facts import read_node_facts
from imagegate.nodes.collecting import (
    Wanted,
    collect_behind,
    collect_here,
    command_behind,
)
from imagegate.usecases.launch_check import evidence_of

if TYPE_CHECKING:
    from imagegate.launch.facts import NodeFacts
    from imagegate.usecases.launch_check import Sources
    from imagegate.usecases.launching.plan import Plan
    from imagegate.workspace import Workspace

STOP_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What happened on one node.

    Attributes:
        node: its name, or the command that reaches it.
        ended: names of the containers that were ended.
        left: what still runs there that uses the GPU or is the profile's.
        error: why it could not be done, ``""`` where it was.
    """

    node: str
    ended: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    error: str = ""


def end_launch(workspace: Workspace, plan: Plan, sources: Sources) -> tuple[Ended, ...]:
    """End the profile's containers on every node; one that is not reached hides no other."""
    found = [_end(workspace, plan, None, sources)] if sources.here else []
    return (*found, *(_end(workspace, plan, prefix, sources) for prefix in sources.commands))


def _end(workspace: Workspace, plan: Plan, prefix: str | None, sources: Sources) -> Ended:
    where = prefix or "this host"
    try:
        node = _facts(prefix, sources)
        evidence = evidence_of(workspace, plan, [node])
        own = evidence.own(node)
        ended = []
        for container in own:
            engine = next(e.kind for e in node.engines if container in e.containers)
            _stop(prefix, engine, container.id)
            ended.append(container.name)
        after = _facts(prefix, sources)
    except EngineError as error:
        return Ended(node=where, error=error.message)
    again = evidence_of(workspace, plan, [after])
    left = [one.name for one in again.own(after)]
    left += [one.name for one in after.containers if one.gpus and one.name not in left]
    return Ended(node=node.name, ended=tuple(ended), left=tuple(left))


def _facts(prefix: str | None, sources: Sources) -> NodeFacts:
    wanted = Wanted()
    said = (
        collect_behind(prefix, wanted, seconds=sources.seconds)
        if prefix
        else collect_here(wanted, seconds=sources.seconds)
    )
    return read_node_facts(said, prefix or "this host")


def _stop(prefix: str | None, engine: str, identifier: str) -> None:
    command = [engine, "stop", "--time", "30", identifier]
    words = command_behind(prefix, command) if prefix else command
    try:
        done = subprocess.run(words, capture_output=True, timeout=STOP_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"`{shlex.join(words)}` did not end: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise EngineError(f"`{shlex.join(words)}`: {said[-1] if said else done.returncode}")
