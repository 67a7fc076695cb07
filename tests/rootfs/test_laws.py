"""Laws of applying layers, over layers that nobody thought of."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings, strategies as st

from imagegate.errors import ImageError
from imagegate.lock.blocks import decode_index, encode_index
from imagegate.oci.tar import Kind, TarEntry
from imagegate.rootfs import FileTree, Node, PathIndex, SortedIndex

_NAMES = st.sampled_from(["a", "b", "c", "lib", "caf\udce9", "t\tab"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join)
_MARKERS = st.one_of(
    st.builds(lambda path: f"{path}/.wh..wh..opq", _PATHS),
    st.builds(lambda path, name: f"{path}/.wh.{name}", _PATHS, _NAMES),
    st.builds(lambda name: f".wh.{name}", _NAMES),
)


def _entry(path: str, kind: Kind, mode: int = 0o644, target: str = "") -> TarEntry:
    digest = f"{mode:064x}" if kind is Kind.FILE else ""
    return TarEntry(
        path=path, kind=kind, mode=mode, uid=0, gid=0, sha256=digest, target=target, size=0
    )


_MODES = st.integers(0, 0o7777)
MARKERS = st.builds(_entry, _MARKERS, st.just(Kind.FILE))
FILES = st.builds(_entry, _PATHS, st.just(Kind.FILE), _MODES)
DIRECTORIES = st.builds(_entry, _PATHS, st.just(Kind.DIRECTORY), _MODES)
SYMLINKS = st.builds(
    _entry, _PATHS, st.just(Kind.SYMLINK), st.just(0o777), _PATHS.map(lambda path: f"/{path}")
)
HARDLINKS = st.builds(_entry, _PATHS, st.just(Kind.HARDLINK), st.just(0), _PATHS)
ANY = st.one_of(MARKERS, FILES, DIRECTORIES, SYMLINKS, HARDLINKS)
PLAIN = st.one_of(MARKERS, FILES, DIRECTORIES)
LAYER = st.lists(PLAIN, max_size=8, unique_by=lambda entry: entry.path)
LAYERS = st.lists(LAYER, max_size=4)
WILD_LAYERS = st.lists(st.lists(ANY, max_size=8), max_size=4)


def apply(
    layers: list[list[TarEntry]], lower: PathIndex | None = None, first: int = 1
) -> FileTree | None:
    """Apply layers; ``None`` where they are refused."""
    tree = FileTree(lower)
    try:
        for number, layer in enumerate(layers, first):
            tree.apply(layer, number)
    except ImageError:
        return None
    return tree


def everything(tree: FileTree) -> list[Node]:
    return list(tree.under(""))


def reported(tree: FileTree) -> set[tuple[str, str, int]]:
    return {(found.code, found.path, found.layer) for found in tree.irregularities}


@given(LAYERS, st.data())
@settings(max_examples=150)
def test_the_order_of_a_layers_entries_does_not_matter(
    layers: list[list[TarEntry]], data: st.DataObject
) -> None:
    shuffled = [data.draw(st.permutations(layer)) for layer in layers]
    one, other = apply(layers), apply(shuffled)
    assert one is not None
    assert other is not None
    assert [(n.path, n.kind, n.sha256) for n in everything(one)] == [
        (n.path, n.kind, n.sha256) for n in everything(other)
    ]


@given(WILD_LAYERS, st.data())
@settings(max_examples=150)
def test_where_markers_stand_does_not_matter_in_any_layer(
    layers: list[list[TarEntry]], data: st.DataObject
) -> None:
    moved = []
    for layer in layers:
        markers = [entry for entry in layer if "/.wh." in f"/{entry.path}"]
        rest = [entry for entry in layer if entry not in markers]
        for marker in markers:
            rest.insert(data.draw(st.integers(0, len(rest))), marker)
        moved.append(rest)
    one, other = apply(layers), apply(moved)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert everything(one) == everything(other)
        assert reported(one) == reported(other)


@given(WILD_LAYERS, WILD_LAYERS)
@settings(max_examples=150)
def test_a_locked_base_is_as_good_as_its_layers(
    base: list[list[TarEntry]], added: list[list[TarEntry]]
) -> None:
    """The added layers give one tree over the base's layers, over its nodes and over its lock."""
    below = apply(base)
    if below is None:
        return
    nodes = [replace(node, layer=0) for node in below.under("")]
    first = len(base) + 1
    over_nodes = apply(added, SortedIndex(nodes), first)
    over_lock = apply(added, decode_index(encode_index(nodes), "files.zst"), first)
    over_layers = apply([*base, *added])
    assert (over_nodes is None) == (over_lock is None) == (over_layers is None)
    if over_nodes is None or over_lock is None or over_layers is None:
        return
    assert everything(over_nodes) == everything(over_lock)
    assert reported(over_nodes) == reported(over_lock)
    assert list(over_nodes.touched()) == list(over_lock.touched())
    assert everything(over_nodes) == [
        node if node.layer >= first else replace(node, layer=0) for node in everything(over_layers)
    ]
    assert {found for found in reported(over_layers) if found[2] >= first} == reported(over_nodes)
    for path in over_nodes.touched():
        assert over_nodes.get(path) is not None or over_nodes.removed_by(path) >= first


