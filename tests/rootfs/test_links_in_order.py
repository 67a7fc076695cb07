"""Hard links: runtimes make them one after the other (moby and containerd, archive/tar).

A link takes what its name leads to at that moment, and what its own header says of mode, owner
and attributes is given to the file that it names.
"""

from __future__ import annotations

import pytest

from imagegate.errors import ImageError
from imagegate.oci.tar import scan_tar
from imagegate.rootfs import FileTree
from tests.images import Content, Directory, HardLink, Link
from tests.rawtar import END, entry, pax
from tests.rootfs.trees import node, notes, tree_of


def codes(*layers: dict[str, Content]) -> set[str]:
    return {code for code, _ in notes(tree_of(*layers))}


def test_row_4_a_target_that_the_layer_writes_later() -> None:
    layers: tuple[dict[str, Content], ...] = (
        {"tmp/y": b"other bytes"},
        {"decode.py": HardLink("tmp/y"), "tmp/y": b"the right bytes"},
    )
    assert ("link-before-target", "decode.py") in notes(tree_of(*layers))


def test_a_link_to_a_link_whose_target_comes_last() -> None:
    assert "link-before-target" in codes(
        {"t": b"other"}, {"b": HardLink("a"), "a": HardLink("t"), "t": b"right"}
    )


def test_a_target_behind_a_linked_folder() -> None:
    found = codes(
        {"real/t": b"other", "via": Link("real")},
        {"b": HardLink("via/t"), "real/t": b"right"},
    )
    assert found >= {"through-link", "link-before-target"}


def test_links_behind_their_targets_say_nothing() -> None:
    assert not codes({"a": b"x", "b": HardLink("a"), "c": HardLink("b"), "d": HardLink("a")})


def test_a_link_to_a_layer_below_takes_what_is_there() -> None:
    tree = tree_of({"a": b"x"}, {"b": HardLink("a")})
    assert node(tree, "b").sha256 == node(tree, "a").sha256
    assert not notes(tree)


@pytest.mark.parametrize(
    "link",
    [
        entry(b"b", flag=b"1", link=b"a", mode=0o4755),
        entry(b"b", flag=b"1", link=b"a", uid=7),
        pax((b"SCHILY.xattr.user.x", b"y")) + entry(b"b", flag=b"1", link=b"a"),
        pax((b"SCHILY.xattr.security.capability", b"\1\0\0\2")) + entry(b"b", flag=b"1", link=b"a"),
    ],
)
def test_a_link_that_changes_the_file_it_names(link: bytes) -> None:
    tree = FileTree()
    tree.apply(scan_tar([entry(b"a", b"x") + link + END]), 1)
    assert notes(tree) == {("link-attributes", "b")}


@pytest.mark.parametrize(
    "layer",
    [
        {".wh..wh.plnk/1": b"x"},
        {"a": HardLink(".wh..wh.plnk/1")},
        {"d/.wh.x/y": b""},
        {"d/.wh..wh..opq/": Directory(), "d/.wh..wh..opq/y": b"x"},
    ],
)
def test_what_lies_below_a_whiteout_is_broken_input(layer: dict[str, Content]) -> None:
    with pytest.raises(ImageError, match="below a whiteout"):
        tree_of(layer)


def test_two_entries_of_a_folder_with_other_attributes() -> None:
    folder = entry(b"d/", flag=b"5")
    tree = FileTree()
    tree.apply(scan_tar([pax((b"SCHILY.xattr.user.x", b"y")) + folder + folder + END]), 1)
    assert notes(tree) == {("duplicate-path", "d")}
