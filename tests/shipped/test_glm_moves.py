"""The shipped glm against the real index: what would move its base is refused when it is locked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from imagegate.errors import ResolveError
from imagegate.resolver.resolve import Question, resolve
from imagegate.resolver.target import Target
from imagegate.workspace import Workspace

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.wheels


def question(requirements: tuple[str, ...], cache: Path) -> Question:
    """What `imagegate lock glm` asks, of the base as it is locked."""
    workspace = Workspace(ROOT)
    state, lock = workspace.state("glm"), workspace.lock("glm")
    section = state.recipe.document.layer
    return Question(
        requirements=requirements or state.requirements,
        base=lock.base.facts.distributions,
        overrides=section.overrides,
        exclude_newer=section.exclude_newer,
        target=Target.of(state.recipe),
        cache=cache,
    )


def test_glm_as_it_is_resolves_to_what_is_locked(tmp_path: Path) -> None:
    answer = resolve(question((), tmp_path))

    assert answer.wheels == tuple(sorted(Workspace(ROOT).lock("glm").wheels))


@pytest.mark.parametrize(
    ("more", "name", "base", "needed"),
    [
        ("protobuf>=7", "protobuf", "6.33.6", r"7\.\d+\.\d+"),
        ("filelock<4", "filelock", "4.2.12", r"3\.\d+\.\d+"),
    ],
)
def test_a_requirement_that_moves_the_base_is_refused_with_both_sides(
    more: str, name: str, base: str, needed: str, tmp_path: Path
) -> None:
    with pytest.raises(ResolveError) as refused:
        resolve(question(("ray[default]", more), tmp_path))
    assert re.search(rf"`{name}`: base={base} needed={needed}", refused.value.message)
