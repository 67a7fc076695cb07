"""``native.abi``: can the added programs and libraries be loaded in this image at all."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from imagegate.catalog.elf import version_number
from imagegate.catalog.loader import TRIPLETS
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE, Evidence, key_of, present_components

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from imagegate.facts import ElfFile
    from imagegate.verdict import CheckReport

# libraries whose soname carries the CUDA major version
_CUDA_SONAME = re.compile(
    r"lib(?:cudart|cublas|cublasLt|nvrtc|nvJitLink|cupti|nvfatbin)\.so\.(?P<major>\d+)(?:\..*)?"
)
_CUDA_LOCAL = re.compile(r"(?:.*\.)?cu(?P<major>\d{2})(?P<minor>\d)(?:\D.*)?")
_CUDA_NAME = re.compile(r"(?P<stem>.+?)-cu(?:da)?-?(?P<major>1\d)(?:\d|x)?")
_EXTENSION = re.compile(r"(?P<stem>.+)\.cpython-(?P<python>3\d+)t?-(?P<triplet>[^.]+)\.so")
_LIBC = "libc.so.6"
_OTHER_LIBC = re.compile(r"libc\.musl-.+|ld-musl-.+|libc\.so")
_PLATFORM_TAG = re.compile(r"^Tag:\s*\S+-\S+-(?P<platform>\S+)\s*$", re.MULTILINE)


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("native.abi")
    added = evidence.added_facts.elf
    providers = _providers(evidence)
    missing: dict[str, int] = {}
    for file in added:
        if file.unread:
            _fail(findings, evidence, "unread", file, f"its tables are unknown: {file.unread}")
        if file.machine != evidence.machine:
            _judge_machine(file, evidence, findings)
            continue
        _judge_versions(file, providers, evidence, findings)
        _judge_cuda(file, evidence, findings)
        for soname in file.needed:
            if soname not in providers and _OTHER_LIBC.fullmatch(soname):
                _fail(
                    findings,
                    evidence,
                    "libc",
                    file,
                    f"it is built for another C library: nothing in the image is `{soname}`",
                    locked=_LIBC,
                    found=soname,
                    hint="take the manylinux wheel, not the musllinux one",
                )
            elif soname not in providers:
                missing[soname] = missing.get(soname, 0) + 1
    for path in _paths(evidence):
        _judge_extension(path, evidence, findings)
    _judge_distributions(evidence, findings)
    if missing:
        listed = ", ".join(f"`{name}`" for name in sorted(missing))
        findings.note(
            "not-in-image",
            "needed libraries",
            f"no file of the image provides {listed}; the driver or the host has to",
        )
    compared = [
        f"`{file.path}`: {file.machine}, needs {_highest_glibc(file) or 'no GLIBC'}"
        for file in added
    ]
    return findings.report(
        compared, nothing_because="" if compared else "no program or library was added"
    )


def _paths(evidence: Evidence) -> Iterable[str]:
    return [c.path for c in evidence.changes if c.after is not None and c.path.endswith(".so")]


def _fail(
    findings: Findings,
    evidence: Evidence,
    what: str,
    file: ElfFile,
    message: str,
    *,
    locked: str = "",
    found: str = "",
    hint: str = "",
) -> None:
    node = evidence.tree.get(file.path)
    findings.fail(
        what,
        posixpath.basename(file.path),
        message,
        locked=locked,
        found=found,
        place=evidence.place(file.path, node.layer if node else 0),
        hint=hint,
    )


def _judge_machine(file: ElfFile, evidence: Evidence, findings: Findings) -> None:
    """Refuse code for another machine, unless a wheel for every platform carries it as cargo."""
    owner = evidence.locked_owner(file.path)
    if owner and _is_for_any_platform(owner, evidence):
        node = evidence.tree.get(file.path)
        findings.note(
            "foreign-cargo",
            posixpath.basename(file.path),
            f"{owner} is for every platform and carries code for another machine",
            locked=evidence.machine,
            found=file.machine,
            place=evidence.place(file.path, node.layer if node else 0),
        )
        return
    _fail(
        findings,
        evidence,
        "machine",
        file,
        "an added program or library is for another machine",
        locked=evidence.machine,
        found=file.machine,
        hint="it was built or downloaded for the machine that built the image",
    )


def _is_for_any_platform(owner: str, evidence: Evidence) -> bool:
    """Read the tags of a locked wheel out of its ``WHEEL`` file (PEP 427)."""
    for node in evidence.lock.layer:
        if node.owner == owner and node.path.endswith(".dist-info/WHEEL"):
            text = (evidence.collector.extract("wheel", node) or b"").decode("utf-8", "replace")
            platforms = {match["platform"] for match in _PLATFORM_TAG.finditer(text)}
            return platforms == {"any"}
    return False


def _providers(evidence: Evidence) -> Mapping[str, list[ElfFile]]:
    """Return what provides each soname, for the image's machine."""
    found: dict[str, list[ElfFile]] = {}
    for file in evidence.facts.elf:
        if file.machine == evidence.machine:
            for name in {file.soname, posixpath.basename(file.path)} - {""}:
                found.setdefault(name, []).append(file)
    return found


