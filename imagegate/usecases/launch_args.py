"""``imagegate launch args``: what a launcher starts, word by word."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from imagegate.errors import RefusedError, UsageError
from imagegate.launch.links import node_variables
from imagegate.usecases.launching.plan import declared
from imagegate.verdict import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.launch.facts import NodeFacts
    from imagegate.usecases.launching.plan import Plan

What = Literal["serve", "ray-head", "ray-worker", "env", "container"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What is printed.

    Attributes:
        command: the words of a command; empty for variables.
        variables: name to value; empty for a command.
    """

    command: tuple[str, ...] = ()
    variables: Mapping[str, str] | None = None

    def shell(self) -> str:
        """Write it for ``sh``: one line for a command, one a variable."""
        if self.variables is not None:
            return "".join(f"{n}={shlex.quote(v)}\n" for n, v in self.variables.items())
        return shlex.join(self.command) + "\n"


def launch_words(plan: Plan, what: What, node: NodeFacts | None) -> Words:
    """Return what is started, after it was judged by the image's options.

    Args:
        plan: the profile with variant and overrides.
        what: which of the commands, or the variables of one node.
        node: the host, for what differs from node to node.

    Raises:
        RefusedError: the image's parser refuses it, or its options are not known.
        UsageError: the section has nothing of that kind, or a node's facts are needed.
    """
    refuse_faulty(plan)
    section = plan.section
    match what:
        case "serve":
            program = section.program.split(" ")
            model = [section.model] if program[0] == "vllm" else ["--model-path", section.model]
            return Words(command=(*program, *model, *section.arguments))
        case "ray-head" | "ray-worker":
            words = section.ray_head if what == "ray-head" else section.ray_worker
            if not words:
                key = what.replace("-", "_")
                raise UsageError(
                    f"the profile `{plan.profile}` does not say how ray is started",
                    hint=f"write `{key}` under [serve]",
                )
            return Words(command=("ray", "start", *words))
        case "env":
            return Words(variables=variables_of(plan, node))
        case "container":
            return Words(command=container_words(plan, variables_of(plan, node)))


def refuse_faulty(plan: Plan) -> None:
    """Refuse what the image's own options refuse.

    Raises:
        RefusedError: with everything that is wrong.
    """
    if plan.problems is None:
        raise RefusedError(
            f"the options of the image that `{plan.profile}` names are not known, so its "
            "arguments are not judged",
            hint="lock the recipe again and promote",
        )
    wrong = [one for one in plan.problems if one.severity is Severity.FAIL]
    if wrong:
        told = "; ".join(
            f"{one.message} (needed={one.needed or 'nothing'} found={one.found or 'nothing'})"
            for one in wrong
        )
        raise RefusedError(
            f"the image refuses these arguments: {told}",
            hint=next((one.hint for one in wrong if one.hint), None),
        )


def variables_of(plan: Plan, node: NodeFacts | None) -> dict[str, str]:
    """Return the variables of one node's container: forwarded ones, and those of its links.

    Raises:
        UsageError: a variable is computed from links and no facts of the node are given.
    """
    known = declared(plan.state)
    found = {name: known[name] for name in plan.section.forward if name in known}
    if plan.section.network:
        if node is None:
            raise UsageError(
                f"{', '.join(plan.section.network)} differ from node to node",
                hint="give the node: `--here`, `--on 'ssh NODE'` or `--facts FILE`",
            )
        try:
            found |= node_variables(plan.section.network, node.network)
        except LookupError as error:
            raise RefusedError(f"{node.name}: {error.args[0]}") from error
    return found


def container_words(
    plan: Plan, variables: Mapping[str, str], *, engine: str = "docker"
) -> tuple[str, ...]:
    """Return the command that starts the container in which everything else runs."""
    section, digest = plan.section, plan.state.env.get("IMAGE_DIGEST", "").rpartition(":")[2]
    container = section.container
    words: list[str] = [engine, "run", "--detach", "--gpus", "all", "--network", "host"]
    words += ["--ipc", "host"]
    if container.name:
        words += ["--name", container.name]
    for device in container.devices:
        words += ["--device", device]
    if container.memlock:
        words += ["--ulimit", "memlock=-1"]
    if container.memory_gib is not None:
        words += ["--memory", str(round(container.memory_gib * 2**30))]
    for one in section.weights:
        words += ["--volume", f"{one.path}:{one.target or one.path}:ro"]
    for cache in section.caches:
        words += ["--volume", f"{cache.path.replace('{digest}', digest)}:{cache.target}"]
    for name, value in variables.items():
        words += ["--env", f"{name}={value}"]
    return (*words, "--entrypoint", "sleep", plan.state.env["IMAGE"], "infinity")
