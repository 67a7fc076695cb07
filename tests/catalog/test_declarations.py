"""A catalog is declared once: what is kept, read, merged, locked, and by which revision."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace

import pytest

from imagegate.catalog import (
    CATALOGS,
    REVISION,
    locked_facts,
    merge_facts,
    no_facts,
    revision_of,
)
from imagegate.catalog.collect import Interest, WholeText
from imagegate.facts import ElfFile, Facts, NativeReading
from imagegate.oci.tar import Kind
from imagegate.rootfs import FileTree, Node, SortedIndex


def test_each_set_of_facts_is_declared_by_one_catalog() -> None:
    assert [field.name for field in fields(Facts)] == [catalog.name for catalog in CATALOGS]


def test_facts_cannot_be_made_without_saying_what_was_read() -> None:
    with pytest.raises(TypeError, match="missing 13 required"):
        Facts()  # type: ignore[call-arg]


def test_a_set_that_was_not_read_is_another_value_than_an_empty_one() -> None:
    read = no_facts()
    assert read.contradictions == ()
    assert replace(read, contradictions=None) != read


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grown:
    path: str
    more: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plain:
    path: str


_WANT = Interest(name="x", pattern=re.compile("a"), keep=WholeText)


@pytest.mark.parametrize(
    "change",
    [
        {"fact": _Grown},
        {"revision": 99},
        {"wants": (replace(_WANT, pattern=re.compile("b")),)},
        {"wants": ()},
        {"unlocked": frozenset({"path"})},
        {"forms": ("another",)},
    ],
)
def test_the_revision_is_another_for_every_change_of_a_declaration(
    change: dict[str, object],
) -> None:
    catalog = replace(CATALOGS[0], fact=_Plain, wants=(_WANT,))
    assert revision_of([catalog]) != revision_of([replace(catalog, **change)])  # type: ignore[arg-type]


def test_the_revision_is_another_with_one_catalog_more() -> None:
    assert revision_of(CATALOGS[:-1]) != REVISION
    assert revision_of(CATALOGS) == REVISION


def test_a_lock_says_that_it_does_not_hold_what_nobody_asks_of_a_base() -> None:
    library = ElfFile(path="x.so", machine="x86-64", requires=("libc.so.6 G_1",), build_id="ab")
    (locked,) = locked_facts(replace(no_facts(), elf=(library,))).elf
    assert (locked.requires, locked.build_id) == (None, None)


def test_a_fact_of_a_file_that_a_layer_wrote_is_the_layers() -> None:
    base = replace(no_facts(), native=(_reading("2.30"), _reading("1", path="kept.so")))
    nodes = [Node(path=path, kind=Kind.FILE, mode=0o644) for path in ("nccl.so", "kept.so")]
    tree = FileTree(SortedIndex(nodes))
    tree._upper["nccl.so"] = replace(nodes[0], layer=2)
    added = replace(no_facts(), native=(_reading("2.31"),))
    merged = merge_facts(base, added, tree, is_prefix=True)
    assert merged.native == (_reading("1", path="kept.so"), _reading("2.31"))
    assert merge_facts(base, added, tree, is_prefix=False) == added


def _reading(value: str, path: str = "nccl.so") -> NativeReading:
    return NativeReading(component="nccl", source="version string", path=path, value=value)
