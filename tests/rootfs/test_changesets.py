"""Layers to a tree as OCI's layer.md says; each public report of another result is a test."""

from __future__ import annotations

import hashlib
from itertools import permutations

import pytest

from imagegate.errors import ImageError
from imagegate.oci.tar import Kind, scan_tar
from imagegate.rootfs import FileTree, Node, SortedIndex
from tests.images import Content, Directory, File, HardLink, Link, tar
from tests.rawtar import END, entry, header
from tests.rootfs.trees import node, notes, paths, tree_of

OPAQUE = ".wh..wh..opq"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- whiteouts


def test_stereoscope_696_opaque_marker_is_the_exact_name() -> None:
    tree = tree_of({"etc/passwd": b"root"}, {"etc/.wh..wh..opqX": b""})
    assert paths(tree) == ["etc", "etc/passwd"]
    # it is the whiteout of a file named `.wh..opqX`, which is not there
    assert notes(tree) == {("whiteout-of-nothing", "etc/.wh..opqX")}


def test_stereoscope_696_the_same_at_the_root() -> None:
    assert paths(tree_of({"passwd": b"root"}, {".wh..wh..opqX": b""})) == ["passwd"]


def test_stereoscope_696_markers_of_the_lowest_layer_hide_nothing_and_are_not_listed() -> None:
    tree = tree_of({f"etc/{OPAQUE}": b"", "etc/.wh.gone": b"", "etc/passwd": b"root"})
    assert paths(tree) == ["etc", "etc/passwd"]
    assert notes(tree) == set()


@pytest.mark.parametrize("name", [".wh.", "etc/.wh.", ".wh..", ".wh..."])
def test_stereoscope_696_a_whiteout_of_no_name_is_an_error(name: str) -> None:
    # layer.md: a bare `.wh.` SHOULD be an error; `.` and `..` would leave the folder
    with pytest.raises(ImageError, match="names nothing"):
        tree_of({"etc/passwd": b""}, {name: b""})


def test_stereoscope_694_a_whiteout_acts_on_the_path_and_not_on_where_a_link_leads() -> None:
    tree = tree_of(
        {"target/keep": b"", "link": Link("/target")},
        {"link": Directory(), f"link/{OPAQUE}": b"", "link/new": b""},
    )
    assert paths(tree) == ["link", "link/new", "target", "target/keep"]
    assert node(tree, "link").kind is Kind.DIRECTORY


@pytest.mark.parametrize("marker", [OPAQUE, ".wh.keep"])
def test_stereoscope_694_a_marker_below_a_link_that_stays_is_reported(marker: str) -> None:
    """Some runtimes delete behind the link, others put a folder in its place."""
    tree = tree_of({"target/keep": b"", "link": Link("/target")}, {f"link/{marker}": b""})
    assert node(tree, "target/keep").layer == 1
    assert ("through-link", f"link/{marker}") in notes(tree)


def test_a_marker_below_a_file_is_reported() -> None:
    tree = tree_of({"f": b"content"}, {"f/.wh.x": b""})
    assert ("file-as-parent", "f/.wh.x") in notes(tree)


@pytest.mark.parametrize("number", ["go-containerregistry#1897", "go-containerregistry#2372"])
def test_go_containerregistry_1897_an_opaque_marker_deletes_what_is_below(number: str) -> None:
    del number  # two reports of one fault
    tree = tree_of({"a/b/foo": b"", "a/b": Directory()}, {f"a/{OPAQUE}": b""})
    assert paths(tree) == ["a"]


def test_go_containerregistry_1897_on_a_locked_base_it_is_known_which_layer_deleted() -> None:
    base = SortedIndex(tree_of({"a/b/foo": b""}).under(""))
    tree = tree_of({f"a/{OPAQUE}": b""}, lower=base, first=2)
    assert list(tree.touched()) == ["a/b", "a/b/foo"]
    assert tree.removed_by("a/b/foo") == 2


def test_go_containerregistry_2191_a_folder_made_anew_does_not_bring_its_files_back() -> None:
    tree = tree_of({"a/foo": b""}, {".wh.a": b""}, {"a/baz": b""})
    assert paths(tree) == ["a", "a/baz"]


def test_go_containerregistry_2191_whiteout_and_new_folder_in_one_layer() -> None:
    # layer.md: a whiteout hides lower layers only
    tree = tree_of({"a/foo": b""}, {"a": Directory(), "a/baz": b"", ".wh.a": b""})
    assert paths(tree) == ["a", "a/baz"]


