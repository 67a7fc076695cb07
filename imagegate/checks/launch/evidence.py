"""What the checks of a launch judge: the published profile and what every node said of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from imagegate.launch.killers import (
    Fires,
    Thresholds,
    earlyoom_fires,
    earlyoom_thresholds,
    ray_fires,
    ray_is_off,
    uses_anonymous,
)
from imagegate.launch.memory import gib
from imagegate.verdict import Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.launch.facts import ContainerFacts, KillerFacts, NodeFacts
    from imagegate.recipe.serve import ServeSection
    from imagegate.serving.judge import Problem
    from imagegate.serving.table import Program

# the second half of the code of a finding that says: could not be judged
UNSEEN = "unseen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a good start of this digest took on a node, in GiB."""

    resident: float
    other: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """What the image's own Python saw on one node of a Ray cluster.

    Attributes:
        node: Ray's identifier.
        host: the host's name as the container sees it.
        environment: the forwarded variables, as they are in the process.
        error: why the probe of this node gave nothing, ``""`` where it did.
        weights: bytes of the checkpoint as the container sees it, by target.
        gpus: GPUs that Ray counts on it.
        versions: of Python and ray.
    """

    node: str
    host: str
    environment: Mapping[str, str | None]
    error: str = ""
    weights: Mapping[str, int] = ()  # type: ignore[assignment]
    gpus: float = 0
    versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Killer:
    """One killer of a node, and when it fires.

    Attributes:
        name: what it is.
        fires: MemAvailable in KiB at or below which it acts, by signal.
        thresholds: what earlyoom was told, ``None`` for others.
        version: as far as known.
    """

    name: str
    fires: Fires
    facts: KillerFacts
    thresholds: Thresholds | None = None

    @property
    def at(self) -> float:
        """The MemAvailable in GiB at which it first acts; 0 where it cannot."""
        return gib(max(self.fires.term or 0.0, self.fires.kill or 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEvidence:
    """Everything that a check of a launch may look at.

    Attributes:
        profile: its name.
        env: the published variables.
        section: what is started, the chosen variant and overrides in it.
        nodes: what each host said.
        problems: what is wrong with the arguments and the environment, judged by the image's
            options; ``None`` where no lock with a table of options is there.
        running: whether the containers have to run already.
        precompiling: whether this is about the phase without a model.
        measured: what a good start of this digest took, by node; empty where none was stored.
        ray: what the probe of a Ray cluster saw; ``None`` where none was asked for.
        program: the table of the program that serves; ``None`` where none is known.
    """

    profile: str
    env: Mapping[str, str]
    section: ServeSection
    nodes: tuple[NodeFacts, ...]
    problems: tuple[Problem, ...] | None = None
    utilization: float | None = None
    kv_bytes: float | None = None
    tensor_parallel: int = 1
    running: bool = False
    precompiling: bool = False
    measured: Mapping[str, Measured] = ()  # type: ignore[assignment]
    ray: tuple[RayNode, ...] | None = None
    program: Program | None = None

    @property
    def digest(self) -> str:
        """The image's digest."""
        return self.env.get("IMAGE_DIGEST", "")

    def own(self, node: NodeFacts) -> tuple[ContainerFacts, ...]:
        """Return the containers that are the profile's: by name, or by the image."""
        name = self.section.container.name
        if name is not None:
            return tuple(one for one in node.containers if one.name == name)
        return tuple(
            one for one in node.containers if self.is_image(one.image, one.image_name, node)
        )

    def is_image(self, identifier: str, name: str | None, node: NodeFacts) -> bool:
        """Whether an id, or a reference by digest, is the profile's image on a node."""
        if identifier and identifier in (self.env.get("IMAGE_ID"), self.digest):
            return True
        held = next((one for one in node.images if one.id == identifier), None)
        if held is not None:
            return any(d.endswith(f"@{self.digest}") for d in held.digests) and bool(self.digest)
        return bool(self.digest) and (name or "").endswith(f"@{self.digest}")

    def killers(self, node: NodeFacts) -> tuple[Killer, ...]:
        """Return the killers of a node that run, with the memory at which each acts."""
        memory = node.memory.moment
        found: list[Killer] = []
        if memory is None:
            return ()
        for one in node.killers:
            if one.kind == "earlyoom" and one.pid is not None:
                thresholds = earlyoom_thresholds(one.arguments, memory)
                anonymous = uses_anonymous(one.version)
                fires = earlyoom_fires(thresholds, memory, anonymous=bool(anonymous))
                name = f"earlyoom {one.version or 'of unknown version'}"
                found.append(Killer(name=name, fires=fires, facts=one, thresholds=thresholds))
            elif one.kind == "ray":
                found.append(_ray_killer(one, memory.total))
        for container in self.own(node):
            # Ray's monitor reads what its own container says
            values = container.environment
            refresh = values.get("RAY_memory_monitor_refresh_ms")
            if any("ray" in word for word in container.command) and not any(
                k.facts.kind == "ray" for k in found
            ):
                facts = node_killer(refresh, values.get("RAY_memory_usage_threshold"))
                found.append(_ray_killer(facts, memory.total))
        return tuple(found)

    def highest_killer(self, node: NodeFacts) -> Killer | None:
        """Return the killer of a node that acts first as memory shrinks."""
        armed = [one for one in self.killers(node) if one.at > 0]
        return max(armed, key=lambda one: one.at, default=None)


def node_killer(refresh: str | None, threshold: str | None) -> KillerFacts:
    """Describe Ray's monitor by the variables that steer it."""
    from imagegate.launch.facts import KillerFacts

    return KillerFacts(kind="ray", refresh_ms=refresh, threshold=threshold)


def _ray_killer(one: KillerFacts, total_kib: float) -> Killer:
    if ray_is_off(one.refresh_ms):
        fires = Fires(term=None, kill=None, inert="RAY_memory_monitor_refresh_ms=0")
    else:
        fires = Fires(term=None, kill=ray_fires(total_kib, one.threshold))
    return Killer(name="Ray's memory monitor", fires=fires, facts=one)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchVerdict(Verdict):
    """The judgement on one launch.

    Attributes:
        nodes: names of the hosts.
        image: the image that is to run everywhere.
        variant: which variant, ``""`` for none.
    """

    kind: ClassVar[str] = "launch"
    schema: ClassVar[str] = "imagegate-launch-1"

    nodes: tuple[str, ...]
    image: str
    variant: str = ""

    @property
    def file(self) -> str:
        """The published profile."""
        return f"profiles/{self.subject}.env"

    @property
    def heading(self) -> tuple[tuple[str, str], ...]:
        """The image and the hosts."""
        shown = (("image", self.image), ("nodes", ", ".join(self.nodes)))
        return (*shown, ("variant", self.variant)) if self.variant else shown

    @property
    def unjudged(self) -> bool:
        """Whether nothing failed except that some things could not be seen."""
        failures = self.failures
        return bool(failures) and all(f.code.endswith(f"/{UNSEEN}") for f in failures)

    @property
    def word(self) -> str:
        """``PASSED``, ``FAILED``, ``PARTIAL``, or ``NOT JUDGED``."""
        if self.unjudged:
            return "NOT JUDGED"
        if self.passed:
            return "PASSED"
        return "PARTIAL" if self.sound else "FAILED"

    def particulars(self) -> dict[str, object]:
        """Return profile, image, nodes and variant."""
        return {
            "profile": self.subject,
            "image": self.image,
            "nodes": list(self.nodes),
            "variant": self.variant or None,
        }


__all__ = ["UNSEEN", "Killer", "LaunchEvidence", "LaunchVerdict", "Measured", "RayNode", "Severity"]
