"""What six real builders and buildx made of small Dockerfiles, and what is predicted.

``data/measured_cases.json`` holds the files and links of each image, ``null`` where the builder
gave up: BuildKit and classic builder of Docker 20.10.24 and 28.5.2, buildx 0.29.1 on the former,
buildah 1.28.2 and 1.43.2, all ``FROM scratch``.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from imagegate.coverage.building.build import Build, FilteredContext
from imagegate.coverage.building.builder import Builder
from imagegate.coverage.building.evaluate import evaluate
from imagegate.coverage.building.profiles import PROFILES, profile_of_engine
from imagegate.coverage.reading.dockerfile import parse_dockerfile
from imagegate.coverage.sending.ignorefile import (
    NO_IGNORE_FILE,
    IgnoreFile,
    read_ignore_file,
)
from imagegate.coverage.tree import Context, Kind, Node, build_tree, file, link, walk
from imagegate.errors import CoverageError

TABLE: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data/measured_cases.json").read_text(encoding="utf-8")
)
ROWS = [
    pytest.param(
        case, builder, id=f"{builder}: {case['dockerfile'][:60]!r} {case.get('ignores', '')}"
    )
    for case in TABLE["cases"]
    for builder in case["results"]
]


def the_profile(builder: str) -> Builder:
    if builder == "buildx on 20.10":
        return profile_of_engine("buildx", "20.10.24")
    if builder == "buildkit":
        # Docker's own frontend up to 28 has no `--parents`, and its graph drivers merge no layers
        known = PROFILES[builder].frontend
        flags = known.flags - {"parents"}
        return replace(PROFILES[builder], frontend=replace(known, flags=flags, merges_links=False))
    return PROFILES[builder]


def the_context(name: str, case: dict[str, Any]) -> Context:
    written = TABLE["contexts"][name]
    texts = {**written["files"], **case.get("ignores", {}), "Dockerfile": case["dockerfile"]}
    contents = {path: text.encode() for path, text in texts.items()}
    entries = {path: file(size=len(content)) for path, content in contents.items()}
    entries |= {path: link(target) for path, target in written["links"].items()}
    return Context(root=build_tree(entries), open=lambda path: io.BytesIO(contents[path]))


def the_ignore_file(case: dict[str, Any], profile: Builder) -> IgnoreFile:
    ignores: dict[str, str] = case.get("ignores", {})
    for path in profile.client.ignore_files("Dockerfile"):
        if path in ignores:
            return read_ignore_file(ignores[path].encode(), path, profile.client.reader)
    return NO_IGNORE_FILE


@pytest.mark.parametrize(("case", "builder"), ROWS)
def test_the_image_is_what_the_builder_made(case: dict[str, Any], builder: str) -> None:
    contents: dict[str, str] = TABLE["contexts"][case["context"]]["files"]
    profile = the_profile(builder)
    try:
        done = evaluate(
            Build(
                dockerfile=parse_dockerfile(case["dockerfile"].encode(), "Dockerfile"),
                dockerfile_path="Dockerfile",
                builder=profile,
                main=FilteredContext(
                    context=the_context(case["context"], case),
                    ignore=the_ignore_file(case, profile),
                ),
                build_args=case.get("build_args", {}),
                target=case.get("target"),
            )
        )
    except CoverageError:
        assert case["results"][builder] is None
        return
    if done.failures:
        assert case["results"][builder] is None, done.failures
        return
    assert shown(done.image, contents) == case["results"][builder]


def shown(image: Node, contents: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path, node in walk(image):
        assert not node.doubt
        if node.kind is Kind.LINK:
            found[path] = f"-> {node.target}"
        elif node.origin is not None and node.origin.inline is not None:
            found[path] = f"file {node.origin.inline}"
        elif node.origin is not None and node.origin.path in contents:
            found[path] = f"file {'' if node.origin.emptied else contents[node.origin.path]}"
    return found
