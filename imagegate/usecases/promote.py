"""``imagegate promote``: judge again, push by digest, sign, then publish the profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.errors import RefusedError
from imagegate.oci.digest import Digest
from imagegate.oci.reference import Reference
from imagegate.profile import ProfileStore, PublishedState
from imagegate.recipe.variables import published
from imagegate.report.document import render_json
from imagegate.signing.locations import open_store
from imagegate.sources.registry import push_image, registry_reference
from imagegate.usecases.attest import Judgement, sign_verdict, timestamp
from imagegate.usecases.attested import attested_verdict
from imagegate.usecases.building import keeping_build
from imagegate.usecases.copying import copying_of
from imagegate.usecases.gate import judge
from imagegate.usecases.profile import foreign_variables, measured_by
from imagegate.usecases.transfer import LayerSources, Moved, base_locations, same_registry
from imagegate.usecases.verify import open_judged

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from pathlib import Path

    from imagegate.lock import Lock
    from imagegate.oci.image import ImageSource
    from imagegate.recipe import Recipe
    from imagegate.signing.keys import BundleSigner, Signer, Verifier
    from imagegate.usecases.invocation import Invocation
    from imagegate.usecases.transfer import Destination
    from imagegate.verdict import ImageVerdict
    from imagegate.workspace import RecipeState, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoteOutcome:
    """What a promotion did.

    Attributes:
        profile: the published file, ``None`` where the verdict forbids it.
        pushed: where the image was pushed to, with its tag and digest.
        moved: what pushing moved.
    """

    verdict: ImageVerdict
    profile: Path | None
    pushed: Reference | None = None
    moved: Moved | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """Where to push, and how.

    Attributes:
        to: the repository, and its tag if one was chosen.
        base: where the base's layers are, if somebody says.
    """

    to: Destination
    base: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Whose stored verdict counts instead of a new one, and until when.

    Attributes:
        verifier: the key that has to have signed it.
        max_age: how old it may be.
    """

    verifier: Verifier
    max_age: timedelta


def promote_recipe(
    call: Invocation,
    name: str,
    *,
    image: str | None = None,
    promoted_by: str,
    why: str = "",
    trust: Trust | None = None,
    signer: Signer | BundleSigner | None = None,
    push: Push | None = None,
) -> PromoteOutcome:
    """Publish a recipe's image for launchers, if it passes.

    Args:
        call: where the recipe and its lock are, and when it is promoted.
        name: the recipe, and so the profile.
        image: where the image is, its build if ``None``.
        promoted_by: who.
        why: their reason in one line.
        trust: whose stored verdict counts; without one, or where none counts, the image is
            judged from its bytes.
        signer: signs the image and its statements before the profile names it.
        push: where the image goes before the profile names it; it stays where it is if ``None``.

    Raises:
        RefusedError: the image passed and has no manifest digest that could be published.
        AttestationError: what was signed does not count where it was put.
        BlobMissing: a layer has to be pushed and is nowhere.
        DigestMismatch: the registry keeps or serves other bytes than it was given.
        FetchError: the registry refuses or fails.
        ProfileError: the profile cannot be written.
        BusyError: another process builds the recipe.
    """
    wish = _Promotion(at=call.now, by=promoted_by, why=why)
    if image is not None:
        return _promote(call, name, image, wish, trust=trust, signer=signer, push=push)
    with keeping_build(call.workspace, name):
        return _promote(call, name, image, wish, trust=trust, signer=signer, push=push)


def _promote(
    call: Invocation,
    name: str,
    image: str | None,
    promotion: _Promotion,
    *,
    trust: Trust | None,
    signer: Signer | BundleSigner | None,
    push: Push | None,
) -> PromoteOutcome:
    workspace = call.workspace
    state = workspace.state(name)
    lock = workspace.lock(name)
    source = open_judged(call, state, image)
    judgement = _judge(call, state, lock, source, image, trust)
    verdict = judgement.verdict
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
        pushed, moved = _push(call, state.recipe, source, push)
        repository = pushed.name
    if signer is not None:
        # before the profile: launchers never read of an image whose signature is not there
        there = f"{repository}@{verdict.image}" if pushed is not None else image
        sign_verdict(
            workspace,
            judgement,
            store=open_store(there or f"oci:{workspace.layout(name)}", call.connection),
            signer=signer,
            reporter=call.reporter,
        )
    path = _publish(workspace, judgement, repository, promotion)
    return PromoteOutcome(verdict=verdict, profile=path, pushed=pushed, moved=moved)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Promotion:
    """When, by whom and why."""

    at: datetime
    by: str
    why: str


def _publish(
    workspace: Workspace, judgement: Judgement, repository: str, promotion: _Promotion
) -> Path:
    """Write the profile that names the image in this repository."""
    recipe, verdict = judgement.recipe, judgement.verdict
    assert verdict.image is not None
    report = render_json(verdict)
    digest = str(Digest.of(report))
    published = PublishedState(
        env={
            **foreign_variables(workspace, recipe.name),
            **_environment(judgement, repository, verdict.image, digest),
        },
        settings=dict(recipe.document.profile.settings),
        repository=repository,
        serve=recipe.document.serve,
        verdict=digest,
        promoted_at=timestamp(promotion.at),
        promoted_by=promotion.by,
        why=promotion.why,
    )
    return ProfileStore(workspace.profiles()).publish(recipe.name, published, report)


def _judge(
    call: Invocation,
    state: RecipeState,
    lock: Lock,
    source: ImageSource,
    image: str | None,
    trust: Trust | None,
) -> Judgement:
    """Take a stored verdict if one counts, and judge the image from its bytes otherwise."""
    workspace = call.workspace
    stored = None
    if trust is not None:
        stored = attested_verdict(
            call,
            state,
            lock,
            source.image,
            location=image or f"oci:{workspace.layout(state.recipe.name)}",
            verifier=trust.verifier,
            max_age=trust.max_age,
        )
    if stored is None:
        copying = copying_of(workspace, state, lock, source.image.digest)
        verdict, evidence = judge(
            state, lock, source, call.reporter, copying=copying, today=call.today
        )
        return Judgement.now(verdict, evidence, call.now)
    return Judgement(
        verdict=stored.verdict,
        recipe=state.recipe,
        lock=lock,
        image=source.image,
        pins=stored.pins,
        verified_at=stored.verified_at,
    )


def _push(
    call: Invocation, recipe: Recipe, source: ImageSource, push: Push
) -> tuple[Reference, Moved]:
    """Push the judged image; nothing is published when this raises."""
    image = source.image
    assert image.digest is not None
    repository = push.to.repository
    client, sink = push.to.open(call.connection)
    tag = push.to.tag_for(image.digest, recipe.name)
    layers = LayerSources(
        source,
        tuple(base_locations(call.workspace, recipe, push.base)),
        connection=call.connection.of(recipe.platform),
        folder=call.workspace.root,
    )
    before = layers.received
    # distribution-spec, "Mounting a blob from another repository": within one registry only
    near = [same_registry(source, repository.registry)]
    near += [
        base.repository
        for base in (push.base and registry_reference(push.base), recipe.base)
        if base and base.registry == repository.registry
    ]
    call.reporter.say(f"pushing to {repository.name}:{tag}")
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


def _environment(
    judgement: Judgement, repository: str, image: Digest, verdict: str
) -> dict[str, str]:
    """Let what was measured and what the recipe declares meet."""
    measured = measured_by(
        judgement.verdict, profile=judgement.recipe.name, repository=repository, report=verdict
    )
    assert measured.image == image
    return published(measured, judgement.recipe.declared_over(judgement.lock.base.digest))
