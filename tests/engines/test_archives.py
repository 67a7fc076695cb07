"""What the gate judges in an archive is what docker, podman and skopeo load from it."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from imagegate.errors import ImagegateError
from imagegate.sources import open_image
from tests.engines.archives import CHANGES, draw
from tests.images import digest

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 300
_FORMS = ("docker-archive", "oci-archive")
_LOADED = re.compile(r"sha256:[0-9a-f]{64}")


def _called(*command: str) -> str | None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout if done.returncode == 0 else None


def by_engine(engine: str, path: Path) -> str | None:
    """Load with docker or podman, ask for the image's id, remove it."""
    said = _called(engine, "load", "--input", str(path))
    if said is None or "Loaded image" not in said:
        return None
    name = said.strip().splitlines()[-1].split(": ", 1)[1].strip()
    found = _called(engine, "image", "inspect", "--format", "{{.Id}}", name)
    assert found, said
    identity = "sha256:" + found.strip().removeprefix("sha256:")
    _called(engine, "image", "rm", "--force", identity)
    return identity


def by_skopeo(form: str, path: Path, folder: Path) -> str | None:
    """Copy with skopeo as one form; the config's digest."""
    target = folder / f"{path.name}.{form}"
    if _called("skopeo", "copy", "--quiet", f"{form}:{path}", f"dir:{target}") is None:
        return None
    found = json.loads((target / "manifest.json").read_bytes())["config"]["digest"]
    assert _LOADED.fullmatch(found)
    return str(found)


def loaded(path: Path, folder: Path) -> dict[str, str | None]:
    """What each loader takes, if it takes anything."""
    with ThreadPoolExecutor() as pool:  # four programs of their own, which wait for disks
        found = {
            **{f"skopeo {f}": pool.submit(by_skopeo, f, path, folder) for f in _FORMS},
            **{engine: pool.submit(by_engine, engine, path) for engine in ("docker", "podman")},
        }
        return {loader: taken.result() for loader, taken in found.items()}


def judged(path: Path) -> str | None:
    """The config's digest of the image that the gate opens, or nothing where it refuses."""
    try:
        return digest(open_image(str(path)).image.config_bytes)
    except ImagegateError:
        return None


def compare(seeds: range, folder: Path) -> Counter[str]:
    """Compare the gate with every loader; returns how many draws ended in which way."""
    told: Counter[str] = Counter()
    for seed in seeds:
        one = draw(seed)
        path = folder / f"{seed}.tar"
        path.write_bytes(one.content)
        mine = judged(path)
        if not one.changes:
            assert mine == digest(one.shown.config), f"honest draw {seed} was refused"
        told["opened" if mine else "refused"] += 1
        told[one.form] += 1
        if mine is None:
            continue
        for loader, theirs in loaded(path, folder).items():
            told[f"{loader} {'took it' if theirs else 'refused'}"] += 1
            assert theirs in (None, mine), f"draw {seed} {one.form} {one.changes}: {loader}"
    return told


def test_the_draws_hold_every_change() -> None:
    drawn = [draw(seed) for seed in range(COUNT)]
    assert {name for one in drawn for name in one.changes} == set(CHANGES)
    assert {one.form for one in drawn if not one.changes} == {"docker", "oci", "both"}


@pytest.mark.engines
def test_no_loader_takes_another_image_than_the_gate(engines: Path, tmp_path: Path) -> None:
    assert (engines / "config.json").is_file()
    told = compare(range(COUNT), tmp_path)
    # the comparison compared something: each loader took images that the gate opened
    for loader in ("docker", "podman", "skopeo docker-archive", "skopeo oci-archive"):
        assert told[f"{loader} took it"] > 20, told
    assert told["refused"] > 20, told
