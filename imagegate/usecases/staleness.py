"""``imagegate lock --check``: is a lock the one of the workspace as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from imagegate.errors import LockError
from imagegate.report.lockdiff import compare_locks
from imagegate.usecases.signed_base import signed_lock
from imagegate.usecases.verify import require_fresh

if TYPE_CHECKING:
    from imagegate.oci.digest import Digest
    from imagegate.report.lockdiff import Difference
    from imagegate.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLock:
    """Whether a lock is fresh.

    Attributes:
        digest: of the lock, ``None`` where none can be read.
        problem: why it is stale, ``""`` where it is not.
        differences: what the recipe says and the lock does not.
        hint: what a person can do.
    """

    digest: Digest | None
    problem: str = ""
    differences: tuple[Difference, ...] = ()
    hint: str = ""


def check_lock(workspace: Workspace, name: str) -> CheckedLock:
    """Compare a lock with recipe, requirements and assets; nothing is read from anywhere else.

    Raises:
        UsageError: there is no such recipe.
        RecipeError: it cannot be used.
    """
    state = workspace.state(name)
    try:
        lock = signed_lock(workspace, name)
    except LockError as error:
        return CheckedLock(digest=None, problem=error.message, hint=error.hint or "")
    try:
        require_fresh(state, lock)
    except LockError as error:
        now = replace(
            lock,
            contents=lock.contents.model_copy(
                update={"made_of": state.recipe.made_of, "requested": state.requirements}
            ),
            assets=state.assets,
        )
        return CheckedLock(
            digest=lock.digest,
            problem=error.message,
            differences=compare_locks(lock, now, ("recipe", "requirements", "assets")),
            hint=error.hint or "",
        )
    return CheckedLock(digest=lock.digest)
