"""Laws of locks: what is written is read, the same parts give the same bytes, nothing crashes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from hypothesis import given, settings, strategies as st

from imagegate.errors import LockError
from imagegate.facts import Distribution, Facts, NativeReading
from imagegate.lock import LockedAsset, LockedWheel
from imagegate.lock.blocks import BlockIndex, decode_index, encode_index
from imagegate.oci.tar import Kind
from imagegate.rootfs import Node, SortedIndex
from tests.lock.test_decode import BASE, PARTS, decoded, encoded

# paths are bytes on disk: what is no UTF-8 arrives as lone surrogates (PEP 383)
_BYTES = st.binary(min_size=1, max_size=12).filter(lambda raw: not set(raw) & {0, 0x2F})
_PARTS = st.one_of(
    _BYTES.map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=8),
    st.sampled_from(["a", "b", "a\tb", "a\nb", "\\x41", "\\", "a\x7f", "a\u2028b", "\x85"]),
)  # fmt: skip
PATHS = st.lists(_PARTS, min_size=1, max_size=4).map("/".join)
TEXT = st.one_of(PATHS, st.just(""))
_HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
NODES = st.builds(
    Node,
    path=PATHS,
    kind=st.sampled_from([kind for kind in Kind if kind is not Kind.HARDLINK]),
    mode=st.integers(0, 0o7777),
    uid=st.integers(0, 1 << 31),
    gid=st.integers(0, 1 << 31),
    size=st.integers(0, 1 << 50),
    sha256=_HEX | st.just(""),
    target=TEXT,
    capabilities=st.sampled_from(["", "0100000200040000"]),
    attributes=st.sampled_from(
        [(), (("user.a;b=c", "00ff"),), (("a\tb\udcff", ""), ("system.posix_acl_access", "01"))]
    ),
    owner=TEXT,
)
INDEX = st.lists(NODES, max_size=12, unique_by=lambda node: node.path)


@given(INDEX)
@settings(max_examples=200)
def test_an_index_reads_back_whatever_the_paths(nodes: list[Node]) -> None:
    index = decode_index(encode_index(nodes), "files.zst")
    assert len(index) == len(nodes)
    assert {node.path: node for node in index} == {node.path: node for node in nodes}
    for node in nodes:
        assert index.get(node.path) == node


@given(INDEX, st.randoms())
def test_the_order_of_nodes_does_not_change_a_byte(nodes: list[Node], random: object) -> None:
    shuffled = list(nodes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert encode_index(shuffled) == encode_index(nodes)


@given(INDEX, PATHS)
@settings(max_examples=200)
def test_a_text_index_answers_like_an_index_of_nodes(nodes: list[Node], path: str) -> None:
    text = decode_index(encode_index(nodes), "files.zst")
    plain = SortedIndex(nodes)
    asked = {path, *(node.path for node in nodes)}
    asked |= {one.rpartition("/")[0] for one in asked}
    for one in asked - {""}:
        assert text.get(one) == plain.get(one)
    for one in asked:
        # the order of two paths may differ where one has a character that is escaped
        assert {n.path: n for n in text.under(one)} == {n.path: n for n in plain.under(one)}


@given(st.binary(max_size=300))
def test_random_bytes_are_an_index_or_an_error(content: bytes) -> None:
    for text in (content, b"#imagegate-index-1\n" + content + b"\n"):
        with suppress(LockError):
            index: BlockIndex = decode_index(text, "files.zst")
            list(index)


WHEELS = st.lists(
    st.builds(
        LockedWheel,
        name=st.from_regex(r"[a-z0-9]+(-[a-z0-9]+)*", fullmatch=True),
        version=st.sampled_from(["1.0", "2.13.0+cu130", "1!2.0rc1", "0.1.dev3+gabc"]),
        sha256=_HEX,
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda wheel: wheel.name,
)
ASSETS = st.lists(
    st.builds(
        LockedAsset, model=TEXT, source=PATHS, target=PATHS, size=st.integers(0), sha256=_HEX
    ),
    max_size=3,
)
FACTS = st.builds(
    Facts,
    distributions=st.lists(
        st.builds(
            Distribution,
            name=TEXT,
            version=TEXT,
            path=PATHS,
            site=TEXT,
            requires=st.lists(TEXT, max_size=2).map(tuple),
            direct_url=TEXT,
        ),
        max_size=3,
    ).map(tuple),
    native=st.lists(
        st.builds(NativeReading, component=TEXT, source=TEXT, path=PATHS, value=TEXT), max_size=3
    ).map(tuple),
)


@given(INDEX.filter(bool), INDEX.filter(bool), WHEELS, ASSETS, FACTS, TEXT)
@settings(max_examples=100)
def test_a_lock_reads_back_whatever_it_holds(
    files: list[Node],
    layer: list[Node],
    wheels: list[LockedWheel],
    assets: list[LockedAsset],
    facts: Facts,
    freeze: str,
) -> None:
    parts = replace(
        PARTS,
        layer=layer,
        wheels=wheels,
        assets=assets,
    )
    base = replace(
        BASE, facts=facts, files=encode_index(files), freeze=freeze.replace("\r\n", "\n")
    )
    written = encoded(parts, base)
    lock = decoded(written)
    assert lock.base.facts == facts
    assert set(lock.files) == set(files)
    assert set(lock.layer) == set(layer)
    assert lock.wheels == tuple(sorted(wheels))
    assert lock.assets == tuple(sorted(assets))
    assert lock.freeze == base.freeze
    assert encoded(parts, base) == written


_VALID = encoded()


@given(
    st.sampled_from(sorted(_VALID)),
    st.lists(st.tuples(st.integers(0, 1 << 14), st.integers(1, 255)), min_size=1, max_size=3),
)
@settings(max_examples=200)
def test_a_lock_with_changed_bytes_is_the_same_lock_or_an_error(
    name: str, flips: list[tuple[int, int]]
) -> None:
    changed = bytearray(_VALID[name])
    for position, mask in flips:
        changed[position % len(changed)] ^= mask
    try:
        lock = decoded({**_VALID, name: bytes(changed)})
        paths = list(lock.files), list(lock.layer)
    except LockError:
        return
    # blanks in lock.json, or bits of a zstd frame that mean nothing
    assert lock.digest == decoded(_VALID).digest
    assert (
        paths
        == (list(lock.files), list(lock.layer))
        == tuple(map(list, (decoded(_VALID).files, decoded(_VALID).layer)))
    )
