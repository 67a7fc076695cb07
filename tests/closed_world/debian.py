"""A base of a few files that has what a Debian image has: dpkg, accounts, Python, libraries."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from tests.elf import library
from tests.images import Directory, File, Link
from tests.judging import dist

if TYPE_CHECKING:
    from tests.images import Content

STDLIB = "usr/lib/python3.12"
LIB = "usr/lib/aarch64-linux-gnu"
CONFIG: dict[str, Any] = {
    "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
    "Cmd": ["python3"],
}


def stanza(name: str, version: str, *, state: str = "install ok installed", more: str = "") -> str:
    """One package of dpkg's status (deb822(5))."""
    return (
        f"Package: {name}\nStatus: {state}\nPriority: optional\nSection: misc\n"
        f"Maintainer: Debian <x@example.org>\nArchitecture: arm64\nVersion: {version}\n{more}"
        f"Description: {name} of the base\n\n"
    )


def package(name: str, files: dict[str, Content]) -> dict[str, Content]:
    """Files of a Debian package with what dpkg keeps of them: the list and the MD5s."""
    listed = {"/."}
    for path in files:
        parts = path.split("/")
        listed.update("/" + "/".join(parts[: n + 1]) for n in range(len(parts)))
    sums = []
    for path, content in files.items():
        raw = content.content if isinstance(content, File) else content
        if isinstance(raw, str | bytes):
            raw = raw.encode() if isinstance(raw, str) else raw
            sums.append(f"{hashlib.md5(raw).hexdigest()}  {path}\n")
    return {
        **files,
        f"var/lib/dpkg/info/{name}.list": "".join(f"{path}\n" for path in sorted(listed)),
        f"var/lib/dpkg/info/{name}.md5sums": "".join(sums),
    }


STATUS = stanza("libc6", "2.39-0") + stanza("base-files", "13")
PASSWD = "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
GROUP = "root:x:0:\ndaemon:x:1:\nvideo:x:44:\nsudo:x:27:\n"
SHADOW = "root:*:20000:0:99999:7:::\ndaemon:*:20000:0:99999:7:::\n"
GSHADOW = "root:*::\ndaemon:*::\nvideo:*::\nsudo:*::\n"

BASE: dict[str, Content] = {
    "bin": Link("usr/bin"),
    "lib": Link("usr/lib"),
    "sbin": Link("usr/sbin"),
    "tmp": Directory(mode=0o1777),
    "var/lib/dpkg/status": STATUS,
    "var/lib/dpkg/status-old": STATUS,
    "var/lib/dpkg/info/format": "1\n",
    "var/lib/dpkg/lock": "",
    "var/lib/dpkg/diversions": "",
    "var/lib/apt/lists/lock": File(b"", mode=0o640),
    "var/lib/apt/lists/deb.example_dists_sid_InRelease": "Origin: Debian\n",
    "var/lib/apt/lists/auxfiles": Directory(),
    "var/cache/apt/pkgcache.bin": "cache",
    "var/log/dpkg.log": "2026-01-01 startup archives unpack\n",
    "etc/passwd": PASSWD,
    "etc/group": GROUP,
    "etc/shadow": File(SHADOW.encode(), mode=0o640),
    "etc/gshadow": File(GSHADOW.encode(), mode=0o640),
    "etc/subuid": "",
    "etc/subgid": "",
    "etc/skel/.bashrc": "# ~/.bashrc\n",
    "etc/skel/.profile": "# ~/.profile\n",
    "etc/nsswitch.conf": "passwd: files\n",
    "root/.bashrc": "# ~/.bashrc\n",
    "home": Directory(),
    **package("libc6", {f"{LIB}/libc.so.6": library(soname="libc.so.6")}),
    "usr/bin/bash": File(b"#!/bin/true\n", mode=0o755),
    "usr/bin/sh": Link("bash"),
    "usr/bin/python3.12": File(library(needed=("libc.so.6",)), mode=0o755),
    "usr/bin/python3": Link("python3.12"),
    "usr/sbin/nologin": File(b"#!/bin/true\n", mode=0o755),
    "usr/local/bin": Directory(),
    f"{STDLIB}/os.py": "# the standard library\n",
    f"{STDLIB}/json/__init__.py": "# json\n",
    f"{STDLIB}/encodings/__init__.py": "# encodings\n",
    f"{STDLIB}/lib-dynload/_ssl.cpython-312-aarch64-linux-gnu.so": library(),
    "usr/lib/python3/dist-packages/README": "",
    **dist("torch", "2.9.0", files={"torch/__init__.py": "# torch\n", "torch/cuda.py": "# c\n"}),
    **dist("numpy", "2.2.0", files={"numpy/__init__.py": "# numpy\n"}),
    **dist("flashinfer-python", "0.6.18", files={"flashinfer/__init__.py": "# f\n"}),
}
