"""``native.toolchain``: does compiling at run time find its headers, libraries and programs."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog.loader import TRIPLETS
from imagegate.catalog.startup import SYSTEM_PREFIXES, prefix_of
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE, Evidence, key_of
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from imagegate.rootfs import FileTree
    from imagegate.verdict import CheckReport

_CUDA_HOME = "/usr/local/cuda"
_PTXAS = "TRITON_PTXAS_PATH"
# what FlashInfer's run-time compilation includes and links, by the modules that do
# (flashinfer/jit/: fused_moe and fp8 blockscale link nvrtc, gemm cublas and cublasLt)
_FLASHINFER_HEADERS = ("cublasLt.h", "curand.h", "curand_kernel.h", "nvrtc.h")
_FLASHINFER_LIBRARIES = ("cublas", "cublasLt", "cudart", "nvrtc")
_COPIES_SHOWN = 3
# programs that speak for the Python whose folder they lie in
_OF_PYTHON = re.compile(r"(?:python|pip)3?(?:\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """One thing that compiling needs: its kind, its name, and whether the recipe declares it."""

    kind: str
    name: str
    declared: bool

    @property
    def files(self) -> tuple[str, ...]:
        """The file names that will do."""
        if self.kind == "library":
            return (f"lib{self.name}.so", f"lib{self.name}.a")
        return (self.name,)

    @property
    def label(self) -> str:
        """The item as the compiler is told it."""
        return f"-l{self.name}" if self.kind == "library" else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """Where one image's compiler looks."""

    tree: FileTree
    folders: Mapping[str, tuple[str, ...]]

    def find(self, item: _Item) -> tuple[str, str]:
        """Return the path that is found and the file behind it, both ``""`` where nothing is."""
        for folder in self.folders[item.kind]:
            for name in item.files:
                path = posixpath.normpath(f"{folder}/{name}")
                resolved = self.tree.resolve(path)
                node = self.tree.get(resolved) if resolved else None
                if resolved is not None and node is not None and node.kind is Kind.FILE:
                    return path, resolved
        return "", ""

    def dangling(self, item: _Item) -> str:
        """Return a link of the right name that leads to nothing, ``""`` where there is none."""
        for folder in self.folders[item.kind]:
            for name in item.files:
                resolved = self.tree.resolve(folder)
                node = self.tree.get(f"{resolved or folder.lstrip('/')}/{name}".lstrip("/"))
                if node is not None and node.kind is Kind.SYMLINK:
                    return f"/{node.path} -> {node.target}"
        return ""


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("native.toolchain")
    items = _items(evidence)
    compared = _judge_settings(evidence, findings)
    now = _search(evidence.tree, evidence.settings.environment, evidence)
    before = _search(evidence.base_tree, evidence.base_settings.environment, evidence)
    missing: list[_Item] = []
    for item in items:
        path, behind = now.find(item)
        if path:
            compared.append(f"{item.kind} `{item.label}`: `{path}` is `/{behind}`")
            _judge_owner(item, path, evidence, findings)
        else:
            compared.append(f"{item.kind} `{item.label}`: not found where the compiler searches")
            missing.append(item)
    copies = _copies(missing, evidence)
    for item in missing:
        _report(item, now, bool(before.find(item)[0]), copies[item], evidence, findings)
    return findings.report(
        compared,
        nothing_because="" if compared else "nothing in the image compiles at run time",
    )


def _judge_owner(item: _Item, path: str, evidence: Evidence, findings: Findings) -> None:
    """Refuse a `pip` or `python` of another Python than the recipe's: it sees other modules."""
    if item.kind != "program" or not _OF_PYTHON.fullmatch(item.name):
        return
    wanted = prefix_of(evidence.recipe.python.interpreter)
    found = prefix_of(path)
    if found == wanted or {found, wanted} <= set(SYSTEM_PREFIXES):
        return
    findings.fail(
        "program-of-another",
        item.label,
        f"the first `{item.label}` on the path is not that of the recipe's Python; it sees other "
        "distributions",
        locked=f"/{wanted}/bin",
        found=path,
        hint=f"install `{item.label}` beside the interpreter, or put its folder first in PATH",
    )


