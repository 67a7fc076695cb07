"""``[serve]``: what is started out of an image, on how many nodes, with what memory."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
_VARIANT = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
# variables that differ from node to node: they are computed, never written down
PER_NODE = (
    "NCCL_IB_HCA",
    "UCX_NET_DEVICES",
    "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "VLLM_HOST_IP",
)
# GiB that one compiler of a FlashInfer module took at most (`cicc`, 5,284 MiB)
GIB_PER_JOB = 5.16

Name = Annotated[str, Field(pattern=_NAME)]
Text = Annotated[str, Field(min_length=1)]
Path = Annotated[str, Field(pattern=r"^/\S*$")]
Gib = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WeightsEntry(_Section):
    """One ``[[serve.weights]]``: a checkpoint that every node has to have.

    Attributes:
        path: the folder on the host.
        target: where the container sees it; the same path if empty.
        role: ``model`` or ``drafter``.
        model, revision, licence: where it comes from; for people and for the reports.
        gib: size that the checkpoint has, for the arithmetic of memory; measured where ``None``.
    """

    path: Path
    target: Path | None = None
    role: Literal["model", "drafter"] = "model"
    model: str = ""
    revision: str = ""
    licence: str = ""
    gib: Gib | None = None


class CacheEntry(_Section):
    """One ``[[serve.caches]]``: compiled kernels that are kept for one image.

    Attributes:
        path: folder on the host; `{digest}` stands for the hex of the image's digest.
        target: where the container sees it.
    """

    path: Path
    target: Path

    @field_validator("path")
    @classmethod
    def _keyed(cls, value: str) -> str:
        if value.count("{digest}") != 1:
            raise ValueError(
                "`path` needs `{digest}` once: kernels of another image are not this image's"
            )
        return value


class MemorySection(_Section):
    """``[serve.memory]``: figures in GiB that were measured or are known.

    Attributes:
        checkpoint: size of all shards; the sum of the weights where ``None``.
        resident: what the model took on one node after a good start; measured, not computed.
        other: what else the start took on one node (buffers, graphs, the runtime).
        margin: what has to be left above the highest killer.
        reserve: what compilers must leave alone.
    """

    checkpoint: Gib | None = None
    resident: Gib | None = None
    other: Gib | None = None
    margin: Gib = 1.0
    reserve: Gib = 1.0


class JobsSection(_Section):
    """``[serve.jobs]``: how many compilers run at once, in each phase.

    Attributes:
        serving: what ``MAX_JOBS`` says while the model is resident.
        precompile: the most that run while no model is.
        gib_per_job: what one compiler takes.
    """

    serving: Annotated[int, Field(ge=1)] = 1
    precompile: Annotated[int, Field(ge=1)] = 8
    gib_per_job: Annotated[float, Field(gt=0)] = GIB_PER_JOB


class PrecompileSection(_Section):
    """``[serve.precompile]``: how the kernels are built before the model is loaded.

    Attributes:
        command: what runs in a throw-away container of the image.
        expects: patterns below the first cache; each has to match a library afterwards.
        env: variables of this phase alone.
    """

    command: Annotated[tuple[Text, ...], Field(min_length=1)]
    expects: Annotated[tuple[Text, ...], Field(min_length=1)]
    env: dict[Name, str] = Field(default_factory=dict)


class ContainerSection(_Section):
    """``[serve.container]``: the container in which everything runs.

    Attributes:
        name: its name on every node.
        devices: paths that have to be inside, for instance ``/dev/infiniband``.
        memory_gib: the limit that it has to have; ``None`` where none is demanded.
        memlock: whether locked memory has to be unlimited, as RDMA needs.
    """

    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$")] | None = None
    devices: tuple[Path, ...] = ()
    memory_gib: Gib | None = None
    memlock: bool = False


class Variant(_Section):
    """``[serve.NAME]``: another way to start the same image.

    Attributes:
        description: what it is for.
        arguments: appended; an option that is there already is replaced.
        without: options of the section that are left out.
        weights: checkpoints that it needs beside the section's, a drafter for instance.
        costs_gib: what it takes on one node beside the section's figures.
        nodes: where it needs another number.
    """

    description: str = ""
    arguments: tuple[str, ...] = ()
    without: tuple[Text, ...] = ()
    weights: tuple[WeightsEntry, ...] = ()
    costs_gib: Gib = 0.0
    nodes: Annotated[int, Field(ge=1)] | None = None


class ServeSection(_Section):
    """``[serve]``: what is started.

    Attributes:
        program: which of the image's serving programs.
        model: what it is given: a folder inside the container, or a repository's name.
        arguments: everything behind the model, a word each.
        ray_head, ray_worker: arguments of ``ray start`` on the first and on the other nodes.
        nodes: how many hosts take part.
        gpus_per_node: how many GPUs each has.
        text_only: whether a multimodal model serves text alone.
        forward: variables of the profile that every container has to have.
        network: variables that are computed for each node out of its links.
        variants: by name.
    """

    program: Literal["vllm serve", "sglang serve"] = "vllm serve"
    model: Text
    arguments: tuple[str, ...] = ()
    ray_head: tuple[str, ...] = ()
    ray_worker: tuple[str, ...] = ()
    nodes: Annotated[int, Field(ge=1)] = 1
    gpus_per_node: Annotated[int, Field(ge=1)] = 1
    text_only: bool = False
    forward: tuple[Name, ...] = ()
    network: tuple[Name, ...] = ()
    weights: tuple[WeightsEntry, ...] = ()
    caches: tuple[CacheEntry, ...] = ()
    memory: MemorySection = Field(default_factory=MemorySection)
    jobs: JobsSection = Field(default_factory=JobsSection)
    precompile: PrecompileSection | None = None
    container: ContainerSection = Field(default_factory=ContainerSection)
    variants: dict[str, Variant] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _tables_are_variants(cls, value: object) -> object:
        """Take tables with names of their own for variants: ``[serve.long]``."""
        if not isinstance(value, dict):
            return value
        own = {k: v for k, v in value.items() if k not in cls.model_fields and isinstance(v, dict)}
        if not own:
            return value
        for name in own:
            if not _VARIANT.fullmatch(name):
                raise ValueError(f"`{name}` cannot name a variant")
        rest = {k: v for k, v in value.items() if k not in own}
        return {**rest, "variants": {**value.get("variants", {}), **own}}

    @field_validator("network")
    @classmethod
    def _computable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in value if name not in PER_NODE]
        if unknown:
            raise ValueError(
                f"`{unknown[0]}` is not computed for each node; {', '.join(PER_NODE)} are"
            )
        return value

    def document(self) -> dict[str, str | bool | list[str]]:
        """Return the arguments as ``vllm serve --config FILE`` reads them out of YAML."""
        found: dict[str, str | bool | list[str]] = {"model": self.model}
        words = list(self.arguments)
        while words:
            name, equals, value = words.pop(0).partition("=")
            values = [value] if equals else []
            while not equals and words and (not words[0].startswith("-") or _is_number(words[0])):
                values.append(words.pop(0))
            key = name.lstrip("-")
            found[key] = True if not values else values[0] if len(values) == 1 else values
        return found

    def chosen(self, name: str | None) -> ServeSection:
        """Return the section with one variant in it; the section itself for ``None``.

        Raises:
            KeyError: there is no such variant.
        """
        if name is None:
            return self
        variant = self.variants[name]
        memory = self.memory
        if variant.costs_gib and memory.other is not None:
            memory = memory.model_copy(update={"other": memory.other + variant.costs_gib})
        changed = {
            "arguments": merge_arguments(self.arguments, variant.arguments, variant.without),
            "weights": (*self.weights, *variant.weights),
            "memory": memory,
            "nodes": variant.nodes or self.nodes,
        }
        return self.model_copy(update=changed)


def merge_arguments(
    arguments: tuple[str, ...], more: tuple[str, ...], without: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Append arguments; an option that comes again replaces the first with its values."""
    replaced = {word.partition("=")[0] for word in more if word.startswith("-")} | set(without)
    kept: list[str] = []
    dropping = False
    for word in arguments:
        if word.startswith("-") and not _is_number(word):
            dropping = word.partition("=")[0] in replaced
        if not dropping:
            kept.append(word)
    return (*kept, *more)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
