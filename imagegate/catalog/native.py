"""GPU libraries and packages with native code: what they really are.

Each reading is a declaration: which files, what is kept of them, how the value is read. Metadata
and environment variables are not read here; they are claims, and other catalogs have them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from imagegate.catalog.collect import Interest, WholeText
from imagegate.catalog.components import BUNDLED, EMBEDDED, LIBRARY, SOURCES, TEXT_MARKS, TEXTS
from imagegate.catalog.elf import read_elf
from imagegate.facts import LibraryLink, NativeReading
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from imagegate.catalog.collect import Collector
    from imagegate.catalog.components import Text
    from imagegate.rootfs import FileTree, Node

_OVERLAP = 256
# a text that ends so near to the end of a chunk may go on in the next, and is read with that
_MARGIN = 64


class EmbeddedVersions:
    """Keeps the version strings that stand anywhere in a library."""

    def __init__(self, path: str, _size: int) -> None:
        name = component_of(path)
        self._patterns = [
            (index, text.pattern)
            for index, text in enumerate(EMBEDDED)
            if text.library.fullmatch(name)
        ]
        self._tail = b""
        self._found: dict[tuple[int, bytes], None] = {}

    def write(self, chunk: bytes | memoryview, /) -> None:
        """Take the next bytes."""
        if not self._patterns:
            return
        # a match may stand across two chunks, so the end of one is searched again with the next
        seam = self._tail + bytes(chunk[:_OVERLAP])
        self._search(seam, last=False)
        if len(chunk) > _OVERLAP:
            self._search(chunk, last=False)
        self._tail = bytes(chunk[-_OVERLAP:]) if len(chunk) >= _OVERLAP else seam[-_OVERLAP:]

    def _search(self, text: bytes | memoryview, *, last: bool) -> None:
        for index, pattern in self._patterns:
            for match in pattern.finditer(text):
                if last or match.end() + _MARGIN <= len(text):
                    self._found[index, bytes(match[1])] = None

    def finish(self) -> bytes:
        """Return which text was found and what it says, a line each."""
        self._search(self._tail, last=True)
        return b"".join(b"%d %s\n" % (index, value) for index, value in self._found)


# what is looked for in the files above
FORMS = (
    *(f"{text.library.pattern} {text.component} {text.pattern.pattern!r}" for text in EMBEDDED),
    *(f"{source.pattern.pattern} {source.component} {source.source}" for source in SOURCES),
)
INTERESTS = (
    Interest(name="native text", pattern=TEXTS, marks=TEXT_MARKS, keep=WholeText),
    Interest(name="versions", pattern=LIBRARY, marks=(".so",), keep=EmbeddedVersions),
)


def readings(collector: Collector, nodes: Iterable[Node]) -> tuple[NativeReading, ...]:
    """Read every component that the given files of a tree hold, each copy on its own."""
    found: set[NativeReading] = set()
    for node in nodes:
        if node.kind is not Kind.FILE:
            continue
        if (text := collector.extract("native text", node)) is not None:
            found.update(_from_text(node, text))
        if ".so" in node.path and LIBRARY.fullmatch(node.path):
            found.update(_from_library(node, collector))
    return tuple(sorted(found))


def links(tree: FileTree, nodes: Iterable[Node]) -> tuple[LibraryLink, ...]:
    """List the symbolic links among the watched libraries and where each leads."""
    return tuple(
        sorted(
            LibraryLink(path=node.path, target=node.target, leads_to=tree.resolve(node.path) or "")
            for node in nodes
            if node.kind is Kind.SYMLINK and LIBRARY.fullmatch(node.path)
        )
    )


def merged_links(
    base: tuple[LibraryLink, ...], added: tuple[LibraryLink, ...], tree: FileTree
) -> tuple[LibraryLink, ...]:
    """Follow the base's links again: a layer may have moved what stands at their end."""
    here = [node for link in base if (node := tree.get(link.path)) is not None]
    found = {link.path: link for link in (*links(tree, here), *added)}
    return tuple(found[path] for path in sorted(found))


def is_watched(path: str) -> bool:
    """Say whether a path is a file that these readings come from, or a link among them."""
    return bool(TEXTS.fullmatch(path) or LIBRARY.fullmatch(path))


def component_of(path: str) -> str:
    """Name a library by its file: ``libnccl.so.2`` is ``libnccl``, bundled by auditwheel or not."""
    return BUNDLED.sub("", path.rsplit("/", 1)[-1].split(".so", 1)[0])


def spelled(component: str, value: str) -> str:
    """Spell CUDA's own number as people do: 13050 is 13.5 (cuda.h, ``CUDA_VERSION``)."""
    if component not in ("cuda", "cuda runtime") or not value.isdigit():
        return value
    return f"{int(value) // 1000}.{int(value) % 1000 // 10}"


def _from_text(node: Node, content: bytes) -> Iterator[NativeReading]:
    text = content.decode("utf-8", "replace")
    for source in SOURCES:
        if source.pattern.fullmatch(node.path):
            value = source.parse(text)
            if value:
                yield NativeReading(
                    component=source.component, source=source.source, path=node.path, value=value
                )


def _from_library(node: Node, collector: Collector) -> Iterator[NativeReading]:
    name = component_of(node.path)
    said: dict[Text, list[str]] = defaultdict(list)
    for line in (collector.extract("versions", node) or b"").splitlines():
        index, _, found = line.partition(b" ")
        said[EMBEDDED[int(index)]].append(found.decode("ascii", "replace"))
    for text, values in said.items():
        for said_here in [" ".join(sorted(values, key=_natural))] if text.together else values:
            yield NativeReading(
                component=text.component, source=text.source, path=node.path, value=said_here
            )
    elf = read_elf(collector, node)
    if elf is not None and elf.build_id:
        yield NativeReading(component=name, source="build id", path=node.path, value=elf.build_id)
    suffix = node.path.rsplit(".so", 1)[-1].lstrip(".")
    if suffix:
        yield NativeReading(component=name, source="file name", path=node.path, value=suffix)
    yield NativeReading(component=name, source="sha256", path=node.path, value=node.sha256)


def _natural(value: str) -> tuple[int, str]:
    """Order numbers by size: ``9`` before ``10``."""
    return (int(value) if value.isdigit() else 0, value)
