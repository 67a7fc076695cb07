"""Places that decide what runs: whoever writes there has to name the file.

A program obeys a file in such a place because of its name or its folder alone, whether or not
anything else of the image asks for it. The table is of paths; which folders are searched because
of the image's variables is asked elsewhere, by the models of each search.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from imagegate.catalog.components import LIBRARY


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One kind of watched places.

    Attributes:
        name: stable, for findings.
        what: what obeys a file there, to be read after "here lies".
        pattern: fits the whole path, without leading slash.
        marks: texts of which each path that fits has one.
    """

    name: str
    what: str
    pattern: re.Pattern[str]
    marks: tuple[str, ...]


_LIB = r"(?:usr/(?:local/)?)?lib(?:32|64|x32)?(?:/[\w.]+-linux-gnu[\w]*)?"


def _place(name: str, what: str, pattern: str, *marks: str) -> Place:
    return Place(name=name, what=what, pattern=re.compile(pattern), marks=marks)


# variables whose value is a file or a folder that is loaded, compiled in or run because of them, by
# the manuals of GCC ("Environment Variables"), NCCL, NVSHMEM, UCX, UCC, libfabric, OpenSSL
# glibc and bash
VARIABLES = re.compile(
    r"CPATH|(?:C|CPLUS|OBJC)_INCLUDE_PATH"
    r"|LIBRARY_PATH|COMPILER_PATH|GCC_EXEC_PREFIX"
    r"|NCCL_(?:NET|TUNER|PROFILER|ENV|GIN|RMA)_PLUGIN|NCCL_(?:CONF|TOPO|GRAPH)_FILE"
    r"|NVSHMEM_\w*(?:PLUGIN|PATH|LIB)\w*|UCX_MODULE_DIR|UCC_COMPONENT_PATH|NIXL_PLUGIN_DIR"
    r"|FI_PROVIDER_PATH|OPENSSL_(?:CONF|MODULES|ENGINES)|GCONV_PATH|LOCPATH|NLSPATH"
    r"|LD_(?:PRELOAD|AUDIT)|BASH_ENV|ENV|PYTHONSTARTUP|VLLM_TUNED_CONFIG_FOLDER"
)

# a library that is loaded because of its name: nothing that is linked needs it
PLUGINS = (
    _place(
        "nccl-plugin",
        "a plugin that NCCL loads by its name",
        # docs.nvidia.com/deeplearning/nccl: "libnccl-net.so", "libnccl-net-<name>.so" and so on
        r"(?:.*/)?libnccl-(?:net|tuner|profiler|env|gin|rma|ofi)[\w.-]*\.so[\w.]*",
        "libnccl-",
    ),
    _place(
        "ucx",
        "a library of UCX, which loads transports by their names",
        r"(?:.*/)?lib(?:uc[pstm]|uc[mtsx]_[\w-]+|uct_[\w-]+|ucc|ucc_[\w-]+)\.so[\w.]*"
        r"|(?:.*/)?ucx/lib[^/]+\.so[\w.]*|(?:.*/)?ucc/lib[^/]+\.so[\w.]*",
        "libuc",
        "ucx/lib",
        "ucc/lib",
    ),
    _place(
        "nvshmem",
        "a transport, bootstrap or other part that NVSHMEM loads by its name",
        r"(?:.*/)?(?:lib)?nvshmem_?(?:transport|bootstrap|device|host)[\w.-]*\.so[\w.]*",
        "nvshmem",
    ),
    _place(
        "nixl",
        "a plugin that NIXL loads by its name",
        r"(?:.*/)?libplugin_[A-Z]\w*\.so[\w.]*|(?:.*/)?libnixl\w*\.so[\w.]*",
        "libplugin_",
        "libnixl",
    ),
    _place(
        "driver",
        "a library of the GPU's driver, in the place of the host's",
        r"(?:.*/)?lib(?:cuda|cudadebugger|nvidia-[\w-]+|nvcuvid|nvidia_[\w-]+|nvoptix)\.so[\w.]*"
        r"|(?:.*/)?(?:compat|stubs)/lib[^/]+\.so[\w.]*",
        "libcuda",
        "libnv",
        "compat/lib",
        "stubs/lib",
    ),
    _place(
        "fabric",
        "a provider that libfabric loads from its folder",
        r"(?:.*/)?libfabric/lib[\w.-]+\.so[\w.]*|(?:.*/)?lib(?:fabric|efa)\.so[\w.]*"
        r"|(?:.*/)?lib[\w-]+-fi\.so[\w.]*",
        "libfabric",
        "libefa",
        "-fi.so",
    ),
    _place(
        "ibverbs",
        "a driver that libibverbs loads by its configuration",
        r"etc/libibverbs\.d/[^/]+|(?:.*/)?libibverbs/lib[\w.-]+\.so[\w.]*"
        r"|(?:.*/)?lib(?:ibverbs|rdmacm|mlx[45]|\w+-rdmav\d+)\.so[\w.]*",
        "libibverbs",
        "librdmacm",
        "libmlx",
        "-rdmav",
    ),
    _place(
        "openssl",
        "an engine, a provider or the configuration of OpenSSL",
        r"(?:.*/)?(?:engines-[\w.]+|ossl-modules)/[^/]+|(?:.*/)?openssl[\w.-]*\.cnf(?:\.d/.*)?"
        r"|(?:.*/)?ssl/(?:[\w.-]+\.cnf|fipsmodule\.cnf)",
        "engines-",
        "ossl-modules/",
        ".cnf",
    ),
    _place(
        "nss",
        "a name service that the C library loads by its configuration",
        r"(?:.*/)?libnss_\w+\.so[\w.]*|etc/nsswitch\.conf|etc/(?:gai|host|resolv)\.conf|etc/hosts",
        "libnss_",
        "etc/",
    ),
    _place(
        "pam",
        "a module or the configuration of PAM",
        r"(?:.*/)?security/pam_[\w.-]+\.so[\w.]*|etc/pam\.(?:conf|d/.+)|etc/security/.+",
        "pam",
        "etc/security/",
    ),
    _place(
        "gconv",
        "a character conversion that iconv loads",
        r"(?:.*/)?gconv/.+|(?:.*/)?gconv-modules[\w./-]*",
        "gconv",
    ),
    _place(
        "opencl",
        "a driver that the OpenCL, Vulkan or EGL loader finds by a file",
        r"etc/(?:OpenCL/vendors|vulkan|glvnd)/.+|usr/(?:local/)?share/(?:vulkan|glvnd)/.+",
        "etc/OpenCL/",
        "vulkan/",
        "glvnd/",
    ),
    _place(
        "malloc",
        "an allocator, a profiler or a tool that is loaded before everything else",
        r"etc/ld\.so\.(?:preload|cache)|(?:.*/)?ld\.so\.conf(?:\.d/.+)?|etc/ld-nix\.so\.preload"
        r"|(?:.*/)?ld-(?:linux|musl)[\w.-]*\.so[\w.]*",
        "ld.so.",
        "ld-nix",
        "ld-linux",
        "ld-musl",
    ),
    _place(
        "component",
        "a library whose every copy is a pin",
        LIBRARY.pattern,
        ".so",
    ),
)

