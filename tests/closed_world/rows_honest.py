"""Honest steps, as apt-get, useradd, docker and podman leave them: they pass, or give one finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.closed_world.debian import (
    GROUP,
    GSHADOW,
    PASSWD,
    SHADOW,
    STATUS,
    package,
    stanza,
)
from tests.closed_world.rows import Row, on_base
from tests.images import Directory, File, Link

if TYPE_CHECKING:
    from tests.images import Content

PROGRAM = File(b"\x7fELF is not looked for in a script\n", mode=0o755)
TINI: dict[str, Content] = {
    **package("tini", {"usr/bin/tini": PROGRAM, "usr/share/doc/tini/copyright": "MIT\n"}),
    "var/lib/dpkg/status": STATUS + stanza("tini", "0.19.0-1"),
    "var/lib/dpkg/status-old": STATUS + stanza("tini", "0.19.0-1", state="install ok unpacked"),
    "var/lib/dpkg/lock": "",
    "var/lib/dpkg/lock-frontend": File(b"", mode=0o640),
    "var/lib/dpkg/triggers/Lock": "",
    "var/log/dpkg.log": "2026-02-01 install tini:arm64 <none> 0.19.0-1\n",
    "var/log/apt/history.log": "Start-Date: 2026-02-01\n",
    "var/lib/apt/extended_states": "Package: tini\n",
    "var/cache/apt/.wh.pkgcache.bin": "",
    "var/lib/apt/lists/.wh.lock": "",
    "var/lib/apt/lists/.wh.deb.example_dists_sid_InRelease": "",
    "var/lib/apt/lists/partial": Directory(),
}
# update-alternatives(1): a group of one link, the link itself and dpkg's record of the choices
EDITOR: dict[str, Content] = {
    **package("nano", {"usr/bin/nano": PROGRAM}),
    "usr/bin/editor": Link("/etc/alternatives/editor"),
    "etc/alternatives/editor": Link("/usr/bin/nano"),
    "var/lib/dpkg/alternatives/editor": "auto\n/usr/bin/editor\n\n/usr/bin/nano\n40\n\n",
    "var/lib/dpkg/status": STATUS + stanza("nano", "8.0-1"),
}
CONFFILE: dict[str, Content] = {
    **package("xconf", {"usr/share/x/y": "y"}),
    "etc/x.conf": "x\n",
    "var/lib/dpkg/info/xconf.conffiles": "/etc/x.conf\n",
    "var/lib/dpkg/info/xconf.list": "/.\n/etc\n/etc/x.conf\n/usr\n/usr/share\n/usr/share/x\n/usr/share/x/y\n",
    "var/lib/dpkg/status": STATUS
    # md5sum of "x\n", as dpkg's `Conffiles` has it
    + stanza("xconf", "1", more="Conffiles:\n /etc/x.conf 401b30e3b8b5d629635a5c613cdb7919\n"),
}
# what Debian's `useradd -m app` leaves (useradd 4.17)
APP: dict[str, Content] = {
    "etc/passwd": PASSWD + "app:x:1000:1000::/home/app:/bin/sh\n",
    "etc/passwd-": PASSWD,
    "etc/group": GROUP + "app:x:1000:\n",
    "etc/group-": GROUP,
    "etc/shadow": File((SHADOW + "app:!:20500:0:99999:7:::\n").encode(), mode=0o640),
    "etc/shadow-": File(SHADOW.encode(), mode=0o640),
    "etc/gshadow": File((GSHADOW + "app:!::\n").encode(), mode=0o640),
    "etc/gshadow-": File(GSHADOW.encode(), mode=0o640),
    "etc/subuid": "app:100000:65536\n",
    "etc/subuid-": "",
    "etc/subgid": "app:100000:65536\n",
    "etc/.pwd.lock": File(b"", mode=0o600),
    "home/app": Directory(mode=0o700),
    "home/app/.bashrc": File(b"# ~/.bashrc\n", uid=1000),
    "home/app/.profile": File(b"# ~/.profile\n", uid=1000),
    "var/mail/app": File(b"", mode=0o660, uid=1000),
}
DECLARED = '[config]\nusers = [{ name = "app", uid = 1000 }]\n'
IN_VIDEO: dict[str, Content] = {
    **APP,
    "etc/group": GROUP.replace("video:x:44:", "video:x:44:app") + "app:x:1000:\n",
}

ROWS = (
    Row(
        name="honest: apt-get install tini, not declared",
        case=on_base(TINI),
        fails=("debian.pins/undeclared",),
        failing=1,
        control=on_base(TINI, recipe='[layer.debian]\npackages = ["tini=0.19.0-1"]\n'),
    ),
    Row(
        name="honest: a package with a configuration file",
        case=on_base(CONFFILE, recipe='[layer.debian]\npackages = ["xconf=1"]\n'),
    ),
    Row(
        name="honest: a package with an alternative",
        case=on_base(EDITOR, recipe='[layer.debian]\npackages = ["nano=8.0-1"]\n'),
    ),
    Row(
        name="honest: a package of a distroless image",
        case=on_base(
            {
                "usr/share/z": "z",
                "var/lib/dpkg/status.d/zz": stanza("zz", "1"),
                # md5sum of "z"
                "var/lib/dpkg/status.d/zz.md5sums": "fbade9e36a3f36d3d676c1b808451dd7  usr/share/z\n",
            },
            recipe='[layer.debian]\npackages = ["zz=1"]\n',
        ),
    ),
    Row(
        name="honest: useradd -m app, not declared",
        case=on_base(APP),
        fails=("users.declared/undeclared",),
        failing=1,
        control=on_base(APP, recipe=DECLARED),
    ),
    Row(
        name="honest: useradd -m app and USER app, not declared",
        case=on_base(APP, config={"User": "app"}),
        fails=("users.declared/undeclared",),
        failing=1,
        control=on_base(APP, config={"User": "app"}, recipe=f'{DECLARED}user = "app"\n'),
    ),
    Row(
        name="a declared user in a group that is not declared",
        case=on_base(IN_VIDEO, recipe=DECLARED),
        fails=("users.declared/unfit",),
        failing=1,
        control=on_base(
            IN_VIDEO,
            recipe='[config]\nusers = [{ name = "app", uid = 1000, groups = ["video"] }]\n',
        ),
    ),
    Row(
        name="a declared user with a password",
        case=on_base(
            {**APP, "etc/shadow": File((SHADOW + "app:$6$x$y:1:::::\n").encode(), mode=0o640)},
            recipe=DECLARED,
        ),
        fails=("users.declared/unfit",),
    ),
    Row(
        name="a declared user with other files in its folder",
        case=on_base({**APP, "home/app/.bashrc": "evil\n"}, recipe=DECLARED),
        fails=("files.explained/unexplained",),
        failing=1,
    ),
    Row(
        name="honest: folders of the base repeated, as runtimes write them",
        case=on_base(
            {
                "etc": Directory(),
                "usr": Directory(),
                "usr/local/bin": Directory(),
                "tmp": Directory(mode=0o1777),
            }
        ),
    ),
    Row(
        name="honest: an empty folder of apt's lists removed, where the root is the working folder",
        case=on_base({"var/lib/apt/lists/.wh.auxfiles": ""}),
    ),
    Row(
        name="honest: WORKDIR makes a folder",
        case=on_base(
            {"workspace": Directory()},
            config={"WorkingDir": "/workspace"},
            recipe='[config]\nworking_dir = "/workspace"\n',
        ),
    ),
    Row(
        name="honest: a declared link",
        case=on_base(
            {"opt/x/latest": Link("/usr/bin/bash")},
            recipe='[[layer.links]]\npath = "/opt/x/latest"\ntarget = "/usr/bin/bash"\n',
        ),
    ),
)
