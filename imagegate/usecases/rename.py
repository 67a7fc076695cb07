"""``imagegate mv``: give a recipe another name, without its base's bytes."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from imagegate.errors import LockError, UsageError
from imagegate.localfiles import read_regular_text
from imagegate.lock import BASE_FILES, CONTENTS, LOCK_FILES, decode_lock
from imagegate.lock.sealed import seal, unseal
from imagegate.recipe import RECIPE_NAME
from imagegate.workspace.atomic import write_file, write_folder
from imagegate.workspace.ownership import foreign_in_lock, require_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.workspace import Workspace


def rename_recipe(workspace: Workspace, old: str, new: str) -> tuple[str, ...]:
    """Rename a recipe and its lock, and follow the name in recipes that stand on it.

    A crash in between leaves the old recipe with its lock, or the new one with its own.

    Returns:
        What was done, a line each.

    Raises:
        UsageError: there is no such recipe, or the new name is taken or none.
        LockError: the lock cannot be read.
    """
    workspace.recipe_path(old)
    if not RECIPE_NAME.fullmatch(new) or new == "bases":
        raise UsageError(
            f"`{new}` is not a name for a recipe",
            hint="use lower-case letters, digits, `.`, `_`, `-`",
        )
    images = workspace.root / "images"
    for taken in (images / new, workspace.lock_folder(new)):
        if taken.exists():
            raise UsageError(f"`{workspace.relative(taken)}` exists")
    if workspace.lock_folder(old).is_symlink():
        raise UsageError(
            f"`locks/{old}` is a link to `{workspace.lock_folder(old).readlink()}`",
            hint="rename what it leads to yourself, or put the folder in its place; "
            "nothing was changed",
        )
    is_foreign = foreign_in_lock((*LOCK_FILES, *BASE_FILES), CONTENTS)
    require_own(workspace.lock_folder(old), is_foreign, f"locks/{old}")
    done = []
    if workspace.lock_folder(old).is_dir():
        write_folder(
            workspace.lock_folder(new),
            _renamed(workspace, old, new),
            foreign_in_lock(LOCK_FILES, CONTENTS),
        )
        done.append(f"locks/{old} -> locks/{new}")
    (images / old).rename(images / new)
    done.append(f"images/{old} -> images/{new}")
    shutil.rmtree(workspace.lock_folder(old), ignore_errors=True)
    done += _followed(workspace, old, new)
    for left in (workspace.layout(old), workspace.profiles() / f"{old}.env"):
        if left.exists():
            done.append(f"`{workspace.relative(left)}` stays as it is")
    return tuple(done)


def _renamed(workspace: Workspace, old: str, new: str) -> dict[str, bytes]:
    """Write the lock under the new name; everything else in it stays."""
    lock = workspace.lock(old)
    files = workspace.lock_files(old)
    document = unseal(files[CONTENTS], f"locks/{old}/{CONTENTS}", "lock again")
    del document["digest"]
    renamed = {**files, CONTENTS: seal({**document, "name": new})}
    if decode_lock(new, renamed, f"locks/{new}", lock.based_on).wheels != lock.wheels:
        raise LockError(f"the lock of `{old}` cannot be renamed", hint=f"lock `{new}` anew")
    return renamed


def _followed(workspace: Workspace, old: str, new: str) -> Iterator[str]:
    """Let recipes whose base the renamed one makes say its new name."""
    line = re.compile(rf'^(\s*recipe\s*=\s*)"{re.escape(old)}"', re.MULTILINE)
    for name in workspace.recipe_names():
        path = workspace.recipe_path(name)
        text = read_regular_text(path)
        if workspace.recipe(name).document.base.recipe == old:
            write_file(path, line.sub(rf'\g<1>"{new}"', text).encode())
            yield f"images/{name}/image.toml names `{new}` now: run `imagegate lock {name}`"
