"""A context of 100,000 files and 200 ignore lines stays cheap: counted, not timed."""

from __future__ import annotations

import io
import tracemalloc
from collections import Counter
from dataclasses import replace

import pytest

from imagegate.coverage.building.build import Build, FilteredContext
from imagegate.coverage.building.profiles import find_profile
from imagegate.coverage.outcome import Asset
from imagegate.coverage.reading.dockerfile import parse_dockerfile
from imagegate.coverage.sending.ignorefile import compile_rules, read_ignore_file
from imagegate.coverage.sending.index import RuleIndex
from imagegate.coverage.tree import Context, Node, directory, file
from imagegate.coverage.verdict import judge

FOLDERS, FILES_EACH, MODELS = 1000, 100, 10
MEGABYTE = 1_000_000


def the_tree() -> Node:
    root = directory()
    for number in range(FOLDERS):
        package = root.children.setdefault(f"pkg{number // 50}", directory())
        module = package.children[f"mod{number % 50}"] = directory()
        for inner in range(FILES_EACH):
            module.children[f"file{inner}.{'py' if inner % 3 else 'json'}"] = file(size=10)
    recipes = root.children["recipes"] = directory()
    for number in range(MODELS):
        model = recipes.children[f"model{number}"] = directory()
        model.children["template.jinja"] = file(size=10)
    return root


def the_lines() -> str:
    lines: list[str] = []
    for number in range(40):
        lines += [
            f"**/*.tmp{number}",
            f"**/cache{number}",
            f"pkg{number}/mod{number}/*.log",
            f"docs{number}/**",
            f"!pkg{number}/keep",
        ]
    assert len(lines) == 200
    return "\n".join(lines)


ASSETS = [
    Asset(
        model=f"model{number}",
        folder=f"recipes/model{number}",
        path=f"recipes/model{number}/template.jinja",
    )
    for number in range(MODELS)
]
DOCKERFILE = (
    b"FROM scratch AS all\nCOPY . /src\nFROM scratch\nCOPY --from=all /src/recipes /recipes\n"
)


def a_build(root: Node, opened: list[str], builder: str) -> Build:
    def open_file(path: str) -> io.BytesIO:
        opened.append(path)
        return io.BytesIO()

    profile = find_profile(builder)
    ignore = read_ignore_file(the_lines().encode(), ".dockerignore", profile.client.reader)
    return Build(
        dockerfile=parse_dockerfile(DOCKERFILE, "Dockerfile"),
        builder=profile,
        main=FilteredContext(context=Context(root=root, open=open_file), ignore=ignore),
    )


def test_no_file_is_opened_and_less_than_200_megabytes_are_held() -> None:
    opened: list[str] = []
    tracemalloc.start()
    try:
        judgement = judge(a_build(the_tree(), opened, "buildkit"), ASSETS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert judgement.covered
    assert opened == []
    assert peak < 200 * MEGABYTE


@pytest.mark.parametrize("builder", ["buildkit", "buildkit-20.10", "classic", "buildah"])
def test_hardly_a_line_is_tried_on_a_path_that_it_cannot_match(builder: str) -> None:
    profile = find_profile(builder)
    ignore = read_ignore_file(the_lines().encode(), ".dockerignore", profile.client.reader)
    tried: Counter[str] = Counter()
    index = RuleIndex.of(compile_rules(ignore, profile.client.grammar), profile.client.grammar)
    for package, inner in the_tree().children.items():
        below = index.below(package)
        for module, leaf in inner.children.items():
            here = below.below(f"{package}/{module}")
            for name in leaf.children:
                tried["paths"] += 1
                tried["rules"] += len(here.possible(f"{package}/{module}/{name}", NOTHING))
    assert tried["paths"] == FOLDERS * FILES_EACH + MODELS
    assert tried["rules"] < tried["paths"]


NOTHING: frozenset[int] = frozenset()


def test_only_an_archive_that_add_names_is_opened() -> None:
    opened: list[str] = []
    build = a_build(the_tree(), opened, "buildkit")
    build.main.context.root.children["a.tar"] = file(size=1)
    added = parse_dockerfile(DOCKERFILE + b"ADD a.tar /x/\n", "Dockerfile")
    judge(replace(build, dockerfile=added), ASSETS)
    assert set(opened) == {"a.tar"}
