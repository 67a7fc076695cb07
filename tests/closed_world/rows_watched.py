"""Watched places: what decides which module, program, library or plugin is taken."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.closed_world.debian import CONFIG, LIB, STATUS, STDLIB, package, stanza
from tests.closed_world.rows import Row, on_base, with_base
from tests.closed_world.rows_files import allow
from tests.elf import library
from tests.images import Directory, File, Link
from tests.judging import SITE, Case, dist

if TYPE_CHECKING:
    from tests.images import Content

EVIL = "print('not the one that was locked')\n"
_SIZE = len("# torch\n")
PYC = "torch/__pycache__/__init__.cpython-312.pyc"


def pyc(flags: int, *, mtime: int = 0, size: int = _SIZE) -> bytes:
    """Bytecode with the header of PEP 552, whose code is another than the source's."""
    return b"\xcb\r\r\n" + struct.pack("<III", flags, mtime, size) + b"\xe3evil"


ELF = library(soname="libevil.so")
POINTS = "[vllm.general_plugins]\nzz = zz:f\n"
METADATA = "Metadata-Version: 2.1\nName: zz\nVersion: 9.0\n"
WORK = {"WorkingDir": "/srv/work"}


def named(*paths: str) -> str:
    """A recipe that takes some paths upon itself, by their full names or a pattern."""
    return allow(*(f"/{path}" for path in paths))


def unread(folder: str, form: str, added: dict[str, Content]) -> Row:
    """Metadata in a site directory that Python finds and pip does not count, named in full."""
    files = {f"{folder}/{path}": content for path, content in added.items()}
    files["srv/info/METADATA"] = METADATA
    return Row(
        name=f"11 {folder}: {form}",
        case=on_base(files, recipe=named(*files)),
        fails=("python.metadata/found",),
    )


def imports(name: str, files: dict[str, Content], **more: object) -> Row:
    """A file that is imported in the place of the base's, even where the recipe names it in full."""
    paths = [path for path, content in files.items() if not isinstance(content, Directory)]
    return Row(
        name=name,
        case=on_base(files, recipe=named(*paths), **more),  # type: ignore[arg-type]
        fails=("python.imports/shadowed",),
    )


def _launcher(interpreter: str) -> Case:
    """A locked wheel with one command, installed by an installer that writes its own launcher."""

    def text(python: str, form: str) -> File:
        lines = (
            f"#!{python}",
            *(("# -*- coding: utf-8 -*-", "import re") if form == "pip" else ()),
            "import sys",
            "from tool import main",
            "if __name__ == '__main__':",
            "    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])",
            "    sys.exit(main())",
        )
        return File("\n".join([*lines, ""]).encode(), mode=0o755)

    info = f"{SITE}/tool-1.0.dist-info/entry_points.txt"
    wheel = {
        **dist("tool", "1.0", files={"tool.py": "def main(): ...\n"}),
        info: "[console_scripts]\ntool = tool:main\n",
    }
    return with_base(
        on_base(
            {**wheel, "usr/local/bin/tool": text(interpreter, "pip")},
            locked={"tool==1.0": {**wheel, "usr/local/bin/tool": text("/usr/bin/python3", "uv")}},
            requested=("tool",),
        ),
        {
            "usr/bin/python3.9": File(ELF, mode=0o755),
            "usr/bin/python": Link("python3.9"),
        },
    )


