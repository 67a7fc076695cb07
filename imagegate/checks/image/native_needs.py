"""``native.needs``: does each library of the base find what it needs where it found it."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE
from imagegate.checks.image.native_choices import layer_of
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.catalog.loader import Loaded
    from imagegate.checks.image.evidence import Evidence
    from imagegate.verdict import CheckReport

_LOADER_ENVIRONMENT = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_LOADED_INTO_ALL = ("LD_PRELOAD", "LD_AUDIT")


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("native.needs")
    return findings.report(
        [
            *_judge_needs(evidence, findings),
            *_judge_loader_files(evidence, findings),
            *_judge_preloads(evidence, findings),
        ]
    )


def _judge_needs(evidence: Evidence, findings: Findings) -> Iterator[str]:
    """Compare what each untouched library of the base loads with what it loaded in the base."""
    names = _sonames_to_follow(evidence)
    if names is not None and not names:
        yield "what the base's libraries need: no layer adds, hides or reorders any of it"
        return
    moved: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    followed = 0
    for file in evidence.lock.base.facts.elf:
        node = evidence.tree.get(file.path)
        if file.machine != evidence.machine or node is None or node.layer:
            continue
        for soname in file.needed:
            if names is not None and soname not in names:
                continue
            followed += 1
            before = evidence.base_loader.find(soname, file)
            now = evidence.loader.find(soname, file)
            if not _same_bytes(before, now, evidence):
                moved[soname, before.path, now.path].append(file.path)
    for (soname, before_path, now_path), files in sorted(moved.items()):
        _report(soname, before_path, now_path, files, evidence, findings)
    yield f"what the base's libraries need: {followed} loads followed, {len(moved)} moved"


def _sonames_to_follow(evidence: Evidence) -> set[str] | None:
    """Name what may be loaded from elsewhere now; ``None`` where everything may."""
    before, now = evidence.base_settings.environment, evidence.settings.environment
    base = evidence.lock.base.facts
    if base.loader != evidence.facts.loader or any(
        before.get(name) != now.get(name) for name in _LOADER_ENVIRONMENT
    ):
        return None
    needed = {soname for file in base.elf for soname in file.needed}
    touched = {posixpath.basename(change.path) for change in evidence.changes}
    # a link that leads to a folder, or led to one, moves whatever lies behind it
    for change in evidence.changes:
        if change.before is not None and (change.before.target or change.after is None):
            return None
        if change.after is not None and change.after.target:
            behind = evidence.tree.get(evidence.tree.resolve(change.path) or "")
            if behind is not None and behind.kind is Kind.DIRECTORY:
                return None
    return needed & touched


def _same_bytes(before: Loaded, now: Loaded, evidence: Evidence) -> bool:
    if before.path == now.path:
        # the same path with other bytes is `python.content`'s and `files.moves`' to say
        return True
    old = evidence.base_tree.get(before.path) if before.path else None
    new = evidence.tree.get(now.path) if now.path else None
    return old is not None and new is not None and old.sha256 == new.sha256


def _report(
    soname: str, before: str, now: str, files: list[str], evidence: Evidence, findings: Findings
) -> None:
    node = evidence.tree.get(now) if now else None
    # what nothing provided before was the host's to bring; the driver is judged on its own
    add = findings.fail if before else findings.note
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    add(
        "needs-another",
        soname,
        f"`/{files[0]}`{more} of the base load{'' if more else 's'} another `{soname}` than before",
        locked=f"/{before}" if before else "nothing",
        found=f"/{now}" if now else "nothing",
        place=evidence.place(now or before, node.layer if node else 0),
        hint="a folder that is searched earlier has a library of that name",
    )


def _judge_loader_files(evidence: Evidence, findings: Findings) -> Iterator[str]:
    """Compare the loader's own configuration; a new ``ld.so.preload`` is loaded into everything."""
    before = {file.path: file.lines for file in evidence.lock.base.facts.loader}
    now = {file.path: file.lines for file in evidence.facts.loader}
    for path in sorted(before.keys() | now.keys()):
        yield f"loader: `/{path}`: {', '.join(now.get(path, ())) or 'nothing'}"
        if before.get(path) == now.get(path):
            continue
        add = findings.fail if path.endswith("ld.so.preload") else findings.note
        add(
            "loader-moved",
            path,
            "what the dynamic loader is told was changed",
            locked=", ".join(before.get(path, ())) or "nothing",
            found=", ".join(now.get(path, ())) or "nothing",
            place=evidence.place(path, layer_of(evidence, path)),
        )


def _judge_preloads(evidence: Evidence, findings: Findings) -> Iterator[str]:
    """Compare what the environment has loaded into every program, whoever declares it (ld.so(8))."""
    for name in _LOADED_INTO_ALL:
        before = evidence.base_settings.environment.get(name, "")
        now = evidence.settings.environment.get(name, "")
        if before or now:
            yield f"loader: {name}: {now or 'nothing'}"
        if now and now != before:
            findings.fail(
                "preload-moved",
                name,
                "the environment loads another library into every program than in the base",
                locked=before or "nothing",
                found=now,
                hint="link the one program that needs it against it, or set the variable there",
            )


CHECK = Check(
    id="native.needs",
    question="does each library of the base find what it needs where it found it",
    why="a library of the same name in a folder that is searched earlier is loaded by everything",
    fix="find the step in the message; libraries come with the base, not with the layer",
    judge=_judge,
    revision=2,
    rests_on=ON_THE_BASE,
)