def _judge_versions(
    file: ElfFile,
    providers: Mapping[str, list[ElfFile]],
    evidence: Evidence,
    findings: Findings,
) -> None:
    """Compare the symbol versions that a file needs with what the image's libraries define."""
    # one more name of a file of the base: what it needs is the base's own affair
    for line in file.requires or ():
        library, _, version = line.rpartition(" ")
        space, number = version_number(version)
        if not number:
            continue
        offered = [
            other
            for provider in providers.get(library, [])
            for text in provider.provides
            if version_number(text)[0] == space and (other := version_number(text)[1])
        ]
        where = f"the image's `{library}`"
        if not offered and library == _LIBC and space == "GLIBC":
            glibc = evidence.recipe.python.glibc
            offered, where = [tuple(map(int, glibc.split(".")))], "the recipe's `glibc`"
        if offered and max(offered) < number:
            _fail(
                findings,
                evidence,
                "symbol-version",
                file,
                f"it needs a newer `{library}` than there is: {version}",
                locked=f"{space}_{'.'.join(map(str, max(offered)))} of {where}",
                found=version,
                hint="take a wheel for an older manylinux, or a base with the newer library",
            )


def _judge_cuda(file: ElfFile, evidence: Evidence, findings: Findings) -> None:
    """Refuse what needs another CUDA major version than torch, unless the base has both."""
    cuda = _cuda_major(evidence)
    known = {soname for other in evidence.lock.base.facts.elf for soname in (other.soname,)}
    for soname in file.needed:
        match = _CUDA_SONAME.fullmatch(soname)
        if match is None or not cuda or match["major"] in cuda or soname in known:
            continue
        _fail(
            findings,
            evidence,
            "cuda-mixed",
            file,
            f"it needs `{soname}`, torch is built for another CUDA",
            locked=f"CUDA {', '.join(sorted(cuda))}",
            found=soname,
            hint="take the wheel that is built for the image's CUDA",
        )


def _cuda_major(evidence: Evidence) -> set[str]:
    values = present_components(evidence.facts).get("torch cuda", set())
    return {value.split(".")[0] for value in values}


def _judge_extension(path: str, evidence: Evidence, findings: Findings) -> None:
    """Compare an extension module's tag with the interpreter (PEP 3149)."""
    match = _EXTENSION.fullmatch(path)
    if match is None or not _is_imported(path, evidence):
        return
    expected = evidence.recipe.python.version.replace(".", "")
    triplet = TRIPLETS.get(evidence.machine, "")
    owner = evidence.locked_owner(path)
    if match["python"] == expected and triplet in ("", match["triplet"]):
        return
    if owner and _has_fitting_sibling(
        path, match["stem"], f"cpython-{expected}-{triplet}", evidence
    ):
        return  # a wheel that serves several interpreters
    add = findings.note if owner else findings.fail
    node = evidence.tree.get(path)
    add(
        "tag",
        posixpath.basename(path),
        "an added extension module is for another Python or machine; it cannot be imported",
        locked=f"cpython-{expected}-{triplet}",
        found=f"cpython-{match['python']}-{match['triplet']}",
        place=evidence.place(path, node.layer if node else 0),
    )


def _has_fitting_sibling(path: str, stem: str, tag: str, evidence: Evidence) -> bool:
    """Say whether the same module is there for this interpreter too."""
    names = (f"{stem}.{tag}.so", f"{stem}.abi3.so")
    return any(name != path and evidence.tree.get(name) is not None for name in names)


def _is_imported(path: str, evidence: Evidence) -> bool:
    return any(path.startswith(f"{site}/") for site in evidence.sites)


def _judge_distributions(evidence: Evidence, findings: Findings) -> None:
    """Compare the CUDA version in names and local versions of what was added with torch's."""
    cuda = present_components(evidence.facts).get("torch cuda", set())
    if not cuda:
        return
    known = {key_of(pin) for pin in evidence.lock.base.facts.distributions}
    base = {(key_of(pin), pin.version) for pin in evidence.lock.base.facts.distributions}
    full = {".".join(value.split(".")[:2]) for value in cuda}
    majors = {value.split(".")[0] for value in cuda}
    for pin in evidence.added_facts.distributions:
        name = key_of(pin)
        if (name, pin.version) in base:
            continue
        local = _CUDA_LOCAL.fullmatch(pin.version.partition("+")[2])
        named = _CUDA_NAME.fullmatch(name)
        built = f"{local['major']}.{local['minor']}" if local else ""
        other = built and built not in full
        twin = named and named["major"] not in majors and _has_twin(named["stem"], majors, known)
        if other or twin:
            findings.fail(
                "cuda-mixed",
                name,
                f"`{name}` {pin.version} is built for another CUDA than torch",
                locked=f"CUDA {', '.join(sorted(cuda))}",
                found=built or f"CUDA {named['major'] if named else ''}",
                place=evidence.place(pin.path, _layer_of(pin.path, evidence)),
                hint="both write the same paths, or call symbols that the other does not have",
            )


def _has_twin(stem: str, majors: set[str], known: set[str]) -> bool:
    """Say whether the base has the same distribution for its own CUDA."""
    return any(f"{stem}-cu{major}" in known for major in majors) or stem in known


def _layer_of(path: str, evidence: Evidence) -> int:
    node = evidence.tree.get(f"{path}/METADATA") or evidence.tree.get(path)
    return node.layer if node else 0


def _highest_glibc(file: ElfFile) -> str:
    versions = [line.rpartition(" ")[2] for line in file.requires or ()]
    numbered = [v for v in versions if version_number(v)[0] == "GLIBC"]
    return max(numbered, key=lambda v: version_number(v)[1], default="")


CHECK = Check(
    id="native.abi",
    question="are added programs and libraries for this machine, this libc, this Python, this CUDA",
    why="what is built for another one fails when it is loaded, long after the build",
    fix="choose the wheel for the image's platform; do not build it on another machine",
    judge=_judge,
    revision=1,
    rests_on=ON_THE_BASE,
)
