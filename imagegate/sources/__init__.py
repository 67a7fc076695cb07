"""Where images come from: one way to open them all.

A location is written with a transport, as skopeo and others do: ``oci:FOLDER[@digest]``,
``docker-archive:FILE``, ``oci-archive:FILE``, ``docker://NAME[:TAG][@digest]``,
``docker-daemon:NAME``, ``podman:NAME``. A path that exists needs no transport, nor does a
reference that names registry and digest.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from imagegate.errors import ImageError, UsageError
from imagegate.oci.digest import Digest
from imagegate.sources.allocator import keep_freed_memory
from imagegate.sources.connection import DIRECT, Connection

if TYPE_CHECKING:
    from imagegate.oci.image import ImageSource
    from imagegate.oci.platform import Platform

_FILES = frozenset({"oci", "docker-archive", "oci-archive"})
_DAEMONS = frozenset({"docker-daemon", "podman"})


__all__ = ["DIRECT", "Connection", "open_image"]


def open_image(
    location: str, connection: Connection = DIRECT, *, folder: Path | None = None
) -> ImageSource:
    """Open the image at `location`.

    Args:
        location: a transport and what it needs, a path, or `registry/repository@digest`.
        connection: how registries are spoken to, and which image of an index is meant.
        folder: what a relative path is relative to; the current folder if ``None``.

    Raises:
        UsageError: the location cannot be understood or does not exist.
        ImageError: what is there is no image, or is damaged.
        FetchError: a registry refuses or fails.
        EngineError: a container engine is absent or fails.
    """
    keep_freed_memory()
    platform = connection.platform
    transport, colon, rest = location.partition(":")
    if colon and transport in _DAEMONS:
        return _open_daemon_image(transport, rest, platform)
    if not colon or transport not in _FILES:
        transport, rest = "", location
    target, digest_text = _split_digest(rest, folder)
    path = _at(target, folder)
    if not transport and (location.startswith("docker://") or not path.exists()):
        from imagegate.sources.registry import open_registry_image, registry_reference

        if reference := registry_reference(location):
            return open_registry_image(reference, connection)
    try:
        digest = Digest.parse(digest_text) if digest_text else None
    except ImageError as error:
        raise UsageError(
            f"bad image location `{location}`: {error.message}", hint=error.hint
        ) from error
    if not target or not path.exists():
        raise UsageError(
            f"no image at `{location}`",
            hint="give `oci:FOLDER`, `docker-archive:FILE`, a path that exists, "
            "`registry/repository@sha256:…`, `docker://NAME:TAG`, `docker-daemon:NAME` or `podman:NAME`",
        )
    if path.is_dir():
        from imagegate.sources.layout import Folder, LayoutSource

        return LayoutSource(
            Folder(path), f"the layout `{target}`", digest=digest, platform=platform
        )
    from imagegate.sources.archive import open_archive

    return open_archive(path, digest=digest, platform=platform)


def _open_daemon_image(transport: str, name: str, platform: Platform | None) -> ImageSource:
    from imagegate.sources.daemon import open_docker_image, open_podman_image

    if transport == "podman":
        return open_podman_image(name, platform=platform)
    return open_docker_image(name, platform=platform)


def _split_digest(text: str, folder: Path | None) -> tuple[str, str]:
    """Split ``PATH[@DIGEST]``; a path that exists may have an `@` in its name."""
    target, at, digest = text.rpartition("@")
    if not at or _at(text, folder).exists():
        return text, ""
    return target, digest


def _at(path: str, folder: Path | None) -> Path:
    return Path(path) if folder is None else folder / path
