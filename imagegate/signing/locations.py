"""Which store belongs to the place that an image is read from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from imagegate.errors import UsageError
from imagegate.signing.layout import LayoutStore

if TYPE_CHECKING:
    from imagegate.signing.store import ArtifactStore


def open_store(location: str) -> ArtifactStore:
    """Open the store beside an image.

    Args:
        location: as :func:`imagegate.sources.open_image` takes it.

    Raises:
        UsageError: what is there keeps no signatures.
    """
    path = Path(location.removeprefix("oci:").partition("@")[0])
    if not path.is_dir():
        raise UsageError(
            f"`{location}` keeps no signatures",
            hint="signatures lie beside an image in an OCI layout; give `oci:FOLDER`",
        )
    return LayoutStore(path)
