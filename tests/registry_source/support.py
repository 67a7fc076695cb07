"""What the tests of the registry source share."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.oci.digest import Digest
from imagegate.oci.reference import Reference
from imagegate.sources.registry import (
    Anonymous,
    Credentials,
    RegistryClient,
    RegistrySink,
    RegistrySource,
)

if TYPE_CHECKING:
    from imagegate.oci.image import Layer
    from imagegate.oci.platform import Platform
    from imagegate.sources.registry import CredentialStore
    from tests.registry import LoopbackRegistry


@dataclass
class ManualClock:
    """Stands still until somebody sleeps."""

    time: float = 1_700_000_000.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


@dataclass
class Keyring:
    """Holds the same credentials for all repositories."""

    credentials: Credentials
    asked: list[tuple[str, str]] = field(default_factory=list)

    def find(self, registry: str, repository: str) -> Credentials | None:
        self.asked.append((registry, repository))
        return self.credentials


def client(
    registry: LoopbackRegistry | str,
    clock: ManualClock | None = None,
    *,
    credentials: CredentialStore | None = None,
    insecure: bool = False,
    environment: dict[str, str] | None = None,
) -> RegistryClient:
    name = registry if isinstance(registry, str) else registry.netloc
    return RegistryClient(
        name,
        insecure=insecure,
        credentials=credentials or Anonymous(),
        clock=clock or ManualClock(),
        environment=environment or {},
    )


def source(
    through: RegistryClient, reference: str, platform: Platform | None = None
) -> RegistrySource:
    return RegistrySource(through, Reference.parse(reference), platform=platform)


def sink(through: RegistryClient, repository: str = "team/app", chunk: int = 1000) -> RegistrySink:
    return RegistrySink(through, repository, chunk=chunk)


def layer_bytes(of: RegistrySource, layer: Layer) -> bytes:
    with of.open_layer(layer) as stream:
        return stream.read()


def noise(size: int, seed: int = 1) -> bytes:
    """Bytes that no codec makes smaller and that differ from each other at every offset."""
    return random.Random(seed).randbytes(size)


def digest(content: bytes) -> Digest:
    return Digest.of(content)
