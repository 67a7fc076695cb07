"""``imagegate lock``: learn the base from its bytes, resolve the layer against it, write the lock."""

from __future__ import annotations

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from imagegate.catalog import locked_facts, new_collector, no_facts, ownership, read_facts
from imagegate.catalog.freeze import freeze
from imagegate.catalog.startup import search_order
from imagegate.catalog.system import OWNERSHIP_INTERESTS
from imagegate.engines.compose.index import index_wheels
from imagegate.errors import ImageError, LockError, UsageError
from imagegate.lock import BaseDocument, Lock, LockParts, decode_lock, encode_lock
from imagegate.oci.layer import LayerReading, read_layer
from imagegate.recipe import parse_recipe
from imagegate.report.lockdiff import Difference, compare_locks
from imagegate.resolver.resolve import Question, resolve
from imagegate.resolver.target import Target
from imagegate.resolver.wheels import WheelCache
from imagegate.rootfs import FileTree, Node
from imagegate.sources import open_image
from imagegate.usecases.traffic import tell_traffic
from imagegate.workspace.atomic import write_file, write_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from imagegate.catalog.collect import Collector
    from imagegate.lock import LockedWheel
    from imagegate.oci.image import ImageSource, Layer
    from imagegate.recipe import Recipe
    from imagegate.rootfs import PathIndex
    from imagegate.sources.registry import Clock
    from imagegate.usecases.ports import Reporter
    from imagegate.workspace import RecipeState, Workspace


# each layer that is read holds up to 40 MB between its threads
_READ_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOutcome:
    """What locking did.

    Attributes:
        differences: what differs from the lock that was there before.
        replaced: whether files were written; an equal lock is left alone.
        rewritten_base: the new ``[base] image`` where ``--base`` named another one.
    """

    lock: Lock
    differences: tuple[Difference, ...]
    replaced: bool
    rewritten_base: str | None


def lock_recipe(
    workspace: Workspace,
    name: str,
    *,
    base: str | None,
    cache: Path,
    reporter: Reporter,
    insecure: bool = False,
    clock: Clock | None = None,
) -> LockOutcome:
    """Write a recipe's lock anew.

    Args:
        workspace: where the recipe is.
        name: the recipe.
        base: where the base's bytes are; a base with another digest than the recipe's replaces it.
        cache: folder for downloads.
        reporter: where progress goes.
        insecure: allow plain http to a registry that is not on loopback.
        clock: waits between attempts at a registry; the machine's if ``None``.

    Raises:
        UsageError: the recipe or the base's location cannot be used.
        ImageError: the base cannot be read.
        ResolveError: the requirements cannot be met without moving the base.
        FetchError: a wheel could not be had.
    """
    state = workspace.state(name)
    rewritten: str | None = None
    read: _ReadBase | None = None
    if state.recipe.base is not None:
        source = open_image(
            base or base_location(workspace, state.recipe),
            platform=state.recipe.platform,
            insecure=insecure,
            clock=clock,
        )
        rewritten = _agree_on_base(state.recipe, source, base)
        if rewritten is not None:
            state = replace(state, recipe=_with_base(workspace, state.recipe, rewritten))
        read = read_base(state.recipe, source, reporter)
        tell_traffic(source, reporter, layers="the base's layers", size=read.document.compressed)
    elif base is not None:
        raise UsageError(f"the recipe `{name}` starts from scratch; it has no base to lock")
    parts = _complete(state, read, cache, reporter)
    files = encode_lock(parts)
    folder = workspace.lock_folder(name)
    new = decode_lock(name, files, workspace.relative(folder))
    old = _previous(workspace, name, reporter)
    replaced = old is None or any(
        not (folder / file).is_file() or (folder / file).read_bytes() != content
        for file, content in files.items()
    )
    if replaced:
        write_folder(folder, files)
    if rewritten is not None:
        # the lock is there first: a crash in between leaves a recipe that the lock does not fit,
        # which every command refuses
        path = workspace.recipe_path(name)
        write_file(path, _rewrite_base(path.read_text(encoding="utf-8"), rewritten).encode())
    return LockOutcome(
        lock=new,
        differences=compare_locks(old, new),
        replaced=replaced,
        rewritten_base=rewritten,
    )


# --- the base


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadBase:
    """What reading the base gave."""

    document: BaseDocument
    manifest_bytes: bytes
    config_bytes: bytes
    nodes: tuple[Node, ...]
    owners: Mapping[str, str]
    freeze: str


