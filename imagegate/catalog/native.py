"""GPU libraries and packages with native code: what they really are.

Each reading is a declaration: which files, what is kept of them, how the value is read. Metadata
and environment variables are not read here; they are claims, and other catalogs have them.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog.collect import Interest, WholeText
from imagegate.facts import LibraryLink, NativeReading
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from imagegate.catalog.collect import Collector
    from imagegate.rootfs import FileTree, Node

# program headers and the notes of every linker in use lie in the first pages
_HEAD = 64 << 10
_OVERLAP = 256
# real NCCL: "NCCL version 2.30.7+cuda13.3", with a suffix such as rc1 before the plus; the same
# library holds lookalikes ("NCCL version info", "NCCL version mismatch")
_NCCL_VERSION = re.compile(rb"NCCL version (\d+\.\d+\.\d+[0-9A-Za-z.]*\+cuda[0-9.]*\d)")
_LIBRARY = re.compile(
    r"(?:.*/)?lib(?:nccl|nccl-net|nccl-tuner|cudnn[a-z0-9_]*|nvrtc(?:-builtins)?|cublas(?:Lt)?"
    r"|nvshmem[a-z0-9_]*|cudart|nvJitLink|ucp|uct|ucs|nixl[a-z_]*)\.so(?:\.[0-9.]+)?"
)


class ElfHead:
    """Keeps an ELF file's first pages and the NCCL version strings that stand anywhere in it."""

    def __init__(self, path: str, _size: int) -> None:
        self._searched = component_of(path) == "libnccl"
        self._head = bytearray()
        self._tail = b""
        self._versions: dict[bytes, None] = {}

    def write(self, chunk: bytes | memoryview, /) -> None:
        """Take the next bytes."""
        if len(self._head) < _HEAD:
            self._head += chunk[: _HEAD - len(self._head)]
        if not self._searched:
            return
        # a match may stand across two chunks, so the end of one is searched again with the next
        seam = self._tail + bytes(chunk[:_OVERLAP])
        for searched in (seam, chunk):
            for match in _NCCL_VERSION.finditer(searched):
                self._versions[bytes(match[1])] = None
        self._tail = bytes(chunk[-_OVERLAP:]) if len(chunk) >= _OVERLAP else seam[-_OVERLAP:]

    def finish(self) -> bytes:
        """Return the version strings, a line each, then the head."""
        versions = b" ".join(self._versions)
        return versions + b"\n" + bytes(self._head)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """One way to read one component."""

    component: str
    source: str
    pattern: re.Pattern[str]
    parse: Callable[[str], str]


def _assignment(name: str) -> Callable[[str], str]:
    """Read ``NAME = 'value'`` out of a generated Python module."""
    pattern = re.compile(
        rf"^{name}\s*(?::[^=\n]+)?=\s*(?:[\w\s]+=\s*)*['\"]([^'\"]*)['\"]", re.MULTILINE
    )

    def parse(text: str) -> str:
        match = pattern.search(text)
        return match[1] if match else ""

    return parse


def _defines(*names: str) -> Callable[[str], str]:
    """Read numbers out of ``#define NAME value`` lines and join them with dots."""

    def parse(text: str) -> str:
        values = [re.search(rf"^\s*#\s*define\s+{n}\s+\(?(\d+)", text, re.MULTILINE) for n in names]
        return ".".join(match[1] for match in values if match) if all(values) else ""

    return parse


def _source(component: str, source: str, pattern: str, parse: Callable[[str], str]) -> _Source:
    return _Source(
        component=component, source=source, pattern=re.compile(rf"(?:.*/)?{pattern}"), parse=parse
    )


_SOURCES = (
    _source("torch", "version.py", r"torch/version\.py", _assignment("__version__")),
    _source("torch cuda", "version.py", r"torch/version\.py", _assignment("cuda")),
    _source("torch commit", "version.py", r"torch/version\.py", _assignment("git_version")),
    _source("vllm", "_version.py", r"vllm/_version\.py", _assignment("__version__")),
    *(
        _source(
            package.replace("_", "-"),
            "_build_meta.py",
            rf"{folder}/_build_meta\.py",
            _assignment("__version__"),
        )
        for package, folder in (
            ("flashinfer_python", "flashinfer"),
            ("flashinfer_cubin", "flashinfer_cubin"),
            ("flashinfer_jit_cache", "flashinfer_jit_cache"),
        )
    ),
    _source(
        "flashinfer-python commit",
        "_build_meta.py",
        r"flashinfer/_build_meta\.py",
        _assignment("__git_(?:commit|version)__"),
    ),
    _source("nccl", "nccl.h", r"nccl\.h", _defines("NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH")),
    _source(
        "cudnn",
        "cudnn_version.h",
        r"cudnn_version(?:_v\d+)?\.h",
        _defines("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"),
    ),
    _source("cuda", "cuda.h", r"cuda\.h", _defines("CUDA_VERSION")),
    _source(
        "cuda runtime", "cuda_runtime_api.h", r"cuda_runtime_api\.h", _defines("CUDART_VERSION")
    ),
    _source(
        "cublas",
        "cublas_api.h",
        r"cublas_api\.h",
        _defines("CUBLAS_VER_MAJOR", "CUBLAS_VER_MINOR", "CUBLAS_VER_PATCH", "CUBLAS_VER_BUILD"),
    ),
    _source(
        "nvshmem",
        "nvshmem_version.h",
        r"nvshmem_version\.h",
        _defines(
            "NVSHMEM_VENDOR_MAJOR_VERSION",
            "NVSHMEM_VENDOR_MINOR_VERSION",
            "NVSHMEM_VENDOR_PATCH_VERSION",
        ),
    ),
)
_TEXTS = re.compile("|".join(f"(?:{source.pattern.pattern})" for source in _SOURCES))

