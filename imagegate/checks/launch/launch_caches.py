"""``launch.caches``: are the compiled kernels there, and this image's own."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings

if TYPE_CHECKING:
    from imagegate.checks.launch.evidence import LaunchEvidence
    from imagegate.launch.facts import CacheFolder, NodeFacts
    from imagegate.verdict import CheckReport


def _judge(evidence: LaunchEvidence) -> CheckReport:
    findings = Findings(CHECK.id)
    compared: list[str] = []
    for entry in evidence.section.caches:
        parent = entry.path.partition("{digest}")[0].rstrip("/")
        for node in evidence.nodes:
            seen = next((c for c in node.caches if c.path.rstrip("/") == parent), None)
            if seen is None:
                findings.note("not-looked-at", f"{node.name}: {parent}", "the cache was not looked at",
                              hint=f"`imagegate node facts --cache {parent}`")  # fmt: skip
                continue
            folder = folder_of(evidence, node, entry.path)
            others = [one.name for one in seen.folders if one is not folder]
            if seen.there and seen.writable is False:
                findings.note("not-writable", f"{node.name}: {parent}",
                              f"the host cannot write there; its owner is uid {seen.uid}")  # fmt: skip
            if folder is None:
                more = f"; kernels of {len(others)} other images do not count" if others else ""
                findings.note("empty", f"{node.name}: {parent}",
                              f"no kernels of this image are compiled{more}",
                              hint="`imagegate launch precompile` while no model is resident")  # fmt: skip
                continue
            compared.append(f"{node.name}: {len(folder.libraries)} libraries in {folder.name[:19]}")
            if folder.locks:
                findings.fail("locked", f"{node.name}: {folder.locks[0]}",
                              "a compiler holds a lock, or was ended while it did",
                              locked="no lock", found=f"{len(folder.locks)} locks",
                              hint="wait for it, or remove the lock if no compiler runs")  # fmt: skip
            missing = missing_kernels(evidence, folder)
            if missing:
                findings.fail("incomplete", f"{node.name}: {missing[0]}",
                              "kernels that the recipe expects are not compiled",
                              locked=", ".join(missing), found=f"{len(folder.libraries)} libraries",
                              hint="`imagegate launch precompile` while no model is resident")  # fmt: skip
    nothing = "" if compared else "no cache of this image was seen"
    return findings.report(compared, nothing_because=nothing)


def folder_of(evidence: LaunchEvidence, node: NodeFacts, path: str) -> CacheFolder | None:
    """Return the folder of this image's digest in a cache of a node."""
    parent = path.partition("{digest}")[0].rstrip("/")
    name = evidence.digest.rpartition(":")[2]
    for cache in node.caches:
        if cache.path.rstrip("/") == parent:
            return next((one for one in cache.folders if name and one.name == name), None)
    return None


def missing_kernels(evidence: LaunchEvidence, folder: CacheFolder) -> list[str]:
    """Return the expected patterns that no library matches."""
    section = evidence.section.precompile
    return [
        pattern
        for pattern in (section.expects if section is not None else ())
        if not any(fnmatchcase(one, pattern) for one in folder.libraries)
    ]


def complete(evidence: LaunchEvidence, node: NodeFacts) -> bool:
    """Whether everything that the recipe expects is compiled on a node, for this digest."""
    if evidence.section.precompile is None or not evidence.section.caches:
        return False
    folder = folder_of(evidence, node, evidence.section.caches[0].path)
    return folder is not None and not folder.locks and not missing_kernels(evidence, folder)


CHECK = Check(
    id="launch.caches",
    question="are the kernels compiled that the recipe expects, for exactly this image",
    why="FlashInfer keys its cache by version and architecture alone; another image's kernels fit",
    fix="mount the cache by digest and precompile before the start",
    judge=_judge,
    revision=1,
)
