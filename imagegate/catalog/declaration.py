"""What a catalog is: one kind of facts, declared once.

Everything else follows from the declarations: what is kept of a layer that streams past, how the
facts of a tree are read, how those of a base and of the layers on it are put together, what a lock
holds of them, and the revision by which a lock says that it holds just these.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from imagegate.catalog import python, startup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Self

    from imagegate.catalog.collect import Collector, Interest
    from imagegate.facts import Facts, SiteDirectory, StartupFile
    from imagegate.rootfs import FileTree, Node


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the catalogs read from: some paths of a tree, and what was kept of their bytes.

    Attributes:
        tree: the merged tree, against which links are resolved.
        collector: holds the extracts of every layer in which one of the paths lies.
        nodes: what stands at the paths: all of the tree, or those that the added layers touched.
        known: the base's facts, where its layers were not read.
    """

    tree: FileTree
    collector: Collector
    nodes: tuple[Node, ...]
    known: Facts | None

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The paths."""
        return tuple(node.path for node in self.nodes)

    @cached_property
    def sites(self) -> tuple[SiteDirectory, ...]:
        """The site directories that the paths lie in."""
        return python.sites(self.paths)

    @cached_property
    def startup(self) -> tuple[StartupFile, ...]:
        """What Python obeys at its start."""
        return startup.startup_files(self.collector, self.nodes)


_F = TypeVar("_F")


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog(Generic[_F]):
    """One kind of facts.

    Attributes:
        name: of the set in :class:`imagegate.facts.Facts`.
        fact: the type of one fact.
        revision: to be raised when `read` gives other facts of the same bytes; other fields and
            other wanted files count by themselves.
        wants: which files' bytes it needs, and what is kept of them.
        read: gives the facts of some paths; ``None`` where it cannot be said of them.
        merge: puts together the base's facts and those of the added layers, as the merged tree
            has them.
        unlocked: fields that a lock leaves out, because nobody asks them of a base.
        forms: the texts by which values are found in what is kept, where there are such.
    """

    name: str
    fact: type[_F]
    revision: int
    read: Callable[[Reading], tuple[_F, ...] | None]
    merge: Callable[[tuple[_F, ...], tuple[_F, ...], FileTree], tuple[_F, ...]]
    wants: tuple[Interest, ...] = ()
    unlocked: frozenset[str] = frozenset()
    forms: tuple[str, ...] = ()

    def declared(self) -> list[object]:
        """Return all that decides which facts there are, for the revision of the whole."""
        return [
            self.name,
            self.revision,
            [[field.name, str(field.type)] for field in _fields(self.fact)],
            sorted(self.unlocked),
            [
                [
                    want.name,
                    want.pattern.pattern if want.pattern is not None else "",
                    want.magic.hex(),
                    want.keep.__name__,
                ]
                for want in self.wants
            ],
            list(self.forms),
        ]


def _fields(fact: type[Any]) -> tuple[Any, ...]:
    return fields(fact)


# --- ways to put the facts of base and layers together


class _Located(Protocol):
    """A fact that was read from one file."""

    @property
    def path(self) -> str: ...

    def __lt__(self, other: Self, /) -> bool: ...


class _Ordered(Protocol):
    def __lt__(self, other: Self, /) -> bool: ...


_P = TypeVar("_P", bound=_Located)
_O = TypeVar("_O", bound=_Ordered)


def is_untouched(tree: FileTree, path: str) -> bool:
    """Say whether a path is still what the base has there."""
    node = tree.get(path)
    return node is not None and node.layer == 0


def all_of_both(base: Iterable[_O], added: Iterable[_O], _tree: FileTree) -> tuple[_O, ...]:
    """Take every fact of either."""
    return tuple(sorted({*base, *added}))


def where_untouched(base: Iterable[_P], added: Iterable[_P], tree: FileTree) -> tuple[_P, ...]:
    """Take the base's facts of files that no layer touched, and all that were read of layers."""
    return tuple(sorted({*(fact for fact in base if is_untouched(tree, fact.path)), *added}))


def where_there(base: Iterable[_P], added: Iterable[_P], tree: FileTree) -> tuple[_P, ...]:
    """Take the base's facts of paths that are still there, and all that were read of layers."""
    return tuple(sorted({*(f for f in base if tree.get(f.path) is not None), *added}))


def of_base_alone(base: tuple[_O, ...], _added: Iterable[_O], _tree: FileTree) -> tuple[_O, ...]:
    """Take the base's facts: they are asked of a whole tree whose every byte was read."""
    return base
