"""Checkpoints, whole and damaged in each way, on disk; file faults against ``safe_open`` itself."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from imagegate.nodes import facts
from tests.launch.hosts import evidence, fails, findings, host, notes, section
from tests.serving.recorded import recorded

Damage = Callable[[Path], object]


def shard(path: Path, tensors: dict[str, int]) -> None:
    """Write a safetensors file: names to numbers of F32 elements."""
    header, end = {}, 0
    for name, count in tensors.items():
        header[name] = {"dtype": "F32", "shape": [count], "data_offsets": [end, end + 4 * count]}
        end += 4 * count
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + os.urandom(end))


def checkpoint(folder: Path, config: dict[str, Any] | None = None) -> Path:
    """Two shards with their index, a config and a tokenizer."""
    folder.mkdir(parents=True)
    shard(folder / "model-00001-of-00002.safetensors", {"a": 4, "b": 2})
    shard(folder / "model-00002-of-00002.safetensors", {"c": 3})
    placed = {"a": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors",
              "c": "model-00002-of-00002.safetensors"}  # fmt: skip
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    (folder / "config.json").write_text(
        json.dumps(config or {"architectures": ["LlamaForCausalLM"]})
    )
    (folder / "tokenizer.json").write_text("{}")
    return folder


def look(folder: Path, *, full: bool = False) -> dict[str, Any]:
    found = facts.weight_facts(facts.Host(), str(folder), full)  # type: ignore[no-untyped-call]
    assert isinstance(found, dict)
    return found


def faults(folder: Path, *, full: bool = False) -> list[str]:
    return [one["what"] for one in look(folder, full=full)["faults"]]


ONE = "model-00001-of-00002.safetensors"
TWO = "model-00002-of-00002.safetensors"


def cut(folder: Path, by: int = 3) -> None:
    path = folder / TWO
    path.write_bytes(path.read_bytes()[:-by])


def grow(folder: Path) -> None:
    with (folder / TWO).open("ab") as stream:
        stream.write(b"xx")


def gap(folder: Path) -> None:
    header = {"c": {"dtype": "F32", "shape": [3], "data_offsets": [4, 16]}}
    text = json.dumps(header).encode()
    (folder / TWO).write_bytes(struct.pack("<Q", len(text)) + text + b"\1" * 16)


def lie(folder: Path) -> None:
    header = {"c": {"dtype": "F32", "shape": [4], "data_offsets": [0, 12]}}
    text = json.dumps(header).encode()
    (folder / TWO).write_bytes(struct.pack("<Q", len(text)) + text + b"\1" * 12)


def pointer(folder: Path) -> None:
    (folder / TWO).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")


def dead(folder: Path) -> None:
    (folder / TWO).unlink()
    (folder / TWO).symlink_to("../../blobs/nothing")


def elsewhere(folder: Path) -> None:
    path = folder / "model.safetensors.index.json"
    document = json.loads(path.read_text())
    document["weight_map"]["c"] = ONE
    document["weight_map"]["a"] = TWO
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("damage", "expected", "of_the_file"),
    [
        (lambda _: None, [], False),
        (lambda f: (f / TWO).unlink(), ["missing"], False),
        (lambda f: (f / "x.incomplete").touch(), ["incomplete"], False),
        (cut, ["cut"], True),
        (grow, ["surplus"], True),
        (gap, ["bad-header", "tensor-elsewhere"], True),
        (lie, ["bad-header"], True),
        (pointer, ["lfs-pointer", "tensor-elsewhere"], True),
        (lambda f: (f / TWO).write_bytes(b""), ["empty", "tensor-elsewhere"], True),
        (lambda f: (f / TWO).write_bytes(bytes(400)), ["zeros", "tensor-elsewhere"], True),
        (dead, ["dead-link", "tensor-elsewhere"], True),
        (lambda f: shard(f / "model-extra.safetensors", {"z": 1}), ["not-in-index"], False),
        (lambda f: (f / "model.safetensors.index.json").unlink(), ["no-index"], False),
        (elsewhere, ["tensor-elsewhere"], False),
        (lambda f: (f / "model.safetensors.index.json").write_text("{"), ["bad-index"], False),
        (lambda f: (f / "config.json").unlink(), ["no-config"], False),
        (lambda f: (f / "tokenizer.json").unlink(), ["no-tokenizer"], False),
    ],
)
def test_each_damage(
    tmp_path: Path, damage: Damage, expected: list[str], of_the_file: bool
) -> None:
    folder = checkpoint(tmp_path / "model")
    damage(folder)
    found = faults(folder)
    assert set(found) >= set(expected[:1])
    assert set(found) <= set(expected)
    import safetensors

    # the format's own reader refuses the damaged file, and opens every other
    for path in sorted(folder.glob("*.safetensors")):
        try:
            safetensors.safe_open(path, framework="numpy").__enter__()  # type: ignore[no-untyped-call]
            opened = True
        except Exception:  # noqa: BLE001 - its own error class, or the system's
            opened = False
        assert opened is not (of_the_file and path.name == TWO), path.name


def test_a_cut_file_names_both_sizes(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    size = (folder / TWO).stat().st_size
    cut(folder)
    (fault,) = look(folder)["faults"]
    assert (fault["needed"], fault["found"]) == (size, size - 3)


def test_a_flipped_byte_is_seen_only_by_reading_all(tmp_path: Path) -> None:
    import hashlib

    cache = tmp_path / "models--org--name"
    folder = checkpoint(cache / "snapshots" / ("a" * 40))
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("a" * 40)
    (cache / "blobs").mkdir()
    content = (folder / TWO).read_bytes()
    blob = cache / "blobs" / hashlib.sha256(content).hexdigest()
    blob.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (folder / TWO).unlink()
    (folder / TWO).symlink_to(os.path.relpath(blob, folder))
    assert faults(cache) == []
    assert look(cache)["content_read"] is False
    assert look(cache)["revision"] == "a" * 40
    assert faults(cache, full=True) == ["content"]


def test_a_preallocated_file_has_its_size_and_no_data(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    text = json.dumps(
        {"c": {"dtype": "U8", "shape": [1 << 24], "data_offsets": [0, 1 << 24]}}
    ).encode()
    with (folder / TWO).open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + (1 << 24))
    assert faults(folder) == ["sparse"]


def test_a_multimodal_model_needs_its_processor(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model", {"architectures": ["X"], "vision_config": {}})
    assert faults(folder) == ["no-processor"]
    (folder / "preprocessor_config.json").write_text("{}")
    assert faults(folder) == []


# --- judged


def judged(one: dict[str, Any], other: dict[str, Any] | None = None, **more: Any) -> Any:
    path = "/models/glm"
    serve = section(weights=[{"path": path}])
    nodes = [host(weights=[{**one, "path": path}])]
    nodes.append(host("magnetar", weights=[{**(other or one), "path": path}]))
    return evidence(*nodes, section=serve, **more)


def test_the_same_whole_checkpoint_on_both_nodes(tmp_path: Path) -> None:
    whole = look(checkpoint(tmp_path / "model"))
    assert fails(judged(whole), "weights") == []


def test_a_node_with_a_folder_and_no_shards_is_named(tmp_path: Path) -> None:
    whole = look(checkpoint(tmp_path / "model"))
    (tmp_path / "bare").mkdir()
    given = judged(whole, look(tmp_path / "bare"))
    said = [f for f in findings(given, "weights") if f.code.endswith("no-weights")]
    assert said[0].subject.startswith("magnetar: ")
    assert "absent" in fails(judged(whole, look(tmp_path / "nowhere")), "weights")


def test_equal_names_are_not_equal_content(tmp_path: Path) -> None:
    one = checkpoint(tmp_path / "one")
    two = checkpoint(tmp_path / "two")
    shard(two / TWO, {"c": 3, "d": 1})
    given = judged(look(one), look(two))
    assert "differ" in fails(given, "weights")
    assert TWO in next(f.message for f in findings(given, "weights") if f.code.endswith("differ"))


def test_a_checkpoint_that_nobody_looked_at_is_not_judged() -> None:
    given = evidence(section=section(weights=[{"path": "/models/glm"}]))
    assert fails(given, "weights") == ["unseen", "unseen"]


def test_a_repositorys_name_is_refused_and_the_folder_proposed() -> None:
    serve = section(model="zai-org/GLM-5.3-Flash", weights=[{"path": "/models/glm"}])
    (said,) = [
        f
        for f in findings(evidence(section=serve), "weights")
        if f.code.endswith("repository-name")
    ]
    assert said.hint == "give /models/glm"


@pytest.mark.parametrize(
    ("config", "failing", "noted"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, [], []),
        ({"architectures": ["Glm5NextForConditionalGeneration"]}, [], ["architecture"]),
        ({"architectures": ["Phi3SmallForCausalLM"]}, ["architecture-removed"], []),
        ({"architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": "fp8"}}, [], []),
        ({"architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": "nosuch"}}, ["quantization"], []),
    ],
)  # fmt: skip
def test_architecture_and_quantisation_are_the_images(
    tmp_path: Path, config: dict[str, Any], failing: list[str], noted: list[str]
) -> None:
    given = judged(
        look(checkpoint(tmp_path / "model", config)), program=recorded("vllm-0.29.0").program
    )
    assert (fails(given, "weights"), notes(given, "weights")) == (failing, noted)
