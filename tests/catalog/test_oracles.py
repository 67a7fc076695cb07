"""The catalogs against the real tools on the same files: pip, importlib.metadata, dpkg-query, ldd."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from imagegate.catalog import loader as loader_catalog, new_collector, read_facts
from imagegate.catalog.collect import Collector
from imagegate.catalog.elf import ElfTables
from imagegate.catalog.freeze import freeze
from imagegate.catalog.loader import Loader, loader_files
from imagegate.catalog.startup import search_order
from imagegate.catalog.system import OWNERSHIP_INTERESTS, ownership
from imagegate.oci.tar import Kind, scan_tar
from imagegate.rootfs import FileTree, Node, SortedIndex, ancestors
from tests.images import tar

if TYPE_CHECKING:
    from imagegate.facts import ElfFile, Facts

pytestmark = pytest.mark.engines

BACKEND = (Path(__file__).parent / "backend.txt").read_text(encoding="utf-8")


def project(folder: Path, name: str, version: str) -> Path:
    """A project that builds without anything being downloaded."""
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "{name}"\nversion = "{version}"\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (folder / "backend.py").write_text(BACKEND)
    return folder


def run(*command: str | Path, cwd: Path | None = None) -> str:
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON", "UV_"))},
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with an install of every form that pip knows."""
    folder = tmp_path_factory.mktemp("oracle")
    target = folder / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", target)
    python = target / "bin" / "python"

    def install(*what: str | Path) -> None:
        run(
            sys.executable,
            "-m",
            "pip",
            "--python",
            python,
            "install",
            "--no-deps",
            *what,
            cwd=folder,
        )

    regular = project(folder / "regular", "Regular.Name", "1.0")
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "-w",
        folder / "wheels",
        regular,
        cwd=folder,
    )
    # a name that is found in a folder of wheels has no direct_url.json
    install("--find-links", folder / "wheels", "Regular.Name")
    local = project(folder / "local", "a_local", "2.0+cu130")
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "-w",
        folder / "wheels",
        local,
        cwd=folder,
    )
    install("--find-links", folder / "wheels", "a_local")
    install(project(folder / "folder with blank", "from-folder", "3.0"))
    archived = project(folder / "archived", "archived", "4.0")
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "-w",
        folder / "wheels",
        archived,
        cwd=folder,
    )
    install(folder / "wheels" / "archived-4.0-py3-none-any.whl")
    install("-e", project(folder / "editable", "Editable-Thing", "5.0"))
    repository = folder / "repository"
    project(repository / "sub", "from-git", "6.0")
    run("git", "init", "-q", cwd=repository)
    run("git", "add", ".", cwd=repository)
    run("git", "commit", "-qm", "x", cwd=repository)
    install(f"from-git @ git+file://{repository}#subdirectory=sub")
    site = next((target / "lib").glob("python*/site-packages"))
    # what no installer of today writes, and images still hold
    for name, version, direct in (
        ("legacy", "2004d", ""),
        ("unnormal", "1.0-1", ""),
        ("b.b", "1", ""),
        ("b-a", "1", ""),
        ("B_c", "1", ""),
        ("broken-origin", "1", "{"),
        (
            "two-kinds",
            "1",
            json.dumps({"url": "https://e.org/x", "archive_info": {}, "dir_info": {}}),
        ),
        (
            "hashed",
            "1",
            json.dumps(
                {"url": "https://e.org/h.whl", "archive_info": {"hash": "sha256=" + "0" * 64}}
            ),
        ),
        (
            "both",
            "1",
            json.dumps(
                {
                    "url": "https://e.org/b.whl",
                    "archive_info": {"hashes": {"md5": "1", "sha256": "2"}},
                }
            ),
        ),
    ):
        info = site / f"{re.sub('[-.]', '_', name)}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        if direct:
            (info / "direct_url.json").write_text(direct)
    return target


