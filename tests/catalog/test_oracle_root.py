"""The catalogs against real tools inside one real root: pip, dpkg, git, readelf, ldd, NCCL itself.

Everything is read twice: from the files by the code under test, and by the tool that owns the
format. Expected values are the tools'.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pip
import pytest

from imagegate.catalog import new_collector
from imagegate.catalog.collect import Collector
from imagegate.catalog.elf import version_number
from imagegate.catalog.freeze import freeze
from imagegate.catalog.loader import Loader
from imagegate.catalog.native import readings
from imagegate.catalog.startup import search_order
from imagegate.catalog.system import altered, is_held
from imagegate.oci.tar import Kind, scan_tar
from imagegate.rootfs import FileTree
from tests.catalog.roots import (
    FOREIGN,
    PYTHON,
    OracleRoot,
    metadata_by_hand,
    owners,
    project,
    repository,
    served,
    unpack,
)
from tests.engines.machines import KEPT, architecture
from tests.images import tar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from imagegate.facts import ElfFile, Facts

pytestmark = pytest.mark.engines
NCCL = "2.30.7"
# files of packages that are written over: a plain one, one behind the link /lib, a configuration
_PATCHED = ("/usr/bin/zdiff", "/lib/udev/README", "/etc/debian_version")


@dataclass(frozen=True)
class Filled:
    """The root with every kind of install, and what was read of it."""

    root: OracleRoot
    tree: FileTree
    collector: Collector
    facts: Facts

    @property
    def order(self) -> tuple[str, ...]:
        """Where the root's own interpreter looks."""
        facts = self.facts
        return search_order("/usr/bin/python3", PYTHON, facts.sites, facts.interpreters)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    root = unpack(tmp_path_factory.mktemp("oracle") / "root")
    _install_from_wheels(root)
    _install_from_repositories(root)
    _install_in_development(root)
    for path in _PATCHED:
        root.write(path, "patched\n")
    metadata_by_hand(root, "legacy", "2004d")
    metadata_by_hand(root, "unnormal", "1.0-1")
    for name in ("b.b", "b-a", "B_c"):
        metadata_by_hand(root, name, "1")
    # the newest pip writes `hashes`; the root's own knows `hash` alone, and wrote neither above
    both = {"md5": "1", "sha256": "2"}
    url = "https://e.org/x.whl"
    metadata_by_hand(root, "both", "1", {"url": url, "archive_info": {"hashes": both}})
    single = {"hash": "sha256=" + "0" * 64}
    metadata_by_hand(root, "single", "1", {"url": url, "archive_info": single})
    tree, collector, facts = root.read()
    return Filled(root=root, tree=tree, collector=collector, facts=facts)


def _install_from_wheels(root: OracleRoot) -> None:
    for path, name, version in (
        ("/srv/regular", "Regular.Name", "1.0"),
        ("/srv/local", "a_local", "2.0+cu130"),
        ("/srv/archived", "archived", "4.0"),
        ("/srv/file", "from-file", "4.1"),
    ):
        project(root, path, name, version)
        root.pip("wheel", "--no-deps", "-w", "/srv/wheels", path)
    # a name that is found in a folder of wheels has no direct_url.json
    root.pip("install", "--no-deps", "--find-links", "/srv/wheels", "Regular.Name", "a_local")
    root.pip("install", "--no-deps", "/srv/wheels/from_file-4.1-py3-none-any.whl")
    root.pip("install", "--no-deps", project(root, "/srv/folder with blank", "from-folder", "3.0"))
    with served(root.folder / "srv/wheels") as address:
        root.pip("install", "--no-deps", f"{address}/archived-4.0-py3-none-any.whl")


def _install_from_repositories(root: OracleRoot) -> None:
    project(root, "/srv/origin/sub", "from-git", "6.0")
    repository(root, "/srv/origin", None)
    project(root, "/srv/whole", "whole-git", "6.1")
    repository(root, "/srv/whole", None)
    for requirement in (
        "git+file:///srv/origin#egg=from-git&subdirectory=sub",
        "git+file:///srv/whole@main#egg=whole-git",
    ):
        root.pip("install", "--no-deps", requirement)
    # an editable install out of version control leaves a clone with a remote
    project(root, "/srv/upstream", "edited-git", "7.0")
    repository(root, "/srv/upstream", None)
    root.pip(
        *("install", "--no-deps", "--src", "/usr/src"),
        *("-e", "git+file:///srv/upstream#egg=edited-git"),
    )


