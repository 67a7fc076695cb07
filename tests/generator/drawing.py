"""Draws: a few files that a layer adds, each in a form and a folder by chance."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

from tests.generator.root import EXTENSION, NAMES, PYTHON, SITE, STDLIB
from tests.images import File, Link
from tests.judging import dist

if TYPE_CHECKING:
    from random import Random

    from tests.images import Content

_NUMBER = PYTHON.replace(".", "")
FOLDERS = (
    STDLIB,
    f"{STDLIB}/lib-dynload",
    f"usr/local/lib/python{_NUMBER}.zip",
    SITE,
    f"root/.local/lib/python{PYTHON}/site-packages",
    "usr/local/bin",
    "srv/work",
    "",
    "opt/pp",
    "opt/later",
    "opt/extra",
    "usr/bin",
    f"usr/local/lib/python{PYTHON}/dist-packages",
    f"usr/local/lib64/python{PYTHON}/site-packages",
    f"usr/lib/python{PYTHON}/site-packages",
    "usr/lib/python3/dist-packages",
    "srv/elsewhere",
    "opt/unsearched",
)
SUFFIXES = (EXTENSION, ".abi3.so", ".so", ".py", ".pyc", ".pyo", ".PY", ".cpython-399.so", ".pyi")
_EVIL = "import sys; sys.evil = __name__\n"


def _module(random: Random) -> dict[str, Content]:
    """A module, in any form, under a name of the base or one that Python imports at its start."""
    name = random.choice((*NAMES, "sitecustomize", "usercustomize")).replace(".", "/")
    folder, suffix = random.choice(FOLDERS), random.choice(SUFFIXES)
    stem = name if random.random() < 0.6 else f"{name}/__init__"
    if random.random() < 0.1:
        stem = name  # a folder without `__init__` is a portion of a namespace package
        return {f"{folder}/{stem}/notes.txt".lstrip("/"): "x"}
    content: Content = _EVIL if suffix.lower() == ".py" else b"evil"
    path = f"{folder}/{stem}{suffix}".lstrip("/")
    if random.random() < 0.2:
        return {path: Link("/srv/store/evil"), "srv/store/evil": content}
    return {path: content}


def _folder_link(random: Random) -> dict[str, Content]:
    """A link in the place of a folder that is searched and not there, or of a package."""
    name = random.choice(NAMES).partition(".")[0]
    store: dict[str, Content] = {
        f"srv/store/{name}.py": _EVIL,
        f"srv/store/{name}/__init__.py": _EVIL,
        "srv/store/__init__.py": _EVIL,
    }
    link = random.choice(
        (
            "opt/pp",
            "opt/later",
            f"usr/local/lib/python{_NUMBER}.zip",
            "root/.local",
            f"srv/work/{name}",
            f"usr/local/bin/{name}",
            f"opt/unsearched/{name}",
        )
    )
    return {link: Link(random.choice(("/srv/store", "../../srv/store", "/srv/nothing"))), **store}


def _archive(random: Random) -> dict[str, Content]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{random.choice(NAMES).partition('.')[0]}.py", _EVIL)
    path = random.choice((f"usr/local/lib/python{_NUMBER}.zip", "opt/pp", "opt/later", "srv/x.zip"))
    return {path: buffer.getvalue()}


def _start(random: Random) -> dict[str, Content]:
    """A file that Python obeys at its start, or that says where its library is."""
    folder = random.choice(FOLDERS)
    lead = f"{folder}/" if folder else ""
    lines = random.choice(("import sys; sys.evil = 1\n", "/srv/store\n", "# nothing\n", "\n"))
    path, content = random.choice(
        (
            (f"{lead}zz.pth", lines),
            (f"{lead}.hidden.pth", lines),
            ("usr/local/bin/python3._pth", "/srv/store\n"),
            (f"usr/local/bin/python{PYTHON}._pth", "/srv/store\n"),
            (f"{lead}pyvenv.cfg", "home = /usr/local/bin\n"),
            (
                "usr/local/pyvenv.cfg",
                "home = /usr/local/bin\ninclude-system-site-packages = true\n",
            ),
            ("usr/local/bin/pybuilddir.txt", "build/x\n"),
            (f"usr/local/bin/lib/python{PYTHON}/os.py", _EVIL),
            (f"usr/lib/python{PYTHON}/os.py", _EVIL),
            (f"usr/local/lib64/python{PYTHON}/os.py", _EVIL),
        )
    )
    return {path: content, f"srv/store/{random.choice(NAMES).partition('.')[0]}.py": _EVIL}


def _metadata(random: Random) -> dict[str, Content]:
    folder = random.choice(FOLDERS)
    lead = f"{folder}/" if folder else ""
    name = random.choice(("zz-1.0", "pkg-9.0", "pkg"))
    text = f"Metadata-Version: 2.1\nName: {name.partition('-')[0]}\nVersion: 9.0\n"
    points = "[vllm.general_plugins]\nzz = zz:f\n"
    form = random.choice(("dist-info", "egg-info", "egg", "egg file", "link", "EGG-INFO"))
    if form == "dist-info":
        return {
            f"{lead}{name}.dist-info/METADATA": text,
            f"{lead}{name}.dist-info/entry_points.txt": points,
        }
    if form == "egg file":
        return {f"{lead}{name}.egg-info": text}
    if form == "egg":
        return {f"{lead}{name}.egg/EGG-INFO/PKG-INFO": text}
    if form == "link":
        return {
            f"{lead}{name}.dist-info": Link("/srv/store/info"),
            "srv/store/info/METADATA": text,
        }
    if form == "EGG-INFO":
        return {f"{lead}EGG-INFO/PKG-INFO": text}
    return {
        f"{lead}{name}.egg-info/PKG-INFO": text,
        f"{lead}{name}.egg-info/entry_points.txt": points,
    }


def _program(random: Random) -> dict[str, Content]:
    folder = random.choice(
        ("opt/first/bin", "usr/local/sbin", "usr/local/bin", "srv/work", "opt/unsearched", "sbin")
    )
    name = random.choice(("tool", "tool", "python3", "other"))
    mode = random.choice((0o755, 0o755, 0o644, 0o711))
    kind = random.random()
    if kind < 0.2 and folder in ("opt/first/bin", "usr/local/sbin"):
        return {folder: Link(random.choice(("/opt/tools", "/usr/bin", "/srv/nothing")))}
    if kind < 0.45 and f"{folder}/{name}" != "usr/local/bin/python3":
        target = random.choice(("/opt/tools/tool", "/usr/bin/tool", "/usr/bin/env", "/srv/nothing"))
        return {f"{folder}/{name}": Link(target)}
    if f"{folder}/{name}" == "usr/local/bin/python3":
        name = "other"
    return {f"{folder}/{name}": File(b"#!/bin/sh\necho evil\n", mode=mode)}


def _library(random: Random, libm: bytes) -> dict[str, Content]:
    folder = random.choice(
        (
            "opt/ld",
            "opt/ld/glibc-hwcaps/x86-64-v2",
            "opt/ld/tls",
            "usr/local/lib",
            "opt/unsearched",
            "opt/old/sub",
        )
    )
    if random.random() < 0.3:
        return {"opt/ld": Link(random.choice(("/opt/old", "/opt", "/srv/nothing")))}
    content = libm if random.random() < 0.2 else libm + b"\0evil"
    return {f"{folder}/{random.choice(('libm.so.6', 'libother.so'))}": File(content, mode=0o755)}


def draw(random: Random, libm: bytes) -> dict[str, Content]:
    """Draw what an attacker's layer adds."""
    kinds = (
        _module,
        _module,
        _module,
        _folder_link,
        _archive,
        _start,
        _metadata,
        _program,
        lambda chance: _library(chance, libm),
    )
    files: dict[str, Content] = {}
    for _ in range(random.choice((1, 1, 1, 2))):
        files.update(random.choice(kinds)(random))
    return _without_conflicts(files)


