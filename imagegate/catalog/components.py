"""Which files tell what a GPU library or a package with native code really is: the declarations.

:mod:`imagegate.catalog.native` reads by them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# libraries whose every copy is a pin; `libcuda` is the driver's and belongs to the host
LIBRARY = re.compile(
    r"(?:.*/)?(?:lib(?:nccl(?:-net|-tuner|-ofi|-profiler)[a-z-]*|nccl|cudnn[a-z0-9_]*"
    r"|nvrtc(?:-builtins)?|cublas(?:Lt)?|nvshmem[a-z0-9_]*|cudart|nvJitLink|cuda|ucc|uc[mpst]|uc[mt]_[a-z0-9_]+"
    r"|nixl[a-z_]*|plugin_[A-Z][A-Za-z_]*|ibverbs|rdmacm|mlx5|efa|fabric)"
    # NVSHMEM loads its transports by these names, which have no `lib`
    r"|nvshmem_(?:transport|bootstrap)_[a-z0-9_]+)"
    # auditwheel puts a part of the file's hash into the name of a library that a wheel bundles
    r"(?:-[0-9a-f]{8})?\.so(?:\.[0-9.]+)?"
)
BUNDLED = re.compile(r"-[0-9a-f]{8}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text that a library carries and that tells what it is.

    Attributes:
        library: the libraries' names, without ``.so`` and what follows.
        component: what is read.
        source: how it is read.
        pattern: the text; its first group is the value.
        together: whether all values of a file are one reading, sorted, and not one each.
    """

    library: re.Pattern[str]
    component: str
    source: str
    pattern: re.Pattern[bytes]
    together: bool = False


def _text(library: str, component: str, source: str, pattern: bytes) -> Text:
    return Text(
        library=re.compile(library), component=component, source=source, pattern=re.compile(pattern)
    )


# real NCCL: "NCCL version 2.30.7+cuda13.3", with a suffix such as rc1 before the plus; the same
# library holds lookalikes ("NCCL version info", "NCCL version mismatch")
EMBEDDED = (
    _text(
        "libnccl",
        "nccl",
        "version string",
        rb"NCCL version (\d+\.\d+\.\d+[0-9A-Za-z.]*\+cuda[0-9.]*\d)",
    ),
    _text(
        "libnccl",
        "nccl commit",
        "version string",
        rb"NCCL git version [^\0\n]{0,64}? ?([0-9a-f]{7,40})(?![0-9a-f])",
    ),
    _text("libnvshmem_host", "nvshmem", "version string", rb"NVSHMEM v(\d+\.\d+\.\d+)"),
    _text(
        "libnccl-(?:net|tuner|ofi)[a-z-]*",
        "aws-ofi-nccl",
        "version string",
        rb"NET/OFI Initializing aws-ofi-nccl (\d[0-9A-Za-z.+-]*)",
    ),
    # the one text of that form in UCX 1.13 to 1.23 and libfabric 1.17 that stands alone
    _text("libucp", "ucx", "version string", rb"(?<![0-9._])(\d+\.\d+\.\d+)\0"),
    _text("libfabric", "libfabric", "version string", rb"(?<![0-9._])(\d+\.\d+\.\d+)\0"),
    _text(
        "libnixl_common", "nixl", "version string", rb"NIXL version: \0(\d+\.\d+\.\d+[^\0]{0,32})\0"
    ),
    _text("libnixl_common", "nixl commit", "version string", rb"\0 \(git: \0([0-9a-f]{7,40})\0"),
    # NCCL asks a network plugin for one of these symbols, the newest first (src/plugin/net.cc)
    Text(
        library=re.compile(r"libnccl(?:-net[a-z-]*)?"),
        component="nccl net interface",
        source="symbol",
        pattern=re.compile(rb"ncclNetPlugin_v(\d+)(?=\0)"),
        together=True,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One way to read one component out of a text file."""

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


def _source(component: str, source: str, pattern: str, parse: Callable[[str], str]) -> Source:
    return Source(
        component=component, source=source, pattern=re.compile(rf"(?:.*/)?{pattern}"), parse=parse
    )


SOURCES = (
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
TEXTS = re.compile("|".join(f"(?:{source.pattern.pattern})" for source in SOURCES))
# each of these files has one of them in its path
TEXT_MARKS = (
    "version.py",
    "/_build_meta.py",
    "nccl.h",
    "cudnn_version",
    "cuda.h",
    "cuda_runtime_api.h",
    "cublas_api.h",
    "nvshmem_version.h",
)
