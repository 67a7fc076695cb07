"""``imagegate build --engine docker|podman``: build with an engine, read it back, judge it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate import __version__
from imagegate.coverage.copying import KnownBuilder
from imagegate.engines.container.context import stage_context
from imagegate.engines.container.detect import find_engine
from imagegate.engines.container.readback import read_back
from imagegate.engines.container.tools import Order
from imagegate.errors import EngineError, RefusedError
from imagegate.oci.documents import canonical_json
from imagegate.report.document import render_json
from imagegate.sources import open_image
from imagegate.sources.daemon import open_docker_image, open_podman_image
from imagegate.sources.registry import is_loopback
from imagegate.usecases.build import fetch_wheels
from imagegate.usecases.building import building
from imagegate.usecases.copying import advice, unfit, unproven
from imagegate.usecases.foreseen import copying_with
from imagegate.usecases.gate import judge
from imagegate.usecases.signed_base import signed_lock
from imagegate.usecases.verify import open_judged, require_fresh
from imagegate.workspace.atomic import new_folder, write_file
from imagegate.workspace.ownership import foreign_in_layout
from imagegate.workspace.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from imagegate.coverage.copying import Copying
    from imagegate.engines.container.readback import ReadBack
    from imagegate.engines.container.secrets import Secret
    from imagegate.engines.container.tools import Engine, EngineName, Network
    from imagegate.lock import Lock, LockedWheel
    from imagegate.oci.digest import Digest
    from imagegate.oci.image import ImageSource
    from imagegate.recipe import Recipe
    from imagegate.usecases.invocation import Invocation
    from imagegate.usecases.ports import Reporter
    from imagegate.verdict import ImageVerdict
    from imagegate.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """Which engine builds, and how.

    Attributes:
        name: docker or podman.
        builder: which of docker's builders, or the name of one of buildx's.
        network: what steps may reach.
        secrets: build secrets.
        insecure: let the engine read the base over plain http.
    """

    name: EngineName
    builder: str = "auto"
    network: Network = "none"
    secrets: tuple[Secret, ...] = ()
    insecure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOutcome:
    """What a build with an engine gave.

    Attributes:
        layout: the folder of the OCI layout.
        report: the file that holds the verdict as JSON.
        digest: of the layout's manifest.
        identity: the engine's id of the image.
        verdict: of the gate.
    """

    layout: Path
    report: Path
    digest: Digest
    identity: str
    verdict: ImageVerdict


def build_with_engine(call: Invocation, name: str, *, choice: EngineChoice) -> EngineOutcome:
    """Build, read back, judge, and leave a layout under ``build/<name>``.

    Args:
        call: where the recipe is.
        name: the recipe.
        choice: which engine, and how.

    Raises:
        LockError: the lock is missing, damaged or not of the recipe as it is now.
        RecipeError: the recipe cannot be built by an engine.
        FetchError: a wheel could not be had.
        EngineError: the engine is absent or fails.
        RefusedError: the Dockerfile loses an asset, or a build secret is in the result.
    """
    with building(call.workspace, name) as layout:
        return _build_into(call, name, layout, choice)


def _build_into(call: Invocation, name: str, layout: Path, choice: EngineChoice) -> EngineOutcome:
    workspace, reporter = call.workspace, call.reporter
    state = workspace.state(name)
    lock = signed_lock(workspace, name)
    require_fresh(state, lock)
    engine = find_engine(choice.name, choice.builder)
    _tell_limits(engine, state.recipe, reporter)
    wheels = fetch_wheels(call, state, lock)
    copying = copying_with(
        workspace,
        state,
        lock,
        KnownBuilder(builder=engine.builder, version=engine.version),
        wheels=[path.name for path in wheels.values()],
    )
    _require_fit(copying, reporter)
    job = _Job(
        workspace=workspace,
        recipe=state.recipe,
        lock=lock,
        engine=engine,
        choice=choice,
        reporter=reporter,
    )
    with scratch_folder() as folder:
        identity, dockerfile = _build(job, wheels, folder)
        written = _read_back(job, identity, layout, call.threads)
        identity = identity if not engine.instance else str(written.digest)
    write_file(layout.with_name(f"{name}.Dockerfile"), dockerfile.encode())
    built = open_judged(call, state, None)
    verdict, _ = judge(state, lock, built, reporter, copying=copying, today=call.today)
    report = layout.with_name(f"{name}.verdict.json")
    write_file(report, render_json(verdict))
    provenance = _provenance(engine, choice, lock, written.digest, identity)
    write_file(layout.with_name(f"{name}.build.json"), provenance)
    return EngineOutcome(
        layout=layout, report=report, digest=written.digest, identity=identity, verdict=verdict
    )


def _require_fit(copying: Copying, reporter: Reporter) -> None:
    """Refuse a build that is sure to lose an asset, before it runs.

    What the text leaves open is said; the image's bytes settle it after the build.
    """
    bad = unfit(copying)
    if bad:
        raise RefusedError(
            f"nothing is built: `{copying.dockerfile}` does not bring every asset"
            + "".join(f"\n  {line}" for line in bad),
            hint=advice(copying),
        )
    for line in unproven(copying):
        reporter.say(f"{line}; the image's bytes will tell")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What every step of a build needs."""

    workspace: Workspace
    recipe: Recipe
    lock: Lock
    engine: Engine
    choice: EngineChoice
    reporter: Reporter

    @property
    def tag(self) -> str:
        """What the engine calls the image."""
        return f"localhost/imagegate/{self.recipe.name}:build"


