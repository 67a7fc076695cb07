"""Bytes that somebody else wrote: every parser reads them or says no, and never crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings, strategies as st

from imagegate.catalog import new_collector, ownership, read_facts, secrets
from imagegate.catalog.elf import ElfTables
from imagegate.catalog.freeze import freeze
from imagegate.catalog.loader import Loader
from imagegate.catalog.requirements import broken_requirements, installed
from imagegate.catalog.startup import parse_pth
from imagegate.catalog.system import OWNERSHIP_INTERESTS, parse_conda, parse_status
from imagegate.oci.tar import scan_tar
from imagegate.rootfs import FileTree
from tests.images import tar
from tests.judging import SITE

if TYPE_CHECKING:
    from imagegate.facts import Facts

# pieces of the formats themselves get further into a parser than noise does
PIECES = st.sampled_from(
    [
        "Name: x\n",
        "Version: 1\n",
        "Requires-Dist: y[z]>=1; extra == 'q'\n",
        "\n",
        "\r\n",
        ":",
        "Status: ",
        "a,sha256=,\n",
        '"',
        "include ",
        "/lib\n",
        "Package: p\n",
        "\0",
        "\ufeff",
        "import x\n",
        "[console_scripts]\n",
        "{",
        '"name": ',
        "==",
        "\udcff",
    ]
)
TEXT = st.one_of(st.lists(PIECES, max_size=20).map("".join), st.text(max_size=200))
BYTES = st.one_of(
    st.binary(max_size=300),
    TEXT.map(
        lambda text: (
            text.encode("utf-8", "surrogateescape")
            if all(not 0xD800 <= ord(c) < 0xDC80 and not 0xDD00 <= ord(c) < 0xE000 for c in text)
            else b""
        )
    ),
)
PATHS = (
    f"{SITE}/x-1.dist-info/METADATA",
    f"{SITE}/x-1.dist-info/RECORD",
    f"{SITE}/x-1.dist-info/direct_url.json",
    f"{SITE}/x-1.dist-info/entry_points.txt",
    f"{SITE}/x-1.dist-info/WHEEL",
    f"{SITE}/y.egg-info/PKG-INFO",
    f"{SITE}/y.egg-info/requires.txt",
    f"{SITE}/a.pth",
    "var/lib/dpkg/status",
    "var/lib/dpkg/status.d/p",
    "var/lib/dpkg/info/p.list",
    "etc/ld.so.conf",
    "etc/ld.so.conf.d/a.conf",
    "etc/ld.so.preload",
    "opt/conda/conda-meta/a.json",
    "opt/venv/pyvenv.cfg",
    f"{SITE}/torch/version.py",
    f"{SITE}/nvidia/nccl/include/nccl.h",
    "usr/lib/libnccl.so.2",
)


def _facts(files: dict[str, bytes]) -> tuple[FileTree, Facts]:
    collector = new_collector(*OWNERSHIP_INTERESTS, secrets.interest(lambda _: None))
    entries = list(scan_tar([tar(dict(files))], collector.want))
    collector.end_layer(entries)
    tree = FileTree()
    tree.apply(entries, 1)
    facts = read_facts(tree, collector, [node.path for node in tree.under("")])
    ownership(tree, collector, facts)
    return tree, facts


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.sampled_from(PATHS), BYTES, min_size=1, max_size=8))
def test_whatever_the_files_of_an_image_hold_it_is_read(files: dict[str, bytes]) -> None:
    tree, facts = _facts(files)
    freeze(facts.distributions, "3.12")
    broken_requirements(installed(facts.distributions, ()), {"python_version": "3.12"}, ["x[q]"])
    loader = Loader(tree, facts.elf, {"LD_PRELOAD": "a:/b c"}, facts.loader, "aarch64")
    loader.find("libnccl.so.2", None)


@given(TEXT)
def test_any_text_is_read_as_a_status_file_and_each_package_has_a_version(text: str) -> None:
    assert all(
        package.name and package.version for package in parse_status(text, "var/lib/dpkg/status")
    )


@given(TEXT)
def test_any_text_is_read_as_conda_metadata(text: str) -> None:
    parse_conda(text, "opt/conda-meta/a.json")


@given(BYTES)
def test_every_line_of_a_pth_is_code_or_a_folder_or_nothing(content: bytes) -> None:
    code, inserts = parse_pth(content)
    lines = content.decode("utf-8-sig", "replace").splitlines()
    assert len(code) + len(inserts) <= len(lines)
    assert all(line.startswith(("import ", "import\t")) for line in code)


@given(st.binary(max_size=400), st.integers(1, 50))
def test_what_is_found_does_not_depend_on_where_chunks_are_cut(noise: bytes, chunk: int) -> None:
    token = b"ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    content = noise + b"\n" + token + b"\n" + noise
    search = secrets.SecretSearch("opt/x", len(content))
    for at in range(0, len(content), chunk):
        search.write(content[at : at + chunk])
    assert "GitHub token" in secrets.found_in(search.finish())


@settings(deadline=None)
@given(st.binary(min_size=64, max_size=2000), st.integers(1, 300))
def test_an_elf_reading_does_not_depend_on_where_chunks_are_cut(tail: bytes, chunk: int) -> None:
    content = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\0\xb7\0" + tail
    readings = set()
    for step in (chunk, len(content)):
        tables = ElfTables("x", len(content))
        for at in range(0, len(content), step):
            tables.write(content[at : at + step])
        readings.add(tables.finish())
    assert len(readings) == 1
