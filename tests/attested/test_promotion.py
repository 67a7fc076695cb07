"""A promotion signs before it publishes; killed at any step, it leaves the old profile or the new."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from imagegate.cli import run
from imagegate.signing.keys import generate, read_signer, write_pair
from imagegate.signing.layout import LayoutStore
from imagegate.usecases.attest import sign_verdict
from imagegate.usecases.ports import Silent
from imagegate.workspace import Workspace
from tests.registry import LoopbackRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.attested.cases import Judged
    from tests.workspaces import Built

# forks once a line of input: the child counts its own changes of files and what it sends to
# registries, and stops itself before one of them
_WALKER = """
import os, signal, sys
import imagegate.cli.promote, imagegate.usecases.promote, imagegate.report.text
import imagegate.signing.registry, cryptography.hazmat.primitives.serialization
from imagegate.cli import run
root, arguments = sys.argv[1], sys.argv[2:]
for line in sys.stdin:
    stop_at, seen = int(line), 0
    child = os.fork()
    if child == 0:
        def hook(event, values):
            global seen
            # a request that never got its body is none: its head alone is counted
            sends = event == "http.client.send" and b" HTTP/1.1\\r\\n" in bytes(values[1])
            writes = event == "open" and (values[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            changes = writes or event in ("os.rename", "os.mkdir", "os.remove")
            if sends or (changes and any(str(value).startswith(root) for value in values[:2])):
                seen += 1
                if seen == stop_at:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        os.dup2(2, 1)
        os._exit(run(arguments))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def root(built: Built, tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    shutil.copytree(built.root, folder)
    write_pair(generate("ed25519"), tmp_path / "k.key", tmp_path / "k.pub")
    return folder


def _published(root: Path) -> str | None:
    path = root / "profiles" / "served.env"
    return path.read_text() if path.exists() else None


def _attested(root: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    capsys.readouterr()
    key = str(root.parent / "k.pub")
    assert run(["verify", "served", "-w", str(root), "--attested", key]) == 0
    return "was judged at" in capsys.readouterr().err


def test_a_signed_promotion_is_what_verify_takes(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not _attested(root, capsys)
    key = str(root.parent / "k.key")
    assert run(["promote", "served", "-w", str(root), "--sign", key]) == 0
    assert _attested(root, capsys)
    assert "VERDICT=sha256:" in (_published(root) or "")


def _without_layers(root: Path) -> None:
    """Take the added layers away: whoever publishes now has not read them."""
    layout = root / "build/served"
    (entry, *_) = json.loads((layout / "index.json").read_text())["manifests"]
    blobs = layout / "blobs/sha256"
    manifest = json.loads((blobs / entry["digest"].removeprefix("sha256:")).read_text())
    for layer in manifest["layers"]:
        (blobs / layer["digest"].removeprefix("sha256:")).unlink(missing_ok=True)


def test_promote_takes_a_stored_verdict_without_reading_a_layer_and_publishes_the_same(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, public = str(root.parent / "k.key"), str(root.parent / "k.pub")
    assert run(["promote", "served", "-w", str(root), "--sign", key]) == 0
    judged = _published(root)
    shutil.rmtree(root / "profiles")
    _without_layers(root)
    assert run(["promote", "served", "-w", str(root)]) == 3
    capsys.readouterr()

    assert run(["promote", "served", "-w", str(root), "--attested", public]) == 0

    assert _published(root) == judged
    assert "was judged at" in capsys.readouterr().err
    assert run(["profile", "check", "served", "-w", str(root)]) == 0


@pytest.mark.parametrize("wrong", ["key", "age", "recipe", "nothing signed"])
def test_promote_judges_again_where_anything_about_the_stored_verdict_is_wrong(
    root: Path, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    public, options = root.parent / "k.pub", ["--max-age", "1"]
    if wrong != "nothing signed":
        key = str(root.parent / "k.key")
        assert run(["promote", "served", "-w", str(root), "--sign", key]) == 0
    if wrong == "key":
        public = root.parent / "other.pub"
        write_pair(generate("ed25519"), root.parent / "other.key", public)
    elif wrong == "age":
        options = ["--max-age", "0"]
    elif wrong == "recipe":
        toml = root / "images/served/image.toml"
        toml.write_text(toml.read_text().replace('MAX_JOBS = "16"', 'MAX_JOBS = "8"'))
    capsys.readouterr()
    arguments = ["promote", "served", "-w", str(root), "--attested", str(public), *options]
    assert run(arguments) == 0
    assert "was judged at" not in capsys.readouterr().err

    _without_layers(root)
    assert run(arguments) == 3


def test_promote_signs_a_stored_verdict_again_and_it_does_not_become_younger(
    judged: Judged, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = root.parent
    other = generate("ed25519")
    write_pair(other, folder / "other.key", folder / "other.pub")
    sign_verdict(
        Workspace(root),
        judged.judgement(datetime.now(UTC) - timedelta(hours=3)),
        store=LayoutStore(root / "build/served"),
        signer=read_signer(folder / "k.key"),
        reporter=Silent(),
    )
    trusted = ["--attested", str(folder / "k.pub"), "--sign", str(folder / "other.key")]
    assert run(["promote", "served", "-w", str(root), *trusted]) == 0

    for hours, counts in (("4", True), ("2", False)):
        capsys.readouterr()
        arguments = ["--attested", str(folder / "other.pub"), "--max-age", hours]
        assert run(["verify", "served", "-w", str(root), *arguments]) == 0
        assert ("was judged at" in capsys.readouterr().err) == counts


def test_a_failing_image_is_neither_signed_nor_published(root: Path) -> None:
    (root / "images/served/recipes/glm53/serve.yaml").write_text("changed after locking\n")
    before = (root / "build/served/index.json").read_bytes()
    key = str(root.parent / "k.key")
    assert run(["promote", "served", "-w", str(root), "--sign", key]) == 1
    assert (root / "build/served/index.json").read_bytes() == before
    assert _published(root) is None


def test_a_readable_key_stops_a_promotion_before_anything_is_written(root: Path) -> None:
    key = root.parent / "k.key"
    key.chmod(0o644)
    assert run(["promote", "served", "-w", str(root), "--sign", str(key)]) == 3
    assert _published(root) is None


@contextmanager
def _walking(root: Path, arguments: list[str]) -> Iterator[Callable[[int], bool]]:
    """Give a function that runs the command and kills it at a step; ``False``: it had fewer."""
    with subprocess.Popen(
        [sys.executable, "-c", _WALKER, str(root), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as walker:

        def stopped_at(step: int) -> bool:
            assert walker.stdin is not None
            assert walker.stdout is not None
            print(step, file=walker.stdin, flush=True)
            code = int(walker.stdout.readline())
            assert code in (0, -signal.SIGKILL)
            return code != 0

        yield stopped_at


def test_killed_at_every_step_the_profile_is_the_old_or_the_new_and_its_signature_is_there(
    root: Path, capsys: pytest.CaptureFixture[str], judged: Judged
) -> None:
    fresh = root.parent / "fresh"
    shutil.copytree(root, fresh)
    arguments = ["promote", "served", "-w", str(root), "--sign", str(root.parent / "k.key")]
    killed = published = 0
    with _walking(root, arguments) as stopped_at:
        for step in range(1, 1000):
            shutil.rmtree(root)
            shutil.copytree(fresh, root)
            if not stopped_at(step):
                break
            killed += 1
            text = _published(root)
            if text is not None:
                published += 1
                assert f"IMAGE_DIGEST={judged.subject.digest}\n" in text
                assert text.endswith("MAX_JOBS=16\n")
                assert _attested(root, capsys)  # never a profile without its signature
            # the layout is whole, whatever happened
            assert LayoutStore(root / "build/served").find_manifest(judged.subject.digest)
            if step % 25 == 0:
                assert run(arguments) == 0
                assert _attested(root, capsys)
                assert _published(root) is not None
    assert killed > 30
    assert _published(root) is not None
    assert published < killed


def _require_whole(registry: LoopbackRegistry) -> None:
    """Whatever a tag leads to is there with everything that it names."""
    for repository, tags in registry.tags.items():
        for name in tags.values():
            document = json.loads(registry.manifests[repository][name][0])
            for entry in document.get("manifests", []):
                assert entry["digest"] in registry.manifests[repository]
            for entry in [*document.get("layers", []), *filter(None, [document.get("config")])]:
                assert entry["digest"] in registry.blobs[repository]


@pytest.mark.engines  # more than a hundred promotions take a minute
def test_killed_at_every_step_of_a_push_the_registry_is_whole_and_a_second_run_completes(
    root: Path, capsys: pytest.CaptureFixture[str], judged: Judged
) -> None:
    fresh = root.parent / "fresh"
    shutil.copytree(root, fresh)
    registry = LoopbackRegistry(referrers_api=False)
    public = str(root.parent / "k.pub")
    killed = named = 0
    tags: set[str] = set()
    with registry.running():
        image = f"{registry.netloc}/team/served@{judged.subject.digest}"
        base = f"oci:{root / 'base'}"
        to = ["--to", f"{registry.netloc}/team/served:live", "--base", base]
        key = ["--sign", str(root.parent / "k.key")]
        arguments = ["promote", "served", "-w", str(root), *to, *key]
        asked = ["verify", "served", "-w", str(root), "--image", image, "--attested", public]
        with _walking(root, arguments) as stopped_at:
            for step in range(1, 2000):
                for held in (registry.blobs, registry.manifests, registry.tags):
                    held.clear()
                shutil.rmtree(root)
                shutil.copytree(fresh, root)
                if not stopped_at(step):
                    break
                killed += 1
                _require_whole(registry)
                tags |= set(registry.tags.get("team/served", {}))
                if _published(root) is not None:
                    named += 1
                    assert f"IMAGE={image}\n" in (_published(root) or "")
                    capsys.readouterr()
                    assert run(asked) == 0
                    assert "was judged at" in capsys.readouterr().err
                if step % 40 == 0:
                    assert run(arguments) == 0
                    assert _published(root) is not None
                    capsys.readouterr()
                    assert run(asked) == 0
                    assert "was judged at" in capsys.readouterr().err
    assert killed > 100
    assert named < killed
    hexadecimal = judged.subject.digest.encoded
    # it was killed after each of them: image, both classic tags, the fallback index
    assert tags == {"live", *(f"sha256-{hexadecimal}{suffix}" for suffix in ("", ".sig", ".att"))}


def test_what_is_signed_names_the_moment_of_the_promotion(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    key = str(root.parent / "k.key")
    assert run(["promote", "served", "-w", str(root), "--sign", key]) == 0
    capsys.readouterr()
    run(["verify", "served", "-w", str(root), "--attested", str(root.parent / "k.pub")])
    said = capsys.readouterr().err.split("judged at ")[1][:20]
    assert before <= datetime.fromisoformat(said) <= datetime.now(UTC)
