"""A base lock that was taken from others is compared with its statement whenever it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagegate.lock import BaseLock, Lock
    from imagegate.workspace import Workspace


def require_signed_base(workspace: Workspace | None, lock: BaseLock | None) -> str:
    """Compare a base lock with the statement beside it; one that was read here has none.

    Returns:
        The signer, ``""`` where nothing was taken from others.

    Raises:
        LockError: it is not the base lock that was signed, or its signer is not trusted any more.
    """
    if lock is None or not lock.statement:
        return ""
    # cryptography is loaded only where there is a signature
    from imagegate.usecases.published import require_signed

    return require_signed(workspace, lock, lock.statement)


def named_signer(signer: str) -> str:
    """Say whether a signer is a key or an identity."""
    return f"the key {signer}" if signer.startswith("sha256:") else f"the identity {signer}"


def signed_lock(workspace: Workspace, name: str) -> Lock:
    """Read a recipe's lock, and compare its base's with what was signed of it.

    Raises:
        LockError: one is missing, damaged, edited or another's.
    """
    lock = workspace.lock(name)
    require_signed_base(workspace, lock.based_on)
    return lock
