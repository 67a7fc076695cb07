"""``imagegate base``: the locks of bases, whoever stands on them; and is one still right."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.errors import ImageError, LockError, UsageError
from imagegate.lock import BASE, BASE_FILES, STATEMENT, decode_base
from imagegate.oci.documents import ContainerConfig
from imagegate.report.snapshot import Snapshot, compare_snapshots, snapshot
from imagegate.usecases.bases import base_location, read_base, write_base
from imagegate.usecases.published import TakenBase, require_signed, take_base
from imagegate.usecases.signed_base import require_signed_base

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.lock import BaseLock
    from imagegate.oci.digest import Digest
    from imagegate.oci.platform import Platform
    from imagegate.oci.reference import Reference
    from imagegate.report.lockdiff import Difference
    from imagegate.signing.identity import Trusted
    from imagegate.usecases.invocation import Invocation
    from imagegate.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBase:
    """One base lock of the workspace.

    Attributes:
        digest: of the base's manifest.
        images: what recipes call it.
        platform: the base's platform, `""` where the lock cannot be read.
        compressed: bytes of the base's layers.
        size: bytes of the lock's files.
        used_by: the recipes that stand on it.
        signer: who published it, `""` where it was read from the base's bytes.
        problem: why the lock cannot be used, `""` where it can.
    """

    digest: Digest
    images: tuple[str, ...]
    platform: str
    compressed: int
    size: int
    used_by: tuple[str, ...]
    signer: str
    problem: str = ""


def list_bases(workspace: Workspace) -> tuple[ListedBase, ...]:
    """List every base lock, with who stands on it."""
    named = workspace.named_bases()
    listed = []
    for digest in workspace.base_digests():
        users = {n: b for n, b in named.items() if b is not None and b.digest == digest}
        size = sum(p.stat().st_size for p in workspace.base_folder(digest).iterdir() if p.is_file())
        platform, compressed, signer, problem = "", 0, "", ""
        try:
            lock = workspace.base_lock(digest)
            platform, compressed = lock.document.platform, lock.document.compressed
            signer = require_signed(workspace, lock, lock.statement)
        except LockError as error:
            problem = error.message
        listed.append(
            ListedBase(
                digest=digest,
                images=tuple(sorted({base.image for base in users.values()})),
                platform=platform,
                compressed=compressed,
                size=size,
                used_by=tuple(users),
                signer=signer,
                problem=problem,
            )
        )
    return tuple(listed)


def learn_base(
    call: Invocation, location: str, *, platform: Platform | None, again: bool
) -> tuple[BaseLock, bool]:
    """Read a base and write its lock; returns it and whether it was read.

    Raises:
        UsageError: there is no such image.
        ImageError: it has no manifest, or cannot be read.
    """
    source = call.open(location, platform)
    image = source.image
    if image.digest is None:
        raise ImageError(
            f"{image.location} holds no manifest, so the base has no digest to lock",
            hint="use an OCI layout, an archive of the containerd store, or a registry",
        )
    if not again and call.workspace.has_base(image.digest):
        try:
            lock = call.workspace.base_lock(image.digest)
            require_signed_base(call.workspace, lock)
        except LockError as error:
            call.reporter.say(f"{error.message}: the base is read again")
        else:
            return lock, False
    files = read_base(source, call.reporter)
    write_base(call.workspace, image.digest, files)
    return call.workspace.base_lock(image.digest), True


def pull_base(
    call: Invocation,
    at: Reference,
    *,
    platform: Platform | None,
    trusted: Sequence[Trusted],
) -> TakenBase:
    """Take a published base lock and write it.

    Raises:
        UsageError: the reference names no digest.
        AttestationError: none counts.
    """
    if at.digest is None:
        raise UsageError(
            f"`{at}` names no digest, and a base lock is of one base",
            hint=f"write `{at.name}@sha256:…`; `imagegate drift` and `crane digest` tell it",
        )
    client = call.connection.client(at.registry)
    found = client.find_manifest(at.repository, at.digest)
    if found is not None:
        from imagegate.oci.image import is_index

        if is_index(found.content, found.media_type, f"{at.digest}"):
            raise UsageError(
                f"{at.digest} is an index: a base lock is of one platform's image",
                hint="name that platform's manifest, which `crane manifest` lists",
            )
    taken = take_base(call, at, at.digest, platform=platform, trusted=trusted)
    write_base(call.workspace, at.digest, taken.files)
    return taken


def prune_bases(workspace: Workspace, *, dry_run: bool) -> tuple[Digest, ...]:
    """Remove the base locks that no recipe uses.

    A folder that holds anything but a base lock's files is left alone, and so is a link.

    Raises:
        LockError: a recipe's lock cannot be read, so that nobody knows what it stands on.
    """
    used = set()
    for name in workspace.recipe_names():
        if workspace.lock_folder(name).is_dir():
            base = workspace.lock(name).base.digest
            used.add(base)
    removed = []
    for digest in workspace.base_digests():
        folder = workspace.base_folder(digest)
        names = {path.name for path in folder.iterdir()}
        if digest in used or BASE not in names or names - {*BASE_FILES, STATEMENT}:
            continue
        if folder.is_symlink():
            continue  # somebody keeps it elsewhere
        removed.append(digest)
        if not dry_run:
            shutil.rmtree(folder)
    return tuple(removed)


# --- is a base lock what the base's bytes say


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedBase:
    """What reading a base again said of its lock.

    Attributes:
        digest: of the base's manifest.
        differences: where the lock says otherwise; with the files of it that differ.
        files: names of the files that differ.
    """

    digest: Digest
    differences: tuple[Difference, ...]
    files: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the lock says what the bytes say."""
        return not self.files


