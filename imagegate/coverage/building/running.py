"""What a RUN does to the tree of a stage, as far as its text tells.

Copies, moves and links are made in the tree and marked as made by a RUN; what may be changed is
marked where it lies; where files may come from nowhere the cloud keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from imagegate.coverage.building.carrying import Cloud, Hold
from imagegate.coverage.building.placing import BuildFailureError, NotKnownError
from imagegate.coverage.golang.paths import (
    BadPatternError,
    base,
    clean,
    has_wildcards,
    inside,
    match,
    split,
)
from imagegate.coverage.shell.acts import HOLE, Act, Deed
from imagegate.coverage.shell.table import SYSTEM_FOLDERS
from imagegate.coverage.shell.values import plain
from imagegate.coverage.tree import (
    Doubt,
    Kind,
    LinkLoopError,
    Node,
    Weight,
    directory,
    link,
    lookup,
    resolve,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MOST_MATCHES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A RUN that is being done on a stage.

    Attributes:
        tree: of the stage.
        cloud: what is not in the tree.
        line: of the RUN.
        workdir: its working directory.
        keeps: paths that the caller vouches no RUN touches.
    """

    tree: Node
    cloud: Cloud
    line: int
    workdir: str
    keeps: tuple[str, ...] = ()

    def do(self, acts: Iterable[Act]) -> None:
        """Do the acts in order."""
        for act in acts:
            try:
                self._do(act)
            except (BuildFailureError, NotKnownError, LinkLoopError):
                # what a command cannot do in the tree as it is known, it may do in the image
                self._opaque(act)

    def _do(self, act: Act) -> None:
        match act.deed:
            case Deed.MAKE:
                self._make(act)
            case Deed.REMOVE | Deed.CHANGE:
                self._alter(act)
            case Deed.WRITE:
                self._write(act)
            case Deed.FILL:
                self._fill(act)
            case Deed.COPY | Deed.MOVE:
                self._transfer(act)
            case Deed.LINK:
                self._link(act)
            case Deed.BUILD:
                self._hold(act, "")
            case Deed.PACKAGE:
                self._package(act)
            case Deed.OPAQUE:
                self._run_opaque(act)

    def _doubt(self, act: Act, weight: Weight) -> Doubt:
        return Doubt(
            weight=weight,
            line=self.line,
            text=f"RUN in line {self.line} (`{act.text}`) {_SAID.get(act.deed, act.deed.value)}",
        )

    def _hold(self, act: Act, path: str, **more: object) -> None:
        self.cloud.holds.append(
            Hold(path=path, line=self.line, text=self._doubt(act, Weight.MAYBE).text, **more)  # type: ignore[arg-type]
        )

    def _opaque(self, act: Act) -> None:
        self._hold(act, "")
        self.cloud.opaque.append((self.line, act.text))

    def _run_opaque(self, act: Act) -> None:
        self._opaque(act)
        named = [
            path
            for path in act.paths
            if HOLE not in path and path not in SYSTEM_FOLDERS and not self._above_workdir(path)
        ]
        for path in named:
            for found, node in self._found(path):
                self._mark(found, node, self._doubt(act, Weight.ALTERED))

    def _above_workdir(self, path: str) -> bool:
        return f"{self.workdir.rstrip('/')}/".startswith(f"{path.rstrip('/')}/")

    def _make(self, act: Act) -> None:
        doubt = self._doubt(act, Weight.BY_RUN)
        for path in act.paths:
            if HOLE in path or has_wildcards(path):
                continue
            _folders(self.tree, resolve(self.tree, inside(plain(path))), doubt)

    def _alter(self, act: Act) -> None:
        doubt = self._doubt(act, Weight.ALTERED)
        for path in act.paths:
            fixed, known = _fixed(path)
            if not known:
                self._perhaps(act, fixed)
                continue
            for found, node in self._found(path):
                self._mark(found, node, doubt, act.names)

    def _perhaps(self, act: Act, fixed: str) -> None:
        """A path of which only the start is known may be any one below it."""
        if fixed in ("", "/"):
            self._opaque(act)
            return
        node = lookup(self.tree, resolve(self.tree, inside(fixed)))
        if node is not None:
            self._mark(inside(fixed), node, self._doubt(act, Weight.MAYBE), act.names)

    def _write(self, act: Act) -> None:
        for path in act.paths:
            fixed, known = _fixed(path)
            if not known:
                self._perhaps(act, fixed)
                continue
            there = self._found(path)
            for place, node in there:
                if node.kind is not Kind.DIRECTORY:
                    self._mark(place, node, self._doubt(act, Weight.ALTERED))
            if not there:
                self._hold(act, inside(plain(path)), anything=True, exact=True)

    def _fill(self, act: Act) -> None:
        fixed, known = _fixed(act.target)
        if not known:
            self._perhaps(act, fixed)
        else:
            place = resolve(self.tree, inside(plain(act.target)))
            node = lookup(self.tree, place)
            if node is not None:
                self._mark(place, node, self._doubt(act, Weight.MAYBE))
        own = [
            node
            for path in act.paths
            for _, node in self._found(path)
            if node.origin is not None or HOLE in path
        ]
        if own or any(HOLE in path for path in act.paths):
            self._hold(act, inside(plain(fixed)), anything=True)

    def _package(self, act: Act) -> None:
        within = tuple(inside(plain(_fixed(path)[0])) for path in act.paths)
        self._hold(act, "", within=within, package=True)

    # -- copies

    def _transfer(self, act: Act) -> None:
        goal, certain = _fixed(act.target)
        whole = certain and not has_wildcards(act.target)
        place = inside(plain(goal))
        if act.deed is Deed.MOVE:
            moved = self._doubt(act, Weight.ALTERED)
        sources: list[tuple[str, Node]] = []
        for path in act.paths:
            fixed, known = _fixed(path)
            if not known:
                self._hold(act, place, within=(inside(plain(fixed)),))
                if act.deed is Deed.MOVE:
                    self._perhaps(act, fixed)
                continue
            found = self._found(path)
            sources += found
            if not found:
                # what an earlier command made there goes along
                self._hold(act, place, within=(inside(plain(path)),))
        if not whole:
            self._hold(act, place, within=tuple(found for found, _ in sources))
        elif sources:
            self._place(act, sources, place)
        if act.deed is Deed.MOVE:
            for place_of, node in sources:
                self._mark(place_of, node, moved)

    def _place(self, act: Act, sources: Sequence[tuple[str, Node]], place: str) -> None:
        doubt = self._doubt(act, Weight.BY_RUN)
        goal = resolve(self.tree, place)
        there = lookup(self.tree, goal)
        into = act.into or len(sources) > 1
        if not act.contents and there is not None and there.kind is Kind.DIRECTORY:
            into = True
        for found, node in sources:
            node = self._real(found, node)
            target = goal
            if into and not (act.contents and node.kind is Kind.DIRECTORY):
                target = f"{goal}/{base(found)}" if goal else base(found)
            if target == found or f"{target}/".startswith(f"{found}/"):
                continue
            above, name = split(target)
            if not name:
                _lay(self.tree, node, self.line, doubt)
                continue
            parent = _folders(self.tree, above.rstrip("/"), doubt)
            if parent is not None:
                _lay_at(parent, name, node, self.line, doubt)

    def _real(self, path: str, node: Node) -> Node:
        if node.kind is not Kind.LINK:
            return node
        return lookup(self.tree, resolve(self.tree, path)) or node

    def _link(self, act: Act) -> None:
        goal, certain = _fixed(act.target)
        source = act.paths[0]
        if not certain or has_wildcards(act.target) or HOLE in source or has_wildcards(source):
            self._hold(act, inside(plain(goal)), within=("",))
            return
        doubt = self._doubt(act, Weight.BY_RUN)
        place = inside(plain(goal))
        there = lookup(self.tree, place if act.contents else resolve(self.tree, place))
        if act.into or (there is not None and there.kind is Kind.DIRECTORY):
            place = f"{place}/{base(plain(source))}" if place else base(plain(source))
            there = lookup(self.tree, place)
        if there is not None and not act.replaces and there.doubt is None:
            return  # it fails, or the file stays
        above, name = split(place)
        parent = _folders(self.tree, resolve(self.tree, above.rstrip("/")), doubt)
        if there is not None and there.kind is Kind.DIRECTORY:
            return
        if parent is not None and name:
            made = link(plain(source))
            made.doubt = doubt
            parent.children[name] = made

    # -- marks

    def _found(self, pattern: str) -> list[tuple[str, Node]]:
        return find(self.tree, pattern)

    def _mark(self, path: str, node: Node, doubt: Doubt, names: tuple[str, ...] = ()) -> None:
        """Mark every file at and below `path`; links are nodes of their own."""
        if path in self.keeps:
            return
        if node.kind is Kind.DIRECTORY:
            for name, child in list(node.children.items()):
                self._mark(f"{path}/{name}" if path else name, child, doubt, names)
            return
        name = base(path)
        if names and not any(fnmatchcase(name.lower(), known.lower()) for known in names):
            return
        if node.doubt is not None and node.doubt.weight.value == Weight.ALTERED.value:
            return
        if node.doubt is not None and doubt.weight is Weight.MAYBE:
            return
        above, _, last = path.rpartition("/")
        parent = lookup(self.tree, above)
        if parent is None or last not in parent.children:
            return
        parent.children[last] = _with_doubt(node, doubt)