def _read(folder: Path) -> Facts:
    """Read a folder as the one layer of an image."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.add(folder, arcname="srv/venv")
    collector = new_collector()
    entries = list(scan_tar([buffer.getvalue()], collector.want))
    collector.end_layer(entries)
    tree = FileTree()
    tree.apply(entries, 1)
    return read_facts(tree, collector, [node.path for node in tree.under("")])


def test_freeze_is_what_pip_prints_byte_for_byte(venv: Path) -> None:
    printed = run(sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "freeze")
    facts = _read(venv)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    order = search_order("/srv/venv/bin/python", python, facts.sites, facts.interpreters)
    assert freeze(facts.distributions, python, order) == printed
    assert "legacy===2004d\n" in printed  # the hard forms really are in what was compared
    assert "a_local==2.0+cu130\n" in printed
    assert "from-git @ git+file://" in printed
    assert "# Editable install with no version control (Editable-Thing==5.0)\n-e " in printed


def test_distributions_are_what_importlib_metadata_sees(venv: Path) -> None:
    program = (
        "import importlib.metadata as m, json\n"
        "print(json.dumps(sorted([d.metadata['Name'], d.version] for d in m.distributions())))"
    )
    seen = json.loads(run(venv / "bin" / "python", "-I", "-c", program))
    facts = _read(venv)
    assert sorted([pin.name, pin.version] for pin in facts.distributions) == seen


def test_packages_are_what_dpkg_query_prints() -> None:
    shown = run("dpkg-query", "-W", "-f", "${Package} ${Architecture} ${Version} ${Status}\n")
    from imagegate.catalog.system import parse_status

    text = Path("/var/lib/dpkg/status").read_text(encoding="utf-8")
    found = parse_status(text, "var/lib/dpkg/status")
    lines = {f"{p.name} {p.architecture} {p.version} {p.state}" for p in found}
    # dpkg-query also prints packages that are only known by name; they have no version
    assert lines == {line for line in shown.splitlines() if "  " not in line}
    assert len(lines) > 50


def test_owners_of_files_are_those_that_dpkg_query_names() -> None:
    tree, collector = _system_tree(
        ("var/lib/dpkg", "usr/lib", "usr/bin", "lib", "bin", "etc"), OWNERSHIP_INTERESTS
    )
    from imagegate.catalog.system import parse_status

    text = Path("/var/lib/dpkg/status").read_text(encoding="utf-8")
    owners = ownership(tree, collector, parse_status(text, "var/lib/dpkg/status"))
    sample = sorted(path for path in owners if path.startswith("usr/bin/"))[:40]
    assert len(sample) > 20
    for path in sample:
        # on a merged /usr dpkg knows some files by the path from before the merge
        answers = ""
        for name in (f"/{path}", f"/{path.removeprefix('usr/')}"):
            done = subprocess.run(
                ["dpkg-query", "-S", name], capture_output=True, text=True, check=False
            )
            answers += "".join(
                line for line in done.stdout.splitlines(keepends=True) if "diversion" not in line
            )
        owner = owners[path].partition("=")[0]
        packages = {
            p.strip().partition(":")[0]
            for line in answers.splitlines()
            for p in line.rpartition(": ")[0].split(",")
        }
        assert owner.partition(":")[0] in packages, (path, answers)


def test_the_loader_finds_what_ldd_finds() -> None:
    if shutil.which("ldd") is None:
        pytest.fail("ldd is a part of glibc and has to be here")
    tree, collector = _system_tree(
        ("usr/lib", "lib", "lib64", "usr/lib64", "usr/local/lib", "etc"), loader_catalog.INTERESTS
    )
    machine = {"x86_64": "x86-64", "aarch64": "aarch64"}[os.uname().machine]
    files = loader_files(collector, list(tree.under("etc")))
    folder = next(Path("/usr/lib").glob("*-linux-gnu"))
    compared = 0
    for path in sorted(folder.glob("lib*.so.*")):
        elf = _elf(path)
        if path.is_symlink() or elf is None or elf.rpath or elf.runpath:
            continue
        shown = subprocess.run(
            ["ldd", str(path)],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        ).stdout
        ldd = dict(re.findall(r"(\S+) => (/\S+)", shown))
        loader = Loader(tree, [elf], {}, files, machine)
        for soname in elf.needed:
            if soname in ldd:
                found = loader.find(soname, elf)
                assert f"/{found.path}" == os.path.realpath(ldd[soname]), (path, soname, found)
                compared += 1
        if compared > 60:
            break
    assert compared > 50


def test_a_folder_for_capable_processors_comes_first_where_ldd_says_so(tmp_path: Path) -> None:
    """Every x86-64 processor of the last ten years knows level 2; aarch64 has no levels."""
    program = Path("/bin/ls")
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "LD_LIBRARY_PATH": str(tmp_path)}
    asked = ["ldd", str(program)]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True, env=env).stdout
    soname, real = re.findall(r"(lib(?!c\.)\S+) => (/\S+)", shown)[0]
    inside = f"{tmp_path}/glibc-hwcaps/x86-64-v2"
    Path(inside).mkdir(parents=True)
    for folder in (str(tmp_path), inside):
        shutil.copy(real, f"{folder}/{soname}")
    shown = subprocess.run(asked, capture_output=True, text=True, check=True, env=env).stdout
    said = dict(re.findall(r"(\S+) => (/\S+)", shown))

    copies = {f"{folder}/{soname}"[1:]: b"copy" for folder in (str(tmp_path), inside)}
    tree = FileTree()
    tree.apply(scan_tar([tar(dict(copies))]), 1)
    machine = {"x86_64": "x86-64", "aarch64": "aarch64"}[os.uname().machine]
    loader = Loader(tree, [], {"LD_LIBRARY_PATH": str(tmp_path)}, [], machine)

    assert f"/{loader.find(soname, None).path}" == said[soname]


def _elf(path: Path) -> ElfFile | None:
    from imagegate.catalog.collect import Collector as _Collector
    from imagegate.catalog.elf import read_elf

    content = path.read_bytes()
    if content[:4] != b"\x7fELF":
        return None
    collector = _Collector(())
    tables = ElfTables(str(path), len(content))
    tables.write(content)
    collector._kept["elf", str(path)] = tables.finish()
    return read_elf(
        collector, Node(path=str(path).lstrip("/"), kind=Kind.FILE, mode=0o644, sha256=str(path))
    )


def _system_tree(
    folders: tuple[str, ...], interests: tuple[object, ...]
) -> tuple[FileTree, Collector]:
    """This machine's own file system as a tree; contents are kept where an interest wants them."""
    nodes: dict[str, Node] = {}
    collector = Collector(interests)  # type: ignore[arg-type] # a tuple of interests
    for top in folders:
        root = Path("/", top)
        if root.is_symlink():
            nodes[top] = Node(path=top, kind=Kind.SYMLINK, mode=0o777, target=str(root.readlink()))
            continue
        for directory, names, files in os.walk(root):
            for name in [*names, *files]:
                path = Path(directory, name)
                relative = str(path).lstrip("/")
                if path.is_symlink():
                    nodes[relative] = Node(
                        path=relative, kind=Kind.SYMLINK, mode=0o777, target=str(path.readlink())
                    )
                elif path.is_dir():
                    nodes[relative] = Node(path=relative, kind=Kind.DIRECTORY, mode=0o755)
                elif path.is_file():
                    nodes[relative] = Node(
                        path=relative, kind=Kind.FILE, mode=0o644, sha256=relative
                    )
                    for interest in interests:
                        if interest.wants(relative, b""):  # type: ignore[attr-defined]
                            collector._kept[interest.name, relative] = path.read_bytes()  # type: ignore[attr-defined]
    for known in list(nodes):
        for above in ancestors(known):
            nodes.setdefault(above, Node(path=above, kind=Kind.DIRECTORY, mode=0o755))
    return FileTree(SortedIndex(nodes.values())), collector
