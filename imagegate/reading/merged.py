"""What the added layers changed, and the facts of base and layers together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from imagegate.catalog.native import links as native_links
from imagegate.checks.image.evidence import Change
from imagegate.facts import Distribution, Facts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

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


def merge_facts(base: Facts, added: Facts, tree: FileTree, *, is_prefix: bool) -> Facts:
    """Combine the base's facts with those of the added layers, as the merged tree has them."""
    if not is_prefix:
        return added

    def untouched(path: str) -> bool:
        node = tree.get(path)
        return node is not None and node.layer == 0

    def kept(pin: Distribution) -> bool:
        names = (
            f"{pin.path}/METADATA",
            f"{pin.path}/PKG-INFO",
            f"{pin.path}/EGG-INFO/PKG-INFO",
            pin.path,
        )
        first = next((name for name in names if tree.get(name) is not None), None)
        return first is not None and untouched(first) and not _retouched(pin, added)

    linked = (tree.get(link.path) for link in base.links)
    links = {
        link.path: link
        for link in (
            *native_links(tree, [node for node in linked if node is not None]),
            *added.links,
        )
    }
    return Facts(
        sites=tuple(sorted({*base.sites, *added.sites})),
        distributions=tuple(
            sorted([*(pin for pin in base.distributions if kept(pin)), *added.distributions])
        ),
        remnants=tuple(
            sorted({*(r for r in base.remnants if tree.get(r.path) is not None), *added.remnants})
        ),
        contradictions=base.contradictions,
        native=tuple(sorted({*(r for r in base.native if untouched(r.path)), *added.native})),
        links=tuple(links[path] for path in sorted(links)),
        elf=_still_there(base.elf, added.elf, tree),
        packages=_still_there(base.packages, added.packages, tree),
        loader=_still_there(base.loader, added.loader, tree),
        startup=_still_there(base.startup, added.startup, tree),
        interpreters=_still_there(base.interpreters, added.interpreters, tree),
        # one of which a layer wrote a branch alone was read anew, and its HEAD is the base's
        checkouts=_still_there(
            (c for c in base.checkouts if c.path not in {a.path for a in added.checkouts}),
            added.checkouts,
            tree,
        ),
    )


class _Located(Protocol):
    """A fact that was read from one file."""

    @property
    def path(self) -> str: ...

    def __lt__(self, other: Self, /) -> bool: ...


_Fact = TypeVar("_Fact", bound=_Located)


def _still_there(
    base: Iterable[_Fact], added: Iterable[_Fact], tree: FileTree
) -> tuple[_Fact, ...]:
    """Combine facts of files that no layer touched with those of files that one wrote."""
    untouched = (
        fact for fact in base if (node := tree.get(fact.path)) is not None and node.layer == 0
    )
    return tuple(sorted({*untouched, *added}))


def _retouched(pin: Distribution, added: Facts) -> bool:
    """Say whether a layer wrote into a distribution's metadata folder, so that it was read anew."""
    return any(other.path == pin.path for other in added.distributions)
