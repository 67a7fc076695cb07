"""``imagegate lock``: learn the base from its bytes, resolve the layer against it, write the lock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from imagegate.catalog import locked_facts, no_facts
from imagegate.catalog.freeze import freeze
from imagegate.catalog.startup import search_order
from imagegate.engines.compose.index import index_wheels
from imagegate.errors import ImageError, LockError, UsageError
from imagegate.lock import BaseDocument, Lock, LockParts, decode_lock, encode_lock
from imagegate.reading.stacked import read_whole
from imagegate.recipe import parse_recipe
from imagegate.report.lockdiff import Difference, compare_locks
from imagegate.resolver.resolve import Question, resolve
from imagegate.resolver.target import Target
from imagegate.resolver.wheels import WheelCache
from imagegate.usecases.traffic import tell_traffic
from imagegate.workspace.atomic import write_file, write_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from imagegate.lock import LockedWheel
    from imagegate.oci.image import ImageSource
    from imagegate.recipe import Recipe
    from imagegate.rootfs import Node
    from imagegate.usecases.invocation import Invocation
    from imagegate.usecases.ports import Reporter
    from imagegate.workspace import RecipeState, Workspace


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


def lock_recipe(call: Invocation, name: str, *, base: str | None) -> LockOutcome:
    """Write a recipe's lock anew.

    Args:
        call: where the recipe is.
        name: the recipe.
        base: where the base's bytes are; a base with another digest than the recipe's replaces it.

    Raises:
        UsageError: the recipe or the base's location cannot be used.
        ImageError: the base cannot be read.
        ResolveError: the requirements cannot be met without moving the base.
        FetchError: a wheel could not be had.
    """
    workspace, reporter = call.workspace, call.reporter
    state = workspace.state(name)
    rewritten: str | None = None
    read: _ReadBase | None = None
    if state.recipe.base is not None:
        location = base or base_location(workspace, state.recipe)
        source = call.open(location, state.recipe.platform)
        rewritten = _agree_on_base(state.recipe, source, base)
        if rewritten is not None:
            state = replace(state, recipe=_with_base(workspace, state.recipe, rewritten))
        read = read_base(state.recipe, source, reporter)
        tell_traffic(source, reporter, layers="the base's layers", size=read.document.compressed)
    elif base is not None:
        raise UsageError(f"the recipe `{name}` starts from scratch; it has no base to lock")
    parts = _complete(state, read, call.cache, reporter)
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
    with reporter.task("reading the base", compressed) as task:
        whole = read_whole(source, task.advance)
    facts = whole.facts
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
            facts=locked_facts(facts),
        ),
        manifest_bytes=image.manifest_bytes,
        config_bytes=image.config_bytes,
        nodes=whole.nodes,
        owners=whole.owners,
        freeze=freeze(facts.distributions, section.version, order, facts.checkouts),
    )


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
