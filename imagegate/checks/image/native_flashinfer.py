"""``native.flashinfer``: do FlashInfer's parts belong together, and is nothing silencing its check."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import Evidence, key_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.facts import Facts
    from imagegate.verdict import CheckReport

_PACKAGE = "flashinfer-python"
# the two companions, and the providers for one architecture that the later shim chooses from
_COMPANION = re.compile(r"flashinfer-(?:cubin|jit-cache(?:-[a-z0-9]+)*)")
# what FlashInfer calls itself where `_build_meta.py` is missing; it then skips its own check
_UNKNOWN = "0.0.0+unknown"
_CUDA_LOCAL = re.compile(r"cu(?P<major>\d{2})(?P<minor>\d)(?:\D.*)?")
# any value that is not empty counts, "0" too
SILENCING = "FLASHINFER_DISABLE_VERSION_CHECK"
# `${FLASHINFER_WORKSPACE_BASE:-$HOME}/.cache/flashinfer/<version>/<architectures>/cached_ops`
_CACHED = re.compile(
    r"(?P<cache>(?:.*/)?\.cache/flashinfer/(?P<version>\d[^/]*))/[^/]+/(?:cached_ops|generated)/.+"
)
_OVERRIDING = ("FLASHINFER_CUBIN_DIR", "FLASHINFER_CUBINS_REPOSITORY", "FLASHINFER_WORKSPACE_BASE")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One part: the version its metadata has, and the one its code has."""

    name: str
    recorded: str
    real: str
    path: str

    @property
    def version(self) -> str:
        """The version that counts at run time: the code's where it can be read."""
        return self.real or self.recorded


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("native.flashinfer")
    before, now = _parts(evidence.lock.base.facts), _parts(evidence.facts)
    _judge_switches(evidence, findings, present=bool(now))
    if not now:
        return findings.report((), nothing_because="FlashInfer is not in the image")
    _judge_caches(now, evidence, findings)
    known = {message for _, message, _ in _contradictions(before, evidence.lock.base.facts)}
    for what, message, part in _contradictions(now, evidence.facts):
        add = findings.note if message in known else findings.fail
        node = evidence.tree.get(part.path)
        add(
            what,
            part.name,
            message + ("; also true of the base" if message in known else ""),
            locked=before[part.name].version if part.name in before else "nothing",
            found=part.version,
            place=evidence.place(part.path, node.layer if node else 0),
            hint="install all parts of one version; a stale part runs stale kernels or none",
        )
    return findings.report(
        f"{part.name}: recorded={part.recorded or 'nothing'} real={part.real or 'nothing'}"
        for _, part in sorted(now.items())
    )


def _judge_caches(parts: Mapping[str, _Part], evidence: Evidence, findings: Findings) -> None:
    """Judge kernels that a layer brings compiled: nothing of them is in a wheel or in the lock."""
    version = parts[_PACKAGE].version if _PACKAGE in parts else ""
    found: dict[str, tuple[str, int, int]] = {}
    for change in evidence.changes:
        match = _CACHED.fullmatch(change.path) if change.after is not None else None
        if match is not None:
            _, count, _ = found.get(match["cache"], ("", 0, 0))
            found[match["cache"]] = (match["version"], count + 1, change.layer)
    for cache, (made_by, count, layer) in sorted(found.items()):
        stale = _public(made_by) != _public(version)
        add = findings.fail if stale else findings.note
        add(
            "stale-cache" if stale else "compiled-cache",
            f"/{cache}",
            f"{count} files of compiled kernels come with the image"
            + (
                "; they were made by another FlashInfer, and are compiled anew at the first request"
                if stale
                else "; they are run as they are, or compiled anew where CUDA_HOME or times differ"
            ),
            locked=version or "no FlashInfer",
            found=made_by,
            place=evidence.place(cache, layer),
            hint="do not copy a cache into the image; flashinfer-jit-cache is the locked form of it",
        )


