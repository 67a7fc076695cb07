"""``imagegate promote``: judge again from bytes, push by digest, then publish the profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.errors import RefusedError
from imagegate.oci.digest import Digest
from imagegate.oci.reference import Reference
from imagegate.profile import ProfileStore, PublishedState
from imagegate.report.document import render_json
from imagegate.signing.locations import open_store
from imagegate.sources.registry import push_image, registry_reference
from imagegate.usecases.attest import sign_verdict, timestamp
from imagegate.usecases.copying import copying_of
from imagegate.usecases.gate import judge
from imagegate.usecases.transfer import Destination, LayerSources, Moved, same_registry
from imagegate.usecases.verify import open_judged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from imagegate.checks.evidence import Evidence
    from imagegate.oci.image import ImageSource
    from imagegate.recipe import Recipe
    from imagegate.signing.keys import Signer
    from imagegate.sources.registry import Clock
    from imagegate.usecases.ports import Reporter
    from imagegate.verdict import Verdict
    from imagegate.workspace import Workspace

# component and the way it was read, to the variable that launchers get
_PINS = {
    "NCCL_VERSION": ("nccl", "version string"),
    "TORCH_VERSION": ("torch", "version.py"),
    "VLLM_VERSION": ("vllm", "_version.py"),
    "FLASHINFER_VERSION": ("flashinfer-python", "_build_meta.py"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoteOutcome:
    """What a promotion did.

    Attributes:
        profile: the published file, ``None`` where the verdict forbids it.
        pushed: where the image was pushed to, with its tag and digest.
        moved: what pushing moved.
    """

    verdict: Verdict
    profile: Path | None
    pushed: Reference | None = None
    moved: Moved | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """Where to push, and how.

    Attributes:
        to: the repository, and its tag if one was chosen.
        base: where the base's layers are, if somebody says.
        insecure: allow plain http to other hosts than loopback.
        clock: waits between attempts; the machine's if ``None``.
    """

    to: Destination
    base: str | None = None
    insecure: bool = False
    clock: Clock | None = None


def promote_recipe(
    workspace: Workspace,
    name: str,
    *,
    image: str | None,
    promoted_at: datetime,
    promoted_by: str,
    reporter: Reporter,
    signer: Signer | None = None,
    push: Push | None = None,
    insecure: bool = False,
) -> PromoteOutcome:
    """Publish a recipe's image for launchers, if it passes.

    Args:
        workspace: where the recipe and its lock are.
        name: the recipe, and so the profile.
        image: where the image is, its build if ``None``.
        promoted_at: when.
        promoted_by: who.
        reporter: where progress goes.
        signer: signs the image and its statements before the profile names it.
        push: where the image goes before the profile names it; it stays where it is if ``None``.
        insecure: allow plain http to a registry that `image` names.

    Raises:
        RefusedError: the image passed and has no manifest digest that could be published.
        AttestationError: what was signed does not count where it was put.
        BlobMissing: a layer has to be pushed and is nowhere.
        DigestMismatch: the registry keeps or serves other bytes than it was given.
        FetchError: the registry refuses or fails.
        ProfileError: the profile cannot be written.
    """
    state = workspace.state(name)
    lock = workspace.lock(name)
    clock = push.clock if push is not None else None
    source = open_judged(workspace, state, image, insecure=insecure, clock=clock)
    copying = copying_of(workspace, state, lock, source.image.digest)
    verdict, evidence = judge(
        state, lock, source, reporter, copying=copying, today=promoted_at.date()
    )
    if not verdict.passed:
        return PromoteOutcome(verdict=verdict, profile=None)
    if verdict.image is None:
        raise RefusedError(
            f"{verdict.location} holds no manifest: there is no digest to promote",
            hint="promote from an OCI layout or a registry",
        )
    pushed: Reference | None = None
    moved: Moved | None = None
    repository = state.recipe.document.repository
    if push is not None:
        pushed, moved = _push(workspace, state.recipe, source, push, reporter)
        repository = pushed.name
    if signer is not None:
        # before the profile: launchers never read of an image whose signature is not there
        there = f"{repository}@{verdict.image}" if pushed is not None else image
        sign_verdict(
            workspace,
            verdict,
            evidence,
            store=open_store(
                there or f"oci:{workspace.layout(name)}",
                insecure=insecure or (push is not None and push.insecure),
            ),
            signer=signer,
            at=promoted_at,
            reporter=reporter,
        )
    path = _publish(workspace, evidence, verdict, repository, at=promoted_at, by=promoted_by)
    return PromoteOutcome(verdict=verdict, profile=path, pushed=pushed, moved=moved)


def _publish(
    workspace: Workspace,
    evidence: Evidence,
    verdict: Verdict,
    repository: str,
    *,
    at: datetime,
    by: str,
) -> Path:
    """Write the profile that names the image in this repository."""
    assert verdict.image is not None
    recipe = evidence.recipe
    report = render_json(verdict)
    digest = str(Digest.of(report))
    state = PublishedState(
        env=_environment(evidence, repository, verdict.image, digest),
        settings=dict(recipe.document.profile.settings),
        verdict=digest,
        promoted_at=timestamp(at),
        promoted_by=by,
    )
    return ProfileStore(workspace.profiles()).publish(recipe.name, state, report)


def _push(
    workspace: Workspace, recipe: Recipe, source: ImageSource, push: Push, reporter: Reporter
) -> tuple[Reference, Moved]:
    """Push the judged image; nothing is published when this raises."""
    image = source.image
    assert image.digest is not None
    repository = push.to.repository
    client, sink = push.to.open(insecure=push.insecure, clock=push.clock)
    tag = push.to.tag_for(image.digest, recipe.name)
    layers = LayerSources(
        source,
        tuple(_base_locations(workspace, recipe, push.base)),
        platform=recipe.platform,
        insecure=push.insecure,
        folder=workspace.root,
        clock=push.clock,
    )
    before = layers.received
    # distribution-spec, "Mounting a blob from another repository": within one registry only
    near = [same_registry(source, repository.registry)]
    near += [
        base.repository
        for base in (push.base and registry_reference(push.base), recipe.base)
        if base and base.registry == repository.registry
    ]
    reporter.say(f"pushing to {repository.name}:{tag}")
    done = push_image(
        sink, image, [layers], mount_from=dict.fromkeys(name for name in near if name), tag=tag
    )
    traffic = client.traffic
    moved = Moved(
        sent=traffic.sent,
        received=traffic.received + layers.received - before,
        blobs=done.blobs,
    )
    return Reference(repository.registry, repository.repository, tag, done.digest), moved


def _base_locations(workspace: Workspace, recipe: Recipe, chosen: str | None) -> Iterator[str]:
    """Say where the base's layers may be, nearest first."""
    if chosen is not None:
        yield chosen
    if recipe.base is None:
        return
    made_here = recipe.document.base.recipe
    if made_here is not None and workspace.layout(made_here).is_dir():
        yield f"oci:{workspace.relative(workspace.layout(made_here))}"
    yield f"docker://{recipe.base}"


def _environment(
    evidence: Evidence, repository: str, image: Digest, verdict: str
) -> dict[str, str]:
    recipe, lock = evidence.recipe, evidence.lock
    values = {
        "IMAGEGATE_PROFILE": recipe.name,
        "IMAGE": f"{repository}@{image}",
        "IMAGE_DIGEST": str(image),
        "IMAGE_PLATFORM": str(recipe.platform),
        "BASE_DIGEST": str(lock.base.digest) if lock.base.digest else "scratch",
        "LOCK_DIGEST": str(lock.digest),
        "VERDICT": verdict,
    }
    for variable, (component, source) in _PINS.items():
        found = {
            reading.value
            for reading in evidence.facts.native
            if (reading.component, reading.source) == (component, source)
        }
        if len(found) == 1:  # several different copies are no pin that one line could state
            values[variable] = found.pop()
    return {**values, **recipe.document.profile.env}
