"""Locks: what a base holds and what a layer may add, as canonical files.

    base       one base: `locks/bases/<digest>/`
    layered    what a recipe adds to it, and the pair of both: `locks/<name>/`
    oldform    locks that held both in one folder; read so that they can be moved over
    sealed     tables of contents
    blocks     the path index, read by the block
    lines      its lines

A file that was edited by hand no longer fits its table of contents; a table that was edited no
longer fits the digest in it; the recipe's lock names the base's by that digest.
"""

from __future__ import annotations

from imagegate.lock.base import (
    BASE,
    BASE_FILES,
    REVISION,
    STATEMENT,
    BaseLock,
    BaseParts,
    OlderRevisionError,
    decode_base,
    encode_base,
)
from imagegate.lock.layered import (
    CONTENTS,
    LOCK_FILES,
    BaseName,
    Lock,
    LockedAsset,
    LockedWheel,
    LockParts,
    decode_lock,
    encode_lock,
    named_base,
)

__all__ = [
    "BASE",
    "BASE_FILES",
    "CONTENTS",
    "LOCK_FILES",
    "REVISION",
    "STATEMENT",
    "BaseLock",
    "BaseName",
    "BaseParts",
    "Lock",
    "LockParts",
    "LockedAsset",
    "LockedWheel",
    "OlderRevisionError",
    "decode_base",
    "decode_lock",
    "encode_base",
    "encode_lock",
    "named_base",
]
