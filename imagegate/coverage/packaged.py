"""Whether a project that a RUN installs takes an asset along, as far as its text tells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from imagegate.coverage.packages import NotTold, Project, read_project
from imagegate.coverage.tree import Kind, LinkLoopError, Node, lookup, resolve, walk

if TYPE_CHECKING:
    from typing import BinaryIO

    from imagegate.coverage.building.build import Build, Evaluation
    from imagegate.coverage.building.carrying import Hold
    from imagegate.coverage.identity import Identity
    from imagegate.coverage.packages.answer import Answer

# `uv sync`, `poetry install` and `-e` leave the files where they are
_COPIES = re.compile(r"\bpip[\d.]*\s+(?:install|wheel)\b")
_LEAVES = re.compile(r"\s(?:-e|--editable)\b|…")
# pyproject.toml and its relatives decide; a project without its own text has no rules
_RULES = frozenset({"pyproject.toml", "setup.py", "setup.cfg", "MANIFEST.in"})


class _NotReadError(Exception):
    """A file of the project may differ from the context's."""


class Packaged:
    """Reads the projects that the lines of a Dockerfile install."""

    def __init__(self, build: Build, evaluation: Evaluation, identity: Identity) -> None:
        self._context = build.main.context
        self._evaluation = evaluation
        self._identity = identity
        self._projects: dict[tuple[int, str], Project | None] = {}

    def answer(self, asset: str) -> Answer | None:
        """Say what every project that may bring `asset` makes of it.

        Returns:
            ``None`` where the text does not tell: a line may bring it another way, the project
            may differ from the context's, or its build backend leaves it open.
        """
        answers: list[Answer] = []
        for stage, cloud in self._evaluation.clouds.items():
            for hold in cloud.holds:
                if hold.stage is not None:
                    continue
                if not hold.package:
                    return None
                if ".whl" in hold.text:
                    continue  # a wheel holds what the project that it is built from packs
                answer = self._installed(stage, hold, asset)
                if answer is None or isinstance(answer, NotTold):
                    return None
                answers.append(answer)
        return answers[0] if len(answers) == 1 else None

    def _installed(self, stage: int, hold: Hold, asset: str) -> Answer | None:
        if len(hold.within) != 1 or not _COPIES.search(hold.text) or _LEAVES.search(hold.text):
            return None
        tree = self._evaluation.trees[stage]
        try:
            folder = resolve(tree, hold.within[0])
        except LinkLoopError:
            return None
        root = lookup(tree, folder)
        if root is None or root.kind is not Kind.DIRECTORY:
            return None
        inner = self._inner(root, asset, hold.line)
        key = (stage, folder)
        if key not in self._projects:
            self._projects[key] = self._read(root, hold.line)
        project = self._projects[key]
        return None if inner is None or project is None else project.answer(inner)

    def _inner(self, root: Node, asset: str, before: int) -> str | None:
        """Return the one place of `asset` in the project."""
        places = [
            path
            for path, node in walk(root)
            if node.origin is not None and self._identity.main_path(node.origin) == asset
        ]
        node = lookup(root, places[0]) if len(places) == 1 else None
        return places[0] if node is not None and _certain(node, before) else None

    def _read(self, root: Node, before: int) -> Project | None:
        present = [root.children[name] for name in sorted(_RULES & root.children.keys())]
        if not all(_certain(node, before) for node in present):
            return None
        try:
            return read_project(root, lambda path: self._open(root, path, before))
        except _NotReadError:
            return None

    def _open(self, root: Node, path: str, before: int) -> BinaryIO:
        node = lookup(root, resolve(root, path))
        known = (
            self._identity.main_path(node.origin)
            if node is not None and node.origin is not None and _certain(node, before)
            else None
        )
        if known is None:
            raise _NotReadError
        return self._context.open(known)


def _certain(node: Node, before: int) -> bool:
    """Say whether a file lay here unchanged when the line `before` ran."""
    origin = node.origin
    return (
        node.kind is Kind.FILE
        and node.doubt is None
        and not node.emptied
        and not node.replaced
        and origin is not None
        and not origin.emptied
        and bool(origin.steps)
        and origin.steps[-1] < before
    )
