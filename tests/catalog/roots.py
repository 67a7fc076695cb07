"""A real Debian to ask real tools in: made by mmdebstrap once, filled by the root's own pip.

The root is entered with chroot, so the tests need to be root, and the Debian packages mmdebstrap
and binutils. Downloads are kept where the engine tests keep theirs.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import stat
import subprocess
import textwrap
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from imagegate.catalog import new_collector, ownership, read_facts
from imagegate.catalog.system import OWNERSHIP_INTERESTS, content_interests
from imagegate.oci.tar import scan_tar
from imagegate.rootfs import FileTree
from tests.engines.machines import KEPT, architecture

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from imagegate.catalog.collect import Collector
    from imagegate.facts import Facts

PYTHON = "3.11"
# the second architecture of each; a package of it stands beside the first one's
FOREIGN = {"amd64": "i386", "arm64": "armhf"}
_PACKAGES = ("python3", "python3-pip", "ca-certificates", "git", "rsyslog")
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "PIP_NO_INDEX": "1",
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_CACHE_DIR": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def made() -> Path:
    """Return the root as a tar, made if it is not there yet."""
    KEPT.mkdir(parents=True, exist_ok=True)
    tar = KEPT / "oracle.tar"
    if not tar.is_file():
        fresh = KEPT / "oracle.new.tar"
        hooks = (
            'chroot "$1" apt-mark hold libc6 perl-base',
            'chroot "$1" dpkg --remove rsyslog',  # leaves its configuration behind
            'chroot "$1" dpkg-divert --local --rename --divert /usr/bin/perl.real /usr/bin/perl',
        )
        subprocess.run(
            [
                "mmdebstrap",
                "--variant=minbase",
                f"--include={','.join(_PACKAGES)}",
                *(f"--customize-hook={hook}" for hook in hooks),
                "bookworm",
                str(fresh),
            ],
            check=True,
            capture_output=True,
        )
        fresh.rename(tar)
    return tar


@dataclass(frozen=True)
class OracleRoot:
    """A root on disk, to be entered and to be read.

    Attributes:
        folder: where it lies.
    """

    folder: Path

    def run(self, *command: str, cwd: str = "/", more: Mapping[str, str] | None = None) -> str:
        """Run a program inside, which has to succeed."""
        done = self.start(*command, cwd=cwd, more=more)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def start(
        self, *command: str, cwd: str = "/", more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        enter = ["chroot", str(self.folder), "/usr/bin/env", "-C", cwd, *command]
        environment = {**_ENVIRONMENT, **(more or {})}
        return subprocess.run(enter, env=environment, capture_output=True, text=True, check=False)

    def pip(self, *arguments: str, cwd: str = "/") -> str:
        return self.run("python3", "-m", "pip", *arguments, cwd=cwd)

    def newest_pip(self, *arguments: str) -> str:
        """Run the pip that this project is tested with, by the root's Python."""
        import pip

        folder = self.folder / "opt/newest-pip"
        if not folder.is_dir():
            found = Path(pip.__file__).parent
            shutil.copytree(found, folder / "pip", ignore=shutil.ignore_patterns("__pycache__"))
        more = {"PYTHONPATH": "/opt/newest-pip"}
        return self.run("python3", "-m", "pip", *arguments, more=more)

    def write(self, path: str, text: str) -> None:
        target = self.folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def read(self) -> tuple[FileTree, Collector, Facts]:
        """Read it as the one layer of an image."""
        collector = new_collector(*OWNERSHIP_INTERESTS, *content_interests(lambda _: None))
        with subprocess.Popen(
            ["tar", "-C", str(self.folder), "--numeric-owner", "--format=pax", "-cf", "-", "."],
            stdout=subprocess.PIPE,
        ) as packing:
            assert packing.stdout is not None
            chunks = iter(partial(packing.stdout.read, 1 << 20), b"")
            entries = list(scan_tar(chunks, collector.want))
        collector.end_layer(entries)
        tree = FileTree()
        tree.apply(entries, 1)
        return tree, collector, read_facts(tree, collector, [n.path for n in tree.under("")])


def owners(tree: FileTree, collector: Collector, facts: Facts) -> Mapping[str, str]:
    return ownership(tree, collector, facts)[0]


def unpack(folder: Path) -> OracleRoot:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["tar", "--numeric-owner", "-xpf", str(made()), "-C", str(folder), "--exclude=./dev/*"],
        check=True,
    )
    for name, minor in (("null", 3), ("zero", 5), ("random", 8), ("urandom", 9)):
        os.mknod(folder / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
    root = OracleRoot(folder)
    for one in (architecture(), FOREIGN[architecture()]):
        _install_for(root, one)
    return root


def _install_for(root: OracleRoot, one: str) -> None:
    """Install a package that may stand there for several architectures at a time."""
    control = f"""\
        Package: two-of-a-kind
        Version: 1:2.0-3
        Architecture: {one}
        Multi-Arch: same
        Maintainer: a <a@example.org>
        Description: x
        """
    folder = f"/srv/deb-{one}"
    root.write(f"{folder}/DEBIAN/control", textwrap.dedent(control))
    root.write(f"{folder}/usr/lib/two/{one}/file", one)
    root.run("dpkg-deb", "--build", folder)
    root.run("dpkg", "--add-architecture", one)
    root.run("dpkg", "--force-all", "--install", f"{folder}.deb")


BACKEND = (Path(__file__).parent / "backend.txt").read_text(encoding="utf-8")


def project(root: OracleRoot, path: str, name: str, version: str) -> str:
    """Write a project that builds without anything being downloaded; returns its path."""
    root.write(
        f"{path}/pyproject.toml",
        f'[project]\nname = "{name}"\nversion = "{version}"\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    )
    root.write(f"{path}/backend.py", BACKEND)
    return path


def repository(root: OracleRoot, path: str, remote: str | None) -> str:
    """Put what lies in a folder under git; returns the commit."""
    root.run("git", "init", "-q", "-b", "main", cwd=path)
    root.run("git", "add", ".", cwd=path)
    root.run("git", "commit", "-qm", "x", cwd=path)
    if remote is not None:
        root.run("git", "remote", "add", "origin", remote, cwd=path)
    return root.run("git", "rev-parse", "HEAD", cwd=path).strip()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder over loopback; yields its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    handler = partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def metadata_by_hand(root: OracleRoot, name: str, version: str, direct: object = None) -> None:
    """Write metadata that no installer of today writes, and that images still hold."""
    info = (
        f"/usr/local/lib/python{PYTHON}/dist-packages/{name.replace('-', '_')}-{version}.dist-info"
    )
    root.write(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if direct is not None:
        root.write(f"{info}/direct_url.json", json.dumps(direct))