# code that was compiled before and is used in the place of what would be compiled
CACHES = (
    _place(
        "compile-cache",
        "a cache of compiled kernels, which is used without a look at the source",
        r"(?:.*/)?(?:"
        r"\.cache/(?:flashinfer|vllm|torch|torch_extensions|triton|tilelang|tvm-ffi|tvm|deep_gemm"
        r"|cutlass_dsl|nv|numba|pip|uv|sglang|huggingface/kernels|mlc_llm|jax|xla)"
        r"|\.(?:triton|tilelang|deep_gemm|flashinfer|nv/ComputeCache|cupy|numba_cache|tvm|tvm_ffi|helion)"
        r"|torch_extensions|torchinductor_[^/]+|torch_compile_cache|inductor_cache|cached_ops"
        r"|ComputeCache|triton_cache|kernel_cache"
        r")(?:/.*)?",
        "cache",
        "Cache",
        ".triton",
        ".tilelang",
        ".deep_gemm",
        ".flashinfer",
        ".nv/",
        ".cupy",
        ".numba",
        ".tvm",
        ".helion",
        "torch_extensions",
        "torchinductor_",
        "cached_ops",
    ),
    _place(
        "compiled-kernel",
        "machine code for a GPU",
        r".+\.(?:cubin|fatbin|hsaco|ptx|nvfatbin)",
        ".cubin",
        ".fatbin",
        ".hsaco",
        ".ptx",
        ".nvfatbin",
    ),
)

# what compilers search without being told
COMPILERS = (
    _place(
        "header",
        "a header that compilers find in a folder that is searched first",
        r"usr/(?:local/)?include/.+|(?:.*/)?cuda(?:-[\d.]+)?/(?:targets/[^/]+/)?include/.+",
        "include/",
    ),
    _place(
        "compiler",
        "what a compiler is told or made of",
        r"(?:.*/)?(?:nvcc\.profile|cicc|ptxas|fatbinary|nvlink|cudafe\+\+|specs)"
        rf"|{_LIB}/gcc(?:-cross)?/.+|(?:.*/)?libdevice\.[\w.]+\.bc",
        "nvcc.profile",
        "cicc",
        "ptxas",
        "fatbinary",
        "nvlink",
        "cudafe++",
        "specs",
        "/gcc",
        "libdevice.",
    ),
)

