"""Allow lists that forget what the Dockerfile copies: one kind, reported again and again.

The shapes are those of the reports: everything is denied, folders are let in by two lines each.
"""

from __future__ import annotations

import pytest

from imagegate.coverage.outcome import Outcome
from tests.coverage.test_public_reports import a_build, failure_of, verdict_on

PAIRS = "**\n!app_client/\n!app_client/**\n!app_server/\n!app_server/**\n"


@pytest.mark.parametrize(
    ("report", "ignore", "line"),
    [
        ("dartway/dartway#177", PAIRS, 1),
        ("moby/buildkit#5132", "app_shared\n", 1),
        ("Flare#73", "*\n!app_client\n!app_server\n", 1),
    ],
)
def test_dartway_177_a_shared_package_is_copied_and_never_let_in(
    report: str, ignore: str, line: int
) -> None:
    assert report
    build = a_build(
        "FROM scratch\nCOPY app_client/ /c/\nCOPY app_shared/ /s/\n",
        ["app_client/a", "app_server/b", "app_shared/pubspec.yaml"],
        ignore=ignore,
    )
    assert "not found" in failure_of(build)
    said = verdict_on(
        build,
        "app_shared/pubspec.yaml",
        model="shared",
        folder="app_shared",
        expected="/s/pubspec.yaml",
    )
    assert said.outcome is Outcome.IGNORED
    assert said.place is not None
    assert (said.place.path, said.place.line) == (".dockerignore", line)


def test_dartway_177_two_lines_let_it_in() -> None:
    build = a_build(
        "FROM scratch\nCOPY app_shared/ /s/\n",
        ["app_client/a", "app_shared/pubspec.yaml"],
        ignore=f"{PAIRS}!app_shared/\n!app_shared/**\n",
    )
    said = verdict_on(
        build,
        "app_shared/pubspec.yaml",
        model="shared",
        folder="app_shared",
        expected="/s/pubspec.yaml",
    )
    assert said.outcome is Outcome.COVERED
