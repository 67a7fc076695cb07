"""What the added layers changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.image.evidence import Change

if TYPE_CHECKING:
    from imagegate.rootfs import FileTree, PathIndex


def find_changes(base: PathIndex, tree: FileTree, *, is_prefix: bool) -> tuple[Change, ...]:
    """List every path that differs from the base or was touched."""
    paths = set(tree.touched())
    if not is_prefix:
        paths.update(node.path for node in base.under(""))
    found = []
    for path in sorted(paths):
        before, after = base.get(path), tree.get(path)
        if before is None and after is None:
            continue
        layer = after.layer if after is not None else tree.removed_by(path)
        change = Change(path=path, before=before, after=after, layer=layer)
        if is_prefix or before is None or after is None or not _same(change):
            found.append(change)
    return tuple(found)


def _same(change: Change) -> bool:
    before, after = change.before, change.after
    assert before is not None
    assert after is not None
    return before.same_content(after) and before.mode == after.mode