def read_base(recipe: Recipe, source: ImageSource, reporter: Reporter) -> _ReadBase:
    """Read every layer of the base once.

    Raises:
        ImageError: a layer is missing, damaged or not what it must be, or it is another platform's.
    """
    image = source.image
    if image.manifest_bytes is None or image.digest is None:
        raise ImageError(
            f"{image.location} holds no manifest, so the base has no digest to lock",
            hint="use an OCI layout, an archive of the containerd store, or a registry",
        )
    if image.config.platform != recipe.platform:
        raise ImageError(
            f"the base is for another platform: recipe={recipe.platform} found={image.config.platform}"
        )
    compressed = sum(layer.descriptor.size for layer in image.layers if layer.descriptor)
    with _without_cycle_search():
        with reporter.task("reading the base", compressed) as task:
            tree, collector = read_layers(source, task.advance)
        nodes = list(tree.under(""))
        facts = read_facts(tree, collector, [node.path for node in nodes])
        owners, contradictions = ownership(tree, collector, facts)
    assert recipe.base is not None
    section = recipe.document.python
    order = search_order(section.interpreter, section.version, facts.sites, facts.interpreters)
    return _ReadBase(
        document=BaseDocument(
            image=str(recipe.base),
            digest=image.digest,
            index=image.index_digest,
            platform=str(recipe.platform),
            compressed=compressed,
            facts=replace(locked_facts(facts), contradictions=contradictions),
        ),
        manifest_bytes=image.manifest_bytes,
        config_bytes=image.config_bytes,
        nodes=tuple(nodes),
        owners=owners,
        freeze=freeze(facts.distributions, section.version, order, facts.checkouts),
    )


def read_layers(
    source: ImageSource,
    advance: Callable[[int], object],
    *,
    onto: PathIndex | None = None,
    layers: Sequence[Layer] | None = None,
) -> tuple[FileTree, Collector]:
    """Read layers, some at a time, and apply them in order.

    Args:
        source: the image.
        advance: called with the number of compressed bytes of each read.
        onto: what the layers stand on, if not on nothing.
        layers: which of the image's layers; all if ``None``.
    """
    chosen = source.image.layers if layers is None else layers
    lock = threading.Lock()
    stopped = threading.Event()

    def counted(count: int) -> None:
        if stopped.is_set():
            raise _StoppedError
        with lock:
            advance(count)

    def one(layer: Layer) -> tuple[LayerReading, Collector]:
        collector = new_collector(*OWNERSHIP_INTERESTS)
        reading = read_layer(
            source.open_layer(layer), layer.blob, want=collector.want, progress=counted
        )
        collector.end_layer(reading.entries)
        return reading, collector

    everything = new_collector()
    tree = FileTree(onto)
    workers = min(os.cpu_count() or 1, _READ_AT_ONCE)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        # the largest first, so that no thread is left alone with it at the end
        by_size = sorted(chosen, key=_size_of, reverse=True)
        pending = {layer.number: pool.submit(one, layer) for layer in by_size}
        try:
            for layer in chosen:
                reading, collector = pending.pop(layer.number).result()
                tree.apply(reading.entries, layer.number)
                everything.absorb(collector)
        except BaseException:
            # a layer may have gigabytes to go; its next read ends it
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return tree, everything


@contextmanager
def _without_cycle_search() -> Iterator[None]:
    """Keep the garbage collector from walking, again and again, what is read and has no cycles.

    Reading makes a few objects for each of some 100,000 paths; looking for cycles among them
    costs a fifteenth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _size_of(layer: Layer) -> int:
    return layer.descriptor.size if layer.descriptor is not None else 0


class _StoppedError(Exception):
    """Ends the reading of a layer that nobody waits for any more."""


def base_location(workspace: Workspace, recipe: Recipe) -> str:
    """Say where the base's bytes are expected when nobody says."""
    assert recipe.base is not None
    made_here = recipe.document.base.recipe
    if made_here is None:
        return str(recipe.base)
    workspace.recipe_path(made_here)  # a name that is no recipe is told as such
    layout = workspace.layout(made_here)
    if not layout.is_dir():
        raise UsageError(
            f"the base `{recipe.base.name}` is made by the recipe `{made_here}`, which is not built",
            hint=f"run `imagegate build {made_here}`, or name the base's bytes with `--base`",
        )
    return f"oci:{layout}"


