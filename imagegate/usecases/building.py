"""One build of a recipe at a time, in a folder that is imagegate's."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from imagegate.workspace.exclusive import exclusive
from imagegate.workspace.ownership import foreign_in_layout, require_own

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
        UsageError: what is there was not written by imagegate.
        BusyError: another process builds the recipe.
    """
    layout = workspace.layout(name)
    require_own(layout, foreign_in_layout, workspace.relative(layout))
    layout.parent.mkdir(parents=True, exist_ok=True)
    lock_file = layout.with_name(f".{name}.lock")
    with exclusive(lock_file, f"the build of `{name}`", patience=_PATIENCE):
        yield layout
