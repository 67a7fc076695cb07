"""Every measured Dockerfile of `data/copy_cases.json`, for every builder in it."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import TypedDict, cast

import pytest

from imagegate.coverage.building.build import Build, FilteredContext
from imagegate.coverage.building.evaluate import evaluate
from imagegate.coverage.building.profiles import find_profile
from imagegate.coverage.reading.dockerfile import parse_dockerfile
from imagegate.coverage.sending.ignorefile import NO_IGNORE_FILE, read_ignore_file
from imagegate.coverage.tree import Context, Kind, Node, build_tree, file, link, walk
from imagegate.errors import CoverageError

BUILDERS = {
    "bkhead": "buildkit",
    "bk20": "buildkit-20.10",
    "classic20": "classic-20.10",
    "buildah143": "buildah",
}


class Case(TypedDict):
    dockerfile: str
    args: list[str]
    ignore: str | None
    result: dict[str, str | dict[str, str]]


TABLE = json.loads((Path(__file__).parent / "data" / "copy_cases.json").read_text("utf-8"))
CASES = cast("dict[str, Case]", TABLE["cases"])


def tar(members: dict[str, str], mode: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return stream.getvalue()


def the_context() -> tuple[Context, dict[str, bytes]]:
    written = TABLE["context"]
    contents = {path: text.encode() for path, text in written["files"].items()}
    for name, members in written["tars"].items():
        contents[name] = tar(members, "w:gz" if name.endswith("gz") else "w")
    contents[written["not_a_tar"]] = b"notatar"
    entries = {path: file(size=len(content)) for path, content in contents.items()}
    entries |= {path: link(target) for path, target in written["symlinks"].items()}
    context = Context(root=build_tree(entries), open=lambda path: io.BytesIO(contents[path]))
    return context, contents


def shown(root: Node, contents: dict[str, bytes]) -> dict[str, str]:
    """Write a tree as the table does; directories count only when they are empty."""
    found: dict[str, str] = {}
    for path, node in walk(root):
        assert node.doubt is None, (path, node.doubt)
        if node.kind is Kind.LINK:
            found[path] = f"->{node.target}"
        elif node.kind is Kind.DIRECTORY:
            if not node.children:
                found[path] = "dir"
        else:
            found[path] = "f:" + said(node, contents)
    return found


def said(node: Node, contents: dict[str, bytes]) -> str:
    origin = node.origin
    assert origin is not None
    if origin.inline is not None:
        return origin.inline
    if origin.member:
        return str(TABLE["context"]["tars"][origin.path][origin.member])
    content = b"" if origin.emptied else contents[origin.path]
    return content.decode("utf-8", "replace")[:60]


@pytest.mark.parametrize(
    ("name", "column"),
    [(name, column) for name, case in CASES.items() for column in case["result"]],
)
def test_an_image_is_the_one_that_the_real_builder_made(name: str, column: str) -> None:
    case = CASES[name]
    profile = find_profile(BUILDERS[column])
    context, contents = the_context()
    ignore = NO_IGNORE_FILE
    if case["ignore"] is not None:
        ignore = read_ignore_file(case["ignore"].encode(), ".dockerignore", profile.client.reader)
    arguments = dict(zip(case["args"][::2], case["args"][1::2], strict=True))
    build_arg = arguments.get("--build-arg", "")
    measured = case["result"][column]

    try:
        done = evaluate(
            Build(
                dockerfile=parse_dockerfile(case["dockerfile"].encode(), "Dockerfile"),
                builder=profile,
                main=FilteredContext(context=context, ignore=ignore),
                build_args=dict([build_arg.split("=", 1)]) if build_arg else {},
                target=arguments.get("--target"),
            )
        )
    except CoverageError:
        assert measured == "ERROR"
        return

    if measured == "ERROR":
        assert done.failures
        return
    assert not done.failures
    assert isinstance(measured, dict)
    found = shown(done.image, contents)
    assert {path: text for path, text in found.items() if not is_archive(text)} == {
        path: text for path, text in measured.items() if not is_archive(text)
    }
    assert found.keys() == measured.keys()


def is_archive(text: str) -> bool:
    """The table holds archives as bytes of the day they were made."""
    return "\0" in text or "\ufffd" in text


def test_every_case_of_the_table_is_run() -> None:
    assert len(CASES) == 99
    assert sum(len(case["result"]) for case in CASES.values()) == 99 * 4
