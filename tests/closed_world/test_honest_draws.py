"""Honest layers drawn at random: what people do to images, in any order and number of layers.

Each draw is a list of steps as their tools leave them (apt-get, useradd, pip, uv, runtimes). The
recipe declares what it has to, and the gate has nothing to say.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from imagegate.report.text import render_text
from tests.closed_world.debian import (
    BASE,
    GROUP,
    GSHADOW,
    PASSWD,
    SHADOW,
    STATUS,
    package,
    stanza,
)
from tests.closed_world.rows import on_base
from tests.images import Directory, File, Link
from tests.judging import SITE, dist

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.images import Content

DRAWS = 60
# the launchers of pip (distlib's form) and of uv, for `w1.cli:main`
PIP = (
    "#!/usr/bin/python3\n# -*- coding: utf-8 -*-\nimport re\nimport sys\n"
    "from {name}.cli import main\nif __name__ == '__main__':\n"
    "    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])\n    sys.exit(main())\n"
)
UV = (
    "#!/usr/bin/python3\n# -*- coding: utf-8 -*-\nimport sys\nfrom {name}.cli import main\n"
    'if __name__ == "__main__":\n    if sys.argv[0].endswith("-script.pyw"):\n'
    "        sys.argv[0] = sys.argv[0][:-11]\n"
    '    elif sys.argv[0].endswith(".exe"):\n        sys.argv[0] = sys.argv[0][:-4]\n'
    "    sys.exit(main())\n"
)


@dataclass
class Machine:
    """An image in the making: the state that steps write on, and what the recipe has to declare."""

    random: random.Random
    layers: list[dict[str, Content]] = field(default_factory=list)
    status: str = STATUS
    packages: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    locked: dict[str, dict[str, Content]] = field(default_factory=dict)
    passwd: str = PASSWD
    group: str = GROUP
    shadow: str = SHADOW
    gshadow: str = GSHADOW
    subuid: str = ""

    def write(self, files: dict[str, Content]) -> None:
        """Write into a layer of its own, or into the last one as steps of one RUN do."""
        if not self.layers or self.random.random() < 0.5:
            self.layers.append({})
        self.layers[-1].update(files)

    def recipe(self) -> str:
        packages = ", ".join(f'"{one}"' for one in self.packages)
        users = ", ".join(self.users)
        links = "".join(
            f'[[layer.links]]\npath = "/{path}"\ntarget = "{target}"\n'
            for path, target in self.links
        )
        return f"[layer.debian]\npackages = [{packages}]\n[config]\nusers = [{users}]\n{links}"


def install_package(machine: Machine) -> None:
    number = len(machine.packages)
    name, version = f"pkg{number}", f"1:{number}.0~rc1-1+b{number}"
    program = f"usr/bin/{name}"
    files: dict[str, Content] = {
        program: File(b"#!/bin/sh\nexit 0\n", mode=0o755),
        f"usr/share/doc/{name}/copyright": f"{name}\n",
    }
    extra: dict[str, Content] = {}
    if machine.random.random() < 0.3:
        extra = {
            f"usr/bin/run-{name}": Link(f"/etc/alternatives/run-{name}"),
            f"etc/alternatives/run-{name}": Link(f"/{program}"),
            f"var/lib/dpkg/alternatives/run-{name}": "auto\n",
        }
    machine.packages.append(f"{name}={version}")
    before, machine.status = machine.status, machine.status + stanza(name, version)
    script = File(b"#!/bin/sh\n", mode=0o755)
    machine.write(
        {
            **package(name, files),
            **extra,
            f"var/lib/dpkg/info/{name}.{machine.random.choice(['postinst', 'prerm'])}": script,
            "var/lib/dpkg/status": machine.status,
            "var/lib/dpkg/status-old": before,
            "var/lib/dpkg/triggers/File": "/usr/share/man man-db\n",
            "var/log/dpkg.log": f"install {name}\n",
            "var/log/apt/term.log": f"Log started\n{name}\n",
            "var/cache/ldconfig/aux-cache": name,
        }
    )


def clean_apt(machine: Machine) -> None:
    machine.write(
        machine.random.choice(
            [
                {"var/lib/apt/lists/.wh..wh..opq": ""},
                {"var/lib/apt/lists/.wh.lock": "", "var/cache/apt/.wh.pkgcache.bin": ""},
                {"var/lib/apt/lists/deb.example_Packages.lz4": "new", "var/cache/apt/x.bin": "x"},
            ]
        )
    )


def add_user(machine: Machine) -> None:
    number = len(machine.users)
    name, uid = f"app{number}", 1000 + number
    old = (machine.passwd, machine.group, machine.shadow, machine.gshadow, machine.subuid)
    machine.passwd += f"{name}:x:{uid}:{uid}::/home/{name}:/bin/bash\n"
    machine.group += f"{name}:x:{uid}:\n"
    machine.shadow += f"{name}:!:20500:0:99999:7:::\n"
    machine.gshadow += f"{name}:!::\n"
    machine.subuid += f"{name}:{100000 + 65536 * number}:65536\n"
    now = (machine.passwd, machine.group, machine.shadow, machine.gshadow, machine.subuid)
    names = ("passwd", "group", "shadow", "gshadow", "subuid")
    files: dict[str, Content] = {}
    for file, new, backup in zip(names, now, old, strict=True):
        mode = 0o640 if "shadow" in file else 0o644
        files[f"etc/{file}"] = File(new.encode(), mode=mode)
        files[f"etc/{file}-"] = File(backup.encode(), mode=mode)
    files["etc/.pwd.lock"] = File(b"", mode=0o600)
    if machine.random.random() < 0.7:
        files[f"home/{name}"] = Directory(mode=0o700)
        files[f"home/{name}/.bashrc"] = File(b"# ~/.bashrc\n", uid=uid)
        files[f"home/{name}/.profile"] = File(b"# ~/.profile\n", uid=uid)
    machine.users.append(f'{{ name = "{name}", uid = {uid} }}')
    machine.write(files)


def install_wheel(machine: Machine) -> None:
    name = f"w{len(machine.locked)}"
    info = f"{SITE}/{name}-1.dist-info"
    wheel = dist(
        name,
        "1",
        files={
            f"{name}/__init__.py": "",
            f"{name}/cli.py": "def main(): ...\n",
            f"{name}-1.dist-info/entry_points.txt": (
                f"[console_scripts]\n{name} = {name}.cli:main\n"
            ),
        },
    )
    machine.locked[f"{name}==1"] = {
        **wheel,
        f"usr/local/bin/{name}": File(UV.format(name=name).encode(), mode=0o755),
    }
    form, installer = machine.random.choice([(PIP, "pip\n"), (UV, "uv")])
    record = str(wheel[f"{info}/RECORD"])
    record += f"../../../bin/{name},,\n{name}-1.dist-info/INSTALLER,,\n"
    files: dict[str, Content] = {
        **wheel,
        f"{info}/RECORD": record,
        f"{info}/INSTALLER": installer,
        f"usr/local/bin/{name}": File(form.format(name=name).encode(), mode=0o755),
    }
    if machine.random.random() < 0.5:
        files[f"{info}/REQUESTED"] = ""
    machine.write(files)


def repeat_the_base(machine: Machine) -> None:
    """Runtimes write the folders above what a step touched; `cp -a` the same bytes again."""
    paths = machine.random.sample(sorted(BASE), 6)
    kept = (path for path in paths if not path.startswith(("etc/", "var/", "tmp")))
    machine.write({path: BASE[path] for path in kept})
    machine.write({"usr/local": Directory(), "etc": Directory()})


def leave_what_runtimes_leave(machine: Machine) -> None:
    left: list[dict[str, Content]] = [
        {".dockerenv": ""},
        {"run": Directory(), "run/.containerenv": ""},
        {"etc/hosts": "", "etc/hostname": "", "etc/resolv.conf": ""},
        {"proc": Directory(), "sys": Directory(), "dev": Directory(), "mnt": Directory()},
    ]
    machine.write(machine.random.choice(left))


def declare_a_link(machine: Machine) -> None:
    path = f"opt/tool{len(machine.links)}/latest"
    machine.links.append((path, "/usr/bin/bash"))
    machine.write({path: Link("/usr/bin/bash")})


STEPS: tuple[Callable[[Machine], None], ...] = (
    install_package,
    clean_apt,
    add_user,
    install_wheel,
    repeat_the_base,
    leave_what_runtimes_leave,
    declare_a_link,
)


@pytest.mark.parametrize("seed", range(DRAWS))
def test_no_honest_layer_is_refused(seed: int, tmp_path: Path) -> None:
    machine = Machine(random=random.Random(seed))
    for step in machine.random.choices(STEPS, k=machine.random.randint(1, 8)):
        step(machine)
    case = on_base(*machine.layers, recipe=machine.recipe(), locked=machine.locked)

    verdict = case.judge(tmp_path)

    assert verdict.passed, render_text(verdict)
