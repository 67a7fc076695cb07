"""The threat model names the test that holds each promise; every one of them is there."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = resources.files("imagegate").joinpath("manual/threat-model.md").read_text(encoding="utf-8")
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
    assert named
    for name in named:
        file, _, function = name.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not function or f"def {function}(" in text, name


def test_each_who_has_a_promise_and_what_holds_it() -> None:
    sections = dict(re.findall(r"\n## ([^\n]+)\n(.*?)(?=\n## |\Z)", TEXT, re.DOTALL))
    assert tuple(sections) == WHO
    for who, text in sections.items():
        assert all(part in text for part in ("Can:", "Promised:", "held by:")), who
