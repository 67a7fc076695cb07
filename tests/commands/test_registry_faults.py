"""Every command that asks a registry, against every way in which one fails.

Each time: exit code 3 with the reason, the workspace as it was, nothing under any tag, and a second
run that finishes the work.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from imagegate.usecases.lock import lock_recipe
from imagegate.usecases.mirror import mirror_base
from imagegate.usecases.promote import Push, promote_recipe
from imagegate.usecases.transfer import Destination
from imagegate.usecases.verify import verify_recipe
from imagegate.workspace import Workspace
from tests.calls import calling
from tests.commands.faults import READING, WRITING, Fault, heal
from tests.registry import LoopbackRegistry
from tests.registry_source.support import ManualClock
from tests.world import World

CHOSEN = "live"


def verify(world: World, image: str, _to: str) -> bool:
    verdict, _ = verify_recipe(
        calling(Workspace(world.root), today=date(2026, 11, 29), clock=ManualClock()),
        "demo",
        image=image,
    )
    return verdict.passed


def lock(world: World, _image: str, _to: str) -> bool:
    lock_recipe(
        calling(Workspace(world.root), cache=world.root.parent / "cache", clock=ManualClock()),
        "demo",
        base=None,
    )
    return True


def mirror(world: World, _image: str, to: str) -> bool:
    outcome = mirror_base(
        calling(Workspace(world.root), clock=ManualClock()),
        "demo",
        to=Destination.parse(to),
        base=None,
    )
    return str(outcome.reference.digest) == world.base.digest


def promote(world: World, image: str, to: str) -> bool:
    outcome = promote_recipe(
        calling(Workspace(world.root), now=datetime(2026, 11, 29, tzinfo=UTC), clock=ManualClock()),
        "demo",
        image=image,
        promoted_by="somebody",
        push=Push(to=Destination.parse(to)),
    )
    return outcome.profile is not None


Command = Callable[[World, str, str], bool]
READERS: dict[str, Command] = {
    "verify": verify,
    "lock": lock,
    "mirror": mirror,
    "promote": promote,
}


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def expect(fault: Fault, command: Command, world: World, image: str, to: str) -> None:
    before = contents(world.root)

    with pytest.raises(fault.kind) as caught:
        command(world, image, to)

    assert fault.said in caught.value.message
    assert caught.value.exit_code == 3
    assert caught.value.hint, "what a person can do is said"
    assert contents(world.root) == before


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("command", READERS)
def test_a_registry_that_cannot_be_read_leaves_everything_and_a_second_run_completes(
    homed: World, registry: LoopbackRegistry, command: str, name: str
) -> None:
    image = homed.image()
    reference = registry.add("team/candidate", image)
    if command == "lock":
        homed.forget_base()
    # what each command has to read: the image with its added layer, or the base
    read = image if command in ("verify", "promote") else homed.base
    layer = json.loads(read.manifest)["layers"][-1]["digest"]
    with LoopbackRegistry().running() as other:
        to = f"{other.netloc}/team/app:{CHOSEN}"
        READING[name].cause(registry, read.digest, layer)

        expect(READING[name], READERS[command], homed, reference, to)
        assert other.tags.get("team/app", {}) == {}

        heal(registry)
        assert READERS[command](homed, reference, to)
        if command in ("mirror", "promote"):
            assert other.tags["team/app"] == {CHOSEN: read.digest}


@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize("command", [mirror, promote])
def test_a_registry_that_cannot_be_written_gets_no_tag_and_a_second_run_completes(
    homed: World, registry: LoopbackRegistry, command: Command, name: str
) -> None:
    image = homed.image()
    reference = registry.add("team/candidate", image)
    pushed = homed.base if command is mirror else image
    with LoopbackRegistry().running() as other:
        to = f"{other.netloc}/team/app:{CHOSEN}"
        WRITING[name].cause(other, pushed.digest, "")

        expect(WRITING[name], command, homed, reference, to)
        assert other.tags.get("team/app", {}) == {}

        heal(other)
        assert command(homed, reference, to)
        assert other.tags["team/app"] == {CHOSEN: pushed.digest}
        served = other.manifests["team/app"][pushed.digest][0]
        assert served == pushed.manifest


@pytest.mark.parametrize("name", WRITING)
def test_a_profile_that_was_published_stays_while_a_registry_fails(
    homed: World, registry: LoopbackRegistry, name: str
) -> None:
    assert homed.run("promote", "demo") == 0
    published = (homed.root / "profiles/demo.env").read_bytes()
    image = f"oci:{homed.layout}"
    to = f"{registry.netloc}/team/app:{CHOSEN}"
    WRITING[name].cause(registry, "", "")

    expect(WRITING[name], promote, homed, image, to)

    assert (homed.root / "profiles/demo.env").read_bytes() == published
    heal(registry)
    assert promote(homed, image, to)
    assert (homed.root / "profiles/demo.env").read_bytes() != published
