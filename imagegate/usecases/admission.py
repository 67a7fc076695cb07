"""``imagegate admission``: policies that let only what was published run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate import __version__
from imagegate.admission import Engine, Gated, render
from imagegate.checks.image import CHECKS
from imagegate.errors import ProfileError
from imagegate.oci.digest import Digest
from imagegate.profile import ProfileStore
from imagegate.signing.keys import read_verifier

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from imagegate.workspace import Workspace


def admission_policy(
    workspace: Workspace,
    names: Sequence[str],
    engine: Engine,
    *,
    key: Path,
    not_before: datetime | None,
) -> str:
    """Write the policy for the published state of some profiles.

    Args:
        workspace: where the profiles are.
        names: the profiles.
        engine: who is to obey it.
        key: file of the public key that signs verdicts.
        not_before: with time zone; a verdict given earlier does not count.

    Raises:
        ProfileError: there is no such profile, or it names no registry.
        AttestationError: the key cannot be read.
    """
    store = ProfileStore(workspace.profiles())
    return render(
        engine,
        [_gated(store, name) for name in names],
        key=read_verifier(key).pem.decode("ascii"),
        checks=[check.id for check in CHECKS],
        not_before=not_before.strftime("%Y-%m-%dT%H:%M:%SZ") if not_before else None,
        version=__version__,
    )


def _gated(store: ProfileStore, name: str) -> Gated:
    env = store.current(name).env
    repository, _, digest = env.get("IMAGE", "").partition("@")
    if not repository or not digest:
        raise ProfileError(
            f"the profile `{name}` names no image in a registry, so nothing can ask for it there",
            hint=f"publish it with `imagegate promote {name} --to REGISTRY/REPOSITORY --sign KEY`",
        )
    return Gated(profile=name, repository=repository, lock=Digest.parse(env["LOCK_DIGEST"]))
