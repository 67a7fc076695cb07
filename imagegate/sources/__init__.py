"""Where images come from: one way to open them all.

A location is written with a transport, as skopeo and others do: ``oci:FOLDER[@digest]``,
``docker-archive:FILE``, ``oci-archive:FILE``. A path that exists needs no transport.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from imagegate.errors import ImageError, UsageError
from imagegate.oci.digest import Digest

if TYPE_CHECKING:
    from imagegate.oci.image import ImageSource
    from imagegate.oci.platform import Platform

_ARCHIVES = frozenset({"docker-archive", "oci-archive"})


def open_image(location: str, *, platform: Platform | None = None) -> ImageSource:
    """Open the image at `location`.

    Args:
        location: a transport and what it needs, or a path.
        platform: what to choose where an index has several.

    Raises:
        UsageError: the location cannot be understood or does not exist.
        ImageError: what is there is no image, or is damaged.
    """
    transport, colon, rest = location.partition(":")
    if not colon or transport not in (*_ARCHIVES, "oci"):
        transport, rest = "", location
    target, at, digest_text = rest.rpartition("@")
    # a folder may have an `@` in its name
    if not at or Path(rest).exists():
        target, digest_text = rest, ""
    try:
        digest = Digest.parse(digest_text) if digest_text else None
    except ImageError as error:
        raise UsageError(
            f"bad image location `{location}`: {error.message}", hint=error.hint
        ) from error
    path = Path(target)
    if not target or not path.exists():
        raise UsageError(
            f"no image at `{location}`",
            hint="give `oci:FOLDER`, `docker-archive:FILE` or a path that exists",
        )
    if path.is_dir():
        from imagegate.sources.layout import Folder, LayoutSource

        return LayoutSource(
            Folder(path), f"the layout `{target}`", digest=digest, platform=platform
        )
    from imagegate.sources.archive import open_archive

    return open_archive(path, digest=digest, platform=platform)
