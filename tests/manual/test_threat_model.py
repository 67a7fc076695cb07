"""The threat model names the tests that hold each promise; every one of them is there."""

from __future__ import annotations

import ast
import re
from importlib import resources
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = resources.files("imagegate").joinpath("manual/threat-model.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"\n## ([^\n]+)\n(.*?)(?=\n## |\Z)", TEXT, re.DOTALL))
WHO = (
    "Who publishes the base",
    "Who writes a layer",
    "Who writes a recipe",
    "Who runs the registry",
    "Who stands in the network between",
    "A colleague with commit rights",
    "A stranger with push rights",
)


def test_every_named_test_is_there() -> None:
    named = re.findall(r"held by: (\S+)", TEXT)
    assert len(named) > len(WHO)
    for name in named:
        file, _, function = name.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert function.startswith("test_"), name
        assert function in tests, name


def test_each_promise_has_a_test_of_its_own() -> None:
    assert tuple(SECTIONS) == WHO
    for who, text in SECTIONS.items():
        can, promised, not_promised = re.split(r"\n(?:Promised:|Not promised:)", text)
        assert "Can:" in can, who
        assert not_promised.strip(), who
        promises = promised.split("\n- ")[1:]
        assert promises, who
        for one in promises:
            assert "held by:" in one, f"{who}: {one}"