def _without_conflicts(files: dict[str, Content]) -> dict[str, Content]:
    """Leave out what would lie below a file or link of the same draw."""
    solid = {path for path, content in files.items()}
    return {
        path: content
        for path, content in files.items()
        if not any("/".join(path.split("/")[:n]) in solid for n in range(1, path.count("/") + 1))
    }


def draw_honest(random: Random) -> dict[str, Content]:
    """Draw what a locked wheel installs: packages of new names, namespace portions, a command."""
    name = random.choice(("alpha", "beta", "gamma"))
    forms: dict[str, Content] = {
        f"{name}/__init__.py": "# new\n",
        f"{name}/core{EXTENSION}": b"compiled",
        f"{name}.py" if random.random() < 0.1 else f"{name}_more.py": "# new\n",
        f"nsp/{name}/__init__.py": "# new\n",
        f"{name}/plain.py": "# new\n",
        f"{name}/vendored/pkg-9.dist-info/METADATA": "Name: pkg\nVersion: 9\n",
    }
    if f"{name}.py" in forms:
        forms.pop(f"{name}/__init__.py")
    chosen = {path: forms[path] for path in forms if random.random() < 0.7}
    files = dist(name, "1.0", site=SITE, files=chosen or {f"{name}.py": "# new\n"})
    if random.random() < 0.5:
        files[f"usr/local/bin/{name}"] = File(b"#!/bin/sh\n", mode=0o755)
    return files
