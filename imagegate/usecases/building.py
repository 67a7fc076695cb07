"""One build of a recipe at a time, in a folder that is imagegate's."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

from imagegate.workspace.exclusive import exclusive
from imagegate.workspace.ownership import (
    foreign_in_layout,
    require_own,
    require_own_dockerfile,
    require_own_record,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from imagegate.workspace import Workspace

# seconds to wait for another build of the same recipe
_PATIENCE = 600.0


@contextmanager
def building(workspace: Workspace, name: str) -> Iterator[Path]:
    """Hold a recipe's build folder alone, from before the build until it was judged.

    Raises:
        UsageError: what is there, or a record beside it, was not written by imagegate.
        BusyError: another process builds the recipe.
    """
    layout = workspace.layout(name)
    layout.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(_lock_file(layout), f"the build of `{name}`", patience=_PATIENCE):
        _require_own(workspace, name)
        yield layout


@contextmanager
def keeping_build(workspace: Workspace, name: str) -> Iterator[None]:
    """Hold a recipe's build folder while it is read more than once.

    No build replaces it between the judgement and what follows from it.

    Raises:
        BusyError: another process builds the recipe.
    """
    layout = workspace.layout(name)
    if not layout.is_dir():
        yield  # what reads it says that it is not there
        return
    held = exclusive(_lock_file(layout), f"the build of `{name}`", patience=_PATIENCE)
    try:
        held.__enter__()
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise
        yield  # where nothing can be written, no build replaces it
        return
    try:
        yield
    finally:
        held.__exit__(None, None, None)


def _lock_file(layout: Path) -> Path:
    return layout.with_name(f".{layout.name}.lock")


def _require_own(workspace: Workspace, name: str) -> None:
    """Require that everything that a build replaces is imagegate's, before any work is done."""
    layout = workspace.layout(name)
    require_own(layout, foreign_in_layout, workspace.relative(layout))
    record = layout.with_name(f"{name}.build.json")
    for path in (record, layout.with_name(f"{name}.verdict.json")):
        require_own_record(path, workspace.relative(path))
    dockerfile = layout.with_name(f"{name}.Dockerfile")
    require_own_dockerfile(dockerfile, layout, record, workspace.relative(dockerfile))
