"""A locked base as the start of a stage: its path index and its config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.coverage.building.build import Base
from imagegate.coverage.reading.operations import BaseConfig
from imagegate.coverage.tree import Node, directory, file, link, special
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from imagegate.oci.documents import ImageConfig
    from imagegate.rootfs import Node as IndexNode


def base_of(files: Iterable[IndexNode], config: ImageConfig) -> Base | None:
    """Return what a stage that starts from this image has.

    Args:
        files: the image's path index.
        config: its config.

    Returns:
        ``None`` where the image brings instructions of its own (ONBUILD): what it then holds is
        not in its index.
    """
    settings = config.config
    if settings is not None and settings.on_build:
        return None
    root = directory()
    folders: dict[str, Node] = {"": root}
    for entry in files:
        above, _, name = entry.path.rpartition("/")
        parent = folders.get(above) or _folder(folders, above)
        if entry.kind is Kind.DIRECTORY:
            folders.setdefault(entry.path, parent.children.setdefault(name, directory()))
        elif entry.kind is Kind.SYMLINK:
            parent.children[name] = link(entry.target)
        elif entry.kind is Kind.FILE:
            parent.children[name] = file(size=entry.size)
        else:
            parent.children[name] = special()
    return Base(
        root=root,
        config=BaseConfig(
            env=settings.environment if settings else {},
            # config.md: the working directory is the root where the config names none
            workdir=(settings.working_dir if settings else None) or "/",
        ),
    )


def _folder(folders: dict[str, Node], path: str) -> Node:
    """Return the directory at `path`, made with all above it where the index has no entry."""
    if path not in folders:
        above, _, name = path.rpartition("/")
        folders[path] = _folder(folders, above).children.setdefault(name, directory())
    return folders[path]
