"""``imagegate promote``: judge again from bytes, then publish the profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.errors import RefusedError
from imagegate.oci.digest import Digest
from imagegate.profile import ProfileStore, PublishedState
from imagegate.report.document import render_json
from imagegate.signing.locations import open_store
from imagegate.usecases.attest import sign_verdict, timestamp
from imagegate.usecases.gate import judge
from imagegate.usecases.verify import open_judged

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from imagegate.checks.evidence import Evidence
    from imagegate.signing.keys import Signer
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
    """

    verdict: Verdict
    profile: Path | None


def promote_recipe(
    workspace: Workspace,
    name: str,
    *,
    image: str | None,
    promoted_at: datetime,
    promoted_by: str,
    reporter: Reporter,
    signer: Signer | None = None,
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

    Raises:
        RefusedError: the image passed and has no manifest digest that could be published.
        AttestationError: what was signed does not count where it was put.
        ProfileError: the profile cannot be written.
    """
    state = workspace.state(name)
    lock = workspace.lock(name)
    source = open_judged(workspace, state, image)
    verdict, evidence = judge(state, lock, source, reporter)
    if not verdict.passed:
        return PromoteOutcome(verdict=verdict, profile=None)
    if verdict.image is None:
        raise RefusedError(
            f"{verdict.location} holds no manifest: there is no digest to promote",
            hint="promote from an OCI layout or a registry",
        )
    if signer is not None:
        # before the profile: launchers never read of an image whose signature is not there
        sign_verdict(
            workspace,
            verdict,
            evidence,
            store=open_store(image or f"oci:{workspace.layout(name)}"),
            signer=signer,
            at=promoted_at,
            reporter=reporter,
        )
    report = render_json(verdict)
    digest = str(Digest.of(report))
    published = PublishedState(
        env=_environment(evidence, verdict.image, digest),
        settings=dict(state.recipe.document.profile.settings),
        verdict=digest,
        promoted_at=timestamp(promoted_at),
        promoted_by=promoted_by,
    )
    path = ProfileStore(workspace.profiles()).publish(name, published, report)
    return PromoteOutcome(verdict=verdict, profile=path)


def _environment(evidence: Evidence, image: Digest, verdict: str) -> dict[str, str]:
    recipe, lock = evidence.recipe, evidence.lock
    repository = recipe.document.repository
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
