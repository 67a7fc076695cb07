"""``native.claims``: is what variables, labels and metadata claim of GPU libraries true."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from imagegate.catalog.native import spelled
from imagegate.catalog.requirements import installed
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE
from imagegate.checks.image.native_choices import layer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from imagegate.checks.image.evidence import Evidence
    from imagegate.facts import Facts, NativeReading
    from imagegate.oci.documents import ContainerConfig
    from imagegate.verdict import CheckReport

_RELEASE = re.compile(r"\d+(?:\.\d+)+")
# what an environment variable or a label claims, and the readings that tell the truth of it
_CLAIMS = {
    "NCCL_VERSION": ("nccl", "version string"),
    "NV_LIBNCCL_PACKAGE_VERSION": ("nccl", "version string"),
    "NV_LIBNCCL_DEV_PACKAGE_VERSION": ("nccl", "nccl.h"),
    "CUDA_VERSION": ("cuda", "cuda.h"),
    "com.nvidia.cudnn.version": ("cudnn", "cudnn_version.h"),
    "com.nvidia.nccl.version": ("nccl", "version string"),
    "CUDNN_VERSION": ("cudnn", "cudnn_version.h"),
    "NV_CUDNN_VERSION": ("cudnn", "cudnn_version.h"),
    "NVSHMEM_VERSION": ("nvshmem", "version string"),
    "UCX_VERSION": ("ucx", "version string"),
    "NIXL_VERSION": ("nixl", "version string"),
    "AWS_OFI_NCCL_VERSION": ("aws-ofi-nccl", "version string"),
    "TORCH_VERSION": ("torch", "version.py"),
    "PYTORCH_VERSION": ("torch", "version.py"),
    "VLLM_VERSION": ("vllm", "_version.py"),
    "FLASHINFER_VERSION": ("flashinfer-python", "_build_meta.py"),
}
# libraries whose file name carries their whole version
_NAMED = {"libnccl": "nccl", "libnvshmem_host": "nvshmem"}
# a real reading, and the distributions whose metadata records the same version
_RECORDED = {
    ("nccl", "version string"): re.compile(r"nvidia-nccl-cu\d+"),
    ("nvshmem", "version string"): re.compile(r"nvidia-nvshmem-cu\d+"),
    ("nixl", "version string"): re.compile(r"nixl-cu\d+"),
    ("cudnn", "cudnn_version.h"): re.compile(r"nvidia-cudnn-cu\d+"),
    ("torch", "version.py"): re.compile(r"torch"),
    ("vllm", "_version.py"): re.compile(r"vllm"),
}


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("native.claims")
    compared = list(_judge_claims(evidence, findings))
    return findings.report(
        compared, nothing_because="" if compared else "nothing claims a version of a GPU library"
    )


def _judge_claims(evidence: Evidence, findings: Findings) -> Iterator[str]:
    """Compare what variables and metadata say with the bytes; yields a line for each claim."""
    claims, base_claims = _claims(evidence.settings), _claims(evidence.base_settings)
    before = _contradictions(evidence.lock.base.facts, base_claims)
    now = _contradictions(evidence.facts, claims)
    labels = evidence.settings.labels or {}
    for name, value in claims.items():
        if name in _CLAIMS:
            yield f"{'Label' if name in labels else 'Env'} {name} claims {value}"
    for contradiction in sorted(now):
        what, subject, claimed, real, path = contradiction
        known = contradiction in before
        add = findings.note if known else findings.fail
        add(
            what,
            subject,
            f"`{subject}` says {claimed}, the bytes of `/{path}` say {real}"
            + ("; also true of the base" if known else ""),
            locked=claimed,
            found=real,
            place=evidence.place(path, layer_of(evidence, path)),
            hint="the bytes count: set the claim right, or put back the library",
        )


def _claims(settings: ContainerConfig) -> dict[str, str]:
    return {**(settings.labels or {}), **settings.environment}


def _contradictions(
    facts: Facts, environment: Mapping[str, str]
) -> set[tuple[str, str, str, str, str]]:
    """Collect kind, subject, claimed and real value, and path of each contradiction."""
    found: set[tuple[str, str, str, str, str]] = set()
    for name, key in _CLAIMS.items():
        claimed = environment.get(name, "")
        readings = [r for r in facts.native if (r.component, r.source) == key]
        # with several copies a claim is true where one of them is meant
        values = [(spelled(r.component, r.value), r.path) for r in readings]
        if claimed and values and not any(_agree(claimed, value) for value, _ in values):
            found.update(("claim", name, claimed, value, path) for value, path in values)
    found.update(_misnamed(facts))
    pins = installed(facts.distributions, ())
    for key, pattern in _RECORDED.items():
        readings = [r for r in facts.native if (r.component, r.source) == key]
        for name, pin in pins.items():
            own = _of_site(readings, pin.site)
            if pattern.fullmatch(name):
                found.update(
                    ("record", name, pin.version, r.value, r.path)
                    for r in own
                    if not _agree(pin.version, r.value)
                )
    return found


def _misnamed(facts: Facts) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield libraries whose file name says another version than their bytes."""
    said = {(r.path, r.component): r.value for r in facts.native if r.source == "version string"}
    for reading in facts.native:
        real = said.get((reading.path, _NAMED.get(reading.component, "")))
        whole = reading.source == "file name" and reading.value.count(".") >= 2
        if whole and real is not None and not _agree(reading.value, real):
            yield "name", posixpath.basename(reading.path), reading.value, real, reading.path


def _of_site(readings: Iterable[NativeReading], site: str) -> list[NativeReading]:
    """Return the readings of files that lie where a distribution is installed."""
    return [r for r in readings if posixpath.commonpath([r.path, site]) == site]


def _agree(claimed: str, real: str) -> bool:
    """Compare release numbers: the shorter one has to be the beginning of the longer one.

    ``2.30.7-1`` and ``2.30.7+cuda13.3`` agree, ``9.20.0.48`` and ``9.20.0`` too.
    """
    left, right = _RELEASE.search(claimed), _RELEASE.search(real)
    if left is None or right is None:
        return True
    one, two = left[0].split("."), right[0].split(".")
    shorter = min(len(one), len(two))
    return one[:shorter] == two[:shorter]


CHECK = Check(
    id="native.claims",
    question="is what variables, labels and metadata claim of GPU libraries true of their bytes",
    why="who reads the claim believes it, and looks for the fault elsewhere",
    fix="set the claim right, or put back the library",
    judge=_judge,
    revision=1,
    rests_on=ON_THE_BASE,
)
