"""Which file the dynamic loader takes for a library, and why (ld.so(8), ldconfig(8))."""

from __future__ import annotations

import fnmatch
import itertools
import posixpath
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog.collect import Interest, WholeText
from imagegate.facts import LoaderFile
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from imagegate.catalog.collect import Collector
    from imagegate.facts import ElfFile
    from imagegate.rootfs import FileTree, Node

CONFIG = "etc/ld.so.conf"
PRELOAD = "etc/ld.so.preload"
CACHE = "etc/ld.so.cache"
_CONFIGS = re.compile(r"etc/ld\.so\.(?:conf|preload|cache)|(?:.*/)?ld\.so\.conf\.d/[^/]+")
_INCLUDE_LIMIT = 64
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_BIG_ENDIAN = 3
# glibc, sysdeps/x86_64/dl-hwcaps-subdirs.c; aarch64 has none
_CAPABILITIES = {"x86-64": ("x86-64-v4", "x86-64-v3", "x86-64-v2")}
# glibc before 2.37, elf/dl-hwcaps.c: every subset, the larger ones first
_LEGACY = {
    "x86-64": (("tls", ""), ("haswell", "xeon_phi", ""), ("avx512_1", ""), ("x86_64", "")),
    "aarch64": (("tls", ""), ("aarch64", ""), ("atomics", "")),
}
# GNU triplets of the multiarch folders (Debian policy, "Multiarch")
TRIPLETS = {"aarch64": "aarch64-linux-gnu", "x86-64": "x86_64-linux-gnu"}

INTERESTS = (Interest(name="loader", pattern=_CONFIGS, marks=("ld.so.",), keep=WholeText),)


def loader_files(collector: Collector, nodes: Iterable[Node]) -> tuple[LoaderFile, ...]:
    """Read the loader's configuration and its cache."""
    found = []
    for node in nodes:
        if _CONFIGS.fullmatch(node.path) and node.kind is not Kind.DIRECTORY:
            content = collector.extract("loader", node)
            lines: tuple[str, ...] = ("(not read)",)
            if content is not None:
                lines = parse_cache(content) if node.path == CACHE else tuple(_lines(content))
            found.append(LoaderFile(path=node.path, lines=lines))
    return tuple(sorted(found))


def parse_cache(content: bytes) -> tuple[str, ...]:
    """Read the loader's cache: a line for each name, in its order, with the file and its level.

    The form is glibc's own since 2.2 (elf/cache.c, ``struct cache_file_new``), behind an older
    one where a distribution still writes that.
    """
    start = content.find(_CACHE_MAGIC)
    try:
        count, _, flags = struct.unpack_from("<IIB", content, start + len(_CACHE_MAGIC))
        order = ">" if flags & 3 == _BIG_ENDIAN else "<"
        (count,) = struct.unpack_from(f"{order}I", content, start + len(_CACHE_MAGIC))
        if start < 0 or start + 48 + 24 * count > len(content):
            return ("(not read)",)
        found = []
        for at in range(start + 48, start + 48 + 24 * count, 24):
            _, key, value, _, level = struct.unpack_from(f"{order}IIIIQ", content, at)
            name, path = (_text_at(content, start + offset) for offset in (key, value))
            found.append(f"{name} {path}" + (f" level {level:x}" if level else ""))
    except struct.error:
        return ("(not read)",)
    return tuple(found)


def _text_at(content: bytes, offset: int) -> str:
    end = content.find(b"\0", offset)
    return content[offset : max(end, offset)].decode("utf-8", "replace")