_SAID = {
    Deed.COPY: "copies it",
    Deed.BUILD: "may have taken it into what it builds",
    Deed.OPAQUE: "may bring it there or change it",
}


def _with_doubt(node: Node, doubt: Doubt) -> Node:
    return Node(
        kind=node.kind,
        children=node.children,
        target=node.target,
        size=node.size,
        origin=node.origin,
        doubt=doubt,
        emptied=node.emptied,
        replaced=node.replaced,
    )


def _fixed(path: str) -> tuple[str, bool]:
    """Return the part of a path that is known, and whether that is all of it."""
    if HOLE not in path:
        return path, True
    known: list[str] = []
    for part in path.split("/"):
        if HOLE in part or has_wildcards(part):
            break
        known.append(part)
    return "/".join(known), False


def _folders(root: Node, path: str, doubt: Doubt) -> Node | None:
    """Make the directories of `path`; ``None`` where a file is in the way."""
    here = root
    for part in path.split("/") if path else ():
        child = here.children.get(part)
        if child is None:
            child = here.children[part] = directory(doubt=doubt)
        if child.kind is Kind.LINK:
            return None
        if child.kind is not Kind.DIRECTORY:
            return None
        here = child
    return here


def _lay(folder: Node, source: Node, line: int, doubt: Doubt) -> None:
    for name, child in list(source.children.items()):
        _lay_at(folder, name, child, line, doubt)