def _agree_on_base(recipe: Recipe, source: ImageSource, base: str | None) -> str | None:
    """Compare the base's digest with the recipe's; returns what the recipe shall say instead."""
    assert recipe.base is not None
    image = source.image
    if recipe.base.digest in (image.digest, image.index_digest):
        return None
    if base is None or image.digest is None:
        raise LockError(
            f"the base is not the one that the recipe pins: "
            f"recipe={recipe.base.digest} found={image.digest} in {image.location}",
            hint=f"pin the new one: `imagegate lock {recipe.name} --base …`",
        )
    named = _registry_name(base) or recipe.base.name
    return f"{named}@{image.index_digest or image.digest}"


def _registry_name(base: str) -> str | None:
    from imagegate.oci.reference import Reference

    try:
        reference = Reference.parse(base.removeprefix("docker://"))
    except UsageError:
        return None
    return reference.name if reference.digest is not None and "/" in base else None


def _with_base(workspace: Workspace, recipe: Recipe, image: str) -> Recipe:
    path = workspace.recipe_path(recipe.name)
    text = _rewrite_base(path.read_text(encoding="utf-8"), image)
    return parse_recipe(recipe.name, text, workspace.relative(path))


def _rewrite_base(text: str, image: str) -> str:
    """Put another base into ``image.toml`` and leave everything else as its author wrote it."""
    import tomlkit

    document = tomlkit.parse(text)
    base = document["base"]
    assert isinstance(base, tomlkit.items.Table)
    if not str(base.get("image", "")).startswith(image.partition("@")[0]):
        base.pop("recipe", None)
    base["image"] = image
    return tomlkit.dumps(document)


# --- the layer


def _complete(
    state: RecipeState, read: _ReadBase | None, cache: Path, reporter: Reporter
) -> LockParts:
    """Resolve and index what the layer adds, and put everything together."""
    recipe = state.recipe
    wheels: tuple[LockedWheel, ...] = ()
    layer: tuple[Node, ...] = ()
    sizes: dict[str, int] = {}
    if state.requirements:
        paths, layer = _lock_wheels(state, read, cache, reporter)
        wheels = tuple(paths)
        sizes = {wheel.name: path.stat().st_size for wheel, path in paths.items()}
    nothing = BaseDocument(
        image=None,
        digest=None,
        index=None,
        platform=str(recipe.platform),
        compressed=0,
        facts=no_facts(),
    )
    return LockParts(
        name=recipe.name,
        recipe=recipe.digest,
        requirements_in=state.requirements_digest,
        base=read.document if read else nothing,
        freeze=read.freeze if read else "",
        manifest_bytes=read.manifest_bytes if read else None,
        config_bytes=read.config_bytes if read else None,
        files=read.nodes if read else (),
        owners=read.owners if read else {},
        wheels=wheels,
        wheel_sizes=sizes,
        layer=layer,
        assets=state.assets,
    )


def _lock_wheels(
    state: RecipeState, read: _ReadBase | None, cache: Path, reporter: Reporter
) -> tuple[dict[LockedWheel, Path], tuple[Node, ...]]:
    recipe = state.recipe
    target = Target.of(recipe)
    reporter.say(f"resolving {len(state.requirements)} requirements against the base")
    section = recipe.document.layer
    resolution = resolve(
        Question(
            requirements=state.requirements,
            base=read.document.facts.distributions if read else (),
            overrides=section.overrides,
            exclude_newer=section.exclude_newer,
            target=target,
            cache=cache / "uv",
        )
    )
    for name in resolution.not_held:
        reporter.say(
            f"`{name}` of the base has a version outside PEP 440; it was left out of resolving"
        )
    with reporter.task("fetching wheels", resolution.size) as task:
        paths = WheelCache(cache).fetch(resolution.wheels, target, advance=task.advance)
    total = sum(path.stat().st_size for path in paths.values())
    with reporter.task("reading wheels", total) as task:
        layer = index_wheels(recipe, paths, advance=task.advance)
    return paths, layer


def _previous(workspace: Workspace, name: str, reporter: Reporter) -> Lock | None:
    if not workspace.lock_folder(name).is_dir():
        return None
    try:
        return workspace.lock(name)
    except LockError as error:
        reporter.say(f"the lock that was there cannot be compared: {error.message}")
        return None