def _lines(content: bytes) -> Iterator[str]:
    for line in content.decode("utf-8", "replace").splitlines():
        text = line.split("#", 1)[0].strip()
        if text:
            yield text


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Which file is taken for a library.

    Attributes:
        path: the file without links, ``""`` where nothing is found.
        because: the rule that found it.
    """

    path: str
    because: str


class Loader:
    """The dynamic loader of one image, as far as its files and its environment tell."""

    def __init__(
        self,
        tree: FileTree,
        elf: Iterable[ElfFile],
        environment: Mapping[str, str],
        files: Iterable[LoaderFile],
        machine: str,
    ) -> None:
        self._tree = tree
        self._elf = {file.path: file for file in elf}
        self._environment = environment
        self._files = {file.path: file.lines for file in files}
        self._machine = machine
        self._capable: dict[str, tuple[str, ...]] = {}

    def find(self, soname: str, requester: ElfFile | None) -> Loaded:
        """Find what is loaded for a name that a library (or ``dlopen``) asks for.

        Args:
            soname: what is asked for, without a slash.
            requester: the library that needs it; ``None`` for a call of ``dlopen``.
        """
        preloaded = self._preloaded(soname)
        if preloaded is not None:
            return preloaded
        for because, folders in self._steps(requester):
            for folder in self._with_capable(folders):
                path = self._fitting(f"{folder}/{soname}")
                if path is not None:
                    return Loaded(path=path, because=f"{because} `/{folder}`")
        return Loaded(path="", because="no folder that is searched has it")

    def _with_capable(self, folders: Sequence[str]) -> Iterator[str]:
        """Put before each folder its ``glibc-hwcaps`` for processors that can do more (ld.so(8)).

        Which of them count is the host's; the one that comes first where all count is taken.
        """
        for folder in folders:
            if folder not in self._capable:
                self._capable[folder] = tuple(
                    below
                    for name in self._subfolders()
                    if self._tree.resolve(below := f"{folder}/{name}") is not None
                )
            yield from self._capable[folder]
            yield folder

    def _subfolders(self) -> Iterator[str]:
        """Yield the folders below a searched one: today's, then those of glibc before 2.37."""
        for level in _CAPABILITIES.get(self._machine, ()):
            yield f"glibc-hwcaps/{level}"
        legacy = _LEGACY.get(self._machine, (("tls", ""),))
        for parts in itertools.product(*legacy):
            name = "/".join(part for part in parts if part)
            if name:
                yield name

    def configured_copy(self, soname: str) -> Loaded:
        """Find a name in the folders that the image itself names, the default ones left out.

        What is found there comes before a library that a container runtime mounts into a default
        folder. Runtimes run ``ldconfig`` at the start, so the cache is not asked for.
        """
        named = self._expanded(self._environment.get("LD_LIBRARY_PATH", ""), None)
        for because, folders in (("LD_LIBRARY_PATH", named), ("ld.so.conf", self.configured())):
            for folder in folders:
                path = self._fitting(f"{folder}/{soname}")
                if path is not None and folder not in self.defaults():
                    return Loaded(path=path, because=f"{because} `/{folder}`")
        return Loaded(path="", because="no folder that the image names has it")

    def _steps(self, requester: ElfFile | None) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the rules of ld.so(8) in order, each with its folders."""
        if requester is not None and requester.rpath and not requester.runpath:
            yield f"DT_RPATH of `{requester.path}`", self._expanded(requester.rpath, requester)
        yield "LD_LIBRARY_PATH", self._expanded(self._environment.get("LD_LIBRARY_PATH", ""), None)
        if requester is not None and requester.runpath:
            yield f"DT_RUNPATH of `{requester.path}`", self._expanded(requester.runpath, requester)
        if CACHE in self._files:
            # at run time only the cache is read; without it the configuration means nothing
            yield "ld.so.conf", self.configured()
        yield "default folder", self.defaults()

    def _preloaded(self, soname: str) -> Loaded | None:
        """Look among what is loaded before everything else."""
        text = self._environment.get("LD_PRELOAD", "")
        named = [("LD_PRELOAD", name) for name in re.split(r"[\s:]+", text) if name]
        named += [
            (f"/{PRELOAD}", name) for line in self._files.get(PRELOAD, ()) for name in line.split()
        ]
        for because, name in named:
            path = self._tree.resolve(name) if "/" in name else None
            if "/" not in name:
                found = [
                    self._fitting(f"{folder}/{name}")
                    for _, folders in self._steps(None)
                    for folder in self._with_capable(folders)
                ]
                path = next((one for one in found if one is not None), None)
            if path is not None and self._answers_to(path, name, soname):
                return Loaded(path=path, because=because)
        return None

    def _answers_to(self, path: str, name: str, soname: str) -> bool:
        elf = self._elf.get(path)
        return soname in (elf.soname if elf else "", posixpath.basename(name))

    def _fitting(self, path: str) -> str | None:
        """Return the file behind a path, if it is there and not of another machine."""
        resolved = self._tree.resolve(path)
        node = self._tree.get(resolved) if resolved else None
        if resolved is None or node is None or node.kind is not Kind.FILE:
            return None
        elf = self._elf.get(resolved)
        return None if elf is not None and elf.machine != self._machine else resolved

    def _expanded(self, text: str, requester: ElfFile | None) -> tuple[str, ...]:
        """Split a search path and put in ``$ORIGIN``, ``$LIB`` and ``$PLATFORM``."""
        origin = ""
        if requester is not None:
            origin = posixpath.dirname(self._tree.resolve(requester.path) or requester.path)
        values = {
            "ORIGIN": f"/{origin}",
            "LIB": f"lib/{TRIPLETS.get(self._machine, '')}".rstrip("/"),
            "PLATFORM": self._machine.replace("-", "_"),
        }
        folders = []
        for part in re.split(r"[:;]", text):
            for name, value in values.items():
                part = part.replace(f"${{{name}}}", value).replace(f"${name}", value)
            if part.startswith("/"):
                folders.append(posixpath.normpath(part).lstrip("/"))
        return tuple(folders)

    def configured(self) -> tuple[str, ...]:
        """Return the folders that ``ld.so.conf`` names, includes in place."""
        return tuple(dict.fromkeys(self._configured(CONFIG, set())))

    def _configured(self, path: str, seen: set[str]) -> Iterator[str]:
        if path in seen or len(seen) > _INCLUDE_LIMIT:
            return
        seen.add(path)
        for line in self._files.get(path, ()):
            word, _, rest = line.partition(" ")
            if word == "include":
                for pattern in rest.split():
                    wanted = posixpath.join("/", posixpath.dirname(path), pattern).lstrip("/")
                    for file in sorted(self._files):
                        if fnmatch.fnmatchcase(file, wanted):
                            yield from self._configured(file, seen)
            elif word.startswith("/"):
                yield from (p.strip("/") for p in re.split(r"[\s:,]+", line) if p.startswith("/"))

    def defaults(self) -> tuple[str, ...]:
        """Return the folders that are searched without being named."""
        triplet = TRIPLETS.get(self._machine)
        folders = [f"lib/{triplet}", f"usr/lib/{triplet}"] if triplet else []
        wide = ["lib64", "usr/lib64"] if self._machine in ("x86-64", "aarch64") else []
        return (*folders, *wide, "lib", "usr/lib")
