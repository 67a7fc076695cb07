"""What imagegate did not write it does not remove; what two write at once is not lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from imagegate.errors import ProfileError, UsageError
from imagegate.profile import ProfileStore, PublishedState
from imagegate.signing.keys import generate, write_pair
from imagegate.usecases.base_locks import prune_bases
from imagegate.usecases.building import building, keeping_build
from imagegate.usecases.rename import rename_recipe
from imagegate.workspace import Workspace
from imagegate.workspace.atomic import new_folder, write_file
from imagegate.workspace.exclusive import BusyError, exclusive
from imagegate.workspace.ownership import foreign_in_layout, foreign_in_lock
from imagegate.workspace.scratch import scratch_folder
from tests.images import ImageBuilder, write_layout
from tests.workspaces import built_workspace

if TYPE_CHECKING:
    from pathlib import Path

LOCK = foreign_in_lock(("lock.json", "layer.zst"), "lock.json")
IMAGE = ImageBuilder().layer({"f": b"x"}).build()


def layout(folder: Path, *, own: bool) -> Path:
    mark = {"annotations": {"dev.imagegate.recipe": "demo"}} if own else {}
    index = {"schemaVersion": 2, "manifests": [IMAGE.descriptor()], **mark}
    return write_layout(folder, IMAGE, index=index)


def replace(folder: Path) -> None:
    with new_folder(folder, foreign_in_layout) as fresh:
        (fresh / "new").write_text("new")


def test_a_layout_that_imagegate_wrote_is_replaced(tmp_path: Path) -> None:
    replace(layout(tmp_path / "demo", own=True))
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["new"]


def test_a_layout_of_before_is_known_by_its_record(tmp_path: Path) -> None:
    folder = layout(tmp_path / "demo", own=False)
    (tmp_path / "demo.build.json").write_text(json.dumps({"digest": IMAGE.digest}))
    replace(folder)
    assert (folder / "new").exists()


@pytest.mark.parametrize(
    "foreign",
    ["notes.txt", "blobs/notes.txt", "blobs/sha256/notes", "blobs/sha256/ab/cd", ".git/x"],
)
def test_a_layout_with_somebodys_file_in_it_is_not(tmp_path: Path, foreign: str) -> None:
    folder = layout(tmp_path / "demo", own=True)
    (folder / foreign).parent.mkdir(parents=True, exist_ok=True)
    (folder / foreign).write_text("a week's work")
    with pytest.raises(UsageError, match="imagegate did not write"):
        replace(folder)
    assert (folder / foreign).read_text() == "a week's work"
    assert len(list(tmp_path.iterdir())) == 1


def test_somebodys_layout_folder_or_file_is_not(tmp_path: Path) -> None:
    (tmp_path / "folder" / "x").mkdir(parents=True)
    (tmp_path / "file").write_text("x")
    for folder in (layout(tmp_path / "demo", own=False), tmp_path / "folder", tmp_path / "file"):
        with pytest.raises(UsageError, match=r"is not replaced|is not a folder"):
            replace(folder)
    assert (tmp_path / "demo" / "index.json").exists()
    assert (tmp_path / "folder" / "x").exists()


def test_what_somebody_puts_there_during_the_build_stays(tmp_path: Path) -> None:
    folder = tmp_path / "demo"

    def build() -> None:
        with new_folder(folder, foreign_in_layout):
            folder.mkdir()
            (folder / "x").write_text("x")

    with pytest.raises(UsageError, match="imagegate did not write `x`"):
        build()
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_a_linked_folder_keeps_its_link_and_its_mode(tmp_path: Path) -> None:
    real = layout(tmp_path / "elsewhere", own=True)
    real.chmod(0o700)
    (tmp_path / "build").mkdir()
    link = tmp_path / "build" / "demo"
    link.symlink_to(real)
    replace(link)
    assert link.is_symlink()
    assert (real / "new").exists()
    assert real.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in (tmp_path / "build").iterdir()] == ["demo"]


@pytest.mark.parametrize("names", [("notes.txt", "lock.json"), ("layer.zst",)])
def test_a_lock_folder_with_anything_else(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (tmp_path / name).write_text("x")
    assert LOCK(tmp_path)


def test_a_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to("real")
    write_file(link, b"new")
    assert link.is_symlink()
    assert (real.read_text(), real.stat().st_mode & 0o777) == ("new", 0o600)


@pytest.mark.parametrize("there", ["k.key", "k.pub"])
def test_half_a_pair_of_keys_is_never_written(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        write_pair(generate("ed25519"), tmp_path / "k.key", tmp_path / "k.pub")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [(there, "mine")]


# --- several processes

# one interpreter, and a process for each number
_PROMOTE = """
import os, sys
from pathlib import Path
from imagegate.profile import ProfileStore, PublishedState
folder, numbers = Path(sys.argv[1]), sys.argv[2:]
for number in numbers:
    if not os.fork():
        state = PublishedState(env={"NUMBER": number}, settings={}, verdict="sha256:" + number,
                               promoted_at="2026-01-01T00:00:00Z", promoted_by="x")
        ProfileStore(folder).publish("demo", state, number.encode())
        os._exit(0)
