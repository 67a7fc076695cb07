"""``imagegate build``: the same digest everywhere, without the base's bytes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from imagegate.oci.gzipwrite import KNOWN_ANSWER, known_answer
from tests.images import digest
from tests.world import SITE, World


def manifest_digest(world: World) -> str:
    index = json.loads((world.layout / "index.json").read_text())
    return str(index["manifests"][0]["digest"])


@pytest.mark.parametrize(("threads", "seed"), [("1", "0"), ("2", "1"), ("7", "4242")])
def test_the_digest_depends_on_neither_cache_nor_hash_seed_nor_threads(
    threads: str, seed: str, world: World, tmp_path: Path
) -> None:
    before = manifest_digest(world)
    shutil.rmtree(world.layout)
    environment = {**os.environ, "PYTHONHASHSEED": seed, "IMAGEGATE_CACHE": str(tmp_path / "fresh")}
    command = [sys.executable, "-m", "imagegate", "build", "demo", "--threads", threads]

    subprocess.run(
        [*command, "-w", str(world.root)], check=True, env=environment, capture_output=True
    )

    assert manifest_digest(world) == before


def test_a_build_neither_needs_nor_holds_the_bases_bytes(world: World) -> None:
    shutil.rmtree(world.base_layout)
    shutil.rmtree(world.layout)

    assert world.run("build", "demo") == 0

    blobs = {path.name for path in (world.layout / "blobs/sha256").iterdir()}
    assert blobs.isdisjoint(digest(layer)[7:] for layer in world.base.layers)
    layers = json.loads(world.image().manifest)["layers"]
    assert [layer["digest"] for layer in layers[:2]] == [digest(blob) for blob in world.base.layers]


def test_full_brings_the_bases_layers_along(world: World) -> None:
    assert world.run("build", "demo", "--full", f"oci:{world.base_layout}") == 0

    for layer in world.base.layers:
        assert (world.layout / "blobs/sha256" / digest(layer)[7:]).read_bytes() == layer


def test_full_from_another_base_is_refused_and_keeps_the_build(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = manifest_digest(world)
    from tests.images import ImageBuilder, write_layout

    other = write_layout(tmp_path / "other", ImageBuilder().layer({"a": "b"}).build())

    assert world.run("build", "demo", "--full", f"oci:{other}") == 3

    assert "has no layer" in capsys.readouterr().err
    assert manifest_digest(world) == before


def test_a_wheel_that_changed_in_the_cache_is_fetched_again(world: World) -> None:
    before = manifest_digest(world)
    for path in (world.root.parent / "cache" / "wheels").glob("*/*.whl"):
        path.write_bytes(path.read_bytes()[:-1] + b"x")

    assert world.run("build", "demo") == 0
    assert manifest_digest(world) == before


def test_a_wheel_that_nobody_has_any_more_is_an_error(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(world.root.parent / "cache")
    (world.root.parent / "wheelhouse" / "helperish-1.2-py3-none-any.whl").unlink()
    before = manifest_digest(world)

    assert world.run("build", "demo") == 3

    assert "pip could not fetch the locked wheels" in capsys.readouterr().err
    assert manifest_digest(world) == before


def test_every_cause_that_pip_names_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """pip calls an index that nobody serves "no matching distribution"; the reason is a warning."""
    shutil.rmtree(world.root.parent / "cache")
    (world.root.parent / "wheelhouse" / "helperish-1.2-py3-none-any.whl").unlink()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        monkeypatch.setenv("PIP_NO_INDEX", "0")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://me:hunter2hunter2@127.0.0.1:{port}/simple")
        monkeypatch.setenv("PIP_RETRIES", "1")

        assert world.run("build", "demo") == 3

    told = capsys.readouterr().err
    assert "Connection refused" in told
    assert f"port={port}" in told or f"127.0.0.1:{port}" in told
    assert "No matching distribution found for helperish==1.2" in told
    assert told.count("Connection refused") == 1
    assert "hunter2hunter2" not in told


def test_a_published_wheel_with_other_bytes_is_refused(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.wheels import write_wheel

    shutil.rmtree(world.root.parent / "cache")
    write_wheel(
        world.root.parent / "wheelhouse", "helperish", "1.2", {"helperish.py": "VALUE = 3\n"}
    )

    assert world.run("build", "demo") == 3

    assert "pip could not fetch the locked wheels" in capsys.readouterr().err


def test_the_compressor_is_recorded_and_its_promise_holds_here(world: World) -> None:
    import zlib

    recorded = json.loads((world.root / "build/demo.build.json").read_text())["compressor"]

    assert recorded == {
        "name": "zlib",
        "version": zlib.ZLIB_RUNTIME_VERSION,
        "level": 6,
        "block_size": 1 << 20,
        "known_answer": True,
    }
    assert known_answer() == KNOWN_ANSWER


def test_added_files_have_fixed_owner_time_and_mode(world: World) -> None:
    import io
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(world.image().tars[2])) as archive:
        members = {member.name: member for member in archive}

    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members.values()} == {
        (0, 0, "", "", 315532800)
    }
    assert members["usr/local/bin/rayish"].mode == 0o755
    assert members[f"{SITE}/rayish/core/native"].mode == 0o755
    assert members[f"{SITE}/rayish/core.py"].mode == 0o644


def test_added_layers_bring_no_entry_twice_and_every_new_folder_first(world: World) -> None:
    import io
    import tarfile

    for content in world.image().tars[2:]:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            names = [member.name for member in archive]
        assert len(names) == len(set(names))
        for position, name in enumerate(names):
            parent = name.rpartition("/")[0]
            assert not parent or parent in names[:position]


def test_the_record_of_an_added_distribution_fits_its_files(world: World) -> None:
    import csv
    import io
    import posixpath
    import tarfile

    from tests.wheels import record_hash

    with tarfile.open(fileobj=io.BytesIO(world.image().tars[2])) as archive:
        record = archive.extractfile(f"{SITE}/rayish-2.60.0.dist-info/RECORD")
        assert record is not None
        rows = list(csv.reader(io.TextIOWrapper(record)))
        assert ["../../../bin/rayish"] in [row[:1] for row in rows]  # PEP 376: relative to the site
        for name, recorded, _ in rows:
            path = posixpath.normpath(f"{SITE}/{name}")
            member = archive.extractfile(path)
            assert member is not None
            if recorded:
                assert recorded == record_hash(member.read())
