"""Times of a launch check: two nodes from files, and one node's checkpoint of 60 shards.

Usage: ``python -m tests.bench.launch_check``. Prints a table; the floor beside each figure was
measured in the same run: an interpreter that starts, and the headers read without looking at them.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from imagegate.nodes import facts
from tests.launch.workspaces import fact_file, published

SHARDS, TENSORS = 60, 1500
ROW = 4 << 20


def checkpoint(folder: Path) -> int:
    """Write 60 shards with 90,000 tensors; sparse, so that it takes no disk."""
    folder.mkdir()
    placed = {}
    for number in range(SHARDS):
        name = f"model-{number + 1:05d}-of-{SHARDS:05d}.safetensors"
        header, end = {}, 0
        for tensor in range(TENSORS):
            key = f"model.layers.{number}.experts.{tensor}.weight"
            header[key] = {"dtype": "U8", "shape": [ROW], "data_offsets": [end, end + ROW]}
            placed[key] = name
            end += ROW
        text = json.dumps(header).encode()
        with (folder / name).open("wb") as stream:
            stream.write(struct.pack("<Q", len(text)) + text)
            stream.truncate(8 + len(text) + end)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    (folder / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    (folder / "tokenizer.json").write_text("{}")
    return len(placed)


def timed(command: list[str], folder: Path) -> float:
    """Return the best of three runs in seconds."""
    best = float("inf")
    for _ in range(3):
        begun = time.perf_counter()
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        best = min(best, time.perf_counter() - begun)
        assert done.returncode == 0, done.stdout + done.stderr
    return best


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        work = root / "work"
        work.mkdir()
        published(work)
        files = (fact_file(root, "pulsar", 106.94), fact_file(root, "magnetar", 110.97))
        words = [word for path in files for word in ("--facts", str(path))]
        floor = timed([sys.executable, "-c", "pass"], work)
        check = timed([sys.executable, "-m", "imagegate", "launch", "check", "glm", *words], work)
        folder = root / "model"
        tensors = checkpoint(folder)
        begun = time.perf_counter()
        for path in folder.glob("*.safetensors"):
            with path.open("rb") as stream:
                stream.read(struct.unpack("<Q", stream.read(8))[0])
        read = time.perf_counter() - begun
        begun = time.perf_counter()
        found = facts.weight_facts(facts.Host(), str(folder))  # type: ignore[no-untyped-call]
        proof = time.perf_counter() - begun
        assert {one["what"] for one in found["faults"]} == {"sparse"}
    print("| what | seconds | floor |")
    print("| --- | ---: | ---: |")
    print(f"| launch check, two nodes from files | {check:.2f} | {floor:.2f} (python starts) |")
    print(f"| {SHARDS} shards, {tensors} tensors | {proof:.2f} | {read:.2f} (headers read) |")


if __name__ == "__main__":
    main()