def _items(evidence: Evidence) -> list[_Item]:
    """Return what the recipe declares, then what FlashInfer is known to need."""
    section = evidence.recipe.document.toolchain
    items = [
        *(_Item(kind="header", name=name, declared=True) for name in section.headers),
        *(_Item(kind="library", name=name, declared=True) for name in section.libraries),
        *(_Item(kind="program", name=name, declared=True) for name in section.programs),
    ]
    if _has_flashinfer(evidence):
        declared = {(item.kind, item.name) for item in items}
        known = [("header", n) for n in _FLASHINFER_HEADERS]
        known += [("library", n) for n in _FLASHINFER_LIBRARIES]
        items += [_Item(kind=k, name=n, declared=False) for k, n in known if (k, n) not in declared]
    return items


def _has_flashinfer(evidence: Evidence) -> bool:
    return any(r.component == "flashinfer-python" for r in evidence.facts.native)


def _search(tree: FileTree, environment: Mapping[str, str], evidence: Evidence) -> _Search:
    """Say where the compiler looks: FlashInfer's rules, then those of GCC (gcc(1), cpp(1))."""
    home = (
        environment.get("CUDA_HOME")
        or environment.get("CUDA_PATH")
        or _nvcc_home(tree, environment)
    )
    flags = " ".join(environment.get(f"FLASHINFER_EXTRA_{n}", "") for n in ("CFLAGS", "CUDAFLAGS"))
    triplet = TRIPLETS.get(evidence.machine, "")
    python = evidence.recipe.python
    # FlashInfer adds the interpreter's own headers and those of tvm_ffi
    # a virtual environment has the headers of the interpreter that it was made with
    prefixes = dict.fromkeys((prefix_of(python.interpreter), "usr"))
    beside = [f"/{prefix}/include/python{python.version}" for prefix in prefixes]
    beside += [f"/{site}/tvm_ffi/include" for site in evidence.sites]
    headers = [
        f"{home}/include",
        *beside,
        *_options(flags, "-I"),
        *_entries(environment, "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"),
        "/usr/local/include",
        *([f"/usr/include/{triplet}"] if triplet else []),
        "/usr/include",
    ]
    libraries = [
        f"{home}/lib64",
        f"{home}/lib64/stubs",
        *_options(environment.get("FLASHINFER_EXTRA_LDFLAGS", ""), "-L"),
        *_entries(environment, "LIBRARY_PATH"),
        *(f"{top}/{triplet}" for top in ("/usr/local/lib", "/lib", "/usr/lib") if triplet),
        "/usr/local/lib",
        "/lib",
        "/usr/lib",
    ]
    programs = [f"{home}/bin", *_entries(environment, "PATH")]
    return _Search(
        tree=tree,
        folders={
            "header": tuple(headers),
            "library": tuple(libraries),
            "program": tuple(programs),
        },
    )


def _nvcc_home(tree: FileTree, environment: Mapping[str, str]) -> str:
    """Return the folder above the ``bin`` in which ``nvcc`` is first found."""
    named = environment.get("FLASHINFER_NVCC", "")
    candidates = [named] if named.startswith("/") else []
    candidates += [f"{folder}/nvcc" for folder in _entries(environment, "PATH")]
    for path in candidates:
        if tree.resolve(path) is not None:
            return posixpath.dirname(posixpath.dirname(path))
    return _CUDA_HOME


def _options(flags: str, option: str) -> list[str]:
    return list(re.findall(rf"(?:^|\s){option}\s*(/\S+)", flags))


def _entries(environment: Mapping[str, str], *names: str) -> list[str]:
    return [
        entry
        for name in names
        for entry in environment.get(name, "").split(":")
        if entry[:1] == "/"
    ]


def _copies(missing: Iterable[_Item], evidence: Evidence) -> Mapping[_Item, list[str]]:
    """Find where in the image there is a copy of what is missing, in one walk."""
    missing = list(missing)
    found: dict[_Item, list[str]] = {item: [] for item in missing}
    wanted: dict[str, _Item] = {name: item for item in missing for name in item.files}
    libraries = {f"lib{item.name}.so": item for item in missing if item.kind == "library"}
    if not missing:
        return found
    names = [*map(re.escape, wanted), *(rf"{re.escape(n)}\.[0-9.]+" for n in libraries)]
    for node in evidence.tree.matching(re.compile(rf"(?:.*/)?(?:{'|'.join(names)})")):
        if node.kind is Kind.DIRECTORY:
            continue
        name = node.path.rpartition("/")[2]
        item = wanted.get(name) or libraries[name.split(".so", 1)[0] + ".so"]
        owner = f" of {node.owner}" if node.owner else ""
        found[item].append(f"`/{node.path}`{owner}")
    return found


