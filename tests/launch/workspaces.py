"""A workspace in which the shipped recipe is published, without an image."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from imagegate.profile import ProfileStore, PublishedState
from imagegate.recipe.serve import ServeSection
from imagegate.workspace import Workspace
from tests.launch.hosts import DIGEST, IMAGE_ID, document

HERE = Path(__file__).parents[2]


def published(folder: Path, **serve: Any) -> Workspace:
    """Copy the shipped recipe and its lock, and publish its profile."""
    for part in ("images/glm", "locks/glm", "locks/bases"):
        shutil.copytree(HERE / part, folder / part)
    workspace = Workspace.find(folder)
    recipe = workspace.recipe("glm").document
    assert recipe.serve is not None
    section = recipe.serve
    if serve:
        section = ServeSection.model_validate({**section.model_dump(), **serve})
    env = {
        "IMAGEGATE_PROFILE": "glm",
        "IMAGE": f"localhost/glm@{DIGEST}",
        "IMAGE_ID": IMAGE_ID,
        "IMAGE_DIGEST": DIGEST,
        "IMAGE_PLATFORM": "linux/arm64",
        "BASE_DIGEST": "sha256:" + "0" * 64,
        "LOCK_DIGEST": str(workspace.lock("glm").digest),
        "VERDICT": "sha256:" + "1" * 64,
        **recipe.profile.env,
    }
    state = PublishedState(
        env=env, settings={}, serve=section, verdict="sha256:" + "1" * 64,
        promoted_at="2026-11-30T00:00:00Z", promoted_by="test",
    )  # fmt: skip
    workspace.profiles().mkdir(parents=True, exist_ok=True)
    ProfileStore(workspace.profiles()).publish("glm", state, b"{}")
    return workspace


def weights(**more: Any) -> list[dict[str, Any]]:
    """A whole checkpoint as a host says it."""
    return [{"path": "/models/glm-5.3-flash", "bytes": 194347270144, "tensors": 90000,
             "digest": "sha256:aa", **more}]  # fmt: skip


def cache() -> list[dict[str, Any]]:
    """The cache of the published digest."""
    return [{"path": "/var/cache/glm", "there": True, "writable": True,
             "folders": [{"name": "ab" * 32, "libraries": ["moe.so"]}]}]  # fmt: skip


def fact_file(folder: Path, name: str, available: float, **more: Any) -> Path:
    """Write one host's document."""
    path = folder / f"{name}.json"
    given = {"weights": weights(), "caches": cache(), **more}
    path.write_text(json.dumps(document(name, available, **given)))
    return path
