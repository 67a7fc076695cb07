"""``imagegate inspect`` and ``imagegate diff``: what an image or a lock holds, and how two differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from imagegate.errors import LockError, UsageError
from imagegate.lock import Lock
from imagegate.oci.documents import ContainerConfig
from imagegate.reading.layers import LayerOrder
from imagegate.reading.stacked import read_stacked, read_whole
from imagegate.report.inspection import Inspection
from imagegate.report.snapshot import Snapshot, compare_snapshots, snapshot
from imagegate.sources import Connection, open_image
from imagegate.usecases.signed_base import require_signed_base, signed_lock
from imagegate.workspace.lockfolders import is_lock_folder, read_lock_folder

if TYPE_CHECKING:
    from imagegate.lock import BaseLock
    from imagegate.oci.image import Image
    from imagegate.oci.platform import Platform
    from imagegate.report.lockdiff import Difference
    from imagegate.usecases.ports import Reporter
    from imagegate.workspace import Workspace


def inspect_image(
    location: str,
    *,
    platform: Platform | None,
    reporter: Reporter,
    workspace: Workspace | None = None,
) -> Inspection:
    """Read an image and return its facts.

    Where the image's first layers are, by digest, those of a base that the workspace has locked,
    the lock tells what they hold and only the layers on top are read.

    Args:
        location: where the image is; a recipe's name means its build, if nothing else is there.
        platform: which one of an index.
        reporter: where progress goes.
        workspace: where locks are, if there is one.

    Raises:
        UsageError: the location is none.
        ImageError: the image cannot be read.
    """
    chosen = Connection(platform=platform)
    if (
        workspace is not None
        and location in workspace.recipe_names()
        and not Path(location).exists()
    ):
        location = f"oci:{workspace.relative(workspace.layout(location))}"
        source = open_image(location, chosen, folder=workspace.root)
    else:
        source = open_image(location, chosen)
    image = source.image
    lock = _lock_below(image, workspace)
    below = len(lock.manifest.layers) if lock is not None and lock.manifest is not None else 0
    read = image.layers[below:]
    compressed = sum(layer.descriptor.size for layer in read if layer.descriptor)
    with reporter.task("reading the image", compressed or None) as task:
        if lock is None:
            whole = read_whole(source, task.advance)
            facts, nodes = whole.facts, whole.nodes
        else:
            orders = [LayerOrder(layer=layer) for layer in read]
            stacked = read_stacked(source, lock, orders, advance=task.advance)
            facts, nodes = stacked.facts, tuple(stacked.tree.under(""))
    title = f"{image.location} ({image.digest or 'no manifest digest'})"
    config = image.config.config or ContainerConfig()
    return Inspection(
        image=image,
        facts=facts,
        snapshot=snapshot(title, facts, config, nodes),
        compressed=compressed,
        lock=lock.contents.name if lock is not None else "",
    )


def _lock_below(image: Image, workspace: Workspace | None) -> Lock | None:
    """Find a lock whose base's blobs are, by digest, the first of the image's."""
    found = [layer.descriptor.digest if layer.descriptor else None for layer in image.layers]
    for name in workspace.recipe_names() if workspace is not None else ():
        assert workspace is not None
        try:
            lock = signed_lock(workspace, name)
        except LockError:
            continue  # the base's bytes say it as well
        locked = [layer.digest for layer in lock.manifest.layers] if lock.manifest else []
        if locked and found[: len(locked)] == locked:
            return lock
    return None


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
        return _of_lock(signed_lock(workspace, name))
    folder = Path(name)
    if is_lock_folder(folder):
        bases = workspace.root / "locks" / "bases" if workspace is not None else None
        found = read_lock_folder(folder, bases)
        require_signed_base(workspace, found.based_on if isinstance(found, Lock) else found)
        return _of_lock(found) if isinstance(found, Lock) else _of_base(found)
    try:
        return inspect_image(
            name, platform=platform, reporter=reporter, workspace=workspace
        ).snapshot
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


def _of_base(lock: BaseLock) -> Snapshot:
    """Take the lock of a base as the base."""
    config = lock.config.config or ContainerConfig()
    return snapshot(f"the lock of the base {lock.base}", lock.document.facts, config, lock.files)
