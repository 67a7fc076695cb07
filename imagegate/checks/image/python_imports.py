"""``python.imports``: does every name import what it imported in the base."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from imagegate.catalog.pysearch import Module, find_module, module_in, name_of, names_in
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from imagegate.catalog.pysearch import PythonSearch
    from imagegate.checks.image.evidence import Evidence
    from imagegate.rootfs import FileTree
    from imagegate.verdict import CheckReport


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("python.imports")
    compared: list[str] = []
    told: set[str] = set()
    for base, image in evidence.interpreters:
        _judge_archives(base, image, evidence, findings, told)
        answers = _Answers(image.endings)
        ways = [(base.order, image.order)]
        for folder in evidence.python_starts:
            before, now = base.first(folder), image.first(folder)
            if before is not None or now is not None:
                ways.append((_with(before, base.order), _with(now, image.order)))
        for before_order, now_order in ways:
            names = _names(before_order, now_order, image, evidence)
            for name in sorted(names):
                _compare(name, before_order, now_order, answers, evidence, findings, told)
            compared.append(
                f"`{image.interpreter}`: {len(names)} names along "
                + (", ".join(f"`/{folder}`" for folder in now_order) or "no folder")
            )
    _judge_inside(evidence, findings, told)
    return findings.report(compared)


def _with(first: str | None, order: tuple[str, ...]) -> tuple[str, ...]:
    return order if first is None else tuple(dict.fromkeys((first, *order)))


# --- along the path


def _names(
    before: tuple[str, ...],
    now: tuple[str, ...],
    search: PythonSearch,
    evidence: Evidence,
) -> set[tuple[str, ...]]:
    """Name what may be found elsewhere now, as dotted names in parts."""
    names: set[tuple[str, ...]] = set()
    leads = [(folder, f"{folder}/" if folder else "") for folder in {*before, *now}]
    for change in evidence.changes:
        for _, lead in leads:
            if change.path.startswith(lead):
                names.update(_dotted(change.path[len(lead) :], search.endings))
    kept = [folder for folder in now if folder in before]
    moved = now if kept != [f for f in before if f in now] else [f for f in now if f not in before]
    for folder in moved:
        names.update(names_in(evidence.tree, folder, search.endings))
    for folder in before:
        # what a folder gave that is searched no more
        if folder not in now:
            names.update(names_in(evidence.base_tree, folder, search.endings))
    return names


def _dotted(path: str, endings: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the modules that a path below a folder of ``sys.path`` belongs to."""
    parts = path.split("/")
    above: list[str] = []
    for part in parts[:-1]:
        if not part.isidentifier():
            return
        above.append(part)
        yield tuple(above)
    named = name_of(path, endings)
    if named is not None and posixpath.basename(path).partition(".")[0] != "__init__":
        yield (*above, named[1])
    elif parts[-1].isidentifier():
        yield (*above, parts[-1])


class _Answers:
    """What answers to a name in some folders, asked once: a package's modules share their parents."""

    def __init__(self, endings: Sequence[str]) -> None:
        self.endings = endings
        self._known: dict[tuple[int, tuple[str, ...], str], Module | None] = {}

    def find(self, tree: FileTree, folders: tuple[str, ...], name: str) -> Module | None:
        key = (id(tree), folders, name)
        if key not in self._known:
            self._known[key] = find_module(tree, folders, name, self.endings)
        return self._known[key]


def _compare(
    name: tuple[str, ...],
    before: tuple[str, ...],
    now: tuple[str, ...],
    answers: _Answers,
    evidence: Evidence,
    findings: Findings,
    told: set[str],
) -> None:
    """Follow a dotted name through namespace packages, in the base and in the image."""
    for depth, part in enumerate(name, 1):
        old = answers.find(evidence.base_tree, before, part)
        new = answers.find(evidence.tree, now, part)
        if old is None:
            if depth == 1 and new is not None:
                _judge_new(part, new, evidence, findings, told)
            return
        if new is None and _holds_nothing(old, answers.endings, evidence):
            return
        if new is None or new.path != old.path:
            _tell(".".join(name[:depth]), old, new, evidence, findings, told)
            return
        if old.path:
            return  # inside a package `_judge_inside` compares
        before, now = old.folders, new.folders


def _judge_new(
    name: str, new: Module, evidence: Evidence, findings: Findings, told: set[str]
) -> None:
    """Refuse a name that the base did not have and that a wildcard lets in.

    Programs try modules that need not be there (`uvloop`, `apex`): a new one runs at once. Namespace
    packages are made of any folder; nobody imports them by chance.
    """
    if not new.path or name in told or not evidence.allowed(new.path):
        return
    if new.path in evidence.named_in_full:
        return
    told.add(name)
    node = evidence.tree.get(new.path)
    findings.fail(
        "new-name",
        name,
        f"`import {name}` finds a file that only a wildcard of `[[layer.allow]]` explains",
        locked="nothing",
        found=f"/{new.path}",
        place=evidence.place(new.path, node.layer if node else 0),
        hint="where Python searches, `allow` names each module in full; or bring it by a locked wheel",
    )


