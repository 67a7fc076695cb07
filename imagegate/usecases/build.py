"""``imagegate build``: compose the image from its lock, then judge it from its bytes."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from imagegate import __version__
from imagegate.engines.compose.compose import Composition, Ingredients, compose
from imagegate.errors import BlobMissing, ImageError, LockError
from imagegate.oci.blob import CHUNK, VerifiedReader
from imagegate.oci.documents import canonical_json
from imagegate.report.document import render_json
from imagegate.resolver.target import Target
from imagegate.resolver.wheels import WheelCache
from imagegate.usecases.building import building
from imagegate.usecases.copying import copying_of
from imagegate.usecases.gate import judge
from imagegate.usecases.signed_base import signed_lock
from imagegate.usecases.verify import open_judged, require_fresh
from imagegate.workspace.atomic import new_folder, write_file
from imagegate.workspace.ownership import foreign_in_layout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from imagegate.lock import Lock, LockedWheel
    from imagegate.oci.image import ImageSource, Layer
    from imagegate.usecases.invocation import Invocation
    from imagegate.verdict import ImageVerdict
    from imagegate.workspace import RecipeState


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOutcome:
    """What a build gave.

    Attributes:
        layout: the folder of the OCI layout.
        report: the file that holds the verdict as JSON.
    """

    layout: Path
    report: Path
    composition: Composition
    verdict: ImageVerdict


def build_recipe(call: Invocation, name: str, *, full_from: str | None = None) -> BuildOutcome:
    """Compose, judge, and leave a layout under ``build/<name>``.

    Args:
        call: where the recipe is.
        name: the recipe.
        full_from: where the base's bytes are, if the layout shall hold them too.

    Raises:
        LockError: the lock is missing, damaged or not of the recipe as it is now.
        FetchError: a wheel could not be had.
        ImageError: the base's bytes, where they are asked for, are not the locked ones.
    """
    with building(call.workspace, name) as layout:
        return _build(call, name, layout, full_from)


def _build(call: Invocation, name: str, layout: Path, full_from: str | None) -> BuildOutcome:
    workspace, reporter = call.workspace, call.reporter
    state = workspace.state(name)
    lock = signed_lock(workspace, name)
    require_fresh(state, lock)
    wheels = fetch_wheels(call, state, lock)
    total = sum(path.stat().st_size for path in wheels.values())
    with new_folder(layout, foreign_in_layout) as folder:
        with reporter.task("composing", total) as task:
            composition = compose(
                Ingredients(
                    recipe=state.recipe,
                    lock=lock,
                    wheels=wheels,
                    assets={
                        asset: workspace.root / "images" / name / asset.source
                        for asset in lock.assets
                    },
                    threads=call.threads,
                    advance=task.advance,
                ),
                folder,
            )
        if full_from is not None:
            _add_base(call, folder, lock, full_from)
    if not composition.compressor.known_answer:
        reporter.say(
            "this Python's deflate gives other bytes than zlib: the digest is right, "
            "and will differ from one made elsewhere; diff ids will not"
        )
    source = open_judged(call, state, None)
    copying = copying_of(workspace, state, lock, source.image.digest)
    verdict, _ = judge(state, lock, source, reporter, copying=copying, today=call.today)
    report = layout.with_name(f"{name}.verdict.json")
    write_file(report, render_json(verdict))
    write_file(layout.with_name(f"{name}.build.json"), _provenance(composition, lock))
    return BuildOutcome(layout=layout, report=report, composition=composition, verdict=verdict)


def fetch_wheels(call: Invocation, state: RecipeState, lock: Lock) -> dict[LockedWheel, Path]:
    """Return every locked wheel's path, downloading what is not cached.

    Raises:
        FetchError: pip cannot get one, or got other bytes than locked.
    """
    if not lock.wheels:
        return {}
    store = WheelCache(call.cache)
    missing = store.missing(lock.wheels)
    if missing:
        call.reporter.say(f"fetching {len(missing)} of {len(lock.wheels)} wheels")
    total = sum(lock.contents.wheel_sizes.get(wheel.name, 0) for wheel in missing)
    with call.reporter.task("fetching wheels", total or None) as task:
        return store.fetch(lock.wheels, Target.of(state.recipe), advance=task.advance)


def _add_base(call: Invocation, folder: Path, lock: Lock, location: str) -> None:
    """Copy the base's blobs into the layout, each verified on the way."""
    manifest = lock.manifest
    if manifest is None:
        raise LockError("the recipe starts from scratch: its layout is complete as it is")
    source = call.open(location, None)
    by_digest = {
        layer.descriptor.digest: layer for layer in source.image.layers if layer.descriptor
    }
    total = sum(descriptor.size for descriptor in manifest.layers)
    with call.reporter.task("copying the base", total) as task:
        for descriptor in manifest.layers:
            layer = by_digest.get(descriptor.digest)
            if layer is None:
                raise BlobMissing(f"{source.image.location} has no layer {descriptor.digest}")
            target = folder / "blobs" / descriptor.digest.algorithm / descriptor.digest.encoded
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(source, layer, target, task.advance)


def _copy(
    source: ImageSource, layer: Layer, target: Path, advance: Callable[[int], object]
) -> None:
    if target.exists():
        return
    assert layer.descriptor is not None
    try:
        with (
            VerifiedReader(
                source.open_layer(layer),
                what=layer.label,
                digest=layer.descriptor.digest,
                size=layer.descriptor.size,
                progress=advance,
            ) as reader,
            target.open("wb") as stream,
        ):
            while chunk := reader.read(CHUNK):
                stream.write(chunk)
            reader.finish()
    except OSError as error:
        free = shutil.disk_usage(target.parent).free
        raise ImageError(
            f"cannot write `{target}`: {os.strerror(error.errno or 0)}",
            hint=f"{free} bytes are free",
        ) from error


def _provenance(composition: Composition, lock: Lock) -> bytes:
    """Write what made the digest: for whoever gets another one."""
    return canonical_json(
        {
            "schema": "imagegate-build-1",
            "imagegate": __version__,
            "digest": str(composition.digest),
            "lock": str(lock.digest),
            "compressor": asdict(composition.compressor),
            "layers": [
                {
                    "digest": str(layer.digest),
                    "diff_id": str(layer.diff_id),
                    "size": layer.size,
                    "step": layer.step,
                }
                for layer in composition.layers
            ],
        }
    )