INTERESTS = (
    Interest(name="native text", pattern=_TEXTS, keep=WholeText),
    Interest(name="elf head", pattern=_LIBRARY, keep=ElfHead),
)


def readings(collector: Collector, nodes: Iterable[Node]) -> tuple[NativeReading, ...]:
    """Read every component that the given files of a tree hold, each copy on its own."""
    found: set[NativeReading] = set()
    for node in nodes:
        if node.kind is not Kind.FILE:
            continue
        if _TEXTS.fullmatch(node.path):
            found.update(_from_text(node, collector))
        if _LIBRARY.fullmatch(node.path):
            found.update(_from_library(node, collector))
    return tuple(sorted(found))


def links(tree: FileTree, nodes: Iterable[Node]) -> tuple[LibraryLink, ...]:
    """List the symbolic links among the watched libraries and where each leads."""
    return tuple(
        sorted(
            LibraryLink(path=node.path, target=node.target, leads_to=tree.resolve(node.path) or "")
            for node in nodes
            if node.kind is Kind.SYMLINK and _LIBRARY.fullmatch(node.path)
        )
    )


def is_watched(path: str) -> bool:
    """Say whether a path is a file that these readings come from, or a link among them."""
    return bool(_TEXTS.fullmatch(path) or _LIBRARY.fullmatch(path))


def component_of(path: str) -> str:
    """Name a library by its file: ``libnccl.so.2`` is ``libnccl``."""
    return path.rsplit("/", 1)[-1].split(".so", 1)[0]


def _from_text(node: Node, collector: Collector) -> Iterator[NativeReading]:
    text = (collector.extract("native text", node) or b"").decode("utf-8", "replace")
    for source in _SOURCES:
        if source.pattern.fullmatch(node.path):
            value = source.parse(text)
            if value:
                yield NativeReading(
                    component=source.component, source=source.source, path=node.path, value=value
                )


def _from_library(node: Node, collector: Collector) -> Iterator[NativeReading]:
    kept = collector.extract("elf head", node)
    if kept is None:
        return
    versions, _, head = kept.partition(b"\n")
    name = component_of(node.path)
    if name == "libnccl":
        for version in versions.split():
            yield NativeReading(
                component="nccl", source="version string", path=node.path, value=version.decode()
            )
    build_id = build_id_of(head)
    if build_id:
        yield NativeReading(component=name, source="build id", path=node.path, value=build_id)
    suffix = node.path.rsplit(".so", 1)[-1].lstrip(".")
    if suffix:
        yield NativeReading(component=name, source="file name", path=node.path, value=suffix)
    yield NativeReading(component=name, source="sha256", path=node.path, value=node.sha256)


def build_id_of(head: bytes) -> str:
    """Read the GNU build id out of an ELF file's first pages; ``""`` where there is none.

    ELF gABI, "Note Section"; the note has the name ``GNU`` and type 3 (NT_GNU_BUILD_ID).
    """
    if head[:4] != b"\x7fELF" or len(head) < 64 or head[4] not in (1, 2) or head[5] not in (1, 2):
        return ""
    order = "<" if head[5] == 1 else ">"
    wide = head[4] == 2
    if wide:
        (table,) = struct.unpack_from(order + "Q", head, 32)
        entry_size, count = struct.unpack_from(order + "HH", head, 54)
    else:
        (table,) = struct.unpack_from(order + "I", head, 28)
        entry_size, count = struct.unpack_from(order + "HH", head, 42)
    for index in range(count):
        at = table + index * entry_size
        if at + entry_size > len(head) or entry_size < (56 if wide else 32):
            break
        if wide:
            kind, _, offset, _, _, size = struct.unpack_from(order + "IIQQQQ", head, at)
        else:
            kind, offset, _, _, size = struct.unpack_from(order + "IIIII", head, at)
        if kind == 4 and offset + size <= len(head):  # PT_NOTE
            found = _build_id_note(head[offset : offset + size], order)
            if found:
                return found
    return ""


def _build_id_note(notes: bytes, order: str) -> str:
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from(order + "III", notes, at)
        name = notes[at + 12 : at + 12 + name_size]
        start = at + 12 + (name_size + 3 & ~3)
        if kind == 3 and name == b"GNU\0":
            return notes[start : start + size].hex()
        at = start + (size + 3 & ~3)
    return ""
