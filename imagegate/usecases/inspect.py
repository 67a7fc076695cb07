"""``imagegate inspect`` and ``imagegate diff``: what an image or a lock holds, and how two differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from imagegate.catalog import ownership, read_facts
from imagegate.errors import UsageError
from imagegate.lock import CONTENTS, decode_lock
from imagegate.oci.documents import ContainerConfig
from imagegate.report.inspection import Inspection
from imagegate.report.snapshot import Snapshot, compare_snapshots, snapshot
from imagegate.sources import open_image
from imagegate.usecases.lock import read_layers

if TYPE_CHECKING:
    from imagegate.lock import Lock
    from imagegate.oci.platform import Platform
    from imagegate.report.lockdiff import Difference
    from imagegate.usecases.ports import Reporter
    from imagegate.workspace import Workspace


def inspect_image(location: str, *, platform: Platform | None, reporter: Reporter) -> Inspection:
    """Read every layer of an image and return its facts.

    Args:
        location: where the image is.
        platform: which one of an index.
        reporter: where progress goes.

    Raises:
        UsageError: the location is none.
        ImageError: the image cannot be read.
    """
    source = open_image(location, platform=platform)
    image = source.image
    compressed = sum(layer.descriptor.size for layer in image.layers if layer.descriptor)
    with reporter.task("reading the image", compressed or None) as task:
        tree, collector = read_layers(source, task.advance)
    nodes = list(tree.under(""))
    facts = read_facts(tree, collector, [node.path for node in nodes])
    _, contradictions = ownership(tree, collector, facts)
    facts = replace(facts, contradictions=contradictions)
    title = f"{image.location} ({image.digest or 'no manifest digest'})"
    config = image.config.config or ContainerConfig()
    return Inspection(
        image=image,
        facts=facts,
        snapshot=snapshot(title, facts, config, nodes),
        compressed=compressed,
    )


def difference(
    old: str,
    new: str,
    *,
    workspace: Workspace | None,
    platform: Platform | None,
    reporter: Reporter,
) -> tuple[Difference, ...]:
    """Compare two states; each is a lock's name or folder, or an image.

    Raises:
        UsageError: one of them is neither.
        LockError: a lock cannot be read.
        ImageError: an image cannot be read.
    """
    states = [_state(name, workspace, platform, reporter) for name in (old, new)]
    return compare_snapshots(states[0], states[1])


def _state(
    name: str, workspace: Workspace | None, platform: Platform | None, reporter: Reporter
) -> Snapshot:
    if workspace is not None and name in workspace.recipe_names():
        return _of_lock(workspace.lock(name))
    folder = Path(name)
    if (folder / CONTENTS).is_file():
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        return _of_lock(decode_lock(folder.resolve().name, files, name))
    try:
        return inspect_image(name, platform=platform, reporter=reporter).snapshot
    except UsageError as error:
        raise UsageError(
            f"`{name}` is neither a lock nor an image: {error.message}",
            hint="name a recipe, a folder with a lock, or an image as `oci:FOLDER`",
        ) from error


def _of_lock(lock: Lock) -> Snapshot:
    """Take a lock as the image that it describes: the base, and what may be added."""
    config = (lock.config.config if lock.config else None) or ContainerConfig()
    nodes = {node.path: node for index in (lock.files, lock.layer) for node in index}
    return snapshot(
        f"the lock of {lock.contents.name} ({lock.digest})",
        lock.base.facts,
        config,
        nodes.values(),
        added={wheel.name: wheel.version for wheel in lock.wheels},
    )
