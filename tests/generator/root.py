"""A small real root: this machine's Python, C library and shell, in the places of an image."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.images import Directory, File, Link
from tests.judging import dist

if TYPE_CHECKING:
    from tests.images import Content

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
INTERPRETER = f"usr/local/bin/python{PYTHON}"
STDLIB = f"usr/local/lib/python{PYTHON}"
SITE = f"{STDLIB}/site-packages"
EXTENSION = sysconfig.get_config_var("EXT_SUFFIX")
# folders that are searched and are not there: a layer that makes them decides
CONFIG: dict[str, Any] = {
    "Env": [
        "PATH=/opt/first/bin:/usr/local/sbin:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH=/opt/pp",
        "LD_LIBRARY_PATH=/opt/ld",
        "HOME=/root",
    ],
    "WorkingDir": "/srv/work",
    "Cmd": ["tool"],
}
ENVIRONMENT = dict(text.split("=", 1) for text in CONFIG["Env"])
_PACKAGES = (
    "collections",
    "email",
    "encodings",
    "importlib",
    "json",
    "re",
    "zipfile",
    "pathlib",
    "urllib",
)
_DYNAMIC = re.compile(
    r"(?:_struct|math|_csv|zlib|binascii|_datetime|_random|_bisect|select|fcntl|grp|_bz2|_lzma|_socket|array|_sha512|_sha2|_hashlib|_opcode|_typing|_posixsubprocess)\."
)
_SCRIPT = b"#!/bin/sh\necho base\n"


def _program(path: str) -> bytes:
    return Path(path).resolve().read_bytes()


def _libraries(*programs: str) -> dict[str, Content]:
    """The libraries that some programs need, and the loader, as ``ldd`` names them."""
    found: dict[str, Content] = {}
    for program in programs:
        shown = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
        for path in re.findall(r"(/\S+)", shown.stdout):
            real = path if path.startswith("/usr") else f"/usr{path}"
            if ":" in path or not Path(path).is_file():
                continue
            if "libpython" in path:
                real = f"/usr/lib/{Path(path).name}"
            found[real.lstrip("/")] = File(_program(path), mode=0o755)
    return found


def base() -> dict[str, Content]:
    """Return all files of the root."""
    executable = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
    library = Path(sysconfig.get_path("stdlib"))
    files: dict[str, Content] = {
        "bin": Link("usr/bin"),
        "lib": Link("usr/lib"),
        "lib64": Link("usr/lib64"),
        "dev/null": "",
        "tmp": Directory(mode=0o1777),
        "root/notes": "",
        "srv/work/notes": "",
        "srv/elsewhere/notes": "",
        "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
        "usr/bin/sh": File(_program("/bin/sh"), mode=0o755),
        "usr/bin/env": File(_program("/usr/bin/env"), mode=0o755),
        "usr/bin/tool": File(_SCRIPT, mode=0o755),
        "opt/tools/tool": File(_SCRIPT.replace(b"base", b"other"), mode=0o755),
        INTERPRETER: File(_program(executable), mode=0o755),
        "usr/local/bin/python3": Link(f"python{PYTHON}"),
        "opt/extra/inserted.py": "# base\n",
        f"{SITE}/base.pth": "/opt/extra\n/opt/later\n",
        f"{SITE}/nsp/one/__init__.py": "# base\n",
        f"{SITE}/plain.py": "# base\n",
        f"{SITE}/ext{EXTENSION}": b"\x7fELF base",
        **dist(
            "pkg",
            "1.0",
            site=SITE,
            files={"pkg/__init__.py": "# base\n", "pkg/sub.py": "# base\n"},
        ),
        **_libraries(executable, "/bin/sh", "/usr/bin/env"),
    }
    for path in library.glob("*.py"):
        files[f"{STDLIB}/{path.name}"] = path.read_bytes()
    for package in _PACKAGES:
        for path in (library / package).rglob("*.py"):
            files[f"{STDLIB}/{path.relative_to(library)}"] = path.read_bytes()
    for path in (library / "lib-dynload").iterdir():
        if _DYNAMIC.match(path.name):
            files[f"{STDLIB}/lib-dynload/{path.name}"] = path.read_bytes()
            files.update(_libraries(str(path)))
    libm = next(path for path in files if path.endswith("/libm.so.6"))
    content = files[libm]
    assert isinstance(content, File)
    assert isinstance(content.content, bytes)
    files["opt/old/libm.so.6"] = File(content.content + b"\0old", mode=0o755)
    return files


def write(root: Path, files: dict[str, Content]) -> None:
    """Put files into a root, each in the place of what was there."""
    for path, content in files.items():
        target = root / path
        if isinstance(content, Directory):
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink() or target.is_file():
            target.unlink()
        if isinstance(content, Link):
            target.symlink_to(content.target)
            continue
        raw = content.content if isinstance(content, File) else content
        assert isinstance(raw, str | bytes)
        target.write_bytes(raw.encode() if isinstance(raw, str) else raw)
        target.chmod(content.mode if isinstance(content, File) else 0o644)


def remove(root: Path, files: dict[str, Content]) -> None:
    """Take files away again, with the folders that they alone needed."""
    for path in sorted(files, reverse=True):
        target = root / path
        if target.is_symlink() or target.is_file():
            target.unlink()
        elif target.is_dir():
            shutil.rmtree(target)
        for parent in target.relative_to(root).parents:
            folder = root / parent
            if (
                parent == Path()
                or folder.is_symlink()
                or not folder.is_dir()
                or any(folder.iterdir())
            ):
                break
            folder.rmdir()


_CHROOT = ["chroot"] if os.geteuid() == 0 else ["sudo", "-n", "chroot"]
NAMES = ("pkg", "pkg.sub", "plain", "ext", "nsp", "nsp.one", "inserted", "keyword", "textwrap")
# `find_spec` of the path finder alone: it imports nothing of what is asked for
_ASK = f"""
import sys
from _frozen_importlib_external import PathFinder
def ask(name):
    path = None
    for part in name.split('.'):
        spec = PathFinder.find_spec(part if path is None else name, path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec.origin or 'namespace'
for name in {NAMES!r}:
    print(name, ask(name))
for name in ('sitecustomize', 'usercustomize'):
    print(name, getattr(sys.modules.get(name), '__file__', None))
print('started', getattr(sys, 'evil', None), sys.prefix)
"""
_METADATA = """
from importlib.metadata import distributions, entry_points
print(sorted((d.metadata['Name'] or '', d.version or '', str(d._path)) for d in distributions()))
print(sorted(e.name for e in entry_points(group='vllm.general_plugins')))
"""


def observe(root: Path, *, warm: bool = False) -> dict[str, str]:
    """Say what the root's own programs take: each Python, the shell's search, the loader.

    Args:
        root: the root.
        warm: whether Python may keep bytecode, so that it starts quicker from then on.
    """

    def run(*command: str, stdin: str | None = None) -> str:
        environment = [f"{key}={value}" for key, value in ENVIRONMENT.items()]
        environment += [] if warm else ["PYTHONDONTWRITEBYTECODE=1"]
        loader = "/usr/bin/env"
        done = subprocess.run(
            [*_CHROOT, str(root), loader, "-i", "-C", "/srv/work", *environment, *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            input=stdin,
        )
        return done.stdout or f"ends with {done.returncode}: {done.stderr[-200:]}"

    called = ("/usr/local/bin/python3", f"/{INTERPRETER}")
    return {
        "imports, current folder": run(called[0], "-c", _ASK),
        "imports, other name": run(called[1], "-c", _ASK),
        "imports, launcher": run("/usr/local/bin/asks"),
        "metadata": run(called[0], "-c", _METADATA),
        "program": run("tool"),
        "python3": run("python3", "-c", "print(1)"),
        "libraries": _contents(root, run(_loader(root), "--list", f"/{INTERPRETER}")),
    }


def _contents(root: Path, listed: str) -> str:
    """Name what is loaded by its bytes: another copy of the same ones is the same library."""
    lines = []
    for name, path in re.findall(r"(\S+) => /(\S+)", listed):
        real = (root / path).resolve()
        inside = real if real.is_relative_to(root) else root / str(real).lstrip("/")
        lines.append(f"{name} {hashlib.sha256(inside.read_bytes()).hexdigest()}")
    return "\n".join(lines) or listed


def _loader(root: Path) -> str:
    found = next(iter(sorted((root / "usr").glob("lib*/ld-linux*"))))
    return f"/{found.relative_to(root)}"


LAUNCHER: dict[str, Content] = {
    "usr/local/bin/asks": File(f"#!/{INTERPRETER}\n{_ASK}".encode(), mode=0o755)
}