ROWS = (
    # --- rows 5 and 6: bytecode
    Row(
        name="5 a forged timestamp in the bytecode of a base module",
        case=on_base({f"{SITE}/{PYC}": pyc(0)}),
        fails=("python.bytecode/unproven",),
        failing=1,
        control=on_base({f"{SITE}/{PYC}": pyc(0)}, recipe=named(f"{SITE}/**/*.pyc")),
    ),
    Row(
        name="5 a checked hash in the bytecode of a base module, forged likewise",
        case=on_base({f"{SITE}/{PYC}": pyc(3)}),
        fails=("python.bytecode/unproven",),
        failing=1,
    ),
    *(
        Row(
            name=f"6 unchecked bytecode of {what}, even where the recipe allows bytecode",
            case=on_base({path: pyc(1)}, recipe=named(f"{lead}/**/*.pyc")),
            fails=("python.bytecode/unchecked",),
        )
        for what, path, lead in (
            ("a base distribution", f"{SITE}/{PYC}", SITE),
            ("the standard library", f"{STDLIB}/__pycache__/os.cpython-312.pyc", STDLIB),
            ("the working folder", "srv/work/__pycache__/x.cpython-312.pyc", "srv/work"),
        )
    ),
    Row(
        name="6 bytecode that is a link to something else",
        case=on_base({f"{SITE}/{PYC}": Link("/tmp/x"), "tmp/x": pyc(1)}, recipe=named("tmp/x")),
        fails=("python.bytecode/unchecked",),
    ),
    Row(
        name="deleted bytecode is a note",
        case=with_base(
            on_base({f"{SITE}/torch/__pycache__/.wh.__init__.cpython-312.pyc": b""}),
            {f"{SITE}/{PYC}": pyc(0)},
        ),
        notes=("python.bytecode/deleted",),
    ),
    Row(
        name="a deleted module that was bytecode alone is a failure",
        case=with_base(on_base({f"{SITE}/.wh.legacy.pyc": b""}), {f"{SITE}/legacy.pyc": pyc(0)}),
        fails=("python.bytecode/lost",),
    ),
    # --- row 7: folders that are searched first
    imports("7 an archive's name as a folder", {"usr/lib/python312.zip/torch.py": EVIL}),
    imports("7 lib-dynload", {f"{STDLIB}/lib-dynload/torch.py": EVIL}),
    imports("7 a package beside the launchers", {"usr/local/bin/torch/__init__.py": EVIL}),
    imports("7 a module beside the launchers", {"usr/local/bin/torch.py": EVIL}),
    imports("7 the working folder", {"srv/work/torch.py": EVIL}, config=WORK),
    imports("7 the root as the working folder", {"torch.py": EVIL}),
    imports(
        "7 the root's user site",
        {"root/.local/lib/python3.12/site-packages/torch/__init__.py": EVIL},
    ),
    Row(
        name="7 an archive that is searched first",
        case=on_base({"usr/lib/python312.zip": b"PK"}, recipe=named("usr/lib/python312.zip")),
        fails=("python.imports/archive",),
    ),
    imports(
        "a link to a folder in the place of the archive",
        {"usr/lib/python312.zip": Link("/srv/x"), "srv/x/torch.py": EVIL},
    ),
    imports(
        "a folder that a link in the working folder makes a package",
        {"srv/work/torch": Link("/srv/x"), "srv/x/__init__.py": EVIL},
        config=WORK,
    ),
    # --- row 9 and the table of forms
    *(
        imports(f"9 in the standard library: {form}", {f"{STDLIB}/{form}": content})
        for form, content in (
            ("torch.pyc", pyc(0)),
            ("torch/__init__.pyc", pyc(0)),
            ("torch/__init__.py", EVIL),
            ("torch.abi3.so", ELF),
            ("torch.so", ELF),
            ("torch.cpython-312-aarch64-linux-gnu.so", ELF),
            ("torch/__init__.abi3.so", ELF),
        )
    ),
    *(
        imports(f"a form that comes before a module's source: {form}", {f"{SITE}/{form}": content})
        for form, content in (
            ("torch/cuda/__init__.py", EVIL),
            ("torch/cuda.abi3.so", ELF),
            ("torch/cuda.so", ELF),
            ("torch/cuda/__init__.cpython-312-aarch64-linux-gnu.so", ELF),
            ("torch/__init__.so", ELF),
        )
    ),
    imports(
        "an extension in the standard library before its source", {f"{STDLIB}/os.abi3.so": ELF}
    ),
    *(
        Row(
            name=f"9 {form} in the standard library",
            case=on_base({f"{STDLIB}/{form}": content}, recipe=named(f"{STDLIB}/{form}")),
            fails=("python.startup/new",),
        )
        for form, content in (
            ("usercustomize.pyc", pyc(0)),
            ("sitecustomize.py", EVIL),
            ("sitecustomize/__init__.py", EVIL),
            ("sitecustomize.cpython-312-aarch64-linux-gnu.so", ELF),
        )
    ),
    # --- namespace packages
    Row(
        name="a portion of a namespace package in an earlier folder",
        case=with_base(
            on_base(
                {"srv/work/google/protobuf/__init__.py": EVIL},
                config=WORK,
                recipe=named("srv/work/google/protobuf/__init__.py"),
            ),
            {f"{SITE}/google/protobuf/__init__.py": "# p\n"},
        ),
        fails=("python.imports/shadowed",),
        control=with_base(
            on_base(
                {"srv/work/google/other/__init__.py": ""},
                config=WORK,
                recipe='[config]\nworking_dir = "/srv/work"\n'
                + named("srv/work/google/other/__init__.py"),
            ),
            {f"{SITE}/google/protobuf/__init__.py": "# p\n"},
        ),
    ),
    Row(
        name="a package in the place of a namespace package, in the last folder",
        case=with_base(
            on_base(
                {"usr/lib/python3/dist-packages/google/__init__.py": EVIL},
                recipe=named("usr/lib/python3/dist-packages/google/__init__.py"),
            ),
            {f"{SITE}/google/protobuf/__init__.py": "# p\n"},
        ),
        fails=("python.imports/shadowed",),
    ),
    # --- row 8 and what else decides where the library is
    *(
        Row(
            name=f"8 {path}",
            case=on_base({path: content}, recipe=named(path)),
            fails=(code,),
        )
        for path, content, code in (
            ("usr/bin/python3._pth", "/srv/x\n", "python.startup/new"),
            ("usr/bin/python3.12._pth", "import evil\n", "python.startup/new"),
            ("usr/bin/pyvenv.cfg", "home = /srv/x\n", "python.startup/environment"),
            ("usr/pyvenv.cfg", "home = /srv/x\n", "python.startup/environment"),
            ("usr/bin/pybuilddir.txt", "x\n", "python.startup/environment"),
            ("usr/bin/lib/python3.12/os.py", EVIL, "python.startup/library"),
            (f"{SITE}/x.pth", "import evil\n", "python.startup/new"),
            ("root/.local/lib/python3.12/site-packages/x.pth", "/srv\n", "python.startup/new"),
        )
    ),
    # --- row 11: metadata anywhere on the path
    *(
        Row(
            name=f"11 {folder or 'the root'}: {form}",
            case=on_base({path: "[vllm.general_plugins]\nzz = zz:f\n"}, recipe=named(path)),
            fails=("python.metadata/found",),
        )
        for folder in (STDLIB, f"{STDLIB}/lib-dynload", "usr/local/bin", "")
        for form in (
            "zz-1.0.dist-info/entry_points.txt",
            "zz.egg-info/entry_points.txt",
            "torch-9.egg-info",
            "zz-1.0-py3.12.egg/EGG-INFO/entry_points.txt",
        )
        for path in (f"{folder}/{form}".lstrip("/"),)
    ),
    # given to a distribution of the base, named in full
    *(
        Row(
            name=f"11 entry points for a distribution of the base: {form}",
            case=on_base(
                {f"{SITE}/torch-2.9.0.dist-info/entry_points.txt": content, "srv/points": POINTS},
                recipe=named(f"{SITE}/torch-2.9.0.dist-info/entry_points.txt", "srv/points"),
            ),
            fails=("python.metadata/entry-points",),
        )
        for form, content in (("a file", POINTS), ("a link", Link("/srv/points")))
    ),
    # found by the generator: in a site directory, what is no distribution for pip is one for Python
    *(
        unread(folder, form, {path: content})
        for folder in (SITE, "root/.local/lib/python3.12/site-packages")
        for form, path, content in (
            ("a link to metadata", "zz-9.dist-info", Link("/srv/info")),
            ("METADATA as a link", "zz-9.dist-info/METADATA", Link("/srv/info/METADATA")),
            ("entry points alone", "zz-9.dist-info/entry_points.txt", "[a.b]\nzz = zz:f\n"),
            ("a suffix in capitals", "ZZ-9.DIST-INFO/METADATA", METADATA),
        )
    ),
    # --- row 13: programs
    Row(
        name="13 a link that makes an earlier folder of PATH lead to one of the base",
        case=with_base(
            on_base({"usr/local/sbin": Link("/opt/tools")}, recipe=named("usr/local/sbin")),
            {"opt/tools/python3": File(b"#!/bin/sh\n", mode=0o755)},
        ),
        fails=("programs.search/shadowed",),
        control=with_base(
            on_base({"usr/local/sbin": Link("/opt/tools")}, recipe=named("usr/local/sbin")),
            {"opt/tools/other": File(b"#!/bin/sh\n", mode=0o755)},
        ),
    ),
    Row(
        name="13 a program in an earlier folder of PATH",
        case=on_base(
            {"usr/local/bin/bash": File(b"#!/bin/sh\n", mode=0o755)},
            recipe=named("usr/local/bin/bash"),
        ),
        fails=("programs.search/shadowed",),
    ),
    Row(
        name="13 a link in an earlier folder of PATH to another program of the base",
        case=on_base(
            {"usr/local/bin/python3": Link("/usr/bin/bash")}, recipe=named("usr/local/bin/python3")
        ),
        fails=("programs.search/shadowed",),
        control=on_base(
            {"usr/local/bin/python3": Link("/usr/bin/python3.12")},
            recipe=named("usr/local/bin/python3"),
        ),
    ),
    # --- row 12: plugins by name
    *(
        Row(
            name=f"12 {path}",
            case=on_base({path: ELF}),
            fails=("files.explained/unexplained",),
            failing=1,
        )
        for path in (
            f"{LIB}/libnccl-net.so",
            f"{LIB}/libnccl-tuner.so",
            f"{LIB}/libnccl-profiler.so",
            f"{LIB}/libucp.so.0",
            "opt/lib/nvshmem_transport_ibrc.so.3",
            "usr/local/lib/libcuda.so.1",
            f"{LIB}/libnss_evil.so.2",
            f"{LIB}/ossl-modules/evil.so",
            f"{LIB}/gconv/EVIL.so",
        )
    ),
    Row(
        name="12 a pattern does not reach a plugin",
        case=on_base({"opt/nccl/libnccl-net.so": ELF}, recipe=named("opt/nccl/**")),
        fails=("files.explained/unexplained",),
        control=on_base({"opt/nccl/libnccl-net.so": ELF}, recipe=named("opt/nccl/libnccl-net.so")),
    ),
    Row(
        name="12 a locked wheel puts a plugin where the loader looks",
        case=on_base(
            {**dist("net", "1.0"), "usr/lib/libnccl-net.so": ELF},
            locked={"net==1.0": {**dist("net", "1.0"), "usr/lib/libnccl-net.so": ELF}},
            requested=("net",),
        ),
        fails=("native.plugins/nccl-plugin",),
        control=on_base(
            dist("net", "1.0", files={"net/libnccl-net.so": ELF}),
            locked={"net==1.0": dist("net", "1.0", files={"net/libnccl-net.so": ELF})},
            requested=("net",),
        ),
    ),
    # --- row 16: caches and headers
    *(
        Row(
            name=f"16 {path}",
            case=on_base({path: content}),
            fails=("files.explained/unexplained",),
            failing=1,
        )
        for path, content in (
            ("root/.cache/flashinfer/0.6.18/121a/cached_ops/x/x.so", ELF),
            ("root/.triton/cache/ABC/kernel.cubin", b"x"),
            ("root/.cache/torch_extensions/py312_cu130/x/x.so", ELF),
            ("root/.cache/vllm/torch_compile_cache/x/model.py", EVIL),
            ("tmp/torchinductor_root/fx/x.py", EVIL),
            ("usr/local/include/cuda_fp16.h", "#define x\n"),
        )
    ),
    Row(
        name="16 a pattern does not reach a cache",
        case=on_base({"opt/x/.triton/cache/A/k.cubin": b"x"}, recipe=named("opt/x/**")),
        fails=("files.explained/unexplained",),
    ),
    # --- what a variable names decides as much as a name that is known (gcc(1), ld.so(8), NCCL)
    *(
        Row(
            name=f"14 {variable} names a file that a pattern explains",
            case=on_base(
                {path: ELF},
                config={"Env": [*CONFIG["Env"], f"{variable}={value}"]},
                recipe=f'[config.env]\n{variable} = "{value}"\n{named("opt/i/**")}',
            ),
            fails=(code,),
            control=on_base({path: ELF}, recipe=named("opt/i/**")),
        )
        for variable, value, path, code in (
            ("CPATH", "/opt/i", "opt/i/cuda_fp16.h", "native.plugins/named-by-variable"),
            (
                "CPLUS_INCLUDE_PATH",
                "/x:/opt/i/",
                "opt/i/cub/cub.h",
                "native.plugins/named-by-variable",
            ),
            (
                "NCCL_NET_PLUGIN",
                "/opt/i/any.so",
                "opt/i/any.so",
                "native.plugins/named-by-variable",
            ),
            ("OPENSSL_CONF", "/opt/i/o.txt", "opt/i/o.txt", "native.plugins/named-by-variable"),
            ("BASH_ENV", "/opt/i/rc", "opt/i/rc", "native.plugins/named-by-variable"),
            ("LD_PRELOAD", "/opt/i/any.so", "opt/i/any.so", "native.needs/preload-moved"),
            ("LD_AUDIT", "/opt/i/any.so", "opt/i/any.so", "native.needs/preload-moved"),
        )
    ),
    Row(
        name="14 a variable names a file that the recipe names in full",
        case=on_base(
            {"opt/i/any.so": ELF},
            config={"Env": [*CONFIG["Env"], "NCCL_NET_PLUGIN=/opt/i/any.so"]},
            recipe=f'[config.env]\nNCCL_NET_PLUGIN = "/opt/i/any.so"\n{named("opt/i/any.so")}',
        ),
    ),
    Row(
        name="12 a plugin out of a declared Debian package",
        case=on_base(
            {
                **package("net", {"usr/lib/libnccl-net.so": ELF}),
                "var/lib/dpkg/status": STATUS + stanza("net", "1"),
            },
            recipe='[layer.debian]\npackages = ["net=1"]\n',
        ),
        fails=("native.plugins/nccl-plugin",),
        control=on_base(
            {
                **package("net", {"usr/lib/libnccl-net.so": ELF}),
                "var/lib/dpkg/status": STATUS + stanza("net", "1"),
            },
            recipe=f'[layer.debian]\npackages = ["net=1"]\n{named("usr/lib/libnccl-net.so")}',
        ),
    ),
    # --- row 22: launchers
    Row(
        name="22 a locked wheel's launcher with another interpreter",
        case=_launcher("/usr/bin/python3.9"),
        fails=("python.locked/file-differs",),
        control=_launcher("/usr/bin/python3.12"),
    ),
    Row(
        name="22 a locked wheel's launcher with another program of the interpreter's name",
        case=_launcher("/usr/bin/python"),
        fails=("python.locked/file-differs",),
        control=_launcher("/usr/bin/python3"),
    ),
    # --- honest
    Row(
        name="a locked wheel that adds to a namespace package",
        case=with_base(
            on_base(
                dist("more", "1.0", files={"google/more/__init__.py": ""}),
                locked={"more==1.0": dist("more", "1.0", files={"google/more/__init__.py": ""})},
                requested=("more",),
            ),
            {f"{SITE}/google/protobuf/__init__.py": "# p\n"},
        ),
    ),
)