def verify_base(call: Invocation, name: str, *, location: str | None = None) -> VerifiedBase:
    """Read a recipe's base and compare it with its lock; nothing is written.

    Raises:
        UsageError: the recipe has no base.
        LockError: the lock cannot be read, or `location` holds another base.
        ImageError: the base cannot be read.
    """
    state = call.workspace.state(name)
    lock = call.workspace.lock(name).based_on
    if lock is None:
        raise UsageError(f"the recipe `{name}` starts from scratch; it has no base to verify")
    require_signed(call.workspace, lock, lock.statement)
    source = call.open(
        location or base_location(call.workspace, state.recipe), state.recipe.platform
    )
    if source.image.digest != lock.base:
        raise LockError(
            f"that is not the locked base: locked={lock.base} found={source.image.digest} "
            f"in {source.image.location}"
        )
    files = read_base(source, call.reporter)
    read = decode_base(files, "the base as it was read now")
    before, now = dict(lock.document.files), dict(read.document.files)
    differing = {n for n in before.keys() | now.keys() if before.get(n) != now.get(n)}
    if lock.digest != read.digest:
        differing.add(BASE)
    differences = compare_snapshots(_of(lock), _of(read)) if differing else ()
    return VerifiedBase(digest=lock.base, differences=differences, files=tuple(sorted(differing)))


def _of(lock: BaseLock) -> Snapshot:
    config = lock.config.config or ContainerConfig()
    return snapshot(f"the base {lock.base}", lock.document.facts, config, lock.files)


def list_as_json(listed: Sequence[ListedBase]) -> str:
    """Write the list as one JSON document."""
    return json.dumps(
        {
            "schema": "imagegate-bases-1",
            "bases": [
                {
                    "digest": str(one.digest),
                    "images": list(one.images),
                    "platform": one.platform,
                    "compressed": one.compressed,
                    "size": one.size,
                    "used_by": list(one.used_by),
                    "signer": one.signer,
                    "problem": one.problem,
                }
                for one in listed
            ],
        },
        indent=2,
    )