def _tell_limits(engine: Engine, recipe: Recipe, reporter: Reporter) -> None:
    """Say what the engine cannot do, before it is tried."""
    if engine.shortcomings:
        reporter.say(engine.shortcomings)
    if engine.platform.architecture != recipe.platform.architecture:
        reporter.say(
            f"{engine.name} runs on {engine.platform} and the recipe is for {recipe.platform}: "
            "its steps need emulation (binfmt); `--engine compose` runs none"
        )


def _build(job: _Job, wheels: Mapping[LockedWheel, Path], folder: Path) -> tuple[str, str]:
    """Let the engine build; returns its id of the image and the Dockerfile that it was given."""
    recipe, engine, choice, base = job.recipe, job.engine, job.choice, job.recipe.base
    staged = folder / "context"
    staged.mkdir()
    context = stage_context(
        staged,
        recipe,
        job.lock,
        wheels,
        images=job.workspace.recipe_path(recipe.name).parent,
        dialect=engine.dialect,
    )
    job.reporter.say(f"building with {engine.name} {engine.version} ({engine.label})")
    identity = engine.build(
        Order(
            context=context,
            tag=job.tag,
            platform=recipe.platform,
            network=choice.network,
            secrets=choice.secrets,
            insecure=choice.insecure or (base is not None and is_loopback(base.registry)),
            say=job.reporter.say,
        )
    )
    return identity, context.dockerfile.read_text(encoding="utf-8")


def _read_back(job: _Job, identity: str, layout: Path, threads: int) -> ReadBack:
    """Put what the engine built into the place of the layout; the old one stays if this raises."""
    source = _open_built(job.engine, identity)
    with (
        new_folder(layout, foreign_in_layout) as fresh,
        job.reporter.task("reading the image back", None) as task,
    ):
        try:
            return read_back(
                source,
                job.recipe,
                job.lock,
                fresh,
                secrets=job.choice.secrets,
                threads=threads,
                advance=task.advance,
            )
        except RefusedError as error:
            if job.engine.instance:
                raise
            # the engine's own store is not ours to delete from
            held = f"{job.engine.name} still holds the image: `{job.engine.name} rmi {job.tag}`"
            raise RefusedError(error.message, hint=f"{error.hint}; {held}") from error


def _open_built(engine: Engine, identity: str) -> ImageSource:
    if not identity:
        raise EngineError(f"{engine.name} did not say what it built")
    if engine.instance:
        return open_image(f"oci-archive:{identity}")
    if engine.name == "podman":
        return open_podman_image(identity)
    return open_docker_image(identity)


def _provenance(
    engine: Engine, choice: EngineChoice, lock: Lock, digest: Digest, identity: str
) -> bytes:
    """Write what made the image; a builder of another version may give other bytes."""
    return canonical_json(
        {
            "schema": "imagegate-build-1",
            "imagegate": __version__,
            "digest": str(digest),
            "lock": str(lock.digest),
            "engine": {
                "name": engine.name,
                "builder": engine.builder,
                **(
                    {"instance": engine.instance, "driver": engine.driver}
                    if engine.instance
                    else {}
                ),
                "version": engine.version,
                "network": choice.network,
                "secrets": [secret.name for secret in choice.secrets],
                "image": identity,
            },
        }
    )