@pytest.mark.parametrize("last", [True, False])
def test_moby_17819_the_order_of_the_marker_among_siblings_does_not_matter(last: bool) -> None:
    """Also moby/moby#17766, which it closes."""
    marker: tuple[str, Content] = (f"a/{OPAQUE}", b"")
    new: tuple[str, Content] = ("a/new", b"")
    tree = tree_of({"a/old": b""}, [new, marker] if last else [marker, new])
    assert paths(tree) == ["a", "a/new"]


def test_storage_141_an_opaque_marker_on_a_new_folder_is_no_change() -> None:
    base = SortedIndex(tree_of({"other": b""}).under(""))
    tree = tree_of({f"newdir/{OPAQUE}": b"", "newdir/f": b""}, lower=base, first=2)
    assert list(tree.touched()) == ["newdir", "newdir/f"]
    assert notes(tree) == set()


def test_fuse_overlayfs_151_a_whiteout_at_the_root_is_not_global() -> None:
    tree = tree_of({"test": b"", "root/test": b""}, {".wh.test": b""})
    assert paths(tree) == ["root", "root/test"]


def test_container_structure_test_71_a_whiteout_of_nothing_is_noted() -> None:
    tree = tree_of({"f": b""}, {".wh.nothing": b""})
    assert paths(tree) == ["f"]
    assert notes(tree) == {("whiteout-of-nothing", "nothing")}


def test_anchore_engine_209_names_match_however_they_are_written() -> None:
    tree = FileTree()
    tree.apply(scan_tar([entry(b"/f") + entry(b"/d//g") + END]), 1)
    tree.apply(scan_tar([entry(b"./.wh.f") + entry(b"d/./.wh.g") + END]), 2)
    assert paths(tree) == ["d"]


def test_an_opaque_root_hides_everything_below() -> None:
    tree = tree_of({"a/b": b"", "c": b""}, {OPAQUE: b"", "new": b""})
    assert paths(tree) == ["new"]


def test_the_layer_that_removes_last_is_the_one_that_is_named() -> None:
    base = SortedIndex(tree_of({"f": b""}).under(""))
    tree = tree_of({".wh.f": b""}, {"f": b"new"}, {".wh.f": b""}, lower=base, first=2)
    assert tree.get("f") is None
    assert tree.removed_by("f") == 4


# --- hard links


def test_go_containerregistry_977_a_link_outlives_the_name_it_was_made_from() -> None:
    tree = tree_of({"f": b"old", "g": HardLink("f")}, {".wh.f": b""})
    assert paths(tree) == ["g"]
    assert node(tree, "g").sha256 == sha256(b"old")


def test_go_containerregistry_2002_overwriting_one_name_leaves_the_others() -> None:
    tree = tree_of({"t2": b"old", "t1": HardLink("t2"), "t3": HardLink("t2")}, {"t1": b"new"})
    assert {name: node(tree, name).sha256 for name in ("t1", "t2", "t3")} == {
        "t1": sha256(b"new"),
        "t2": sha256(b"old"),
        "t3": sha256(b"old"),
    }


def test_apple_container_1797_a_hard_link_whose_parent_has_no_entry() -> None:
    tree = tree_of({"bin/app": b"app", "bin/x/y/app": HardLink("bin/app")})
    assert paths(tree) == ["bin", "bin/app", "bin/x", "bin/x/y", "bin/x/y/app"]
    assert node(tree, "bin/x/y/app").sha256 == sha256(b"app")


def test_a_hard_link_takes_all_that_its_file_is() -> None:
    file = File(b"x", mode=0o4755, uid=7, pax=(("SCHILY.xattr.security.capability", "\x01"),))
    tree = tree_of({"f": file, "g": HardLink("f")})
    linked = node(tree, "g")
    assert (linked.mode, linked.uid, linked.capabilities) == (0o4755, 7, "01")


def test_a_hard_link_to_a_file_of_a_lower_layer() -> None:
    tree = tree_of({"f": b"below"}, {"g": HardLink("f")})
    assert (node(tree, "g").sha256, node(tree, "g").layer) == (sha256(b"below"), 2)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_hard_links_to_links_may_stand_in_any_order(order: tuple[int, ...]) -> None:
    entries: list[tuple[str, Content]] = [("c", HardLink("b")), ("b", HardLink("a")), ("a", b"x")]
    tree = tree_of([entries[position] for position in order])
    assert {node(tree, name).sha256 for name in "abc"} == {sha256(b"x")}


