"""``python.startup``: does Python obey other files at its start than in the base."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from imagegate.catalog.pysearch import BUILD_MARK
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.catalog.pysearch import PythonSearch
    from imagegate.checks.image.evidence import Evidence
    from imagegate.facts import StartupFile
    from imagegate.verdict import CheckReport


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("python.startup")
    before = {file.path: file for file in evidence.lock.base.facts.startup}
    now = {file.path: file for file in evidence.facts.startup}
    for path, file in sorted(now.items()):
        if path not in before:
            _judge_new(file, evidence, findings)
        elif file != before[path]:
            _judge_changed(before[path], file, evidence, findings)
    for path in sorted(before.keys() - now.keys()):
        findings.fail(
            "removed",
            path,
            "a file that Python obeys at its start is gone",
            locked=before[path].sha256,
            found="nothing",
            place=evidence.place(path, evidence.tree.removed_by(path)),
        )
    compared = [f"`{path}`: {len(f.code)} lines of code" for path, f in sorted(now.items())]
    seen: set[str] = set()
    for base, image in evidence.interpreters:
        compared.append(_judge_interpreter(base, image, evidence, findings, seen))
    return findings.report(compared)


def _judge_new(file: StartupFile, evidence: Evidence, findings: Findings) -> None:
    node = evidence.tree.get(file.path)
    place = evidence.place(file.path, node.layer if node else 0)
    does = "; ".join([*file.code, *(f"adds `{line}`" for line in file.inserts)])
    owner = evidence.locked_owner(file.path)
    if not does or not _is_obeyed(file.path, evidence):
        return
    if owner:
        findings.note(
            "locked",
            file.path,
            f"a file of the locked {owner} is obeyed when Python starts",
            found=does,
            place=place,
            cause=owner,
        )
        return
    findings.fail(
        "new",
        file.path,
        "Python obeys a new file at its start",
        locked="nothing",
        found=does,
        place=place,
        hint="what runs before every program has to come from a locked wheel or from the base",
    )


def _is_obeyed(path: str, evidence: Evidence) -> bool:
    """Say whether some interpreter of the base comes across a file of this kind there."""
    folder = posixpath.dirname(path)
    if path.endswith("._pth"):
        return folder in {f for pair in evidence.interpreters for f in _program_folders(pair[1])}
    if path.endswith(".pth"):
        # one outside site directories is not a path file: weights of models have the same suffix
        return folder.endswith(("/site-packages", "/dist-packages")) or any(
            folder in image.sites for _, image in evidence.interpreters
        )
    if posixpath.basename(path).startswith("__init__."):
        folder = posixpath.dirname(folder)
    searched = {f for _, image in evidence.interpreters for f in image.order}
    return folder in searched or folder in evidence.python_starts


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


def _program_folders(search: PythonSearch) -> Iterator[str]:
    """Yield where a program lies, as it is called and without links."""
    yield posixpath.dirname(search.interpreter.strip("/"))
    yield posixpath.dirname(search.program)


def _judge_interpreter(
    base: PythonSearch,
    image: PythonSearch,
    evidence: Evidence,
    findings: Findings,
    seen: set[str],
) -> str:
    """Compare what decides where an interpreter has its library (getpath.py, PEP 405)."""
    for folder in _program_folders(image):
        for path in (
            f"{folder}/pyvenv.cfg",
            f"{posixpath.dirname(folder)}/pyvenv.cfg".lstrip("/"),
            f"{folder}/{BUILD_MARK}",
            f"{folder}/Modules/Setup.local",
        ):
            before, now = evidence.base_tree.get(path), evidence.tree.get(path)
            same = before is now or (before and now and before.same_content(now))
            if same or path in seen:
                continue
            seen.add(path)
            findings.fail(
                "environment",
                path,
                "the interpreter takes this for the environment that it belongs to, and searches "
                "its folders",
                locked=(before.sha256 or before.target) if before else "nothing",
                found=(now.sha256 or now.target) if now else "nothing",
                place=evidence.place(path, now.layer if now else evidence.tree.removed_by(path)),
            )
    if base.library != image.library and base.interpreter not in seen:
        seen.add(base.interpreter)
        node = evidence.tree.get(f"{image.library.folder}/os.py")
        findings.fail(
            "library",
            base.interpreter,
            "the interpreter finds another standard library than in the base",
            locked=f"/{base.library.folder}",
            found=f"/{image.library.folder}",
            place=evidence.place(f"{image.library.folder}/os.py", node.layer if node else 0),
            hint="it looks for `lib/pythonX.Y/os.py` from its own folder upwards, after `PYTHONHOME`",
        )
    return f"`{image.interpreter}`: standard library `/{image.library.folder}`"


CHECK = Check(
    id="python.startup",
    question="does Python obey other files at its start than in the base",
    why="a `.pth`, a `sitecustomize` or a `pyvenv.cfg` replaces code without a trace",
    fix="remove the file, or bring the code in by a locked wheel",
    judge=_judge,
    revision=2,
    rests_on=ON_THE_BASE,
)
