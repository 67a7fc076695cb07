"""Which copy of a GPU library torch and vLLM load: what several checks ask."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog.loader import Loaded
from imagegate.catalog.native import is_watched

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.catalog.loader import Loader
    from imagegate.checks.image.evidence import Evidence
    from imagegate.facts import ElfFile, Facts
    from imagegate.rootfs import FileTree

_TORCH = re.compile(r"(?:.*/)?torch/lib/libtorch_(?:cuda|cpu|nvshmem|cuda_linalg)\.so")
NCCL = "libnccl.so.2"
_VLLM_NCCL = "VLLM_NCCL_SO_PATH"


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
        add("vLLM", NCCL, _vllm_choice(found.get(("torch", NCCL)), tree, loader, environment))
    return found


def _torch_libraries(facts: Facts) -> list[ElfFile]:
    return [file for file in facts.elf if _TORCH.fullmatch(file.path)]


def _vllm_choice(
    of_torch: Choice | None, tree: FileTree, loader: Loader, environment: Mapping[str, str]
) -> Loaded:
    """Follow vLLM's own rule: a variable, else whatever torch has loaded under the name."""
    named = environment.get(_VLLM_NCCL)
    if named and named.startswith("/"):
        return Loaded(path=tree.resolve(named) or "", because=f"`{_VLLM_NCCL}`")
    if named:
        return loader.find(named, None)
    if of_torch is not None and of_torch.path:
        return Loaded(path=of_torch.path, because="torch has loaded it under this name before")
    return loader.find(NCCL, None)


def both(
    evidence: Evidence,
) -> tuple[dict[tuple[str, str], Choice], dict[tuple[str, str], Choice]]:
    """Return the choices in the base and in the image."""
    facts = evidence.lock.base.facts
    before = choices(
        facts, evidence.base_tree, evidence.base_loader, evidence.base_settings.environment
    )
    now = choices(evidence.facts, evidence.tree, evidence.loader, evidence.settings.environment)
    return before, now


def nccl_choice(evidence: Evidence) -> Loaded:
    """Say which copy a Python of the image gets under NCCL's name once torch, if any, is loaded."""
    environment = evidence.settings.environment
    found = choices(evidence.facts, evidence.tree, evidence.loader, environment)
    return _vllm_choice(found.get(("torch", NCCL)), evidence.tree, evidence.loader, environment)


def layer_of(evidence: Evidence, path: str) -> int:
    """Return the layer that made what stands at a path, 0 where nothing does."""
    node = evidence.tree.get(path) if path else None
    return node.layer if node is not None else 0