def _parts(facts: Facts) -> Mapping[str, _Part]:
    real = {
        reading.component: reading for reading in facts.native if reading.source == "_build_meta.py"
    }
    found: dict[str, _Part] = {}
    for pin in facts.distributions:
        name = key_of(pin)
        if name == _PACKAGE or _COMPANION.fullmatch(name):
            reading = real.get(name)
            found[name] = _Part(
                name=name,
                recorded=pin.version,
                real=reading.value if reading else "",
                path=reading.path if reading else f"{pin.path}/METADATA",
            )
    for name, reading in real.items():
        if name == _PACKAGE or _COMPANION.fullmatch(name):
            found.setdefault(
                name, _Part(name=name, recorded="", real=reading.value, path=reading.path)
            )
    return found


def _contradictions(parts: Mapping[str, _Part], facts: Facts) -> list[tuple[str, str, _Part]]:
    """List what does not belong together: kind, message, part."""
    found: list[tuple[str, str, _Part]] = []
    package = parts.get(_PACKAGE)
    for part in parts.values():
        if part.recorded and part.real and _public(part.recorded) != _public(part.real):
            message = f"metadata says {part.recorded}, the code says {part.real}"
            found.append(("readings-differ", message, part))
        nameless = part.name == _PACKAGE and part.recorded and not part.real
        if nameless or _UNKNOWN in (part.recorded, part.real):
            message = f"`{part.name}` does not know its version: its own check is skipped"
            found.append(("version-unknown", message, part))
        if part.name == _PACKAGE:
            continue
        if package is None:
            found.append(("alone", f"`{part.name}` is there without `{_PACKAGE}`", part))
        elif _public(part.version) != _public(package.version):
            message = f"`{part.name}` {part.version} is not of `{_PACKAGE}` {package.version}"
            found.append(("lockstep", message, part))
    cuda = {r.value for r in facts.native if r.component == "torch cuda"}
    for part in parts.values():
        built_for = _cuda_of(part.version)
        if built_for and cuda and built_for not in {_major_minor(value) for value in cuda}:
            message = (
                f"`{part.name}` {part.version} is built for another CUDA than torch: "
                f"{', '.join(sorted(cuda))}"
            )
            found.append(("cuda", message, part))
    return found


def _judge_switches(evidence: Evidence, findings: Findings, *, present: bool) -> None:
    before, now = evidence.base_settings.environment, evidence.settings.environment
    if now.get(SILENCING):
        known = before.get(SILENCING) == now[SILENCING]
        add = findings.note if known else findings.fail
        add(
            "silenced",
            SILENCING,
            "the image's environment turns FlashInfer's own version check off"
            + ("; also true of the base" if known else "; any value does, `0` too"),
            locked=before.get(SILENCING, "nothing"),
            found=now[SILENCING],
            hint="remove the variable, or waive it with a reason",
        )
    for name in _OVERRIDING if present else ():
        if now.get(name) != before.get(name) and now.get(name):
            findings.note(
                "elsewhere",
                name,
                "FlashInfer takes compiled code from elsewhere than its packages",
                locked=before.get(name, "nothing"),
                found=now[name],
            )


def _public(version: str) -> str:
    """Return what is compared: the public part (PEP 440), ``0.6.18+cu130`` as ``0.6.18``."""
    try:
        return Version(version).public
    except InvalidVersion:
        return version


def _cuda_of(version: str) -> str:
    """Read the CUDA version out of a local part: ``+cu130`` is ``13.0``."""
    match = _CUDA_LOCAL.fullmatch(version.partition("+")[2])
    return f"{match['major']}.{match['minor']}" if match else ""


def _major_minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


CHECK = Check(
    id="native.flashinfer",
    question="are FlashInfer's package, cubins and compiled cache of one version and one CUDA",
    why="a part of another version fails at import or runs kernels with another interface",
    fix="install all parts of one version; do not turn the version check off",
    judge=_judge,
    revision=1,
)