def test_a_hard_link_may_name_its_file_through_a_link_of_folders() -> None:
    # link(2) resolves the folders of both names
    tree = tree_of({"usr/lib/x": b"x", "lib": Link("usr/lib")}, {"y": HardLink("lib/x")})
    assert node(tree, "y").sha256 == sha256(b"x")


def test_a_hard_link_to_a_symbolic_link_is_that_link() -> None:
    tree = tree_of({"f": b"", "l": Link("f"), "m": HardLink("l")})
    assert (node(tree, "m").kind, node(tree, "m").target) == (Kind.SYMLINK, "f")


@pytest.mark.parametrize(
    "layer",
    [
        {"g": HardLink("nothing")},
        {"d": Directory(), "g": HardLink("d")},
        {"g": HardLink("g")},
        {"g": HardLink("h"), "h": HardLink("g")},
        {"x": HardLink("g"), "g": HardLink("h"), "h": HardLink("g")},
    ],
)
def test_a_hard_link_to_no_file_is_an_error(layer: dict[str, Content]) -> None:
    with pytest.raises(ImageError, match="hard link"):
        tree_of(layer)


@pytest.mark.parametrize("step", [1, -1])
def test_a_long_chain_of_hard_links_is_followed_once(step: int) -> None:
    count = 20_000
    chain: list[tuple[str, Content]] = [
        (f"l{number}", HardLink(f"l{number + 1}")) for number in range(count)
    ]
    tree = tree_of([*chain[::step], (f"l{count}", b"end")])
    assert node(tree, "l0").sha256 == sha256(b"end")


# --- types, parents, duplicates


def test_jib_faq_a_folder_in_place_of_the_usrmerge_link() -> None:
    tree = tree_of(
        {"usr/lib/libc.so": b"", "lib": Link("usr/lib")},
        {"lib": Directory(), "lib/libfoo.so": b""},
    )
    assert node(tree, "lib").kind is Kind.DIRECTORY
    assert paths(tree) == ["lib", "lib/libfoo.so", "usr", "usr/lib", "usr/lib/libc.so"]


def test_jib_faq_the_same_without_an_entry_for_the_folder_goes_through_the_link() -> None:
    tree = tree_of({"usr/lib/libc.so": b"", "lib": Link("usr/lib")}, {"lib/libfoo.so": b""})
    assert node(tree, "lib").kind is Kind.SYMLINK
    assert node(tree, "usr/lib/libfoo.so").layer == 2
    assert notes(tree) == {("through-link", "lib/libfoo.so")}


@pytest.mark.parametrize("target", ["/nowhere", "lib", "../lib"])
def test_an_entry_behind_a_link_to_nothing_is_reported(target: str) -> None:
    tree = tree_of({"lib": Link(target)}, {"lib/x": b""})
    assert notes(tree) == {("through-link", "lib/x")}


def test_links_behind_links_are_followed_like_the_kernel_does() -> None:
    """Forty links are followed, and no number of them is a crash (path_resolution(7))."""
    layer: dict[str, Content] = {}
    for number in range(2000):
        layer[f"d{number}/l"] = Link(f"/d{number + 1}")
    layer["d2000"] = Directory()
    short = "d0/" + "l/" * 5 + "f"
    tree = tree_of(layer, {short: b""})
    assert node(tree, "d5/f").layer == 2
    deep = "d0/" + "l/" * 1500 + "f"
    assert ("through-link", "d40/" + "l/" * 1460 + "f") in notes(tree_of(layer, {deep: b""}))


@pytest.mark.parametrize(
    "number", ["docker-squash#118", "moby/buildkit#266", "containerd/containerd#2070"]
)
def test_docker_squash_118_two_entries_of_one_path_are_reported_and_the_last_counts(
    number: str,
) -> None:
    del number  # one rule, three reports
    tree = tree_of([("f", b"first"), ("f", b"last")])
    assert node(tree, "f").sha256 == sha256(b"last")
    assert notes(tree) == {("duplicate-path", "f")}


def test_one_entry_twice_is_another_matter() -> None:
    tree = tree_of([("f", b"same"), ("f", b"same"), ("d", Directory()), ("d", Directory(0o700))])
    assert notes(tree) == {("repeated-path", "f"), ("repeated-path", "d")}
    assert node(tree, "d").mode == 0o700


