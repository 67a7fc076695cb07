"""Files that neither lock nor recipe explain, and files of the base that change."""

from __future__ import annotations

from tests.closed_world.debian import (
    GROUP,
    LIB,
    PASSWD,
    SHADOW,
    STATUS,
    package,
    stanza,
)
from tests.closed_world.rows import Row, on_base
from tests.images import Content, Directory, File, Link
from tests.judging import SITE, dist

PROGRAM = File(b"#!/bin/sh\n", mode=0o755)
APP: dict[str, Content] = {"opt/app/main.py": "print()\n", "opt/app/data/a.bin": "a"}


APP_USER: dict[str, Content] = {
    "etc/passwd": PASSWD + "app:x:1000:1000::/home/app:/bin/sh\n",
    "etc/group": GROUP + "app:x:1000:\n",
}
APP_SHADOW = (SHADOW + "app:!:20500:0:99999:7:::\n").encode()
WHEEL_INFO = f"{SITE}/x-1.dist-info"
WHEEL = dist("x", "1", files={"x/__init__.py": "# x\n"})
LOCKED = {"x==1": WHEEL}


def allow(*patterns: str) -> str:
    return "".join(
        f'[[layer.allow]]\npattern = "{pattern}"\nreason = "reviewed"\n' for pattern in patterns
    )


