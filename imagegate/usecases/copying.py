"""What a build with the recipe's Dockerfile does to the assets, from the workspace alone."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.coverage.baseline import base_of
from imagegate.coverage.build import Base, Build, FilteredContext
from imagegate.coverage.copying import Copying
from imagegate.coverage.dockerfile import parse_dockerfile
from imagegate.coverage.ignorefile import read_ignore_file
from imagegate.coverage.outcome import Asset, Outcome
from imagegate.coverage.profiles import Family, profile_of_engine
from imagegate.coverage.repair import propose
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
from imagegate.errors import LockError
from imagegate.usecases.context_files import read_context
from imagegate.usecases.recipe_assets import is_pointer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from imagegate.lock import Lock
    from imagegate.oci.digest import Digest
    from imagegate.workspace import RecipeState, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBuilder:
    """Which builder runs the recipe's Dockerfile.

    Attributes:
        builder: ``buildx``, ``buildkit``, ``classic`` or ``podman``.
        version: of the docker daemon or of podman.
    """

    builder: str
    version: str


def copying_of(
    workspace: Workspace, state: RecipeState, lock: Lock, image: Digest | None
) -> Copying:
    """Judge the assets' way into an image that is there.

    Args:
        workspace: where the recipe is.
        state: the recipe.
        lock: its lock.
        image: the digest of the image's manifest, if it has one.

    Returns:
        With the builder that built the image, where its build is recorded; otherwise, with current
        BuildKit, where the recipe has a Dockerfile of its own.

    Raises:
        RecipeError: the Dockerfile cannot be rendered.
        CoverageError: the Dockerfile or the ignore file is broken.
        LockError: the record of the build cannot be read.
    """
    name = state.recipe.name
    known = _recorded(workspace.layout(name).with_name(f"{name}.build.json"), image)
    if known is None and not _own_template(workspace, name).is_file():
        return Copying(
            nothing_because="no Dockerfile takes part: the recipe brings none, and no engine is "
            "recorded as the builder"
        )
    return copying_with(workspace, state, lock, known)


def copying_of_workspace(workspace: Workspace, state: RecipeState, lock: Lock) -> Copying:
    """Judge the assets' way into an image that may not be there yet; raises as `copying_of`."""
    if not _own_template(workspace, state.recipe.name).is_file():
        return Copying(nothing_because=f"no Dockerfile takes part: the recipe has no `{TEMPLATE}`")
    return copying_with(workspace, state, lock, None)


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
    profile = profile_of_engine(builder.builder, builder.version)
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
    if profile.family is not Family.CLASSIC:
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
            dockerfile=parse_dockerfile(files.dockerfile.encode(), dockerfile),
            dockerfile_path="Dockerfile",
            profile=profile,
            main=FilteredContext(
                context=context,
                ignore=read_ignore_file(files.ignore.encode(), ignore, profile.reader),
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


def _own_template(workspace: Workspace, name: str) -> Path:
    return workspace.recipe_path(name).parent / TEMPLATE


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


def _recorded(record: Path, image: Digest | None) -> KnownBuilder | None:
    """Return the engine that the record names for this very image."""
    if image is None or not record.is_file():
        return None
    try:
        written = json.loads(record.read_text(encoding="utf-8"))
        if written["digest"] != str(image) or "engine" not in written:
            return None
        engine = written["engine"]
        return KnownBuilder(builder=str(engine["builder"]), version=str(engine["version"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LockError(
            f"`{record.name}` does not say what built the image: {type(error).__name__}",
            hint="build again, or remove it if the image was built elsewhere",
        ) from error


def advice(copying: Copying) -> str:
    """Return what a person can do so that every asset arrives."""
    return "; ".join(f"add `{edit.text}` to `{edit.path}`" for edit in copying.edits) or (
        "let COPY lines and ignore file reach every model's folder, behind what may change it"
    )


def unfit(copying: Copying) -> list[str]:
    """Return a line for each asset of which it is certain that it does not arrive."""
    return _lines(copying, unknown=False)


def unproven(copying: Copying) -> list[str]:
    """Return a line for each asset of which the text does not prove that it arrives."""
    return _lines(copying, unknown=True)


def _lines(copying: Copying, *, unknown: bool) -> list[str]:
    from imagegate.checks.copy_coverage import judge_context, judge_coverage

    reports = (judge_context(copying), judge_coverage(copying, ()))
    return [
        f"{finding.code} {finding.subject}: {re.sub('^the builder does not get ', '', finding.message)}"
        for report in reports
        for finding in report.findings
        if unknown or not finding.code.endswith(f"/{Outcome.UNKNOWN.name.lower()}")
    ]
