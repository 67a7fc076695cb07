"""GPU libraries and packages with native code: what they really are.

Each reading is a declaration: which files, what is kept of them, how the value is read. Metadata
and environment variables are not read here; they are claims, and other catalogs have them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog.collect import Interest, WholeText
from imagegate.catalog.elf import read_elf
from imagegate.facts import LibraryLink, NativeReading
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from imagegate.catalog.collect import Collector
    from imagegate.rootfs import FileTree, Node

_OVERLAP = 256
_BUNDLED = re.compile(r"-[0-9a-f]{8}$")
_LIBRARY = re.compile(
    r"(?:.*/)?lib(?:nccl|nccl-net|nccl-tuner|cudnn[a-z0-9_]*|nvrtc(?:-builtins)?|cublas(?:Lt)?"
    r"|nvshmem[a-z0-9_]*|cudart|nvJitLink|ucp|uct|ucs|nixl[a-z_]*"
    # auditwheel puts a part of the file's hash into the name of a library that a wheel bundles
    r"|ibverbs|rdmacm)(?:-[0-9a-f]{8})?\.so(?:\.[0-9.]+)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """A text that a library carries and that tells what it is."""

    library: str
    component: str
    source: str
    pattern: re.Pattern[bytes]


# real NCCL: "NCCL version 2.30.7+cuda13.3", with a suffix such as rc1 before the plus; the same
# library holds lookalikes ("NCCL version info", "NCCL version mismatch")
_EMBEDDED = (
    _Text(
        library="libnccl",
        component="nccl",
        source="version string",
        pattern=re.compile(rb"NCCL version (\d+\.\d+\.\d+[0-9A-Za-z.]*\+cuda[0-9.]*\d)"),
    ),
    _Text(
        library="libnccl",
        component="nccl commit",
        source="version string",
        pattern=re.compile(rb"NCCL git version [^\0\n]{0,64}? ?([0-9a-f]{7,40})(?![0-9a-f])"),
    ),
    _Text(
        library="libnvshmem_host",
        component="nvshmem",
        source="version string",
        pattern=re.compile(rb"NVSHMEM v(\d+\.\d+\.\d+)"),
    ),
    _Text(
        library="libnccl-net",
        component="aws-ofi-nccl",
        source="version string",
        pattern=re.compile(rb"NET/OFI Initializing aws-ofi-nccl (\d[0-9A-Za-z.+-]*)"),
    ),
)


class EmbeddedVersions:
    """Keeps the version strings that stand anywhere in a library."""

    def __init__(self, path: str, _size: int) -> None:
        name = component_of(path)
        self._patterns = [
            (index, text.pattern) for index, text in enumerate(_EMBEDDED) if text.library == name
        ]
        self._tail = b""
        self._found: dict[tuple[int, bytes], None] = {}

    def write(self, chunk: bytes | memoryview, /) -> None:
        """Take the next bytes."""
        if not self._patterns:
            return
        # a match may stand across two chunks, so the end of one is searched again with the next;
        # one that reaches the end of what is searched may go on behind it
        seam = self._tail + bytes(chunk[:_OVERLAP])
        self._search(seam, last=False)
        if len(chunk) > _OVERLAP:
            self._search(chunk, last=False)
        self._tail = bytes(chunk[-_OVERLAP:]) if len(chunk) >= _OVERLAP else seam[-_OVERLAP:]

    def _search(self, text: bytes | memoryview, *, last: bool) -> None:
        for index, pattern in self._patterns:
            for match in pattern.finditer(text):
                if last or match.end() < len(text):
                    self._found[index, bytes(match[1])] = None

    def finish(self) -> bytes:
        """Return which text was found and what it says, a line each."""
        self._search(self._tail, last=True)
        return b"".join(b"%d %s\n" % (index, value) for index, value in self._found)


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
    Interest(name="versions", pattern=_LIBRARY, keep=EmbeddedVersions),
)


def readings(collector: Collector, nodes: Iterable[Node]) -> tuple[NativeReading, ...]:
    """Read every component that the given files of a tree hold, each copy on its own."""
    found: set[NativeReading] = set()
    for node in nodes:
        if node.kind is not Kind.FILE:
            continue
        if (text := collector.extract("native text", node)) is not None:
            found.update(_from_text(node, text))
        if ".so" in node.path and _LIBRARY.fullmatch(node.path):
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
    """Name a library by its file: ``libnccl.so.2`` is ``libnccl``, bundled by auditwheel or not."""
    return _BUNDLED.sub("", path.rsplit("/", 1)[-1].split(".so", 1)[0])


def _from_text(node: Node, content: bytes) -> Iterator[NativeReading]:
    text = content.decode("utf-8", "replace")
    for source in _SOURCES:
        if source.pattern.fullmatch(node.path):
            value = source.parse(text)
            if value:
                yield NativeReading(
                    component=source.component, source=source.source, path=node.path, value=value
                )


def _from_library(node: Node, collector: Collector) -> Iterator[NativeReading]:
    name = component_of(node.path)
    for line in (collector.extract("versions", node) or b"").splitlines():
        index, _, value = line.partition(b" ")
        text = _EMBEDDED[int(index)]
        yield NativeReading(
            component=text.component,
            source=text.source,
            path=node.path,
            value=value.decode("ascii", "replace"),
        )
    elf = read_elf(collector, node)
    if elf is not None and elf.build_id:
        yield NativeReading(component=name, source="build id", path=node.path, value=elf.build_id)
    suffix = node.path.rsplit(".so", 1)[-1].lstrip(".")
    if suffix:
        yield NativeReading(component=name, source="file name", path=node.path, value=suffix)
    yield NativeReading(component=name, source="sha256", path=node.path, value=node.sha256)