def _lay_at(parent: Node, name: str, node: Node, line: int, doubt: Doubt) -> None:
    """Lay a node under `name`; directories merge, files take the place of what is there."""
    there = parent.children.get(name)
    if node.kind is Kind.DIRECTORY:
        if there is None or there.kind is not Kind.DIRECTORY:
            there = parent.children[name] = directory(doubt=doubt)
        if there is not node:
            _lay(there, node, line, doubt)
        return
    if there is not None and there.kind is Kind.DIRECTORY:
        return
    parent.children[name] = made = _with_doubt(node, doubt)
    if there is not None and there.origin is not None:
        made.replaced = (there.origin, *there.replaced, *node.replaced)


def find(root: Node, pattern: str) -> list[tuple[str, Node]]:
    """Return the nodes that an absolute path or glob names, links on the way followed."""
    parts = [part for part in clean(pattern).split("/") if part]
    found: list[tuple[str, Node]] = [("", root)]
    for number, part in enumerate(parts):
        following: list[tuple[str, Node]] = []
        for path, node in found:
            if node.kind is Kind.LINK:
                path = resolve(root, path)
                real = lookup(root, path)
                if real is None:
                    continue
                node = real
            following += _step(path, node, part, last=number == len(parts) - 1)
        found = following[:_MOST_MATCHES]
    return found


def _step(path: str, node: Node, part: str, *, last: bool) -> list[tuple[str, Node]]:
    del last
    prefix = f"{path}/" if path else ""
    if not has_wildcards(part):
        name = plain(part)
        child = node.children.get(name)
        return [] if child is None else [(prefix + name, child)]
    found: list[tuple[str, Node]] = []
    for name, child in node.children.items():
        if name.startswith(".") and not part.startswith("."):
            continue
        try:
            if match(part.replace("[!", "[^"), name):
                found.append((prefix + name, child))
        except BadPatternError:
            return []
    return found
