"""What a builder would do with the recipe's Dockerfile, without building."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.coverage.baseline import base_of
from imagegate.coverage.building.build import Base, Build, FilteredContext
from imagegate.coverage.building.profiles import profile_of_engine
from imagegate.coverage.copying import Copying, KnownBuilder
from imagegate.coverage.outcome import Asset
from imagegate.coverage.reading.frontend import reads
from imagegate.coverage.repair import propose
from imagegate.coverage.sending.ignorefile import read_ignore_file
from imagegate.coverage.tree import Context, build_tree, directory, file
from imagegate.coverage.verdict import judge
from imagegate.engines.container.context import (
    EPOCH,
    OWN_IGNORE_FILE,
    TEMPLATE,
    BuildFiles,
    render_build_files,
)
from imagegate.engines.container.dockerfile import REQUIREMENTS, WHEELHOUSE, Dialect
from imagegate.usecases.covering.assets import is_pointer
from imagegate.usecases.covering.contexts import read_context

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from imagegate.lock import Lock
    from imagegate.workspace import RecipeState, Workspace


def copying_with(
    workspace: Workspace,
    state: RecipeState,
    lock: Lock,
    known: KnownBuilder | None,
    *,
    wheels: Sequence[str] | None = None,
) -> Copying:
    """Judge what a builder does with the recipe's Dockerfile, its own or the packaged one.

    Args:
        workspace: where the recipe is.
        state: the recipe.
        lock: its lock.
        known: the builder; current BuildKit if ``None``.
        wheels: file names of the locked wheels, where they are known.

    Raises:
        RecipeError: the Dockerfile cannot be rendered.
        CoverageError: the Dockerfile or the ignore file is broken.
    """
    builder = known or KnownBuilder(builder="buildkit", version="")
    engine = profile_of_engine(builder.builder, builder.version)
    dialect = Dialect.of(builder.builder)
    recipe = state.recipe
    images = workspace.recipe_path(recipe.name).parent
    if wheels is None:
        # a lock names no files; that they are there is what the build is given
        wheels = [f"{wheel.name}-{wheel.version}.whl" for wheel in lock.wheels]
    files = render_build_files(images, recipe, lock, wheels, dialect=dialect)
    own = f"images/{recipe.name}"
    dockerfile = f"{own}/{TEMPLATE}" if files.own_dockerfile else "the packaged Dockerfile.j2"
    ignore = f"{own}/{OWN_IGNORE_FILE}" if files.own_ignore else "the generated ignore file"
    context = _context(images, files, wheels)
    arguments = {"SOURCE_DATE_EPOCH": str(EPOCH)} if dialect.epoch else {}
    if engine.frontend.platform_args:
        platform = recipe.platform
        arguments |= {
            "TARGETPLATFORM": str(platform),
            "TARGETOS": platform.os,
            "TARGETARCH": platform.architecture,
        }
    base = _base(lock)
    named = recipe.base
    judgement = judge(
        Build(
            dockerfile=reads(engine.frontend, files.dockerfile.encode(), dockerfile),
            dockerfile_path="Dockerfile",
            builder=engine,
            main=FilteredContext(
                context=context,
                ignore=read_ignore_file(files.ignore.encode(), ignore, engine.client.reader),
            ),
            build_args=arguments,
            bases={f"{named.name}@{named.digest}": base} if base and named else {},
        ),
        _assets(lock, context),
    )
    return Copying(
        dockerfile=dockerfile,
        why=f"recorded: {known.builder} {known.version}"
        if known
        else "no engine is recorded: as current BuildKit would",
        judgement=judgement,
        edits=()
        if judgement.covered or not judgement.verdicts
        else propose(
            [judgement], {dockerfile: files.dockerfile.encode(), ignore: files.ignore.encode()}
        ).edits,
    )


def _base(lock: Lock) -> Base | None:
    return base_of(lock.files, lock.config) if lock.config is not None else None


def _context(images: Path, files: BuildFiles, wheels: Sequence[str]) -> Context:
    """Return the context as it is staged for an engine, without staging it."""
    here = read_context(images)
    house = [f"{WHEELHOUSE}/{name}" for name in [*wheels, REQUIREMENTS]]
    staged = build_tree({path: file() for path in house})
    here.root.children[WHEELHOUSE] = staged.children.get(WHEELHOUSE, directory())
    written = {
        "Dockerfile": files.dockerfile,
        OWN_IGNORE_FILE: files.ignore,
        ".dockerignore": files.ignore,
    }
    for name, text in written.items():
        here.root.children[name] = file(size=len(text.encode()))
    return here


def _assets(lock: Lock, context: Context) -> list[Asset]:
    return [
        Asset(
            model=asset.model,
            path=asset.source,
            folder=f"recipes/{asset.model}",
            expected=f"/{asset.target}",
            pointer=is_pointer(context, asset.source),
        )
        for asset in lock.assets
    ]
