"""What a host said of itself, read and typed (the document of ``imagegate node facts``)."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imagegate.errors import UsageError
from imagegate.launch.killers import Memory
from imagegate.launch.watermarks import Zone


class _Fact(BaseModel):
    # a newer host may say more; what is known has to be right
    model_config = ConfigDict(extra="ignore", frozen=True)


class HostFacts(_Fact):
    """Who the host is."""

    name: str = Field(min_length=1)
    boot_id: str = ""
    kernel: str = ""
    architecture: str = ""
    cpus: int = Field(ge=1)
    in_container: bool = False
    time: int = 0
    boot_words: tuple[str, ...] = ()


class ZoneFacts(_Fact):
    """One memory zone, in pages."""

    name: str
    managed: int = 0
    min: int = 0
    low: int = 0
    high: int = 0
    reserve: int = 0
    boost: int = 0


class MemoryFacts(_Fact):
    """Memory in KiB, and the sysctls that matter."""

    total_kib: int | None = None
    free_kib: int | None = None
    available_kib: int | None = None
    anonymous_kib: int | None = None
    swap_total_kib: int | None = None
    swap_free_kib: int | None = None
    min_free_kbytes: int | None = None
    swappiness: int | None = None
    watermark_scale_factor: int | None = None
    page_size: int = 4096
    zones: tuple[ZoneFacts, ...] = ()

    @property
    def moment(self) -> Memory | None:
        """The figures that killers look at, ``None`` where one is missing."""
        given = (self.total_kib, self.available_kib, self.anonymous_kib)
        if any(value is None for value in given):
            return None
        return Memory(
            total=self.total_kib or 0,
            available=self.available_kib or 0,
            anonymous=self.anonymous_kib or 0,
            swap_total=self.swap_total_kib or 0,
            swap_free=self.swap_free_kib or 0,
        )

    @property
    def known_zones(self) -> tuple[Zone, ...]:
        """The zones as the formulas take them."""
        return tuple(Zone(**zone.model_dump()) for zone in self.zones)


class KillerFacts(_Fact):
    """A program that ends processes."""

    kind: str
    pid: int | None = None
    arguments: tuple[str, ...] = ()
    version: str | None = None
    configured: tuple[str, ...] | None = None
    refresh_ms: str | None = None
    threshold: str | None = None
    seen: bool = True
    units: tuple[dict[str, Any], ...] = ()


class PackageFacts(_Fact):
    """A Debian package."""

    name: str
    version: str = ""
    state: str = ""


class DriverFacts(_Fact):
    """The evidence about kernel and driver."""

    running_kernel: str = ""
    loaded: str | None = None
    modules: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    modules_seen: bool = False
    packages: tuple[PackageFacts, ...] = ()
    packages_seen: bool = False
    libraries: tuple[str, ...] = ()
    grub_default: str | None = None


class GpuFacts(_Fact):
    """One GPU."""

    name: str | None = None
    driver_version: str | None = None
    compute_cap: str | None = None


class LinkFacts(_Fact):
    """One network link."""

    name: str
    state: str = ""
    carrier: bool = False
    physical: bool = True
    speed_mbits: int | None = None
    mtu: int | None = None
    addresses: tuple[str, ...] = ()
    rdma: tuple[str, ...] = ()


class RdmaFacts(_Fact):
    """One port of an RDMA device."""

    name: str
    port: str = "1"
    state: str = ""
    links: tuple[str, ...] = ()


class NetworkFacts(_Fact):
    """Links, RDMA devices, and what listens."""

    links: tuple[LinkFacts, ...] = ()
    rdma: tuple[RdmaFacts, ...] = ()
    dev_infiniband: tuple[str, ...] = ()
    listeners: tuple[int, ...] = ()


class ImageFacts(_Fact):
    """An image that an engine has."""

    id: str
    digests: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    architecture: str | None = None
    requires: dict[str, str] = Field(default_factory=dict)


class MountFacts(_Fact):
    """One mount of a container."""

    source: str | None = None
    target: str | None = None
    writable: bool = True


class ContainerFacts(_Fact):
    """A container that runs."""

    id: str = ""
    name: str = ""
    image: str = ""
    image_name: str | None = None
    command: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    mounts: tuple[MountFacts, ...] = ()
    devices: tuple[str, ...] = ()
    gpus: bool = False
    privileged: bool = False
    memory_limit: int | None = None
    memlock: tuple[dict[str, Any], ...] = ()
    started_at: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)


class EngineFacts(_Fact):
    """A container engine."""

    kind: str
    version: str | None = None
    cgroup_driver: str | None = None
    images: tuple[ImageFacts, ...] = ()
    containers: tuple[ContainerFacts, ...] = ()


class FaultFacts(_Fact):
    """Something that is wrong with a checkpoint."""

    what: str
    file: str = ""
    needed: Any = None
    found: Any = None
    count: int | None = None


class WeightFile(_Fact):
    """One file of a checkpoint."""

    name: str
    size: int = 0
    header: str | None = None
    sha256: str | None = None


class ModelFacts(_Fact):
    """What ``config.json`` says."""

    architectures: tuple[str, ...] = ()
    auto_map: bool = False
    quantization: str | None = None
    multimodal: bool = False
    text: dict[str, Any] = Field(default_factory=dict)


class WeightFacts(_Fact):
    """One checkpoint."""

    path: str
    bytes: int = 0
    tensors: int = 0
    digest: str = ""
    revision: str | None = None
    content_read: bool = False
    files: tuple[WeightFile, ...] = ()
    faults: tuple[FaultFacts, ...] = ()
    model: ModelFacts | None = None


class CacheFolder(_Fact):
    """One folder of a cache."""

    name: str
    libraries: tuple[str, ...] = ()
    locks: tuple[str, ...] = ()
    record: dict[str, Any] | None = None


class CacheFacts(_Fact):
    """A cache of compiled kernels."""

    path: str
    there: bool = False
    uid: int | None = None
    writable: bool | None = None
    folders: tuple[CacheFolder, ...] = ()


class UnseenFacts(_Fact):
    """Something that could not be seen, and why."""

    what: str
    why: str = ""


class SshFacts(_Fact):
    """The sshd that listens."""

    pid: int
    oom_score_adj: int | None = None


class NodeFacts(_Fact):
    """Everything that one host said of itself."""

    host: HostFacts
    memory: MemoryFacts
    killers: tuple[KillerFacts, ...] = ()
    processes_seen: int = 0
    ssh: SshFacts | None = None
    driver: DriverFacts = Field(default_factory=DriverFacts)
    gpus: tuple[GpuFacts, ...] = ()
    network: NetworkFacts = Field(default_factory=NetworkFacts)
    engines: tuple[EngineFacts, ...] = ()
    weights: tuple[WeightFacts, ...] = ()
    caches: tuple[CacheFacts, ...] = ()
    unseen: tuple[UnseenFacts, ...] = ()

    @property
    def name(self) -> str:
        """The host's name."""
        return self.host.name

    @property
    def containers(self) -> tuple[ContainerFacts, ...]:
        """What runs, of all engines."""
        return tuple(one for engine in self.engines for one in engine.containers)

    @property
    def images(self) -> tuple[ImageFacts, ...]:
        """What the engines have."""
        return tuple(one for engine in self.engines for one in engine.images)


class _Document(NodeFacts):
    schema_version: Literal[1] = Field(alias="schema")


def read_node_facts(content: bytes, where: str) -> NodeFacts:
    """Read one document of ``imagegate node facts``.

    Args:
        content: its bytes.
        where: the file or the command that said it, for messages.

    Raises:
        UsageError: it is none.
    """
    try:
        return _Document.model_validate(json.loads(content))
    except (ValueError, ValidationError, RecursionError) as error:
        problem = str(error).splitlines()[0]
        raise UsageError(
            f"`{where}` gave no facts of a node: {problem}",
            hint="`imagegate node facts --json` writes them; the module also runs alone",
        ) from error
