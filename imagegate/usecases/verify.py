"""``imagegate verify``: the gate alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from imagegate.errors import LockError, RefusedError, UsageError
from imagegate.oci.digest import Digest
from imagegate.sources import Connection, open_image
from imagegate.usecases.copying import advice, copying_of, copying_of_workspace, unproven
from imagegate.usecases.gate import judge
from imagegate.usecases.signed_base import named_signer, require_signed_base, signed_lock
from imagegate.usecases.traffic import tell_traffic

if TYPE_CHECKING:
    from collections.abc import Collection

    from imagegate.checks.image.evidence import Evidence
    from imagegate.engines.container.tools import EngineName
    from imagegate.lock import Lock
    from imagegate.oci.image import ImageSource
    from imagegate.usecases.invocation import Invocation
    from imagegate.usecases.ports import Reporter
    from imagegate.verdict import ImageVerdict
    from imagegate.workspace import RecipeState, Workspace


def verify_recipe(
    call: Invocation,
    name: str,
    *,
    image: str | None,
    skip: Collection[str] = (),
    probe_with: EngineName | None = None,
) -> tuple[ImageVerdict, Evidence]:
    """Judge a recipe's image from its bytes; returns the verdict and what it rests on.

    Args:
        call: where the recipe and its lock are; its reporter is told what a registry sent.
        name: the recipe.
        image: where the image is, its build if ``None``.
        skip: ids of checks that are left out; such a verdict never passes.
        probe_with: the engine that runs the image and asks it about itself; not run if ``None``.

    Raises:
        UsageError: there is no image to judge.
        LockError: the lock cannot be used.
        ImageError: the image cannot be read.
        EngineError: the image cannot be run where it shall be.
    """
    workspace, reporter = call.workspace, call.reporter
    state = workspace.state(name)
    lock = workspace.lock(name)
    source = open_judged(call, state, image)
    copying = copying_of(workspace, state, lock, source.image.digest)
    verdict, evidence = judge(
        state, lock, source, reporter, copying=copying, today=call.today, skip=skip
    )
    if probe_with is not None:
        verdict = _probed(verdict, evidence, source, probe_with, reporter)
    if image is not None:
        tell_traffic(source, reporter, layers="added layers", size=verdict.cost.added)
    return verdict, evidence


def published_image(call: Invocation, name: str) -> str:
    """Return where the image of a profile is, if the workspace has the lock that it was judged by.

    Raises:
        ProfileError: there is no such profile, or it was edited.
        LockError: the workspace has gone on; its lock says nothing of that image.
    """
    from imagegate.profile import ProfileStore

    env = ProfileStore(call.workspace.profiles()).current(name).env
    lock = call.workspace.lock(name)
    if str(lock.digest) != env["LOCK_DIGEST"]:
        raise LockError(
            f"the profile `{name}` was published from another lock than the workspace has: "
            f"profile={env['LOCK_DIGEST']} workspace={lock.digest}",
            hint="check out the commit that it was published from, or build and promote anew; "
            f"`imagegate profile check {name}` judges the profile by its own verdict",
        )
    return f"docker://{env['IMAGE']}"


def _probed(
    verdict: ImageVerdict,
    evidence: Evidence,
    source: ImageSource,
    engine_name: EngineName,
    reporter: Reporter,
) -> ImageVerdict:
    """Run the judged image, by its id, and add what it says to the verdict."""
    from imagegate.checks.image.probe import PROBE
    from imagegate.engines.container.detect import find_engine
    from imagegate.engines.container.probe import identities_of, probe, pull
    from imagegate.sources.registry import RegistrySource, is_loopback

    engine = find_engine(engine_name)
    image = source.image
    identities = identities_of(Digest.of(image.config_bytes), image.digest)
    if isinstance(source, RegistrySource):
        reference = f"{source.reference.name}@{image.digest}"
        reporter.say(f"{engine_name} pulls {reference}")
        pull(engine, reference, insecure=is_loopback(source.reference.registry))
    observation = probe(
        engine,
        identities,
        platform=image.config.platform,
        interpreter=evidence.recipe.python.interpreter,
        libraries=sorted(
            {reading.path for reading in evidence.facts.native if reading.component == "nccl"}
        ),
    )
    report = PROBE.judge(replace(evidence, observation=observation))
    return replace(verdict, reports=(*verdict.reports, report))


def verify_static(workspace: Workspace, name: str) -> str:
    """Compare a lock with the workspace as it is, and judge a Dockerfile there; no image is read.

    Returns:
        What was compared.

    Raises:
        UsageError: there is no such recipe, or it cannot be used.
        LockError: the lock is missing, damaged, edited or stale.
        RefusedError: the recipe's own Dockerfile does not prove that every asset arrives.
    """
    state = workspace.state(name)
    lock = signed_lock(workspace, name)
    require_fresh(state, lock)
    copying = copying_of_workspace(workspace, state, lock)
    bad = unproven(copying)
    if bad:
        raise RefusedError(
            f"`{copying.dockerfile}` does not prove that every asset arrives:"
            + "".join(f"\n       {line}" for line in bad),
            hint=advice(copying),
        )
    carried = "" if copying.judgement is None else f"; `{copying.dockerfile}` brings every asset"
    return (
        f"lock {lock.digest} fits image.toml, {len(state.requirements)} requirements "
        f"and {len(state.assets)} assets{carried}"
    )


def require_fresh(state: RecipeState, lock: Lock) -> None:
    """Refuse to work from a lock that is not the workspace's.

    Raises:
        LockError: recipe, requirements or assets changed after locking.
    """
    name = state.recipe.name
    stale = [
        what
        for what, same in (
            ("image.toml", lock.contents.recipe == state.recipe.digest),
            ("requirements.in", lock.contents.requirements == state.requirements_digest),
            ("the assets", lock.assets == state.assets),
        )
        if not same
    ]
    if stale:
        raise LockError(
            f"the lock of `{name}` is stale: {', '.join(stale)} changed after it was made",
            hint=f"run `imagegate lock {name}`",
        )


def _require_signed_base(call: Invocation, name: str) -> None:
    """Compare a base lock that was taken from others with its statement, whenever it is used."""
    try:
        base = call.workspace.lock(name).based_on
    except LockError:
        return  # who needs the lock says so
    signer = require_signed_base(call.workspace, base)
    if base is not None and signer:
        call.reporter.say(
            f"the lock of the base {base.base} was published by {named_signer(signer)}"
        )


def open_judged(call: Invocation, state: RecipeState, image: str | None) -> ImageSource:
    """Open the image that is to be judged: the named one, or the recipe's build.

    Raises:
        UsageError: there is no such image.
        ImageError: it cannot be read.
    """
    platform = state.recipe.platform
    _require_signed_base(call, state.recipe.name)
    if image is not None:
        return call.open(image, platform)
    workspace, name = call.workspace, state.recipe.name
    layout = workspace.layout(name)
    # relative, so that a verdict says the same wherever the workspace lies
    relative = workspace.relative(layout)
    if not layout.is_dir():
        raise UsageError(
            f"`{name}` is not built here: `{relative}` does not exist",
            hint=f"run `imagegate build {name}`, or name an image with `--image`",
        )
    return open_image(f"oci:{relative}", Connection(platform=platform), folder=workspace.root)
