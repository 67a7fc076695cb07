"""Which store belongs to the place that an image is read from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from imagegate.errors import UsageError
from imagegate.signing.layout import LayoutStore
from imagegate.sources.connection import DIRECT

if TYPE_CHECKING:
    from imagegate.signing.store import ArtifactStore
    from imagegate.sources.connection import Connection


def open_store(location: str, connection: Connection = DIRECT) -> ArtifactStore:
    """Open the store beside an image.

    Args:
        location: as :func:`imagegate.sources.open_image` takes it.
        connection: how a registry is spoken to.

    Raises:
        UsageError: what is there keeps no signatures.
    """
    path = Path(location.removeprefix("oci:").partition("@")[0])
    if path.is_dir():
        return LayoutStore(path)
    from imagegate.signing.registry import RegistryStore
    from imagegate.sources.registry import registry_reference

    reference = registry_reference(location)
    if reference is None:
        raise UsageError(
            f"`{location}` keeps no signatures",
            hint="they lie beside an image in an OCI layout or in a registry",
        )
    return RegistryStore(connection.client(reference.registry), reference.repository)