sys.exit(any(os.wait()[1] for _ in numbers))
"""


def test_fifty_promotions_at_once_are_fifty_states(tmp_path: Path) -> None:
    store, seen = ProfileStore(tmp_path), set()
    first = PublishedState(
        env={"NUMBER": "0"}, settings={}, verdict="sha256:0", promoted_at="x", promoted_by="x"
    )
    store.publish("demo", first, b"0")
    done = threading.Event()
    problems: list[Exception] = []

    def read() -> None:
        while not done.is_set():
            try:
                seen.add(store.current("demo").env["NUMBER"])
            except Exception as error:  # noqa: BLE001 - asserted below
                problems.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    numbers = [str(number) for number in range(1, 50)]
    subprocess.run([sys.executable, "-c", _PROMOTE, str(tmp_path), *numbers], check=True)
    done.set()
    reader.join()
    assert not problems
    assert seen
    states = [state.env["NUMBER"] for state in store.history("demo")]
    assert sorted(states) == sorted(["0", *numbers])
    assert (tmp_path / "demo.env").read_text() == f"NUMBER={states[0]}\n"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_who_waits_in_vain_is_told_by_whom(tmp_path: Path) -> None:
    held = tmp_path / "held"
    with (
        exclusive(held, "it", patience=0),
        pytest.raises(BusyError, match="another process is writing it"),
        exclusive(held, "it", patience=0.05),
    ):
        raise AssertionError
    with exclusive(held, "it", patience=0):
        pass


def test_a_killed_process_holds_nothing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    code = (
        "import os\nfrom imagegate.workspace.scratch import scratch_folder\n"
        "with scratch_folder() as f: (f / 'x').write_text('x'); print(f, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        left = child.stdout.readline().strip()
        old = time.time() - 3600
        os.utime(left, (old, old))
        with scratch_folder():
            assert (tmp_path / left).exists()
        child.kill()
    os.utime(left, (old, old))
    with scratch_folder() as mine:
        assert list(tmp_path.iterdir()) == [mine]
    assert not list(tmp_path.iterdir())


# --- records, locks and profiles that somebody else wrote


def test_somebodys_files_beside_a_build_are_not_replaced(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "build").mkdir()
    for name in ("demo.build.json", "demo.verdict.json", "demo.Dockerfile"):
        for content in ("my notes", '{"mine": true}', ""):
            path = tmp_path / "build" / name
            path.write_text(content)
            with (
                pytest.raises(UsageError, match=f"`build/{name}` is not replaced"),
                building(workspace, "demo"),
            ):
                pytest.fail("the build began")
            assert path.read_text() == content
            path.unlink()


def test_the_records_of_a_build_are_replaced(tmp_path: Path) -> None:
    build = tmp_path / "build"
    build.mkdir()
    layout(build / "demo", own=True)
    (build / "demo.Dockerfile").write_text("FROM x")
    (build / "demo.build.json").write_text('{"schema": "imagegate-build-1", "digest": "x"}')
    (build / "demo.verdict.json").write_text('{"schema": "imagegate-verdict-2"}')
    with building(Workspace(tmp_path), "demo") as folder:
        assert folder == build / "demo"


def test_a_dockerfile_that_is_a_folder_or_stands_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "build" / "demo.Dockerfile").mkdir(parents=True)
    with (
        pytest.raises(UsageError, match="is not replaced"),
        building(Workspace(tmp_path), "demo"),
    ):
        pytest.fail("the build began")


def test_no_build_replaces_what_is_being_promoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imagegate.usecases.building._PATIENCE", 0.1)
    layout(tmp_path / "build" / "demo", own=True)
    workspace = Workspace(tmp_path)
    with (
        keeping_build(workspace, "demo"),
        pytest.raises(BusyError, match="the build of `demo`"),
        building(workspace, "demo"),
    ):
        pytest.fail("the build began")
    with building(workspace, "demo"):
        pass


def published(number: str) -> PublishedState:
    return PublishedState(
        env={"NUMBER": number},
        settings={},
        verdict=f"sha256:{number}",
        promoted_at="2026-01-01T00:00:00Z",
        promoted_by="x",
    )


def test_a_profile_that_no_promotion_wrote_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "demo.env").write_text("MY=own\n")
    with pytest.raises(ProfileError, match="imagegate did not write it"):
        ProfileStore(tmp_path).publish("demo", published("1"), b"1")
    assert (tmp_path / "demo.env").read_text() == "MY=own\n"
    assert not (tmp_path / "demo.json").exists()


def _end(store: ProfileStore) -> Path:
    return store.retire("demo", at="x", by="x")


@pytest.mark.parametrize("retire", [False, True])
def test_somebodys_serving_arguments_are_neither_replaced_nor_removed(
    tmp_path: Path, retire: bool
) -> None:
    store = ProfileStore(tmp_path)
    store.publish("demo", published("1"), b"1")
    (tmp_path / "demo.serve.yaml").write_text("port: 1\n")
    with pytest.raises(ProfileError, match="imagegate did not write it"):
        _end(store) if retire else store.publish("demo", published("2"), b"2")
    assert (tmp_path / "demo.serve.yaml").read_text() == "port: 1\n"
    assert (tmp_path / "demo.env").read_text() == "NUMBER=1\n"


def test_a_linked_folder_of_profiles_and_a_linked_profile_keep_their_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "profiles").symlink_to("real")
    store = ProfileStore(tmp_path / "profiles")
    store.publish("demo", published("1"), b"1")
    (tmp_path / "real" / "demo.env").rename(tmp_path / "elsewhere.env")
    (tmp_path / "real" / "demo.env").symlink_to(tmp_path / "elsewhere.env")
    store.publish("demo", published("2"), b"2")
    assert (tmp_path / "profiles").is_symlink()
    assert (tmp_path / "real" / "demo.env").is_symlink()
    assert (tmp_path / "elsewhere.env").read_text() == "NUMBER=2\n"


def test_a_renamed_recipe_loses_nothing_of_somebodys_in_its_lock(tmp_path: Path) -> None:
    built = built_workspace(tmp_path)
    locks = built.root / "locks" / "served"
    (locks / "notes.txt").write_text("a week's work")
    with pytest.raises(UsageError, match=r"imagegate did not write `notes\.txt`"):
        rename_recipe(built.workspace, "served", "other")
    assert (locks / "notes.txt").read_text() == "a week's work"
    assert (built.root / "images" / "served").is_dir()
    assert not (built.root / "locks" / "other").exists()


def test_a_killed_download_is_swept_from_the_cache(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as living:
        left = tmp_path / f"{living.name[:-4]}left"
        left.mkdir()
        os.utime(left, (0, 0))
        with scratch_folder(tmp_path) as other:
            assert other.parent == tmp_path
            assert living.is_dir()
            assert not left.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_linked_lock_is_not_renamed_and_a_linked_base_lock_not_pruned(tmp_path: Path) -> None:
    built = built_workspace(tmp_path)
    locks = built.root / "locks"
    (locks / "served").rename(tmp_path / "kept")
    (locks / "served").symlink_to(tmp_path / "kept")
    with pytest.raises(UsageError, match="is a link to"):
        rename_recipe(built.workspace, "served", "other")
    assert (built.root / "images" / "served").is_dir()

    (locks / "served").unlink()
    (base,) = (locks / "bases").iterdir()
    base.rename(tmp_path / "base-kept")
    base.symlink_to(tmp_path / "base-kept")
    assert prune_bases(built.workspace, dry_run=False) == ()
    assert (base / "base.json").is_file()


def test_a_folder_that_cannot_be_written_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    """A file stands where the folder above should be: true for every user, root too."""
    (tmp_path / "there").write_text("x")
    with pytest.raises(OSError, match="there"):
        write_file(tmp_path / "there" / "x", b"new")
    with pytest.raises(OSError, match="missing"):
        write_file(tmp_path / "missing" / "x", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
