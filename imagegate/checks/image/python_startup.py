"""``python.startup``: does Python obey new files at its start, and import other copies than before."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from imagegate.catalog.startup import importable, module_at, module_path, modules_of
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.checks.image.evidence import Evidence
    from imagegate.facts import StartupFile
    from imagegate.verdict import CheckReport


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("python.startup")
    before = {file.path: file for file in evidence.lock.base.facts.startup}
    now = {file.path: file for file in evidence.facts.startup}
    folders = _folders(evidence)
    for path, file in sorted(now.items()):
        if path not in before:
            _judge_new(file, folders, evidence, findings)
        elif file != before[path]:
            _judge_changed(before[path], file, evidence, findings)
    for path in sorted(before.keys() - now.keys()):
        layer = evidence.tree.removed_by(path)
        findings.fail(
            "removed",
            path,
            "a file that Python obeys at its start is gone",
            locked=before[path].sha256,
            found="nothing",
            place=evidence.place(path, layer),
        )
    compared = [f"`{path}`: {len(f.code)} lines of code" for path, f in sorted(now.items())]
    _judge_environment(evidence, findings)
    compared += _judge_order(folders, evidence, findings)
    return findings.report(
        compared, nothing_because="" if compared else "no folder of Python's is in the image"
    )


def _folders(evidence: Evidence) -> tuple[str, ...]:
    python = evidence.recipe.document.python.version
    pythonpath = evidence.settings.environment.get("PYTHONPATH", "")
    startup = evidence.facts.startup
    return module_path(evidence.tree, pythonpath, evidence.sites, python, startup)


def _judge_new(
    file: StartupFile, folders: tuple[str, ...], evidence: Evidence, findings: Findings
) -> None:
    node = evidence.tree.get(file.path)
    place = evidence.place(file.path, node.layer if node else 0)
    folder = posixpath.dirname(file.path.removesuffix("/__init__.py"))
    does = "; ".join([*file.code, *(f"adds `{line}`" for line in file.inserts)])
    owner = evidence.locked_owner(file.path)
    if not does:
        return
    if owner:
        findings.note(
            "locked",
            file.path,
            f"a file of the locked {owner} is obeyed when Python starts",
            found=does,
            place=place,
        )
        return
    if not file.path.endswith(".pth") and folder not in folders:
        return  # a module of this name that nothing imports at the start
    findings.fail(
        "new",
        file.path,
        "Python obeys a new file at its start",
        locked="nothing",
        found=does,
        place=place,
        hint="what runs before every program has to come from a locked wheel or from the base",
    )


def _judge_changed(
    before: StartupFile, now: StartupFile, evidence: Evidence, findings: Findings
) -> None:
    node = evidence.tree.get(now.path)
    findings.fail(
        "changed",
        now.path,
        "a file that Python obeys at its start does something else",
        locked="; ".join([*before.code, *before.inserts]) or before.sha256,
        found="; ".join([*now.code, *now.inserts]) or now.sha256,
        place=evidence.place(now.path, node.layer if node else 0),
    )


def _judge_environment(evidence: Evidence, findings: Findings) -> None:
    """Look for a ``pyvenv.cfg`` that makes the interpreter a virtual environment's (PEP 405)."""
    interpreter = evidence.recipe.document.python.interpreter.lstrip("/")
    folder = posixpath.dirname(interpreter)
    for path in (f"{folder}/pyvenv.cfg", f"{posixpath.dirname(folder)}/pyvenv.cfg".lstrip("/")):
        before, now = evidence.base_tree.get(path), evidence.tree.get(path)
        if (before.sha256 if before else "") != (now.sha256 if now else ""):
            findings.fail(
                "environment",
                path,
                "the interpreter takes this for the environment that it belongs to, and searches "
                "its folders",
                locked=before.sha256 if before else "nothing",
                found=now.sha256 if now else "nothing",
                place=evidence.place(path, now.layer if now else evidence.tree.removed_by(path)),
            )


def _judge_order(folders: tuple[str, ...], evidence: Evidence, findings: Findings) -> list[str]:
    """Compare which copy of each module is found first, before and now."""
    python = evidence.recipe.document.python.version
    facts = evidence.lock.base.facts
    pythonpath = evidence.base_settings.environment.get("PYTHONPATH", "")
    old = module_path(evidence.base_tree, pythonpath, evidence.base_sites, python, facts.startup)
    names = _modules_to_compare(old, folders, evidence)
    before = _winners(old, names, evidence, base=True)
    now = _winners(folders, names, evidence, base=False)
    for module, path in sorted(before.items()):
        winner = now.get(module)
        if winner is None or posixpath.dirname(winner) == posixpath.dirname(path):
            continue
        folder = _folder_of(winner, folders)
        if folder == _folder_of(path, old):
            continue
        node = evidence.tree.get(winner)
        findings.fail(
            "shadowed",
            module,
            f"`import {module}` takes another copy: `{folder}` is searched before the base's folder",
            locked=path,
            found=winner,
            place=evidence.place(winner, node.layer if node else 0),
            hint="`PYTHONPATH`, a `.pth` or an earlier site directory brings it in",
        )
    for folder in folders:
        if folder not in old and folder not in evidence.base_sites:
            findings.note("searched", folder, "Python looks for modules in a further folder")
    return [f"`{folder}` is searched, number {n}" for n, folder in enumerate(folders, 1)]


def _modules_to_compare(
    old: tuple[str, ...], new: tuple[str, ...], evidence: Evidence
) -> tuple[str, ...]:
    """Name the modules that may be found elsewhere now."""
    names: set[str] = set()
    for change in evidence.changes:
        folder = _folder_of(change.path, new)
        if folder:
            names.update(modules_of([change.path[len(folder) + 1 :]]))
    kept = [folder for folder in new if folder in old]
    moved = new if kept != [f for f in old if f in new] else [f for f in new if f not in old]
    for folder in moved:
        names.update(importable(evidence.tree, folder))
    return tuple(sorted(names))


def _winners(
    folders: tuple[str, ...], modules: tuple[str, ...], evidence: Evidence, *, base: bool
) -> Mapping[str, str]:
    tree = evidence.base_tree if base else evidence.tree
    found: dict[str, str] = {}
    for module in modules:
        copies = (module_at(tree, folder, module) for folder in folders)
        first = next((path for path in copies if path is not None), None)
        if first is not None:
            found[module] = first
    return found


def _folder_of(path: str, folders: tuple[str, ...]) -> str:
    """Return the searched folder that a module lies in: the longest that fits."""
    fitting = [folder for folder in folders if path.startswith(f"{folder}/")]
    return max(fitting, key=len, default="")


CHECK = Check(
    id="python.startup",
    question="does Python obey new files at its start, or import another copy of a module than before",
    why="a `.pth`, a `sitecustomize` or a folder that is searched first replaces code without a trace",
    fix="remove the file or the variable, or bring the code in by a locked wheel",
    judge=_judge,
    revision=1,
    rests_on=ON_THE_BASE,
)