ROWS = (
    Row(
        name="a new program that runs with root's rights",
        case=on_base({"usr/local/bin/x": File(b"#!/bin/sh\n", mode=0o4755)}),
        fails=("files.moves/setuid",),
        control=on_base({"usr/local/bin": Directory()}),
    ),
    Row(
        name="files in a folder of their own",
        case=on_base(APP),
        fails=("files.explained/unexplained",),
        failing=1,
        control=on_base(APP, recipe=allow("/opt/app/**")),
    ),
    Row(
        name="one file in a folder of the base",
        case=on_base({"srv/x": "x"}),
        fails=("files.explained/unexplained",),
        failing=1,
        control=on_base({"srv/x": "x"}, recipe=allow("/srv/x")),
    ),
    Row(
        name="an empty folder that nothing explains",
        case=on_base({"data/empty": Directory()}),
        fails=("files.explained/unexplained",),
        control=on_base({"mnt": Directory(), "data/empty": Directory()}, recipe=allow("/data/**")),
    ),
    Row(
        name="a link of a folder's name that leads to it",
        case=on_base({"opt/lib": Link("/usr/lib")}),
        fails=("files.explained/unexplained",),
    ),
    # row 20: configuration that programs obey
    *(
        Row(
            name=f"20 a new /{path}",
            case=on_base({path: "x\n"}),
            fails=(code,),
            failing=1,
        )
        for path, code in (
            (f"{LIB}/gconv/gconv-modules.d/x.conf", "files.explained/unexplained"),
            ("etc/ssl/openssl.cnf", "files.explained/unexplained"),
            ("etc/libibverbs.d/x.driver", "files.explained/unexplained"),
            ("etc/profile.d/x.sh", "files.explained/unexplained"),
            ("etc/gai.conf", "files.explained/unexplained"),
            ("etc/environment", "files.explained/unexplained"),
            ("etc/sudoers.d/x", "files.explained/unexplained"),
            ("etc/cron.d/x", "files.explained/unexplained"),
            ("etc/systemd/system/x.service", "files.explained/unexplained"),
            ("root/.ssh/authorized_keys", "files.explained/unexplained"),
            ("root/.bash_profile", "files.explained/unexplained"),
            ("etc/apt/sources.list.d/x.list", "files.explained/unexplained"),
            ("usr/local/include/cuda_fp16.h", "files.explained/unexplained"),
            ("usr/share/x.py", "files.explained/unexplained"),
        )
    ),
    Row(
        name="20 another nsswitch.conf",
        case=on_base({"etc/nsswitch.conf": "passwd: files evil\n"}),
        fails=("files.moves/overwritten",),
        failing=1,
        control=on_base({"etc/nsswitch.conf": "passwd: files\n"}),
    ),
    Row(
        name="a wide pattern does not reach a watched place",
        case=on_base(
            {"opt/app/lib/python3.12/site-packages/x.py": "", "opt/app/y": ""},
            recipe=allow("/opt/app/**"),
        ),
        fails=("*",),
        control=on_base({"opt/app/y": ""}, recipe=allow("/opt/app/**")),
    ),
    Row(
        name="a wide pattern does not reach a path of the base",
        case=on_base({"etc/skel/.bashrc": "evil\n"}, recipe=allow("/etc/skel/**")),
        fails=("files.moves/overwritten",),
        failing=1,
    ),
    Row(
        name="a path of the base, though the recipe names it in full: one content is a waiver's",
        case=on_base({"etc/nsswitch.conf": "passwd: x\n"}, recipe=allow("/etc/nsswitch.conf")),
        fails=("files.moves/overwritten",),
        notes=("files.explained/allow-unused",),
        failing=1,
    ),
    Row(
        name="a folder of the base repeated without its sticky bit",
        case=on_base({"tmp": Directory(mode=0o755)}),
        fails=("files.moves/attributes",),
        failing=1,
        control=on_base({"tmp": Directory(mode=0o1777)}),
    ),
    Row(
        name="a declared user, and the passwords readable for all",
        case=on_base(
            {**APP_USER, "etc/shadow": File(APP_SHADOW, mode=0o644)},
            recipe='[config]\nusers = [{ name = "app", uid = 1000 }]\n',
        ),
        fails=("files.moves/attributes",),
        failing=1,
        control=on_base(
            {**APP_USER, "etc/shadow": File(APP_SHADOW, mode=0o640)},
            recipe='[config]\nusers = [{ name = "app", uid = 1000 }]\n',
        ),
    ),
    Row(
        name="a pattern that explains nothing is said",
        case=on_base(recipe=allow("/opt/app/**")),
        notes=("files.explained/allow-unused",),
    ),
    Row(
        name="a deleted file of the base",
        case=on_base({"etc/.wh.nsswitch.conf": ""}),
        fails=("files.moves/deleted",),
        failing=1,
    ),
    Row(
        name="an executable among apt's lists",
        case=on_base({"var/lib/apt/lists/x": PROGRAM}),
        fails=("files.explained/unexplained",),
        control=on_base({"var/lib/apt/lists/x": "x"}),
    ),
    Row(
        name="a link among apt's lists",
        case=on_base({"var/cache/apt/x": Link("/etc/shadow")}),
        fails=("files.explained/unexplained",),
    ),
    Row(
        name="a filled file where runtimes put their own",
        case=on_base({"etc/hosts": "6.6.6.6 huggingface.co\n"}),
        fails=("files.explained/unexplained",),
        control=on_base({"etc/hosts": "", "etc/resolv.conf": "", ".dockerenv": ""}),
    ),
    Row(
        name="a file in a mount point",
        case=on_base({"tmp/x": "x"}),
        fails=("files.explained/unexplained",),
        control=on_base({"tmp": Directory(mode=0o1777), "mnt": Directory()}),
    ),
    # row 18: modes and owners
    Row(
        name="18 the interpreter loses the permission to be run",
        case=on_base({"usr/sbin/nologin": File(b"#!/bin/true\n", mode=0o644)}),
        fails=("files.moves/attributes",),
        failing=1,
        control=on_base({"usr/sbin/nologin": File(b"#!/bin/true\n", mode=0o755)}),
    ),
    Row(
        name="18 a folder of the base that nobody may enter",
        case=on_base({"etc/skel": Directory(mode=0o000)}),
        fails=("files.moves/attributes",),
        failing=1,
        control=on_base({"etc/skel": Directory(mode=0o755)}),
    ),
    Row(
        name="18 a file of the base that others may write",
        case=on_base({"etc/nsswitch.conf": File(b"passwd: files\n", mode=0o666)}),
        fails=("files.moves/attributes",),
        failing=1,
    ),
    Row(
        name="18 a file of the base that belongs to somebody else",
        case=on_base({"etc/nsswitch.conf": File(b"passwd: files\n", uid=1000)}),
        fails=("files.moves/attributes",),
        failing=1,
    ),
    Row(
        name="a locked wheel's path over a file of the base",
        case=on_base(
            {"etc/nsswitch.conf": "passwd: evil\n"},
            locked={"x==1": {"etc/nsswitch.conf": "passwd: evil\n"}},
        ),
        fails=("files.moves/overwritten",),
    ),
    Row(
        name="a folder above an asset that everybody may write to",
        case=on_base({"usr/share/models": Directory(mode=0o777)}),
        fails=("files.moves/writable",),
        failing=1,
        control=on_base({"usr/share/models": Directory(mode=0o755)}),
    ),
    Row(
        name="a secret file of the base that others may read",
        case=on_base({"etc/shadow": File(SHADOW.encode(), mode=0o644)}),
        fails=("files.moves/attributes",),
        failing=1,
        control=on_base({"etc/shadow": File(SHADOW.encode(), mode=0o640)}),
    ),
    Row(
        name="the folder for temporary files deleted",
        case=on_base({".wh.tmp": ""}),
        fails=("files.moves/deleted",),
    ),
    Row(
        name="the working folder is a link",
        case=on_base(
            {"workspace": Link("/usr/bin")},
            config={"WorkingDir": "/workspace"},
            recipe='[config]\nworking_dir = "/workspace"\n',
        ),
        fails=("files.explained/unexplained",),
    ),
    # a locked wheel's metadata and what installers add to it
    *(
        Row(name=name, case=on_base({**WHEEL, **more}, locked=LOCKED), fails=fails, failing=1)
        for name, more, fails in (
            (
                "an INSTALLER that is a program",
                {f"{WHEEL_INFO}/INSTALLER": File(b"#!/bin/sh\n", mode=0o755)},
                ("python.locked/file-not-locked",),
            ),
            (
                "a REQUESTED with content",
                {f"{WHEEL_INFO}/REQUESTED": "x"},
                ("python.locked/file-not-locked",),
            ),
            (
                "an INSTALLER that is a link",
                {f"{WHEEL_INFO}/INSTALLER": Link("/etc/shadow")},
                ("python.locked/file-not-locked",),
            ),
            (
                "a direct_url.json that nobody locked",
                {f"{WHEEL_INFO}/direct_url.json": '{"url": "https://x", "dir_info": {}}'},
                ("python.locked/file-not-locked",),
            ),
            (
                "entry points that the locked wheel does not have",
                {f"{WHEEL_INFO}/entry_points.txt": "[vllm.general_plugins]\nx = x:y\n"},
                ("python.locked/file-not-locked",),
            ),
            (
                "a RECORD that claims another file",
                {f"{WHEEL_INFO}/RECORD": "x/__init__.py,,\n../../../../bin/bash,,\n"},
                ("python.locked/record",),
            ),
            (
                "a locked wheel's file that everybody may write to",
                {f"{SITE}/x/__init__.py": File(b"# x\n", mode=0o666)},
                ("files.moves/writable",),
            ),
            (
                "a launcher that RECORD claims and the wheel does not have",
                {"usr/local/bin/x-run": PROGRAM},
                ("python.locked/file-not-locked",),
            ),
        )
    ),
    # dpkg's databases
    Row(
        name="an entry of dpkg's status that is the base's no longer",
        case=on_base({"var/lib/dpkg/status": STATUS.replace("Section: misc", "Section: evil", 1)}),
        fails=("debian.pins/entry",),
        failing=1,
        control=on_base({"var/lib/dpkg/status": STATUS}),
    ),
    Row(
        name="a diversion that no new package makes",
        case=on_base({"var/lib/dpkg/diversions": "/usr/bin/bash\n/usr/bin/bash.real\n:\n"}),
        fails=("debian.pins/entry",),
        failing=1,
    ),
    Row(
        name="a file that a declared package lists and does not prove",
        case=on_base(
            {
                **package("tini", {"usr/bin/tini": PROGRAM}),
                "usr/share/more": "x",
                "var/lib/dpkg/info/tini.list": "/.\n/usr\n/usr/bin\n/usr/bin/tini\n/usr/share\n/usr/share/more\n",
                "var/lib/dpkg/status": STATUS + stanza("tini", "0.19.0-1"),
            },
            recipe='[layer.debian]\npackages = ["tini=0.19.0-1"]\n',
        ),
        fails=("debian.pins/unproven",),
    ),
    Row(
        name="a file of a declared package that was changed",
        case=on_base(
            {
                **package("tini", {"usr/bin/tini": PROGRAM}),
                "usr/bin/tini": File(b"#!/bin/evil\n", mode=0o755),
                "var/lib/dpkg/status": STATUS + stanza("tini", "0.19.0-1"),
            },
            recipe='[layer.debian]\npackages = ["tini=0.19.0-1"]\n',
        ),
        fails=("debian.pins/altered",),
        failing=1,
    ),
    Row(
        name="a declared package in another version",
        case=on_base(
            {
                **package("tini", {"usr/bin/tini": PROGRAM}),
                "var/lib/dpkg/status": STATUS + stanza("tini", "0.19.0-2"),
            },
            recipe='[layer.debian]\npackages = ["tini=0.19.0-1"]\n',
        ),
        fails=("debian.pins/undeclared",),
        failing=1,
    ),
    Row(
        name="a declared package that is not installed",
        case=on_base(recipe='[layer.debian]\npackages = ["tini=0.19.0-1"]\n'),
        fails=("debian.pins/absent",),
        failing=1,
    ),
    Row(
        name="20 a declared package that brings what every shell reads",
        case=on_base(
            {
                **package("shellrc", {"etc/profile.d/x.sh": "x\n", "usr/share/x": "x"}),
                "var/lib/dpkg/status": STATUS + stanza("shellrc", "1"),
            },
            recipe='[layer.debian]\npackages = ["shellrc=1"]\n',
        ),
        fails=("debian.pins/watched",),
        failing=1,
        control=on_base(
            {
                **package("shellrc", {"etc/profile.d/x.sh": "x\n", "usr/share/x": "x"}),
                "var/lib/dpkg/status": STATUS + stanza("shellrc", "1"),
            },
            recipe='[layer.debian]\npackages = ["shellrc=1"]\n' + allow("/etc/profile.d/x.sh"),
        ),
    ),
    Row(
        name="a maintainer script of a package of the base",
        case=on_base({"var/lib/dpkg/info/libc6.postinst": PROGRAM}),
        fails=("files.explained/unexplained",),
        failing=1,
    ),
    # accounts
    Row(
        name="a second root",
        case=on_base(
            {"etc/passwd": PASSWD + "toor:x:0:0::/root:/bin/bash\n"},
            recipe='[config]\nusers = [{ name = "toor" }]\n',
        ),
        fails=("users.declared/unfit",),
        failing=1,
    ),
    Row(
        name="a declared user whose first group is the one of sudo",
        case=on_base(
            {"etc/passwd": PASSWD + "app:x:1000:27::/home/app:/bin/sh\n"},
            recipe='[config]\nusers = [{ name = "app", uid = 1000 }]\n',
        ),
        fails=("users.declared/unfit",),
        failing=1,
        control=on_base(
            {"etc/passwd": PASSWD + "app:x:1000:27::/home/app:/bin/sh\n"},
            recipe='[config]\nusers = [{ name = "app", uid = 1000, gid = 27 }]\n',
        ),
    ),
    Row(
        name="a new group that nobody declares",
        case=on_base({"etc/group": GROUP + "docker:x:999:\n"}),
        fails=("users.declared/undeclared",),
        failing=1,
        control=on_base({"etc/group": GROUP}),
    ),
    Row(
        name="two entries of one name",
        case=on_base({"etc/passwd": PASSWD + "daemon:x:0:0::/:/bin/bash\n"}),
        fails=("users.declared/twice",),
        failing=1,
    ),
    Row(
        name="a database of accounts that is a link",
        case=on_base({"etc/passwd": Link("/srv/passwd"), "srv/passwd": PASSWD}),
        fails=("files.moves/type-changed", "files.explained/unexplained"),
    ),
    Row(
        name="root's entry changed",
        case=on_base({"etc/passwd": PASSWD.replace("root:x:", "root::")}),
        fails=("users.declared/changed",),
        failing=1,
        control=on_base({"etc/passwd": PASSWD, "etc/passwd-": PASSWD}),
    ),
    Row(
        name="an account of the base gone",
        case=on_base({"etc/passwd": PASSWD.splitlines(keepends=True)[0]}),
        fails=("users.declared/removed",),
        failing=1,
    ),
)