def _report(
    item: _Item,
    search: _Search,
    in_base: bool,
    copies: list[str],
    evidence: Evidence,
    findings: Findings,
) -> None:
    """Report one thing that is missing; a gap of the base that nobody declared is only said."""
    add = findings.fail if item.declared or in_base else findings.note
    dangling = search.dangling(item)
    message = f"the {item.kind} `{item.label}` is not found where the compiler searches"
    if dangling:
        message += f"; `{dangling}` leads to nothing"
    elif not item.declared and evidence.lock.base.digest is not None:
        message += "; the layer took it away" if in_base else "; the base has the same gap"
    more = f" and {len(copies) - _COPIES_SHOWN} more" if len(copies) > _COPIES_SHOWN else ""
    elsewhere = ", ".join(copies[:_COPIES_SHOWN]) + more
    add(
        f"{item.kind}-missing",
        item.label,
        message,
        locked=f"in one of {', '.join(search.folders[item.kind])}",
        found=f"only {elsewhere}" if copies else "nowhere in the image",
        hint="declare a link under `[[layer.links]]`"
        if copies
        else "install the package that brings it, for CUDA the `-dev` one",
    )


def _judge_settings(evidence: Evidence, findings: Findings) -> list[str]:
    """Judge what compiling is told by the environment."""
    before, now = evidence.base_settings.environment, evidence.settings.environment
    compared: list[str] = []
    ptxas = now.get(_PTXAS)
    if ptxas:
        compared.append(f"{_PTXAS}: {ptxas}")
        if evidence.tree.resolve(ptxas) is None:
            known = before.get(_PTXAS) == ptxas and evidence.base_tree.resolve(ptxas) is None
            add = findings.note if known else findings.fail
            add("ptxas-dangling", _PTXAS, "it names a program that is not there", found=ptxas)
    elif _compiles_for_new_devices(now) and any(
        key_of(pin) == "triton" for pin in evidence.facts.distributions
    ):
        compared.append(f"{_PTXAS}: nothing")
        findings.note(
            "ptxas-unset",
            _PTXAS,
            "Triton takes the ptxas that it bundles, which may not know the newest devices"
            + ("" if before.get(_PTXAS) else "; also true of the base"),
            locked=before.get(_PTXAS, "nothing"),
            found="nothing",
            hint="let it name the CUDA toolkit's ptxas",
        )
    jobs, budget = now.get("MAX_JOBS"), evidence.recipe.document.toolchain.max_jobs
    jobs = evidence.recipe.document.profile.env.get("MAX_JOBS", jobs)
    if budget is not None or _has_flashinfer(evidence):
        compared.append(f"MAX_JOBS: {jobs or 'nothing'}")
        _judge_jobs(jobs, budget, findings)
    return compared


def _compiles_for_new_devices(environment: Mapping[str, str]) -> bool:
    """Say whether kernels are compiled for devices of compute capability 12 (sm_120, sm_121)."""
    lists = ("TORCH_CUDA_ARCH_LIST", "FLASHINFER_CUDA_ARCH_LIST")
    return any(re.search(r"\b12\.\d", environment.get(name, "")) for name in lists)


def _judge_jobs(jobs: str | None, budget: int | None, findings: Findings) -> None:
    if jobs is not None and jobs.isdigit() and (budget is None or int(jobs) <= budget):
        return
    add = findings.fail if budget is not None else findings.note
    add(
        "max-jobs",
        "MAX_JOBS",
        "compiling at run time takes one job a processor, each of several gigabytes"
        if jobs is None or not jobs.isdigit()
        else "compiling at run time takes more jobs than the recipe allows",
        locked=f"at most {budget}" if budget is not None else "a number",
        found=jobs or "nothing",
        hint="set it under `[config.env]` or `[profile.env]`",
    )


CHECK = Check(
    id="native.toolchain",
    question="is each header, library and program for compiling at run time where it is searched",
    why="kernels are compiled at the first request; a header that is missing stops serving then",
    fix="declare a link to the copy that the message names, or install the `-dev` package",
    judge=_judge,
    revision=1,
    rests_on=ON_THE_BASE,
)