def spelled_out(layers: list[list[TarEntry]]) -> dict[str, tuple[Kind, str]]:
    """layer.md word for word, one path at a time, for layers of files and folders alone."""
    tree: dict[str, tuple[Kind, str]] = {}
    for layer in layers:
        lower = dict(tree)
        for entry in layer:
            folder, _, name = entry.path.rpartition("/")
            if name == ".wh..wh..opq":
                gone = [path for path in lower if path.startswith(f"{folder}/")]
            elif name.startswith(".wh."):
                hidden = f"{folder}/{name[4:]}".lstrip("/")
                gone = [p for p in lower if p == hidden or p.startswith(f"{hidden}/")]
            else:
                continue
            for path in gone:
                tree.pop(path, None)
        for entry in layer:
            if entry.path.rpartition("/")[2].startswith(".wh."):
                continue
            parts = entry.path.split("/")
            for depth in range(1, len(parts)):
                tree.setdefault("/".join(parts[:depth]), (Kind.DIRECTORY, ""))
            if entry.kind is Kind.FILE:
                for path in [path for path in tree if path.startswith(f"{entry.path}/")]:
                    del tree[path]
            tree[entry.path] = (entry.kind, entry.sha256)
    return tree


@given(LAYERS)
@settings(max_examples=200)
def test_the_tree_is_what_the_specification_spells_out(layers: list[list[TarEntry]]) -> None:
    tree = apply(layers)
    assert tree is not None
    if any(found.code == "file-as-parent" for found in tree.irregularities):
        return  # the specification does not say what a file with entries below it is
    found = {node.path: (node.kind, node.sha256) for node in everything(tree)}
    assert found == spelled_out(layers)


@given(WILD_LAYERS)
def test_every_path_has_a_folder_above_it_or_is_reported(layers: list[list[TarEntry]]) -> None:
    tree = apply(layers)
    if tree is None:
        return
    odd = {found.code for found in tree.irregularities} & {"through-link", "file-as-parent"}
    for node in everything(tree):
        above = node.path.rpartition("/")[0]
        parent = tree.get(above) if above else None
        assert not above or odd or (parent is not None and parent.kind is Kind.DIRECTORY)


@given(LAYERS, _PATHS)
def test_what_is_under_a_folder_is_what_get_finds(
    layers: list[list[TarEntry]], folder: str
) -> None:
    tree = apply(layers)
    assert tree is not None
    below = [node.path for node in everything(tree) if node.path.startswith(f"{folder}/")]
    assert [node.path for node in tree.under(folder)] == below
    assert all(tree.get(node.path) == node for node in everything(tree))
