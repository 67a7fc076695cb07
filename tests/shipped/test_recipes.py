"""The recipes of this repository: complete, rendered, and locked as they are."""

from __future__ import annotations

import json
from pathlib import Path

import jinja2
import pytest

from imagegate.workspace import Workspace

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "images/glm/recipes"
MODELS = ("gemma4", "glm53", "kimi3", "mimo_v2", "minimax_m3", "nemotron_h", "qwen38", "step5")
TALK = [
    {"role": "system", "content": "Answer briefly."},
    {"role": "user", "content": [{"type": "text", "text": "What is seven times six?"}]},
    {"role": "assistant", "content": "Forty-two."},
    {"role": "user", "content": "And times two?"},
]


def render(model: str, **more: object) -> str:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)
    template = environment.from_string((RECIPES / model / "chat_template.jinja").read_text())
    given = {"messages": TALK, "tools": None, "bos_token": "<bos>", "add_generation_prompt": True}
    return template.render(**{**given, **more})


@pytest.mark.parametrize("model", MODELS)
def test_a_chat_template_renders_every_turn_in_order(model: str) -> None:
    text = render(model)

    places = [
        text.index(said)
        for said in ("Answer briefly.", "seven times six", "Forty-two.", "times two")
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("model", MODELS)
def test_a_generation_prompt_is_what_follows_the_last_turn(model: str) -> None:
    closed, opened = render(model, add_generation_prompt=False), render(model)

    assert opened.startswith(closed)
    assert len(opened) > len(closed)


@pytest.mark.parametrize("model", MODELS)
def test_the_serving_configuration_points_at_its_own_template(model: str) -> None:
    lines = (RECIPES / model / "serve.yaml").read_text().splitlines()
    settings = dict(line.split(": ", 1) for line in lines if not line.startswith("#"))

    assert settings["chat-template"] == f"/usr/share/glm/recipes/{model}/chat_template.jinja"
    assert 0 < float(settings["gpu-memory-utilization"]) < 1
    assert int(settings["max-model-len"]) > 0


@pytest.mark.parametrize("name", ["glm", "vllm-gb10"])
def test_the_committed_lock_is_that_of_the_recipe_as_it_is(name: str) -> None:
    workspace = Workspace(ROOT)
    state, lock = workspace.state(name), workspace.lock(name)

    assert lock.contents.recipe == state.recipe.digest
    assert lock.contents.requirements == state.requirements_digest
    assert lock.assets == state.assets


def test_the_committed_locks_hold_the_pins_that_the_readme_names() -> None:
    base = {wheel.name: wheel.version for wheel in Workspace(ROOT).lock("vllm-gb10").wheels}
    (folder,) = (ROOT / "locks/bases").iterdir()
    facts = json.loads((folder / "base.json").read_text())["facts"]
    real = {(r["component"], r["source"]): r["value"] for r in facts["native"]}

    # measured on the published wheels (facts on GPU images, section 8)
    assert len(base) == 198
    assert (base["vllm"], base["torch"], base["nvidia-nccl-cu13"]) == ("0.29.0", "2.13.0", "2.30.7")
    assert real["nccl", "version string"] == "2.30.7+cuda13.3"
    assert real["libnccl", "build id"] == "ab54bc831187dbf664867543564e5390b464ee58"
    assert real["torch", "version.py"] == "2.13.0+cu130"
    assert real["flashinfer-python", "_build_meta.py"] == "0.6.18"
    assert [c["path"].rsplit("/", 1)[1] for c in facts["contradictions"]] == ["build_backend.py"]


def test_locks_name_no_address() -> None:
    for path in (ROOT / "locks").rglob("*"):
        if path.suffix in (".txt", ".json") and path.name not in (
            "base.json",
            "manifest.json",
            "config.json",
        ):
            assert "://" not in path.read_text()


def test_the_path_index_of_the_base_stays_small() -> None:
    # design: under 4 MB for vllm-gb10
    assert next((ROOT / "locks/bases").glob("*/files.zst")).stat().st_size < 4_000_000