def _install_in_development(root: OracleRoot) -> None:
    for path, name, remote in (
        ("/opt/plain", "Editable-Thing", None),
        ("/opt/https", "with-https", "https://example.org/team/with-https.git"),
        ("/opt/scp", "with-scp", "git@example.org:team/with-scp.git"),
        ("/opt/bare", "with-path", "/srv/upstream"),
        ("/opt/gone", "with-nothing", "/srv/no-such-repository"),
        ("/opt/alone", "without-remote", ""),
    ):
        root.pip("install", "--no-deps", "-e", project(root, path, name, "5.0"))
        if remote is not None:
            repository(root, path, remote or None)
    # in a folder of a repository, on a branch that git has packed
    root.pip("install", "--no-deps", "-e", project(root, "/opt/mono/python", "in-sub", "5.1"))
    repository(root, "/opt/mono", "https://example.org/team/mono.git")
    root.run("git", "pack-refs", "--all", cwd="/opt/mono")
    # a commit that no branch names
    root.pip("install", "--no-deps", "-e", project(root, "/opt/detached", "de-tached", "5.2"))
    repository(root, "/opt/detached", "https://example.org/team/detached.git")
    root.run("git", "checkout", "-q", "--detach", cwd="/opt/detached")
    # setuptools' own form, which pip took until version 25: an .egg-link
    root.write(
        "/opt/egg/setup.py", "from setuptools import setup\nsetup(name='old-way', version='8.0')\n"
    )
    root.run("python3", "setup.py", "-q", "develop", cwd="/opt/egg")
    # distributions in a folder that a .pth names
    root.write(
        "/opt/inserted/in_a_pth-9.0.dist-info/METADATA",
        "Metadata-Version: 2.1\nName: in-a-pth\nVersion: 9.0\n",
    )
    root.write(f"/usr/local/lib/python{PYTHON}/dist-packages/inserted.pth", "/opt/inserted\n")


# --- Python


def frozen_by(version: str | None, filled: Filled, facts: Facts) -> str:
    """What a pip prints: the root's own, or another one whose version is given."""
    pins = [
        replace(pin, version=version) if version and pin.name == "pip" else pin
        for pin in facts.distributions
    ]
    return freeze(pins, PYTHON, filled.order, facts.checkouts)


def test_freeze_is_what_the_newest_pip_prints_byte_for_byte(filled: Filled) -> None:
    assert frozen_by(pip.__version__, filled, filled.facts) == filled.root.newest_pip("freeze")


def test_freeze_is_what_the_roots_own_pip_prints_byte_for_byte(filled: Filled) -> None:
    assert frozen_by(None, filled, filled.facts) == filled.root.pip("freeze")


@pytest.mark.parametrize(
    "line",
    [
        r"Regular\.Name==1\.0",
        r"a_local==2\.0\+cu130",
        r"legacy===2004d",
        r"from-file @ file:///srv/wheels/from_file-4\.1-py3-none-any\.whl",
        r"from-folder @ file:///srv/folder%20with%20blank",
        r"archived @ http://127\.0\.0\.1:\d+/archived-4\.0-py3-none-any\.whl",
        r"from-git @ git\+file:///srv/origin@[0-9a-f]{40}#subdirectory=sub",
        r"whole-git @ git\+file:///srv/whole@[0-9a-f]{40}",
        r"-e git\+file:///srv/upstream@[0-9a-f]{40}#egg=edited_git",
        r"# Editable install with no version control \(Editable-Thing==5\.0\)\n-e /opt/plain",
        r"-e git\+https://example\.org/team/with-https\.git@[0-9a-f]{40}#egg=with_https",
        r"-e git\+ssh://git@example\.org/team/with-scp\.git@[0-9a-f]{40}#egg=with_scp",
        r"-e git\+file:///srv/upstream@[0-9a-f]{40}#egg=with_path",
        r"# Editable Git install \(with-nothing==5\.0\) with either .* or invalid URI:\n# '/srv/no-such-repository'\n-e /opt/gone",
        r"# Editable Git install with no remote \(without-remote==5\.0\)\n-e /opt/alone",
        r"-e git\+https://example\.org/team/mono\.git@[0-9a-f]{40}#egg=in_sub&subdirectory=python",
        r"-e git\+https://example\.org/team/detached\.git@[0-9a-f]{40}#egg=de_tached",
        r"# Editable install with no version control \(old-way==8\.0\)\n-e /opt/egg",
        r"in-a-pth==9\.0",
    ],
)
def test_every_form_really_is_in_what_was_compared(line: str, filled: Filled) -> None:
    printed = filled.root.newest_pip("freeze")
    assert re.search(rf"^{line}$", printed, re.MULTILINE), printed


def test_without_git_pip_says_something_else_and_so_does_the_catalog(
    filled: Filled, tmp_path: Path
) -> None:
    program = filled.root.folder / "usr/bin/git"
    program.rename(tmp_path / "git")
    try:
        _, _, facts = filled.root.read()
        printed = filled.root.newest_pip("freeze")
    finally:
        (tmp_path / "git").rename(program)
    assert frozen_by(pip.__version__, filled, facts) == printed
    assert printed != frozen_by(pip.__version__, filled, filled.facts)


