"""Putting an image together: the base's layers by reference, new layers, config and manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from imagegate.engines.compose.layers import BlobWriter, write_assets, write_wheels
from imagegate.engines.layout import (
    base_annotations,
    base_descriptor,
    compact,
    platform_document,
    write_layout,
)
from imagegate.oci.documents import OCI_LAYER_GZIP, parse_json
from imagegate.oci.gzipwrite import Compressor, compressor
from imagegate.oci.tarwrite import TarWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from imagegate.lock import Lock, LockedAsset, LockedWheel
    from imagegate.oci.digest import Digest
    from imagegate.recipe import Recipe
    from imagegate.rootfs import Node

# the same instant as the tar entries' time, see imagegate.oci.tarwrite.EPOCH
_CREATED = "1980-01-01T00:00:00Z"
# a distribution of at least this size gets a layer of its own, so that a change of another one
# does not move it; the bytes of one layer also stay far below what registries accept
_OWN_LAYER = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedLayer:
    """One layer that was written."""

    digest: Digest
    diff_id: Digest
    size: int
    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """What was composed.

    Attributes:
        digest: digest of the manifest.
        layers: the added layers.
        compressor: what made their compressed form.
    """

    digest: Digest
    layers: tuple[ComposedLayer, ...]
    compressor: Compressor


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredients:
    """What an image is composed of.

    Attributes:
        wheels: each locked wheel and where it lies.
        assets: each locked asset and where it lies.
        threads: how many threads compress.
        advance: called with the bytes of each wheel that went in.
    """

    recipe: Recipe
    lock: Lock
    wheels: Mapping[LockedWheel, Path]
    assets: Mapping[LockedAsset, Path]
    threads: int
    advance: Callable[[int], object]


def compose(ingredients: Ingredients, folder: Path) -> Composition:
    """Write an OCI layout that holds the added layers, the config and the manifest.

    The base's layers are named in the manifest and are not in the layout.

    Args:
        ingredients: what goes in.
        folder: an empty folder.

    Raises:
        RecipeError: the recipe's parts do not fit together.
        FetchError: a wheel does not hold what the lock says.
    """
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    layers = [_write_layer(blobs, ingredients, plan) for plan in _plans(ingredients)]
    config = _config(ingredients, layers)
    recipe, lock = ingredients.recipe, ingredients.lock
    below = lock.manifest.layers if lock.manifest is not None else ()
    digest = write_layout(
        folder,
        recipe,
        config=config,
        layers=[
            *(base_descriptor(descriptor) for descriptor in below),
            *(
                {"mediaType": OCI_LAYER_GZIP, "digest": str(layer.digest), "size": layer.size}
                for layer in layers
            ),
        ],
        annotations=base_annotations(recipe, lock),
    )
    return Composition(digest=digest, layers=tuple(layers), compressor=compressor())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """One layer to write: some wheels, or the assets and links."""

    step: str
    wheels: tuple[LockedWheel, ...] = ()


def _plans(ingredients: Ingredients) -> list[_Plan]:
    """Divide what is added into layers that change for different reasons."""
    lock, recipe = ingredients.lock, ingredients.recipe
    sizes: dict[str, int] = {}
    for node in lock.layer:
        sizes[node.owner] = sizes.get(node.owner, 0) + node.size
    wheels = sorted(ingredients.wheels)
    large = [w for w in wheels if sizes.get(w.label, 0) >= _OWN_LAYER]
    small = tuple(w for w in wheels if w not in large)
    plans = []
    if small:
        plans.append(_Plan(step=f"imagegate: {len(small)} distributions", wheels=small))
    plans += [_Plan(step=f"imagegate: {wheel.label}", wheels=(wheel,)) for wheel in large]
    links = recipe.document.layer.links
    if lock.assets or links:
        plans.append(_Plan(step=f"imagegate: {len(lock.assets)} assets, {len(links)} links"))
    return plans


def _write_layer(blobs: Path, ingredients: Ingredients, plan: _Plan) -> ComposedLayer:
    unnamed = blobs / "layer.new"
    index: dict[str, Node] = {}
    if plan.wheels:
        index = {node.path: node for node in ingredients.lock.layer}
    below = ingredients.lock.files
    with unnamed.open("wb", buffering=1 << 20) as stream:
        blob = BlobWriter(stream, threads=ingredients.threads)
        tar = TarWriter(blob.write)
        try:
            if plan.wheels:
                chosen = [(wheel, ingredients.wheels[wheel]) for wheel in plan.wheels]
                write_wheels(tar, below, ingredients.recipe, chosen, index, ingredients.advance)
            else:
                links = ingredients.recipe.document.layer.links
                write_assets(tar, below, ingredients.assets.items(), links)
            blob.finish()
        finally:
            blob.abort()
    unnamed.rename(blobs / blob.digest.encoded)
    return ComposedLayer(digest=blob.digest, diff_id=blob.diff_id, size=blob.size, step=plan.step)


def _config(ingredients: Ingredients, layers: Sequence[ComposedLayer]) -> bytes:
    """Extend the base's config by the recipe's settings and the new layers (config.md)."""
    recipe, lock = ingredients.recipe, ingredients.lock
    document: dict[str, Any] = {"rootfs": {"type": "layers", "diff_ids": []}, "history": []}
    if lock.config_bytes is not None:
        document.update(parse_json(lock.config_bytes, "the locked config"))
    document.update(platform_document(recipe))
    document["created"] = _CREATED
    section = recipe.document.config
    settings: dict[str, Any] = dict(document.get("config") or {})
    if section.env:
        env = recipe.env_over(lock.base.digest)
        settings["Env"] = _merged_environment(settings.get("Env") or [], env)
    for key, added in (
        ("Labels", recipe.labels_over(lock.base.digest)),
        ("ExposedPorts", {port: {} for port in recipe.ports}),
        ("Volumes", {volume: {} for volume in section.volumes}),
    ):
        if added:
            settings[key] = {**(settings.get(key) or {}), **added}
    chosen = {
        "Entrypoint": section.entrypoint,
        "Cmd": section.cmd,
        "User": section.user,
        "WorkingDir": section.working_dir,
        "StopSignal": section.stop_signal,
    }
    settings.update((key, value) for key, value in chosen.items() if value is not None)
    document["config"] = settings
    diff_ids = [*document["rootfs"]["diff_ids"], *(str(layer.diff_id) for layer in layers)]
    document["rootfs"] = {"type": "layers", "diff_ids": diff_ids}
    document["history"] = [
        *_base_history(document, len(diff_ids) - len(layers)),
        *({"created": _CREATED, "created_by": layer.step} for layer in layers),
    ]
    return compact(document)


def _base_history(document: Mapping[str, Any], layers: int) -> list[dict[str, Any]]:
    """Return the base's history, or stand-ins where it has none that fits its layers.

    A history with fewer steps than layers would shift every later step to a wrong layer.
    """
    history = list(document.get("history") or ())
    if sum(not step.get("empty_layer") for step in history) == layers:
        return history
    return [{"created": _CREATED, "created_by": "base layer without history"}] * layers


def _merged_environment(base: Sequence[str], added: Mapping[str, str]) -> list[str]:
    kept = [entry for entry in base if entry.partition("=")[0] not in added]
    return [*kept, *(f"{name}={value}" for name, value in added.items())]