# what Python obeys because of its name or its folder
PYTHON = (
    _place(
        "bytecode",
        "compiled Python, which runs in the place of its source",
        r"(?:.*/)?__pycache__/[^/]+\.pyc",
        "__pycache__/",
    ),
    _place(
        "python-start",
        "a file that Python obeys at its start",
        r".*\.pth|.*\._pth|(?:.*/)?(?:pyvenv\.cfg|pybuilddir\.txt)"
        r"|(?:.*/)?(?:site|user)customize(?:/__init__)?(?:\.pyc?|(?:\.[\w-]+)?\.so)",
        "pth",
        "pyvenv.cfg",
        "pybuilddir.txt",
        "customize",
    ),
    _place(
        "python-path",
        "a folder that Python imports from",
        r"(?:.*/)?lib(?:32|64)?/python\d[^/]*(?:/.*|\.zip)|(?:.*/)?(?:site|dist)-packages(?:/.*)?",
        "/python",
        "-packages",
    ),
    _place(
        "python-metadata",
        "metadata that `importlib.metadata` finds: versions and plugins by name",
        r"(?:.*/)?[^/]+\.(?:dist-info|egg-info|egg|egg-link)(?:/.*)?",
        ".dist-info",
        ".egg",
    ),
)

# programs, and what shells and services obey
PROGRAMS = (
    _place(
        "program",
        "a folder in which programs are looked for",
        r"(?:usr/(?:local/)?|opt/(?:[^/]+/)?)?s?bin/.+|root/(?:\.local/)?bin/.+",
        "bin/",
    ),
    _place(
        "shell-start",
        "a file that shells obey at their start",
        r"etc/(?:profile(?:\.d/.+)?|bash\.bashrc|bashrc|environment|zsh/.+|zshenv|csh[\w.]+"
        r"|skel/.+|inputrc|shells|login\.defs|sudoers(?:\.d/.+)?|security/.+|motd|issue)"
        r"|(?:root|home/[^/]+)/\.[^/]+|(?:root|home/[^/]+)/\.config/.+",
        "etc/",
        "root/.",
        "home/",
    ),
    _place(
        "service",
        "a job or a service that starts by itself",
        r"etc/(?:cron[\w.]*|init\.d|rc\w*\.d|systemd|supervisor|xinetd\.d|inittab|rc\.local)(?:/.*)?"
        r"|(?:usr/)?lib/systemd/.+|var/spool/cron/.+",
        "etc/",
        "systemd/",
        "cron/",
    ),
    _place(
        "alternatives",
        "a link that chooses between programs",
        r"etc/alternatives/.+|var/lib/dpkg/alternatives/.+",
        "alternatives/",
    ),
    _place(
        "certificates",
        "a certificate that is trusted",
        r"etc/(?:ssl|pki|ca-certificates[\w.]*)(?:/.*)?|usr/(?:local/)?share/ca-certificates/.+",
        "etc/",
        "ca-certificates/",
    ),
    _place(
        "package-manager",
        "what package managers are told: addresses, keys, constraints, hooks",
        r"etc/(?:apt|pip\.conf|uv|dpkg|yum[\w.]*|dnf|conda)(?:/.*)?|(?:.*/)?(?:pip|uv)\.(?:conf|toml)"
        r"|(?:.*/)?(?:\.condarc|\.npmrc|\.netrc|\.gitconfig|\.pypirc|\.pydistutils\.cfg)"
        r"|var/lib/dpkg/info/[^/]+\.(?:preinst|postinst|prerm|postrm|triggers)",
        "etc/",
        "pip.",
        "uv.",
        ".condarc",
        ".npmrc",
        ".netrc",
        ".gitconfig",
        ".pypirc",
        ".pydistutils.cfg",
        "dpkg/info/",
    ),
)

# every library in a folder that the loader searches without being told
LIBRARIES = (
    _place(
        "library",
        "a folder in which the dynamic loader looks",
        rf"{_LIB}/(?:glibc-hwcaps/[^/]+/)?[^/]+\.so(?:\.[\w.-]+)?",
        ".so",
    ),
)

# the more telling ones first: the first that fits is said
PLACES = (*PLUGINS, *CACHES, *PYTHON, *COMPILERS, *PROGRAMS, *LIBRARIES)


# most paths have none of the marks; one search tells
_ANY_MARK = re.compile("|".join(sorted({re.escape(m) for place in PLACES for m in place.marks})))


@lru_cache(maxsize=1 << 16)
def watched(path: str) -> Place | None:
    """Return the watched place that a path is in, the most telling one."""
    if _ANY_MARK.search(path) is None:
        return None
    return next(
        (
            place
            for place in PLACES
            if any(mark in path for mark in place.marks) and place.pattern.fullmatch(path)
        ),
        None,
    )


def watched_place(path: str) -> str:
    """Say what a path decides, ``""`` where it is in no watched place.

    Args:
        path: without leading slash.
    """
    place = watched(path)
    return place.what if place is not None else ""
