"""How registries are spoken to, and which image of an index is meant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagegate.oci.platform import Platform
    from imagegate.sources.registry.client import RegistryClient
    from imagegate.sources.registry.credentials import CredentialStore
    from imagegate.sources.registry.retry import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """What opening an image needs beside its location.

    Attributes:
        insecure: allow plain HTTP to a remote registry.
        platform: what to choose where an index has several.
        clock: waits between attempts at a registry; the machine's if ``None``.
        credentials: where credentials are looked up; docker's and podman's files if ``None``.
    """

    insecure: bool = False
    platform: Platform | None = None
    clock: Clock | None = None
    credentials: CredentialStore | None = None

    def of(self, platform: Platform | None) -> Connection:
        """Return the same connection for one platform."""
        return replace(self, platform=platform)

    def client(self, registry: str) -> RegistryClient:
        """Connect to a registry."""
        from imagegate.sources.registry.client import RegistryClient

        return RegistryClient(
            registry, insecure=self.insecure, credentials=self.credentials, clock=self.clock
        )


DIRECT = Connection()