def test_distributions_are_what_importlib_metadata_sees(filled: Filled) -> None:
    program = (
        "import importlib.metadata as m, json\n"
        "print(json.dumps(sorted([d.metadata['Name'], d.version] for d in m.distributions())))"
    )
    seen = json.loads(filled.root.run("python3", "-I", "-c", program))
    pins = [pin for pin in filled.facts.distributions if pin.site in filled.order]
    assert sorted([pin.name, pin.version] for pin in pins) == seen


# --- dpkg


def test_packages_are_what_dpkg_query_prints(filled: Filled) -> None:
    form = "${Package} ${Architecture} ${Version} ${Status}\n"
    shown = filled.root.run("dpkg-query", "-W", "-f", form).splitlines()
    found = [p for p in filled.facts.packages if p.manager == "dpkg"]
    lines = {f"{p.name} {p.architecture} {p.version} {p.state}" for p in found}
    # packages that are only known by name have no version
    assert lines == {line for line in shown if "  " not in line}
    both = {p.architecture for p in found if p.name == "two-of-a-kind"}
    assert both == {architecture(), FOREIGN[architecture()]}
    assert {p.state for p in found} >= {"install ok installed", "deinstall ok config-files"}
    assert {p.name for p in found if is_held(p)} == {"libc6", "perl-base"}


def test_every_files_owner_is_the_package_that_dpkg_lists_it_for(filled: Filled) -> None:
    """`dpkg-query --listfiles` of every package, followed through the links of a merged /usr."""
    found = owners(filled.tree, filled.collector, filled.facts)
    claimed: dict[str, set[str]] = {}
    shown = filled.root.run("dpkg-query", "-W", "-f", "${binary:Package}\t${db:Status-Abbrev}\n")
    for line in shown.splitlines():
        package, _, state = line.partition("\t")
        if not state.startswith(("ii", "hi")):
            continue
        listed = filled.root.run("dpkg-query", "-L", package).splitlines()
        diverted = {
            word.rpartition(" ")[2] for word in listed if word.startswith("locally diverted to:")
        }
        for path in [p for p in listed if p.startswith("/")] + sorted(diverted):
            folder, _, name = path.lstrip("/").rpartition("/")
            real = f"{filled.tree.resolve(folder) or folder}/{name}".lstrip("/")
            claimed.setdefault(real, set()).add(package.partition(":")[0])
    packages = {path: owner for path, owner in found.items() if "==" not in owner}
    compared = 0
    for path, names in claimed.items():
        node = filled.tree.get(path)
        if node is None or node.kind is Kind.DIRECTORY or path not in packages:
            assert node is None or node.kind is Kind.DIRECTORY or path in found, path
            continue
        assert packages[path].partition(":")[0] in names, (path, names, packages[path])
        compared += 1
    assert compared > 3000
    assert found["usr/bin/perl.real"].startswith("perl-base:")


def test_altered_files_are_those_that_dpkg_verifies_as_such(filled: Filled) -> None:
    """`dpkg --verify` prints a 5 where a file's MD5 is not the recorded one."""
    shown = filled.root.start("dpkg", "--verify").stdout
    said = {line.rpartition(" ")[2] for line in shown.splitlines() if line[2:3] == "5"}
    paths = [node.path for node in filled.tree.under("")]
    found = altered(filled.tree, filled.collector, filled.facts.packages, paths)
    real = {str(filled.tree.resolve(path)) for path in said if not path.startswith("/etc/")}
    assert {path for path, *_ in found} == real
    assert "usr/bin/zdiff" in real


# --- native code


def _programs(facts: Facts) -> list[ElfFile]:
    chosen = [file for file in facts.elf if not file.unread]
    assert len(chosen) > 300
    return chosen


def test_elf_tables_are_what_readelf_prints(filled: Filled) -> None:
    assert shutil.which("readelf"), "install the Debian package binutils"
    files = _programs(filled.facts)
    for at in range(0, len(files), 100):
        part = files[at : at + 100]
        paths = [str(filled.root.folder / file.path) for file in part]
        done = subprocess.run(
            ["readelf", "-W", "-h", "-d", "-V", "-n", *paths],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        )
        texts = re.split(r"^File: .*\n", done.stdout, flags=re.MULTILINE)[1:]
        assert len(texts) == len(part)
        for file, text in zip(part, texts, strict=True):
            _compare_elf(file, text)
    assert not [file.path for file in filled.facts.elf if file.unread]


_MACHINES = {
    "Advanced Micro Devices X86-64": "x86-64",
    "Intel 80386": "i386",
    "AArch64": "aarch64",
    "ARM": "arm",
}


