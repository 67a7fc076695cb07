"""What a build may have done and nobody can know is unknown, never covered."""

from __future__ import annotations

import io

import pytest

from imagegate.coverage.building.build import Build, FilteredContext
from imagegate.coverage.building.builder import Builder
from imagegate.coverage.building.evaluate import evaluate
from imagegate.coverage.building.profiles import BUILDKIT, PROFILES
from imagegate.coverage.reading.dockerfile import parse_dockerfile
from imagegate.coverage.tree import Context, Node, build_tree, file, link, lookup


def image_tree(text: str, profile: Builder = BUILDKIT) -> Node:
    root = build_tree({"r/t": file(), "links/short": link("/r")})
    done = evaluate(
        Build(
            dockerfile=parse_dockerfile(text.encode(), "D"),
            builder=profile,
            main=FilteredContext(context=Context(root=root, open=lambda _path: io.BytesIO())),
        )
    )
    assert not done.failures, done.failures
    return done.image


@pytest.mark.parametrize(
    ("before", "run", "certain"),
    [
        ("", "RUN rm -rf /short/t", False),
        ("", "RUN rm -rf /other", True),
        ('SHELL ["/bin/bash", "-o", "pipefail", "-c"]\n', "RUN mkdir /other", True),
        ('SHELL ["python3", "-c"]\n', "RUN mkdir /other", False),
    ],
    ids=["through a link", "elsewhere", "another POSIX shell", "a shell that is none"],
)
def test_a_command_makes_uncertain_what_it_may_change(before: str, run: str, certain: bool) -> None:
    tree = image_tree(f"FROM scratch\n{before}COPY r /r/\nCOPY links/ /\n{run}\n")
    found = lookup(tree, "r/t")
    assert found is not None
    assert (found.doubt is None) == certain


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
@pytest.mark.parametrize(
    "source", ["/out/", "/out", "/out/*", "/out/sub", "/out/new"], ids=lambda source: source
)
def test_what_a_stage_may_hold_too_may_lie_over_what_is_here(profile: Builder, source: str) -> None:
    tree = image_tree(
        "FROM scratch AS build\nCOPY links/ /out/sub/\nRUN make\n"
        f"FROM scratch\nCOPY r /r/\nCOPY --from=build {source} /r/\n",
        profile=profile,
    )
    found = lookup(tree, "r/t")
    assert found is not None
    assert found.doubt


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_a_base_that_nobody_knows_may_hold_more_than_was_copied(profile: Builder) -> None:
    tree = image_tree(
        "FROM unknown AS build\nCOPY links/ /out/\n"
        "FROM scratch\nCOPY r /r/\nCOPY --from=build /out/ /r/\n",
        profile,
    )
    own, brought = lookup(tree, "r/t"), lookup(tree, "r/short")
    assert own is not None
    assert own.doubt, "the base may have had a file of this name in /out"
    assert brought is not None
    assert not brought.doubt, "this one was written over whatever the base had"


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_what_is_copied_behind_the_doubt_is_certain(profile: Builder) -> None:
    tree = image_tree(
        "FROM unknown AS build\nRUN make\nFROM scratch\nCOPY --from=build /out/ /\nCOPY r/ /r/\n",
        profile,
    )
    found = lookup(tree, "r/t")
    assert found is not None
    assert not found.doubt
