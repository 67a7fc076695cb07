"""The shipped image of 4 GB through a real registry: what moves is what was added."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.bench.over_the_wire import Step, in_the_tools_words, sizes, walk

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Step]:
    """Needs `imagegate build vllm-gb10` and `imagegate build glm` before."""
    folder = tmp_path_factory.mktemp("wire")
    found = list(walk(ROOT, "glm", ROOT / "build/vllm-gb10", folder))
    return {step.what.partition(" ")[0]: step for step in reversed(found)}


@pytest.mark.parametrize("command", ["mirror", "promote", "verify", "lock"])
def test_no_command_moves_more_than_a_tenth_above_what_it_has_to(
    steps: dict[str, Step], command: str
) -> None:
    assert 1 <= steps[command].ratio <= 1.1


def test_beside_its_base_an_image_is_promoted_without_a_byte_of_it(steps: dict[str, Step]) -> None:
    size = sizes(ROOT, "glm")

    assert steps["promote"].sent + steps["promote"].received < 1.1 * size.added
    assert size.base > 40 * size.added


@pytest.mark.parametrize("command", ["mirror", "promote", "verify", "lock"])
def test_what_the_tool_says_is_what_the_wire_counted(steps: dict[str, Step], command: str) -> None:
    step = steps[command]
    told = max(int(number) for number in re.findall(r"(\d+) bytes", in_the_tools_words(step)))

    # the wire counts headers too
    assert 0.999 < told / max(step.sent, step.received) <= 1
