"""Which copy of a GPU library torch and vLLM load, and whether what the environment claims is true.

A part of ``native.pins``: the copies are compared there, here it is said which one counts.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog.native import is_watched, spelled
from imagegate.catalog.requirements import installed
from imagegate.checks.image.native_needs import (
    judge_driver,
    judge_needs,
    judge_others,
    judge_plugins,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from imagegate.catalog.loader import Loaded, Loader
    from imagegate.checks.check import Findings
    from imagegate.checks.image.evidence import Evidence
    from imagegate.facts import ElfFile, Facts, NativeReading
    from imagegate.oci.documents import ContainerConfig
    from imagegate.rootfs import FileTree

_TORCH = re.compile(r"(?:.*/)?torch/lib/libtorch_(?:cuda|cpu|nvshmem|cuda_linalg)\.so")
_NCCL = "libnccl.so.2"
_VLLM_NCCL = "VLLM_NCCL_SO_PATH"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Who loads which file for which name, and by which rule."""

    who: str
    soname: str
    path: str
    sha256: str
    because: str

    @property
    def text(self) -> str:
        """The choice for a person."""
        found = f"`/{self.path}`" if self.path else "nothing"
        return f"{self.who} loads {found} for `{self.soname}`: {self.because}"


def choices(
    facts: Facts, tree: FileTree, loader: Loader, environment: Mapping[str, str]
) -> dict[tuple[str, str], Choice]:
    """Say which copy of each watched library torch and vLLM load, by who and name."""
    found: dict[tuple[str, str], Choice] = {}

    def add(who: str, soname: str, loaded: Loaded) -> None:
        node = tree.get(loaded.path) if loaded.path else None
        found[who, soname] = Choice(
            who=who,
            soname=soname,
            path=loaded.path,
            sha256=node.sha256 if node else "",
            because=loaded.because,
        )

    for library in _torch_libraries(facts):
        for soname in library.needed:
            if is_watched(soname) and ("torch", soname) not in found:
                add("torch", soname, loader.find(soname, library))
    if any(reading.component == "vllm" for reading in facts.native):
        add("vLLM", _NCCL, _vllm_choice(found.get(("torch", _NCCL)), tree, loader, environment))
    return found


def _torch_libraries(facts: Facts) -> list[ElfFile]:
    return [file for file in facts.elf if _TORCH.fullmatch(file.path)]


def _vllm_choice(
    of_torch: Choice | None, tree: FileTree, loader: Loader, environment: Mapping[str, str]
) -> Loaded:
    """Follow vLLM's own rule: a variable, else whatever torch has loaded under the name."""
    from imagegate.catalog.loader import Loaded

    named = environment.get(_VLLM_NCCL)
    if named and named.startswith("/"):
        return Loaded(path=tree.resolve(named) or "", because=f"`{_VLLM_NCCL}`")
    if named:
        return loader.find(named, None)
    if of_torch is not None and of_torch.path:
        return Loaded(path=of_torch.path, because="torch has loaded it under this name before")
    return loader.find(_NCCL, None)


def nccl_choice(evidence: Evidence) -> Loaded:
    """Say which copy a Python of the image gets under NCCL's name once torch, if any, is loaded."""
    environment = evidence.settings.environment
    found = choices(evidence.facts, evidence.tree, evidence.loader, environment)
    return _vllm_choice(found.get(("torch", _NCCL)), evidence.tree, evidence.loader, environment)


def judge_choices(evidence: Evidence, findings: Findings) -> Iterator[str]:
    """Compare which copies are loaded with the base's; yields a line for each."""
    facts = evidence.lock.base.facts
    before = choices(
        facts, evidence.base_tree, evidence.base_loader, evidence.base_settings.environment
    )
    now = choices(evidence.facts, evidence.tree, evidence.loader, evidence.settings.environment)
    for key, choice in sorted(now.items()):
        yield choice.text
        old = before.get(key)
        if old is not None and (old.path, old.sha256) != (choice.path, choice.sha256):
            findings.fail(
                "loads-another",
                choice.soname,
                f"{choice.who} loads another copy of `{choice.soname}` than in the base",
                locked=f"/{old.path} ({old.because})" if old.path else "nothing",
                found=f"/{choice.path} ({choice.because})" if choice.path else "nothing",
                place=evidence.place(choice.path, _layer_of(evidence, choice.path)),
            )
    yield from _judge_two_in_one(before, now, findings)
    yield from judge_others(before, now, evidence, findings)
    yield from judge_needs(evidence, findings)
    yield from judge_driver(evidence, findings)
    yield from judge_plugins(now, evidence, findings)
    yield from _judge_loader_files(evidence, findings)


def _judge_two_in_one(
    before: Mapping[tuple[str, str], Choice],
    now: Mapping[tuple[str, str], Choice],
    findings: Findings,
) -> Iterator[str]:
    """Say it when one process would hold two different NCCL."""
    pairs = [(state.get(("torch", _NCCL)), state.get(("vLLM", _NCCL))) for state in (before, now)]
    differ = [bool(t and v and t.path and v.path and t.sha256 != v.sha256) for t, v in pairs]
    if differ[1]:
        torch, vllm = pairs[1]
        assert torch is not None
        assert vllm is not None
        add = findings.note if differ[0] else findings.fail
        add(
            "two-in-one-process",
            _NCCL,
            "torch and vLLM load different builds of NCCL into one process",
            locked=f"/{torch.path}",
            found=f"/{vllm.path}",
        )
        yield f"`{_NCCL}`: two builds in one process"


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
            place=evidence.place(path, _layer_of(evidence, path)),
        )


def _layer_of(evidence: Evidence, path: str) -> int:
    node = evidence.tree.get(path) if path else None
    return node.layer if node is not None else 0


# --- claims and records against the bytes


def judge_claims(evidence: Evidence, findings: Findings) -> Iterator[str]:
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
            + ("; the base has it so" if known else ""),
            locked=claimed,
            found=real,
            place=evidence.place(path, _layer_of(evidence, path)),
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
