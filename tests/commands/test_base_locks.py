"""Base locks: learned once, kept once, published and taken, and never believed without proof."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from imagegate.attestation.baselock import ARTIFACT, artifact_manifest, artifact_statement
from imagegate.attestation.statement import Subject
from imagegate.cli import run
from imagegate.lock.base import decode_files
from imagegate.lock.blocks import encode_index
from imagegate.lock.sealed import seal
from imagegate.oci.digest import Digest
from imagegate.oci.documents import OCI_MANIFEST
from imagegate.signing.forms import classic_tag
from imagegate.signing.keys import read_signer
from imagegate.signing.publish import publish
from imagegate.signing.registry import RegistryStore
from imagegate.sources import Connection
from imagegate.workspace import Workspace
from tests.daemon_source.daemon import Daemon
from tests.images import digest, write_layout
from tests.registry import LoopbackRegistry
from tests.world import World, base_image

Captured = pytest.CaptureFixture[str]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def add_model(world: World, name: str = "gamma") -> None:
    folder = world.root / "images/demo/recipes" / name
    folder.mkdir()
    (folder / "template.jinja").write_text("{{ gamma }}")
    toml = world.root / "images/demo/image.toml"
    toml.write_text(toml.read_text().replace('"beta"]', f'"beta", "{name}"]'))


def no_base_anywhere(world: World) -> None:
    shutil.rmtree(world.base_layout)


# --- the layer's part needs no base


def test_a_ninth_model_is_locked_built_and_verified_without_the_base(
    world: World, capsys: Captured
) -> None:
    no_base_anywhere(world)
    before = contents(world.base_lock)
    add_model(world)
    capsys.readouterr()

    assert world.run("lock", "demo") == 0

    said = capsys.readouterr().out
    assert 'assets.models: ["alpha", "beta"] -> ["alpha", "beta", "gamma"]' in said
    assert "recipes/gamma/template.jinja: new" in said
    assert "base" not in said.replace("gamma", "")
    assert contents(world.base_lock) == before
    assert world.run("build", "demo") == 0
    assert world.run("verify", "demo") == 0


def test_a_requirement_is_added_without_the_base(world: World, capsys: Captured) -> None:
    no_base_anywhere(world)
    (world.root / "images/demo/requirements.in").write_text("rayish\nhelperish>=1\n")
    capsys.readouterr()

    assert world.run("lock", "demo") == 0

    assert "helperish: new helperish>=1" in capsys.readouterr().out
    assert world.run("build", "demo") == 0


def test_a_registry_is_asked_for_no_base_layer_once_the_base_is_locked(
    homed: World, registry: LoopbackRegistry
) -> None:
    add_model(homed)
    registry.served.clear()

    assert homed.run("lock", "demo") == 0

    assert not registry.served


def test_a_base_lock_of_an_earlier_revision_is_read_again_and_that_is_said(
    world: World, capsys: Captured
) -> None:
    expected = contents(world.base_lock)
    document = json.loads((world.base_lock / "base.json").read_text())
    del document["digest"]
    document["revision"] -= 1
    (world.base_lock / "base.json").write_bytes(seal(document))
    capsys.readouterr()
    assert world.run("verify", "demo") == 3
    assert "holds other facts than are compared" in capsys.readouterr().err
    assert world.run("lock", "demo", "--check") == 1

    assert world.run("lock", "demo", "--base", f"oci:{world.base_layout}") == 0

    said = capsys.readouterr().err
    assert "the base has to be read again" in said
    assert f"reading the base {world.base.digest}: 2." in said
    assert contents(world.base_lock) == expected
    assert world.run("verify", "demo") == 0


def test_a_base_lock_of_a_later_revision_is_refused_and_left_alone(
    world: World, capsys: Captured
) -> None:
    document = json.loads((world.base_lock / "base.json").read_text())
    del document["digest"]
    document["revision"] += 1
    (world.base_lock / "base.json").write_bytes(seal(document))
    newer = contents(world.base_lock)
    capsys.readouterr()

    assert world.run("lock", "demo", "--base", f"oci:{world.base_layout}") == 3

    assert "was written by a newer imagegate" in capsys.readouterr().err
    assert contents(world.base_lock) == newer


def test_ten_recipes_over_one_base_have_one_base_lock_that_is_decoded_once(
    world: World,
) -> None:
    names = [f"r{number}" for number in range(10)]
    for name in names:
        shutil.copytree(world.root / "images/demo", world.root / "images" / name)
    no_base_anywhere(world)

    assert world.run("lock", *names) == 0

    assert len(list((world.root / "locks/bases").iterdir())) == 1
    workspace = Workspace(world.root)
    locks = [workspace.lock(name) for name in names]
    assert len({id(lock.based_on) for lock in locks}) == 1


# --- what changed, for people and programs


def test_check_changes_nothing_and_says_which_key_is_stale(world: World, capsys: Captured) -> None:
    assert world.run("lock", "--all", "--check") == 0
    add_model(world)
    before = contents(world.root / "locks")
    capsys.readouterr()

    assert world.run("lock", "demo", "--check", "--format", "json") == 1

    (report,) = json.loads(capsys.readouterr().out)["locks"]
    assert report["result"] == "stale"
    changed = {(d["group"], d["subject"]) for d in report["differences"]}
    assert ("recipe", "assets.models") in changed
    assert ("assets", "recipes/gamma/template.jinja") in changed
    assert contents(world.root / "locks") == before


def test_a_pull_requests_comment_names_the_key(world: World, capsys: Captured) -> None:
    toml = world.root / "images/demo/image.toml"
    toml.write_text(toml.read_text().replace('glibc = "2.39"', 'glibc = "2.38"'))
    capsys.readouterr()

    assert world.run("lock", "demo", "--format", "markdown") == 0

    said = capsys.readouterr().out
    assert "python.glibc" in said
    assert said.count("|") >= 15


def test_one_recipe_that_cannot_be_locked_hides_no_other(world: World, capsys: Captured) -> None:
    shutil.copytree(world.root / "images/demo", world.root / "images/broken")
    (world.root / "images/broken/image.toml").write_text("not toml")
    add_model(world)
    capsys.readouterr()

    assert world.run("lock", "--all") == 2

    said = capsys.readouterr().out
    assert "failed broken" in said
    assert "locked demo" in said


def test_diff_takes_lock_folders_wherever_they_lie(
    world: World, tmp_path: Path, capsys: Captured
) -> None:
    shutil.copytree(world.root / "locks", tmp_path / "elsewhere")
    (world.root / "images/demo/requirements.in").write_text("helperish\n")
    assert world.run("lock", "demo") == 0
    capsys.readouterr()

    old = tmp_path / "elsewhere/demo"
    assert run(["diff", str(old), str(world.lock)]) == 1

    assert "rayish" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "elsewhere/bases")
    assert run(["diff", str(old), str(old)]) == 3
    assert "whose lock is not there" in capsys.readouterr().err


# --- which name, which digest


def test_a_layout_with_another_base_gives_an_old_name_no_new_digest(
    homed: World, tmp_path: Path, capsys: Captured
) -> None:
    newer = base_image(compression="zstd")
    layout = write_layout(tmp_path / "newer", newer)
    toml = homed.root / "images/demo/image.toml"
    before = toml.read_text()
    capsys.readouterr()

    assert homed.run("lock", "demo", "--base", f"oci:{layout}") == 3

    said = capsys.readouterr().err
    assert homed.base.digest in said
    assert newer.digest in said
    assert "--name" in said
    assert toml.read_text() == before
    named = ("--name", "registry.example/team/new:1")
    assert homed.run("lock", "demo", "--base", f"oci:{layout}", *named) == 0
    assert f'"registry.example/team/new:1@{newer.digest}"' in toml.read_text()


def test_a_mirror_is_written_into_the_recipe_also_where_the_digest_is_the_same(
    homed: World, registry: LoopbackRegistry
) -> None:
    registry.add("mirror/base", homed.base, "1")
    to = f"{registry.netloc}/mirror/base:1"

    assert homed.run("lock", "demo", "--base", f"docker://{to}") == 0

    assert f'"{to}@{homed.base.digest}"' in (homed.root / "images/demo/image.toml").read_text()


def test_a_tag_alone_is_refused_with_the_command_that_pins_it(
    homed: World, registry: LoopbackRegistry, capsys: Captured
) -> None:
    registry.add("team/tagged", homed.base, "1.0")
    image = f"{registry.netloc}/team/tagged:1.0"
    toml = homed.root / "images/demo/image.toml"
    lines = [
        f'image = "{image}"' if line.strip().startswith("image =") else line
        for line in toml.read_text().splitlines()
    ]
    toml.write_text("\n".join(lines) + "\n")
    capsys.readouterr()

    assert homed.run("lock", "demo") == 2
    assert f"imagegate lock demo --base docker://{image}" in capsys.readouterr().err
    assert homed.run("verify", "demo") == 2
    assert homed.run("lock", "demo", "--base", f"docker://{image}") == 0
    assert f'"{image}@{homed.base.digest}"' in toml.read_text()


def test_an_engine_is_asked_for_its_digests_before_it_saves_anything(
    homed: World, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """RepoDigests name the manifest; `failure` would answer whoever asks for the archive."""
    wrong = digest(b"another")
    daemon = Daemon("team/base:1", digest(homed.base.config), b"", failure="was asked to save")
    daemon.digests = (wrong,)
    with daemon.running():
        monkeypatch.setenv("DOCKER_HOST", daemon.host)
        capsys.readouterr()
        assert homed.run("lock", "demo", "--base", "docker-daemon:team/base:1") == 3
        said = capsys.readouterr().err
        assert f"recipe={homed.base.digest}" in said
        assert wrong in said
        assert "nothing was read" in said

        daemon.digests = (homed.base.digest,)
        assert homed.run("lock", "demo", "--base", "docker-daemon:team/base:1") == 0


# --- one base lock, published and taken


@pytest.fixture
def signed(homed: World, tmp_path: Path, registry: LoopbackRegistry) -> tuple[str, Path]:
    """The lock of the base, published beside it; its reference, and the public key."""
    assert run(["keygen", str(tmp_path / "bases")]) == 0
    private, public = keys(tmp_path, "bases")
    assert homed.run("base", "push", "demo", "--sign", str(private)) == 0
    named = Workspace(homed.root).lock("demo").base
    assert named.image is not None
    assert registry.netloc in named.image
    return named.image, public


def keys(folder: Path, name: str) -> tuple[Path, Path]:
    private = next(p for p in folder.iterdir() if p.name.startswith(name) and p.suffix != ".pub")
    public = next(p for p in folder.iterdir() if p.name.startswith(name) and p.suffix == ".pub")
    return private, public


def test_a_pulled_base_lock_is_the_read_one_byte_for_byte_and_gives_the_same_verdict(
    homed: World, signed: tuple[str, Path], registry: LoopbackRegistry, capsys: Captured
) -> None:
    read = contents(homed.base_lock)
    lock = contents(homed.lock)
    homed.forget_base()
    registry.served.clear()

    assert homed.run("base", "pull", signed[0], "--trust", str(signed[1])) == 0

    taken = contents(homed.base_lock)
    assert "envelope" in json.loads(taken.pop("statement.json"))
    assert taken == read
    assert contents(homed.lock) == lock
    layers = {one["digest"] for one in json.loads(homed.base.manifest)["layers"]}
    assert not layers & set(registry.served)
    capsys.readouterr()
    assert homed.run("verify", "demo", "--details") == 0
    said = capsys.readouterr()
    assert "published" in said.out
    assert "was published by the key sha256:" in said.err


def test_lock_takes_what_a_trusted_key_published_and_reads_otherwise(
    homed: World, signed: tuple[str, Path], tmp_path: Path, capsys: Captured
) -> None:
    homed.forget_base()
    capsys.readouterr()
    assert homed.run("lock", "demo", "--trust", str(signed[1]), "--format", "json") == 0
    (report,) = json.loads(capsys.readouterr().out)["locks"]
    assert report["base"] == "published"

    homed.forget_base()
    assert run(["keygen", str(tmp_path / "other")]) == 0
    _, stranger = keys(tmp_path, "other")
    capsys.readouterr()
    assert homed.run("lock", "demo", "--trust", str(stranger), "--format", "json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["locks"][0]["base"] == "read"
    assert "not signed by a trusted key" in said.err
    assert not (homed.base_lock / "statement.json").exists()


def test_the_workspaces_file_names_whose_base_locks_count(
    homed: World, signed: tuple[str, Path], capsys: Captured
) -> None:
    (homed.root / "keys").mkdir()
    shutil.copy(signed[1], homed.root / "keys/bases.pub")
    (homed.root / "locks/trust.toml").write_text('[[trusted]]\nkey = "keys/bases.pub"\n')
    homed.forget_base()
    capsys.readouterr()

    assert homed.run("lock", "demo", "--format", "json") == 0

    assert json.loads(capsys.readouterr().out)["locks"][0]["base"] == "published"
    # a file that trusts nobody is no permission for everybody
    (homed.root / "locks/trust.toml").write_text("trusted = []\n")
    assert homed.run("verify", "demo") == 2
    assert "`locks/trust.toml`: `trusted`" in capsys.readouterr().err
    # a key that is no longer trusted takes with it what it signed
    assert run(["keygen", str(homed.root / "keys/new")]) == 0
    _, new = keys(homed.root / "keys", "new")
    (homed.root / "locks/trust.toml").write_text(f'[[trusted]]\nkey = "keys/{new.name}"\n')
    assert homed.run("verify", "demo") == 3
    assert "does not name" in capsys.readouterr().err


def test_a_taken_base_lock_that_was_changed_is_refused_at_every_use(
    homed: World, signed: tuple[str, Path], capsys: Captured
) -> None:
    """Changed as a careful forger would: every digest in the workspace fits."""
    homed.forget_base()
    assert homed.run("base", "pull", signed[0], "--trust", str(signed[1])) == 0
    document = json.loads((homed.base_lock / "base.json").read_text())
    del document["digest"]
    document["compressed"] += 1
    (homed.base_lock / "base.json").write_bytes(seal(document))
    lock = json.loads((homed.lock / "lock.json").read_text())
    del lock["digest"]
    lock["base"]["lock"] = json.loads((homed.base_lock / "base.json").read_text())["digest"]
    (homed.lock / "lock.json").write_bytes(seal(lock))
    capsys.readouterr()

    base = signed[0]
    for words, code in (
        (("verify", "demo"), 3),
        (("promote", "demo"), 3),
        (("verify", "demo", "--static"), 3),
        (("build", "demo"), 3),
        (("lock", "demo"), 3),
        (("lock", "demo", "--check"), 1),
        (("lock", "demo", "--verify-base", "--base", base), 3),
        (("diff", "demo", base), 3),
        (("diff", str(homed.lock), base), 3),
        (("diff", str(homed.base_lock), base), 3),
        (("base", "push", "demo", "--to", signed[0].partition("@")[0], "--key", "x"), 2),
    ):
        assert homed.run(*words) == code, words
        told = capsys.readouterr()
        if code != 2:
            assert "is not the base lock that was signed" in told.out + told.err, words
    # what only spares reading does without it, and reading again mends it
    assert homed.run("inspect", base) == 0
    assert homed.run("base", "read", base) == 0
    assert "the base is read again" in capsys.readouterr().err
    assert not (homed.base_lock / "statement.json").exists()


def test_refused_without_a_key_by_tag_for_an_index_and_for_another_platform(
    homed: World, signed: tuple[str, Path], capsys: Captured
) -> None:
    before = contents(homed.root / "locks")
    reference, key = signed
    trust = ("--trust", str(key))
    assert homed.run("base", "pull", reference) == 2
    assert "no key is trusted" in capsys.readouterr().err
    assert homed.run("base", "pull", reference.partition("@")[0] + ":1", *trust) == 2
    assert "names no digest" in capsys.readouterr().err
    assert homed.run("base", "pull", reference, *trust, "--platform", "linux/amd64") == 3
    assert "expected=linux/amd64 found=linux/arm64" in capsys.readouterr().err
    other = reference.partition("@")[0] + "@" + digest(b"another base")
    assert homed.run("base", "pull", other, *trust) == 3
    assert "there is none" in capsys.readouterr().err
    assert contents(homed.root / "locks") == before


def artifact_of(store: RegistryStore, base: str) -> tuple[Digest, bytes]:
    (listed,) = store.referrers(Digest.parse(base), ARTIFACT)
    manifest = store.find_manifest(listed.digest)
    assert manifest is not None
    return listed.digest, manifest


def refused(world: World, signed: tuple[str, Path], capsys: Captured, base: str = "") -> str:
    """Pull, which is refused and writes nothing; returns why."""
    shutil.rmtree(world.base_lock, ignore_errors=True)
    before = contents(world.root / "locks")
    reference = f"{signed[0].partition('@')[0]}@{base}" if base else signed[0]
    capsys.readouterr()
    assert world.run("base", "pull", reference, "--trust", str(signed[1])) == 3
    assert contents(world.root / "locks") == before
    return capsys.readouterr().err


def test_a_signed_artifact_that_is_hung_below_another_base_is_refused(
    homed: World, signed: tuple[str, Path], registry: LoopbackRegistry, capsys: Captured
) -> None:
    """The signed files under another subject, once bare and once with the signed statement."""
    store = RegistryStore(Connection().client(registry.netloc), "team/base")
    artifact, manifest = artifact_of(store, homed.base.digest)
    other = base_image(compression="zstd")
    registry.add("team/base", other)
    document = json.loads(manifest)
    document["subject"] |= {"digest": other.digest, "size": len(other.manifest)}
    forged = store.push_referrer(json.dumps(document).encode(), OCI_MANIFEST)
    assert "nobody signed it" in refused(homed, signed, capsys, other.digest)

    statements = store.find_manifest(classic_tag(artifact, "att"))
    assert statements is not None
    store.tag(classic_tag(forged.digest, "att"), statements, OCI_MANIFEST)
    assert "it is about another artifact" in refused(homed, signed, capsys, other.digest)


def test_a_changed_blob_is_refused(
    homed: World, signed: tuple[str, Path], registry: LoopbackRegistry, capsys: Captured
) -> None:
    store = RegistryStore(Connection().client(registry.netloc), "team/base")
    _, manifest = artifact_of(store, homed.base.digest)
    layer = next(
        one for one in json.loads(manifest)["layers"]
        if one["annotations"]["org.opencontainers.image.title"] == "freeze.txt"
    )  # fmt: skip
    registry.blobs["team/base"][layer["digest"]] = b"x" * layer["size"]
    assert layer["digest"] in refused(homed, signed, capsys)


@pytest.mark.parametrize(("step", "said"), [(-1, "holds other facts"), (1, "newer imagegate")])
def test_another_revision_is_refused_although_it_is_signed(
    homed: World,
    tmp_path: Path,
    registry: LoopbackRegistry,
    capsys: Captured,
    step: int,
    said: str,
) -> None:
    assert run(["keygen", str(tmp_path / "bases")]) == 0
    private, public = keys(tmp_path, "bases")
    lock = Workspace(homed.root).base_lock(Digest.parse(homed.base.digest))
    document = json.loads((homed.base_lock / "base.json").read_text())
    del document["digest"]
    document["revision"] += step
    (homed.base_lock / "base.json").write_bytes(sealed := seal(document))
    files = {path.name: path.read_bytes() for path in homed.base_lock.iterdir()}
    forged = replace(
        lock,
        document=lock.document.model_copy(
            update={
                "revision": document["revision"],
                "digest": Digest.parse(json.loads(sealed)["digest"]),
            }
        ),
    )
    manifest = artifact_manifest(forged, files, OCI_MANIFEST)
    store = RegistryStore(Connection().client(registry.netloc), "team/base")
    for content in (*files.values(), b"{}"):
        store.put_blob(content)
    pushed = store.push_referrer(manifest, OCI_MANIFEST)
    name = f"{registry.netloc}/team/base"
    publish(
        store,
        Subject(repository=name, digest=pushed.digest),
        [artifact_statement(forged, name, manifest)],
        read_signer(private),
        created="2026-11-29T00:00:00Z",
    )
    assert said in refused(homed, (f"{name}@{homed.base.digest}", public), capsys)


# --- does a base lock say what the bytes say


def test_verify_base_reads_compares_and_writes_nothing(world: World, capsys: Captured) -> None:
    before = contents(world.root)
    assert world.run("lock", "demo", "--verify-base", "--base", f"oci:{world.base_layout}") == 0
    document = json.loads((world.base_lock / "base.json").read_text())
    del document["digest"]
    pin = next(one for one in document["facts"]["distributions"] if one["name"] == "torch")
    pin["version"] = "2.14.0"
    (world.base_lock / "base.json").write_bytes(seal(document))
    lock = json.loads((world.lock / "lock.json").read_text())
    del lock["digest"]
    lock["base"]["lock"] = json.loads((world.base_lock / "base.json").read_text())["digest"]
    (world.lock / "lock.json").write_bytes(seal(lock))
    forged = contents(world.root)
    capsys.readouterr()

    assert world.run("lock", "demo", "--verify-base", "--base", f"oci:{world.base_layout}") == 1

    said = capsys.readouterr().out
    assert "torch" in said
    assert "2.14.0" in said
    assert "does not say what the base's bytes say" in said
    assert contents(world.root) == forged
    assert before.keys() == forged.keys()


def test_a_hash_changed_in_the_paths_and_resealed_is_found_by_its_path(
    world: World, capsys: Captured
) -> None:
    """Seen: one sha256 in ``files.zst``, every digest above it made anew (hostile input, 3)."""
    base = next(iter(Workspace(world.root).base_digests()))
    nodes = list(Workspace(world.root).base_lock(base).files)
    chosen = next(node for node in nodes if node.sha256)
    other = replace(chosen, sha256="0" * 64)
    index = encode_index(other if node is chosen else node for node in nodes)
    (world.base_lock / "files.zst").write_bytes(index)
    document = json.loads((world.base_lock / "base.json").read_text())
    del document["digest"]
    document["files"]["files.zst"] = str(decode_files(index).digest)
    (world.base_lock / "base.json").write_bytes(seal(document))
    lock = json.loads((world.lock / "lock.json").read_text())
    del lock["digest"]
    lock["base"]["lock"] = json.loads((world.base_lock / "base.json").read_text())["digest"]
    (world.lock / "lock.json").write_bytes(seal(lock))
    forged = contents(world.root)
    capsys.readouterr()

    assert world.run("lock", "demo", "--verify-base", "--base", f"oci:{world.base_layout}") == 1

    said = capsys.readouterr().out
    assert chosen.path in said
    assert "0" * 64 in said
    assert str(chosen.sha256) in said
    assert "files.zst" in said
    assert contents(world.root) == forged


# --- list, read, prune, mv, init


def test_list_read_and_prune(world: World, tmp_path: Path, capsys: Captured) -> None:
    other = base_image(compression="zstd")
    layout = write_layout(tmp_path / "other", other)
    assert world.run("base", "read", f"oci:{layout}") == 0
    assert world.run("base", "read", f"oci:{layout}") == 0
    assert "unchanged" in capsys.readouterr().out
    assert world.run("base", "list", "--format", "json") == 0
    listed = {one["digest"]: one for one in json.loads(capsys.readouterr().out)["bases"]}
    assert listed[world.base.digest]["used_by"] == ["demo"]
    assert listed[world.base.digest]["platform"] == "linux/arm64"
    assert listed[other.digest]["used_by"] == []
    mine = world.root / "locks/bases" / other.digest.replace(":", "-") / "notes.txt"
    mine.write_text("mine")
    assert world.run("base", "prune") == 0
    assert mine.exists(), "a folder that holds a person's file is left alone"
    mine.unlink()
    assert world.run("base", "prune") == 0
    assert f"removed {other.digest}" in capsys.readouterr().out
    assert [p.name for p in (world.root / "locks/bases").iterdir()] == [world.base_lock.name]


def test_mv_renames_a_recipe_without_the_base(world: World, capsys: Captured) -> None:
    no_base_anywhere(world)

    assert world.run("mv", "demo", "renamed") == 0

    assert not world.lock.exists()
    assert world.run("lock", "renamed", "--check") == 0
    assert world.run("build", "renamed") == 0
    assert world.run("mv", "renamed", "bases") == 2
    assert "not a name" in capsys.readouterr().err


def test_init_adds_a_recipe_to_a_workspace(world: World) -> None:
    before = contents(world.root)
    assert run(["init", str(world.root), "--name", "second"]) == 0
    after = contents(world.root)
    assert {name: after[name] for name in before} == before
    assert Workspace(world.root).recipe("second").name == "second"


# --- killed at any moment, and two at once


def test_killed_at_any_moment_the_old_lock_is_whole(world: World) -> None:
    add_model(world)
    names = [name for name in contents(world.root / "locks") if name != "trust.toml"]
    old = {name: contents(world.root / "locks")[name] for name in names}
    command = [sys.executable, "-m", "imagegate", "lock", "demo", "-w", str(world.root)]
    seen = set()
    for step in range(12):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(0.15 * step)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        workspace = Workspace(world.root)
        lock = workspace.lock("demo")
        list(lock.files)
        list(lock.layer)
        now = {n: c for n, c in contents(world.root / "locks").items() if ".new" not in n}
        seen.add(now == old)
    assert True in seen


def test_two_at_once_leave_one_good_base_lock(world: World) -> None:
    expected = contents(world.base_lock)
    world.forget_base()
    command = [sys.executable, "-m", "imagegate", "base", "read", f"oci:{world.base_layout}"]
    several = [
        subprocess.Popen(
            [*command, "--again", "-w", str(world.root)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(3)
    ]
    assert [process.wait() for process in several] == [0, 0, 0]
    assert contents(world.base_lock) == expected
    assert len(list((world.root / "locks/bases").iterdir())) == 1


def test_killed_at_any_moment_a_pull_leaves_whole_files(
    homed: World, signed: tuple[str, Path]
) -> None:
    expected = contents(homed.base_lock)
    command = [sys.executable, "-m", "imagegate", "base", "pull", signed[0]]
    command += ["--trust", str(signed[1]), "-w", str(homed.root)]
    for step in range(8):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(0.2 * step)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        now = contents(homed.base_lock)
        assert {name: now[name] for name in expected} == expected
        list(Workspace(homed.root).lock("demo").files)
