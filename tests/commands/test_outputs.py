"""What each command prints, word for word: a change of it is seen in the change that makes it."""

from __future__ import annotations

import re
import shutil

import pytest
from syrupy.assertion import SnapshotAssertion

from imagegate import __version__
from imagegate.report.formats import Format
from tests.commands.faults import heal
from tests.images import ImageBuilder
from tests.registry import FOREVER, LoopbackRegistry
from tests.world import World, pin


def as_anywhere(said: str, world: World, *registries: LoopbackRegistry) -> str:
    """Put names in the place of what differs from run to run: ports, folders, hashes, bytes sent."""
    for number, registry in enumerate(registries):
        said = said.replace(registry.netloc, f"registry-{number}.example")
    said = said.replace(str(world.root.parent), "/folder")
    said = said.replace(f"imagegate {__version__}", "imagegate <version>")
    said = said.replace(f'"semanticVersion": "{__version__}"', '"semanticVersion": "<version>"')
    said = re.sub(r"\b[0-9a-f]{64}\b", "<64 hex digits>", said)
    said = re.sub(r"\b(base|demo)-[0-9a-f]{12}\b", r"\1-<12 hex digits>", said)
    said = re.sub(r"\b[0-9a-f]{12}…", "<12 hex digits>…", said)
    said = re.sub(r"\d+ bytes (sent|received)\b", r"<number> bytes \1", said)
    said = re.sub(r"sent \d+ bytes in (\d+) answers \([^;]*;", r"sent <number> bytes in \1 (", said)
    return re.sub(r"\b\d+(?:\.\d+)? (?:bytes|kB|MB)\b", "<size>", said)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    capsys.readouterr()
    return capsys


def both(said: pytest.CaptureFixture[str]) -> str:
    out, err = said.readouterr()
    return f"--- stdout\n{out}--- stderr\n{err}"


def test_mirror(
    homed: World,
    registry: LoopbackRegistry,
    said: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    with LoopbackRegistry().running() as own:
        assert homed.run("mirror", "demo", "--to", f"{own.netloc}/own/base") == 0

        assert as_anywhere(both(said), homed, registry, own) == snapshot


def test_mirror_of_something_else(
    homed: World,
    registry: LoopbackRegistry,
    said: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    other = registry.add("team/base", ImageBuilder().layer({"other": "x"}).build())
    to = f"{registry.netloc}/own/base"

    assert homed.run("mirror", "demo", "--to", to, "--base", other) == 3

    assert as_anywhere(both(said), homed, registry) == snapshot


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("state", ["holds", "moved", "gone", "unknown"])
def test_drift(
    homed: World,
    registry: LoopbackRegistry,
    said: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
    state: str,
    form: str,
) -> None:
    pin(homed, f"{registry.netloc}/team/base:stable@{homed.base.digest}")
    if state == "moved":
        registry.add("team/base", ImageBuilder().layer({"other": "x"}).build(), "stable")
    elif state == "gone":
        registry.manifests.clear()
        registry.tags.clear()
    elif state == "unknown":
        registry.fail("manifest.get", 403, times=FOREVER)

    code = homed.run("drift", "demo", "--format", form)

    heal(registry)
    assert code == {"holds": 0, "moved": 1, "gone": 1, "unknown": 3}[state]
    assert as_anywhere(both(said), homed, registry) == snapshot


def test_promote_into_a_registry(
    homed: World,
    registry: LoopbackRegistry,
    said: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    assert homed.run("promote", "demo", "--to", f"{registry.netloc}/team/app") == 0

    assert as_anywhere(both(said), homed, registry) == snapshot


def test_verify_out_of_a_registry(
    homed: World,
    registry: LoopbackRegistry,
    said: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    reference = registry.add("team/app", homed.image())
    shutil.rmtree(homed.layout)

    assert homed.run("verify", "demo", "--image", reference) == 0

    assert as_anywhere(both(said), homed, registry) == snapshot


def test_lock_out_of_a_registry(
    homed: World,
    registry: LoopbackRegistry,
    said: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    (homed.root / "images/demo/requirements.in").write_text("helperish\n")
    homed.forget_base()

    assert homed.run("lock", "demo") == 0

    assert as_anywhere(both(said), homed, registry) == snapshot


@pytest.mark.parametrize("form", [form.value for form in Format])
@pytest.mark.parametrize("passes", [True, False], ids=["passing", "failing"])
def test_report(
    world: World,
    said: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
    passes: bool,
    form: str,
) -> None:
    if not passes:
        template = world.root / "images/demo/recipes/alpha/template.jinja"
        template.write_text("changed after locking")

    assert world.run("verify", "demo", "--format", form) == (0 if passes else 1)

    assert as_anywhere(both(said), world) == snapshot


@pytest.mark.parametrize("passes", [True, False], ids=["passing", "failing"])
def test_page(world: World, snapshot: SnapshotAssertion, passes: bool) -> None:
    if not passes:
        template = world.root / "images/demo/recipes/alpha/template.jinja"
        template.write_text("changed after locking")
    page = world.root.parent / "report.html"

    assert world.run("verify", "demo", "--html", str(page)) == (0 if passes else 1)

    # how it looks is the style sheet's; what it says is held here
    text = re.sub(r"<style>.*?</style>", "<style>…</style>", page.read_text(), flags=re.DOTALL)
    assert as_anywhere(text, world) == snapshot