def test_a_folder_over_a_folder_changes_its_attributes_alone() -> None:
    tree = tree_of({"d": Directory(0o755), "d/f": b""}, {"d": Directory(0o700)})
    assert paths(tree) == ["d", "d/f"]
    assert node(tree, "d").mode == 0o700


@pytest.mark.parametrize("new", [b"file", Link("elsewhere"), HardLink("other")])
def test_anything_else_over_a_folder_removes_what_was_in_it(new: Content) -> None:
    tree = tree_of({"d/f": b"", "other": b""}, {"d": new})
    assert paths(tree) == ["d", "other"]


def test_a_folder_over_a_file_replaces_it() -> None:
    tree = tree_of({"p": b"file"}, {"p": Directory(), "p/f": b""})
    assert node(tree, "p").kind is Kind.DIRECTORY
    assert notes(tree) == set()


@pytest.mark.parametrize("first", [True, False])
def test_a_file_that_other_entries_take_for_a_folder_is_reported(first: bool) -> None:
    pair: list[tuple[str, Content]] = [("p", b"file"), ("p/f", b"")]
    tree = tree_of(pair if first else pair[::-1])
    assert notes(tree) == {("file-as-parent", "p/f")}
    assert node(tree, "p").kind is Kind.DIRECTORY


@pytest.mark.parametrize("first", [True, False])
def test_a_link_that_other_entries_take_for_a_folder_is_reported(first: bool) -> None:
    pair: list[tuple[str, Content]] = [("p", Link("d")), ("p/f", b"")]
    tree = tree_of({"d": Directory()}, pair if first else pair[::-1])
    assert notes(tree) == {("through-link", "p/f")}
    assert paths(tree) == ["d", "d/f", "p"]


@pytest.mark.parametrize("first", [True, False])
def test_a_hard_link_that_other_entries_take_for_a_folder_is_reported(first: bool) -> None:
    pair: list[tuple[str, Content]] = [("p", HardLink("other")), ("p/f", b"")]
    tree = tree_of({"other": b""}, pair if first else pair[::-1])
    assert ("file-as-parent", "p") in notes(tree)
    assert paths(tree) == ["other", "p", "p/f"]


def test_the_root_entry_is_no_path() -> None:
    tree = FileTree()
    tree.apply(scan_tar([header(b"./", flag=b"5") + entry(b"./f") + END]), 1)
    assert paths(tree) == ["f"]


def test_every_path_knows_the_layer_that_made_it() -> None:
    tree = tree_of({"a/f": b"", "a/g": b""}, {"a/g": b"new"}, {"b/h": b""})
    assert {found.path: found.layer for found in tree.under("")} == {
        "a": 1,
        "a/f": 1,
        "a/g": 2,
        "b": 3,
        "b/h": 3,
    }


# --- links inside the root


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("lib64/ld.so", "usr/lib/ld.so"),
        ("abs/ld.so", "usr/lib/ld.so"),
        ("usr/up/lib/ld.so", "usr/lib/ld.so"),
        ("beyond/lib/ld.so", "usr/lib/ld.so"),
        ("loop/x", None),
        ("gone/x", None),
        ("lib64/nothing", None),
    ],
)
def test_links_are_resolved_inside_the_root(path: str, expected: str | None) -> None:
    # path_resolution(7) with the image's root as `/`: nothing is above it
    tree = tree_of(
        {
            "usr/lib/ld.so": b"",
            "lib64": Link("usr/lib"),
            "abs": Link("/lib64"),
            "usr/up": Link(".."),
            "beyond": Link("../../../usr"),
            "loop": Link("loop"),
            "gone": Link("/nowhere"),
        }
    )
    # `up` leads to the root, where `lib` is not; give it one
    tree.apply(scan_tar([tar({"lib": Link("usr/lib")})]), 2)
    assert tree.resolve(path) == expected


def test_an_index_below_is_not_changed_by_what_stands_on_it() -> None:
    base = SortedIndex([Node(path="f", kind=Kind.FILE, mode=0o644, sha256="0" * 64)])
    tree = tree_of({"f": b"new"}, {".wh.f": b""}, lower=base)
    assert tree.get("f") is None
    assert [found.sha256 for found in base.under("")] == ["0" * 64]