def _holds_nothing(module: Module, endings: Sequence[str], evidence: Evidence) -> bool:
    """Say whether a namespace package is a folder without a single module: nobody imports it.

    Where `/` is the working folder, every folder of the base has such a name.
    """
    return not module.path and not any(
        name_of(node.path, endings) is not None
        for folder in module.folders
        for node in evidence.base_tree.under(folder)
    )


def _tell(
    name: str,
    old: Module,
    new: Module | None,
    evidence: Evidence,
    findings: Findings,
    told: set[str],
) -> None:
    winner = new.path or new.folders[0] if new is not None else ""
    if name in told or _says_another_check(old, new, evidence):
        return
    told.add(name)
    node = evidence.tree.get(winner) if winner else None
    owner = evidence.lock.files.get(old.path) if old.path else None
    found = f"/{new.path}" if new is not None and new.path else ""
    findings.fail(
        "shadowed",
        name,
        f"`import {name}` takes something else than in the base"
        if new is not None
        else f"`import {name}` finds nothing any more",
        locked=f"/{old.path}" if old.path else f"the namespace package of `/{old.folders[0]}`",
        found=found or (f"the namespace package of `/{winner}`" if winner else "nothing"),
        place=evidence.place(winner, node.layer if node else 0),
        hint="its folder is searched first, or its form comes first: package, extension, source",
        cause=owner.owner if owner is not None else "",
    )


def _says_another_check(old: Module, new: Module | None, evidence: Evidence) -> bool:
    """Say whether the base's own file is gone: then that is told, and what follows from it not."""
    if not old.path:
        return False
    gone = evidence.tree.resolve(old.path) is None
    same = new is not None and new.path and not new.folders and not old.folders
    if same and new is not None:
        before, now = evidence.base_tree.get(old.path), evidence.tree.get(new.path)
        return gone or (before is not None and now is not None and before.same_content(now))
    return gone and new is None


def _judge_archives(
    base: PythonSearch,
    image: PythonSearch,
    evidence: Evidence,
    findings: Findings,
    told: set[str],
) -> None:
    """Refuse a new archive on the path: everything in it is importable (module ``zipimport``)."""
    for entry in image.order:
        node = evidence.tree.get(entry)
        if node is None or node.kind is not Kind.FILE or entry in told:
            continue
        before = evidence.base_tree.get(entry)
        if entry in base.order and before is not None and before.same_content(node):
            continue
        told.add(entry)
        findings.fail(
            "archive",
            entry,
            "Python imports from an archive that it did not search in the base",
            locked=before.sha256 if before is not None else "nothing",
            found=node.sha256,
            place=evidence.place(entry, node.layer),
            hint="nobody looks into it: bring the modules in by a locked wheel",
        )


# --- inside one folder


def _judge_inside(evidence: Evidence, findings: Findings, told: set[str]) -> None:
    """Compare what answers to a name inside each folder of the base that a layer wrote into."""
    endings = tuple(dict.fromkeys(e for _, image in evidence.interpreters for e in image.endings))
    seen: set[tuple[str, str]] = set()
    there: dict[str, bool] = {}
    for change in evidence.changes:
        for folder, name in _made_by(change.path, endings):
            if folder not in there:
                there[folder] = not folder or evidence.base_tree.get(folder) is not None
            if not there[folder] or (folder, name) in seen:
                continue
            seen.add((folder, name))
            _judge_name(folder, name, endings, evidence, findings, told)


def _made_by(path: str, endings: Sequence[str]) -> Iterable[tuple[str, str]]:
    named = name_of(path, endings)
    if named is not None:
        return (named,)
    folder, _, base = path.rpartition("/")
    return ((folder, base),) if base.isidentifier() else ()


def _judge_name(
    folder: str,
    name: str,
    endings: Sequence[str],
    evidence: Evidence,
    findings: Findings,
    told: set[str],
) -> None:
    old = module_in(evidence.base_tree, folder, name, endings)
    if not isinstance(old, Module) or old.path in told:
        return
    new = module_in(evidence.tree, folder, name, endings)
    now = new if isinstance(new, Module) else None
    if (now is not None and now.path == old.path) or _says_another_check(old, now, evidence):
        return
    if evidence.tree.resolve(old.path) is None:
        return  # it was deleted: that is told as such
    told.add(old.path)
    dotted = f"{folder}/{name}".rpartition("-packages/")[2].replace("/", ".")
    if dotted in told:
        return
    assert now is not None
    node = evidence.tree.get(now.path)
    owner = evidence.lock.files.get(old.path)
    findings.fail(
        "shadowed",
        dotted,
        f"`/{now.path}` is imported instead of the base's file",
        locked=f"/{old.path}",
        found=f"/{now.path}",
        place=evidence.place(now.path, node.layer if node else 0),
        hint="of several forms of one module the package comes first, then extensions, then sources",
        cause=owner.owner if owner is not None else "",
    )


CHECK = Check(
    id="python.imports",
    question="does every name import what it imported in the base, however Python starts",
    why="a folder that is searched first, or a form that comes first, replaces code without a trace",
    fix="remove the file or the variable, or bring the code in by a locked wheel",
    judge=_judge,
    revision=2,
    rests_on=ON_THE_BASE,
)
