"""The serving options of an image's programs, out of the source files that its layers hold."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from imagegate.catalog.collect import Interest, WholeText
from imagegate.errors import FetchError
from imagegate.serving.read import SOURCE, read_options, wants_source

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from imagegate.catalog.collect import Collector
    from imagegate.rootfs import FileTree

INTEREST = Interest(
    name="serving source",
    keep=WholeText,
    pattern=SOURCE,
    marks=("vllm/", "sglang/", "ray/", ".dist-info/"),
)


def options_of_tree(tree: FileTree, collector: Collector) -> bytes:
    """Return the table of an image of which every layer was read; empty where nothing serves.

    Args:
        tree: the merged tree.
        collector: made with :data:`INTEREST`.
    """
    files = {
        node.path: content
        for node in tree.under("")
        if wants_source(node.path)
        and (content := collector.extract(INTEREST.name, node)) is not None
    }
    options = read_options(files)
    return options.encode() if options.programs else b""


def options_of_wheels(site: str, wheels: Iterable[Path]) -> bytes:
    """Return the table of the programs that wheels bring; empty where none does.

    Args:
        site: the site directory that they go to, without leading slash.
        wheels: the files.

    Raises:
        FetchError: a wheel cannot be read.
    """
    files: dict[str, bytes] = {}
    for path in wheels:
        try:
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if wants_source(name):
                        files[f"{site}/{name}"] = archive.read(name)
        except (OSError, zipfile.BadZipFile) as error:
            raise FetchError(f"`{path.name}` cannot be read as a wheel: {error}") from error
    options = read_options(files)
    return options.encode() if options.programs else b""
