"""What is fuzzed: each target takes any bytes and reads them, or says no in its own words.

Anything but an error of this project's tree is a fault, and so is a slow or a large reading.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog import new_collector, ownership, read_facts, secrets
from imagegate.catalog.elf import ElfTables
from imagegate.catalog.freeze import freeze
from imagegate.catalog.loader import Loader
from imagegate.catalog.pysearch import PythonSearch, find_module, names_in
from imagegate.catalog.requirements import broken_requirements, installed
from imagegate.catalog.system import OWNERSHIP_INTERESTS
from imagegate.coverage.building.profiles import PROFILES
from imagegate.coverage.reading.dockerfile import parse_dockerfile
from imagegate.coverage.sending.ignorefile import compile_rules, read_ignore_file
from imagegate.errors import ImagegateError
from imagegate.lock.blocks import decode_index, encode_index
from imagegate.oci.documents import ContainerConfig, ImageConfig, Index, Manifest, parse_document
from imagegate.oci.layer import LayerBlob, read_layer
from imagegate.oci.strictjson import read_json
from imagegate.oci.tar import scan_tar
from imagegate.oci.tarindex import locate_members
from imagegate.recipe import parse_recipe
from imagegate.rootfs import FileTree
from imagegate.sources.members import require_one_reading
from tests.elf import library
from tests.images import Link, compress, tar
from tests.judging import SITE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.images import Content

_INFO = f"{SITE}/x-1.dist-info"
_METADATA = b"Metadata-Version: 2.1\nName: x\nVersion: 1\n"


@dataclass(frozen=True)
class Target:
    """One parser.

    Attributes:
        read: reads any bytes.
        seeds: well-formed inputs to begin from.
    """

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]


def _apply(content: bytes) -> None:
    collector = new_collector()
    entries = list(scan_tar([content[:700], content[700:]], collector.want))
    collector.end_layer(entries)
    tree = FileTree()
    tree.apply(entries, 1)
    tree.apply(entries, 2)
    read_facts(tree, collector, [node.path for node in tree.under("")])


def _image(files: Mapping[str, bytes]) -> None:
    """Read everything of an image that holds these files."""
    collector = new_collector(*OWNERSHIP_INTERESTS, secrets.interest(lambda _: None))
    entries = list(scan_tar([tar(dict(files))], collector.want))
    collector.end_layer(entries)
    tree = FileTree()
    tree.apply(entries, 1)
    facts = read_facts(tree, collector, [node.path for node in tree.under("")])
    ownership(tree, collector, facts)
    freeze(facts.distributions, "3.12", (), facts.checkouts)
    broken_requirements(installed(facts.distributions, ()), {"python_version": "3.12"}, ["x[q]"])
    search = PythonSearch(
        tree=tree,
        facts=facts,
        settings=ContainerConfig(Env=("PYTHONPATH=/srv:a",)),
        interpreter="/usr/bin/python3",
        version="3.12",
        machine="aarch64",
    )
    for folder in search.order:
        for name in names_in(tree, folder, search.endings):
            find_module(tree, search.order, name[0], search.endings)
    loader = Loader(tree, facts.elf, {"LD_PRELOAD": "a:/b c"}, facts.loader, "aarch64")
    loader.find("libnccl.so.2", None)
    loader.configured_copy("libcuda.so.1")


def _at(*paths: str, beside: Mapping[str, bytes] | None = None) -> Callable[[bytes], None]:
    return lambda content: _image({**(beside or {}), **dict.fromkeys(paths, content)})


def _elf(content: bytes) -> None:
    tables = ElfTables("x", len(content))
    for at in range(0, len(content), 257):
        tables.write(content[at : at + 257])
    tables.finish()


def _layer(content: bytes) -> None:
    blob = LayerBlob(what="layer 1", digest=None, size=None, diff_id=None)
    read_layer(io.BytesIO(content), blob)


def _documents(content: bytes) -> None:
    for model in (Index, Manifest, ImageConfig):
        try:
            parse_document(model, content, "a document")
        except ImagegateError:
            continue


def _ignore(content: bytes) -> None:
    for profile in PROFILES.values():
        try:
            compile_rules(
                read_ignore_file(content, ".dockerignore", profile.client.reader),
                profile.client.grammar,
            )
        except ImagegateError:
            continue


def _recipe(content: bytes) -> None:
    parse_recipe("x", content.decode("utf-8", "replace"), "image.toml")


def _index(content: bytes) -> None:
    for node in decode_index(content, "files.zst").under(""):
        node.same_content(node)


def encoded_index() -> bytes:
    """The text of an index as a lock has it."""
    tree = FileTree()
    tree.apply(scan_tar([_TAR]), 1)
    return encode_index(list(tree.under("")))


_FILES: dict[str, Content] = {
    "usr/lib/x": b"content",
    "lib": Link("usr/lib"),
    f"{_INFO}/METADATA": _METADATA,
}
_TAR = tar(dict(_FILES))
_DIGEST = "sha256:" + "0" * 64
_MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": _DIGEST,
            "size": 2,
        },
        "layers": [],
    }
).encode()
_CONFIG = json.dumps(
    {"os": "linux", "architecture": "arm64", "rootfs": {"type": "layers", "diff_ids": [_DIGEST]}}
).encode()
_GIT = b'[remote "origin"]\n\turl = https://example.org/x.git\n'


def _archive(content: bytes) -> None:
    """Take the members of an archive apart; what two loaders take differently is refused."""
    require_one_reading(locate_members(io.BytesIO(content), len(content)))


def _json(content: bytes) -> None:
    value = read_json(content, "it")
    json.dumps(value, ensure_ascii=False).encode()


TARGETS = {
    "archive": Target(
        _archive, (tar({"manifest.json": b"[]", "a/layer.tar": Link("../manifest.json")}),)
    ),
    "json": Target(_json, (_MANIFEST, b'{"a": ["\\ud83d\\ude00", 1e3, -0]}')),
    "tar": Target(_apply, (_TAR, _TAR[:1536])),
    "layer": Target(_layer, tuple(compress(_TAR, how) for how in ("plain", "gzip", "zstd"))),
    "elf": Target(
        _elf,
        (
            library(soname="x", needed=("y",), build_id="aa" * 20, provides=("V_1",)),
            library(requires={"libc.so.6": ("GLIBC_2.9",)}, appended=True),
        ),
    ),
    "record": Target(
        _at(f"{_INFO}/RECORD", beside={f"{_INFO}/METADATA": _METADATA}),
        (b"x.py,sha256=AAAA,1\n../../../bin/x,,\n", b'"a,b",,\n'),
    ),
    "metadata": Target(
        _at(f"{_INFO}/METADATA", f"{SITE}/y.egg-info/PKG-INFO"),
        (_METADATA + b"Requires-Dist: y[z]>=1; extra == 'q'\nProvides-Extra: q\n",),
    ),
    "direct-url": Target(
        _at(f"{_INFO}/direct_url.json", beside={f"{_INFO}/METADATA": _METADATA}),
        (b'{"url": "file:///a", "dir_info": {"editable": true}}',),
    ),
    "dpkg": Target(
        _at(
            "var/lib/dpkg/status",
            "var/lib/dpkg/status.d/p",
            "var/lib/dpkg/info/p.list",
            "var/lib/dpkg/info/p.md5sums",
            "var/lib/dpkg/diversions",
        ),
        (b"Package: p\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n\n",),
    ),
    "loader": Target(
        _at("etc/ld.so.conf", "etc/ld.so.conf.d/a.conf", "etc/ld.so.preload"),
        (b"include /etc/ld.so.conf.d/*.conf\n/usr/lib # x\n",),
    ),
    "startup": Target(
        _at(f"{SITE}/a.pth", f"{SITE}/x.egg-link", "opt/venv/pyvenv.cfg"),
        (b"import x\n/srv/x\n", b"include-system-site-packages = true\n"),
    ),
    "git": Target(
        _at("srv/x/.git/HEAD", "srv/x/.git/config", "srv/x/.git/packed-refs"),
        (b"ref: refs/heads/main\n", _GIT, b"0" * 40 + b" refs/heads/main\n"),
    ),
    "native": Target(
        _at(f"{SITE}/torch/version.py", "usr/include/nccl.h", "usr/lib/libnccl.so.2"),
        (b"__version__ = '1'\n", b"#define NCCL_MAJOR 2\n", b"\0NCCL version 2.30.7+cuda13.3\0"),
    ),
    "secrets": Target(
        _at("root/.netrc", "etc/pip.conf", "root/.docker/config.json", "opt/x"),
        (b"machine x login y password z\n", b"[global]\nindex-url = https://u:p@x/\n"),
    ),
    "documents": Target(_documents, (_MANIFEST, _CONFIG, b'{"schemaVersion": 2, "manifests": []}')),
    "index": Target(_index, (encoded_index(),)),
    "recipe": Target(_recipe, (b'schema = 1\nplatform = "linux/arm64"\n[base]\nscratch = true\n',)),
    "ignore": Target(_ignore, (b"**\n!a/\n!a/**\n", b"\xef\xbb\xbf#x\n*.[a-c]\n")),
    "dockerfile": Target(
        lambda content: parse_dockerfile(content, "Dockerfile"),
        (
            b'# syntax=x\nFROM a AS b\nCOPY --from=b --chmod=1 ["a", "b"]\n',
            b"FROM scratch\nRUN <<E\nx\nE\nCOPY a \\\n# c\n b\n",
        ),
    ),
}


def run(target: Target, content: bytes) -> None:
    """Read; an answer of this project's own is as good as a reading."""
    try:
        target.read(content)
    except ImagegateError:
        return