def _compare_elf(file: ElfFile, text: str) -> None:
    def all_of(pattern: str) -> list[str]:
        return re.findall(pattern, text, re.MULTILINE)

    assert file.machine == _MACHINES[all_of(r"^\s+Machine:\s+(.*)$")[0]], file.path
    assert list(file.needed) == all_of(r"\(NEEDED\)\s+Shared library: \[(.*)\]"), file.path
    assert [file.soname] == (all_of(r"\(SONAME\)\s+Library soname: \[(.*)\]") or [""]), file.path
    assert [file.rpath] == (all_of(r"\(RPATH\)\s+Library rpath: \[(.*)\]") or [""]), file.path
    assert [file.runpath] == (all_of(r"\(RUNPATH\)\s+Library runpath: \[(.*)\]") or [""])
    assert [file.build_id] == (all_of(r"Build ID: ([0-9a-f]+)") or [""])[:1], file.path
    assert set(file.requires or ()) == _highest(_needs(text)), file.path
    provided = _section(text, "Version definition section")
    names = re.findall(r"Rev: \d+  Flags: (?!BASE).*Name: (\S+)", provided)
    assert set(file.provides) == {v for _, v in map(_split, _highest(("", n) for n in names))}


def _section(text: str, title: str) -> str:
    found = re.search(rf"^{title} .*?(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def _needs(text: str) -> Iterable[tuple[str, str]]:
    library = ""
    for line in _section(text, "Version needs section").splitlines():
        named = re.search(r"Version: 1  File: (\S+)", line)
        version = re.search(r"Name: (\S+)\s+Flags", line)
        if named:
            library = named[1]
        elif version:
            yield library, version[1]


def _highest(pairs: Iterable[tuple[str, str]]) -> set[str]:
    """Keep of each library and series the highest version."""
    best: dict[tuple[str, str], str] = {}
    for library, version in pairs:
        space, number = version_number(version)
        old = best.get((library, space))
        if old is None or version_number(old)[1] < number:
            best[library, space] = version
    return {f"{library} {version}" for (library, _), version in best.items()}


def _split(line: str) -> tuple[str, str]:
    library, _, version = line.rpartition(" ")
    return library, version


def test_what_is_loaded_is_what_ldd_says_inside(filled: Filled) -> None:
    machine = {"amd64": "x86-64", "arm64": "aarch64"}[architecture()]
    facts = filled.facts
    loader = Loader(filled.tree, facts.elf, {}, facts.loader, machine)
    compared = through_runpath = 0
    for file in _programs(facts):
        if file.machine != machine or not file.needed:
            continue
        shown = filled.root.start("ldd", f"/{file.path}").stdout
        said = dict(re.findall(r"^\s*(\S+) => (/\S+)", shown, re.MULTILINE))
        for soname in file.needed:
            if soname not in said:
                continue
            found = loader.find(soname, file)
            assert found.path == filled.tree.resolve(said[soname]), (file.path, soname, found)
            compared += 1
            through_runpath += "RUNPATH" in found.because
    assert compared > 500


# --- NCCL itself


def nccl_wheel() -> Path:
    name = f"nvidia_nccl_cu13-{NCCL}-*.whl"
    kept = KEPT / "nccl"
    if not list(kept.glob(name)):
        command = ["pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run(
            [*command, "--dest", str(kept), f"nvidia-nccl-cu13=={NCCL}"],
            check=True,
            capture_output=True,
        )
    return next(kept.glob(name))


def test_nccls_own_answer_is_what_was_read_from_its_bytes(tmp_path: Path) -> None:
    """`ncclGetVersion` needs no device; NCCL_VERSION_CODE is X*10000+Y*100+Z (nccl.h)."""
    path = "nvidia/nccl/lib/libnccl.so.2"
    with zipfile.ZipFile(nccl_wheel()) as wheel:
        wheel.extract(path, tmp_path)
    library = tmp_path / path
    code = ctypes.c_int()
    assert ctypes.CDLL(str(library)).ncclGetVersion(ctypes.byref(code)) == 0
    shown = subprocess.run(
        ["readelf", "-n", str(library)], capture_output=True, text=True, check=False
    )

    collector = new_collector()
    entries = list(scan_tar([tar({path: library.read_bytes()})], collector.want))
    collector.end_layer(entries)
    tree = FileTree()
    tree.apply(entries, 1)
    found = {(r.component, r.source): r.value for r in readings(collector, tree.under(""))}

    number = found["nccl", "version string"].partition("+")[0]
    major, minor, patch = map(int, number.split("."))
    assert code.value == major * 10000 + minor * 100 + patch
    assert number == NCCL
    assert f"Build ID: {found['libnccl', 'build id']}" in shown.stdout
