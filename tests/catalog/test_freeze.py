"""``pip freeze`` of editable installs, small; the real pip is asked in ``test_oracle_root``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from imagegate.catalog.freeze import freeze, same_origin
from imagegate.facts import Checkout, Distribution
from tests.images import File
from tests.judging import SITE, Case, dist, failed, found

if TYPE_CHECKING:
    from pathlib import Path

    from tests.images import Content

EDITABLE = '{"dir_info": {"editable": true}, "url": "file:///opt/x"}'
HEAD, CONFIG = "opt/x/.git/HEAD", "opt/x/.git/config"
ORIGIN = '[core]\n\tbare = false\n[remote "origin"]\n\turl = https://example.org/x.git\n'
BASE: dict[str, Content] = {
    **dist("x-y", "1.0", direct_url=EDITABLE, files={"x.pth": "/opt/x\n"}),
    "usr/bin/git": "",
    HEAD: "ref: refs/heads/main\n",
    CONFIG: ORIGIN,
    "opt/x/.git/refs/heads/main": "a" * 40 + "\n",
}


def locked(base: dict[str, Content], folder: Path) -> str:
    case = Case(base=base, added=[{"y": "z"}])
    image, _ = case.images()
    return case.lock(folder, image, case.state(image)).freeze


def test_a_checkout_is_frozen_by_its_commit(tmp_path: Path) -> None:
    # pip, `Git.get_src_requirement`
    assert locked(BASE, tmp_path) == f"-e git+https://example.org/x.git@{'a' * 40}#egg=x_y\n"


@pytest.mark.parametrize(
    "added",
    [
        {"opt/x/.git/refs/heads/main": "b" * 40 + "\n"},
        {
            HEAD: "ref: refs/heads/other\n",
            "opt/x/.git/packed-refs": f"{'b' * 40} refs/heads/other\n",
        },
        {HEAD: "b" * 40 + "\n"},
    ],
    ids=["pull", "switch", "detach"],
)
def test_another_commit_is_a_moved_pin(added: dict[str, Content], tmp_path: Path) -> None:
    moved = found(Case(base=BASE, added=[added]).judge(tmp_path), "python.pins/freeze-moved")
    assert moved.locked == f"-e git+https://example.org/x.git@{'a' * 40}#egg=x_y"


@pytest.mark.parametrize(
    "added",
    [
        {"opt/x/.git/refs/heads/other": "b" * 40 + "\n"},
        {"usr/local/bin/git": "another program of that name"},
    ],
    ids=["another branch", "git itself"],
)
def test_what_is_checked_out_is_what_counts(added: dict[str, Content], tmp_path: Path) -> None:
    verdict = Case(base=BASE, added=[added]).judge(tmp_path)
    assert "python.pins/freeze-moved" not in failed(verdict)


def test_git_that_a_layer_brings_moves_no_pin(tmp_path: Path) -> None:
    base = {path: content for path, content in BASE.items() if path != "usr/bin/git"}
    assert locked(base, tmp_path / "a") == "-e /opt/x\n"
    verdict = Case(base=base, added=[{"usr/bin/git": ""}]).judge(tmp_path / "b")
    assert "python.pins/freeze-moved" not in failed(verdict)


def test_a_checkout_of_somebody_else_is_not_read_by_git(tmp_path: Path) -> None:
    # git-config(1), safe.directory: a command in a repository of another user fails
    base: dict[str, Content] = {**BASE, HEAD: File(b"ref: refs/heads/main\n", uid=1000)}
    assert locked(base, tmp_path).startswith("## !! Could not determine repository location\n")


def test_setuptools_own_form_of_an_editable_install(tmp_path: Path) -> None:
    base: dict[str, Content] = {
        f"{SITE}/old-way.egg-link": "/opt/old\n.",
        f"{SITE}/easy-install.pth": "/opt/old\n",
        "opt/old/old_way.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: old-way\nVersion: 8.0\n",
    }
    comment = "# Editable install with no version control (old-way==8.0)\n"
    assert locked(base, tmp_path / "a") == f"{comment}-e /opt/old\n"
    newer = {
        path: "Metadata-Version: 2.1\nName: old-way\nVersion: 9.0\n"
        for path in base
        if "PKG" in path
    }
    verdict = Case(base=base, added=[{**newer}]).judge(tmp_path / "b")
    moved = found(verdict, "python.pins/version-moved")
    assert (moved.subject, moved.locked, moved.found) == ("old-way", "8.0", "9.0")


def test_metadata_that_setuptools_leaves_beside_the_source_is_no_second_copy(
    tmp_path: Path,
) -> None:
    base: dict[str, Content] = {
        **BASE,
        "opt/x/x_y.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: x-y\nVersion: 0.9\n",
    }
    assert locked(base, tmp_path / "a").count("\n") == 1
    assert Case(base=base, added=[{"y": "z"}]).judge(tmp_path / "b").passed


@pytest.mark.parametrize(("pip", "end"), [("23.0.1", ""), ("23.1", "#sha256=2"), ("", "#sha256=2")])
def test_an_older_pip_knows_one_hash_alone(pip: str, end: str) -> None:
    # pip 23.1 release notes: `hashes` of PEP 610
    direct = '{"url": "https://e.org/b.whl", "archive_info": {"hashes": {"sha256": "2"}}}'
    pins = [Distribution(name="b", version="1", path="s/b", site="s", direct_url=direct)]
    if pip:
        pins.append(Distribution(name="pip", version=pip, path="s/pip", site="s"))
    assert freeze(pins, "3.12") == f"b @ https://e.org/b.whl{end}\n"


def test_a_checkout_around_a_checkout_is_not_the_one(tmp_path: Path) -> None:
    del tmp_path
    pin = Distribution(name="b", version="1", path="s/b", site="s", direct_url=EDITABLE)
    outer = Checkout(
        path="opt/.git/HEAD", commit="o", remotes=("origin https://o/o",), program=True
    )
    inner = Checkout(path=HEAD, commit="i", remotes=("origin https://i/i",), program=True)
    assert freeze([pin], "3.12", (), [outer, inner]) == "-e git+https://i/i@i#egg=b\n"
    assert freeze([pin], "3.12", (), [outer]) == "-e git+https://o/o@o#egg=b&subdirectory=x\n"


def test_origins_that_cannot_be_read_are_one_only_as_texts() -> None:
    assert same_origin("{", "{")
    assert not same_origin("{", "[")
    assert not same_origin("", EDITABLE)
