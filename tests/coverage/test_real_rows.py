"""Dockerfiles as people write them: what was said of each, and what is right.

The rows come from public projects; the right answers from BuildKit of Docker 20.10 and 28.5 and
from buildah 1.43.
"""

from __future__ import annotations

import io
import tarfile

import pytest

from imagegate.coverage.building.build import Build, FilteredContext
from imagegate.coverage.building.profiles import DOCKER, PROFILES, find_profile
from imagegate.coverage.outcome import Asset, AssetVerdict, Outcome, Standing
from imagegate.coverage.reading.frontend import reads
from imagegate.coverage.sending.ignorefile import NO_IGNORE_FILE, read_ignore_file
from imagegate.coverage.tree import Context, build_tree, file
from imagegate.coverage.verdict import Judgement, judge, judge_each
from imagegate.errors import CoverageError

EVERY = [*PROFILES, *DOCKER]
MODERN = ["buildkit", "buildah", *DOCKER]


def packed(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def template(model: str) -> bytes:
    return f"template of {model}".encode()


CONTENTS = {
    "recipes/a/t.jinja": template("a"),
    "recipes/b/t.jinja": template("b"),
    "requirements.txt": b"ray\n",
    "conf/secret.json": b"{}",
    "native/arm64/x.so": b"arm",
    "native/amd64/x.so": b"amd",
    "equal.jinja": template("a"),
    "recipes.tar": packed({"recipes/a/t.jinja": template("a")}),
}


def context(contents: dict[str, bytes], name: str = "", location: str = "/project") -> Context:
    root = build_tree({path: file(size=len(content)) for path, content in contents.items()})
    return Context(
        root=root, open=lambda path: io.BytesIO(contents[path]), name=name, location=location
    )


def judged(
    text: str,
    builder: str = "buildkit",
    path: str = "recipes/a/t.jinja",
    expected: str | None = "/opt/recipes/a/t.jinja",
    ignore: str = "",
    platform: str | None = None,
    named: dict[str, str] | None = None,
    more: dict[str, bytes] | None = None,
) -> Judgement:
    known = find_profile(builder)
    contents = CONTENTS | (more or {})
    rules = NO_IGNORE_FILE
    if ignore:
        rules = read_ignore_file(ignore.encode(), ".dockerignore", known.client.reader)
    contexts = {
        name: FilteredContext(
            context=context(
                {
                    inner.removeprefix(folder + "/"): content
                    for inner, content in contents.items()
                    if inner.startswith(folder + "/")
                },
                name,
                f"/project/{folder}",
            )
        )
        for name, folder in (named or {}).items()
    }
    build = Build(
        dockerfile=reads(known.frontend, text.encode(), "Dockerfile"),
        builder=known,
        main=FilteredContext(context=context(contents), ignore=rules),
        named=contexts,
        platform=platform,
        args_complete=False,
    )
    asset = Asset(
        model=path.split("/")[1], path=path, folder=path.rpartition("/")[0], expected=expected
    )
    return judge(build, [asset])


def verdict(*args: object, **more: object) -> AssetVerdict:
    (found,) = judged(*args, **more).verdicts  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("builder", EVERY)
def test_a_run_hides_no_missing_line_and_no_ignored_folder(builder: str) -> None:
    text = 'FROM img\nRUN pip install "ray[default]"\nCOPY recipes/a /opt/recipes/a\n'
    b = {"path": "recipes/b/t.jinja", "expected": "/opt/recipes/b/t.jinja"}
    assert verdict(text, builder, **b).outcome is Outcome.NOT_COPIED
    found = verdict(text, builder, ignore="recipes/b\n", **b)
    assert found.outcome is Outcome.IGNORED
    assert found.behind is not None
    assert found.behind.outcome is Outcome.NOT_COPIED


@pytest.mark.parametrize("builder", EVERY)
def test_a_file_that_a_folder_is_copied_over_later_is_no_failure(builder: str) -> None:
    text = (
        "FROM python:3.12-slim\nWORKDIR /app\nRUN pip install uv\n"
        "COPY requirements.txt requirements.txt\nRUN uv pip install -r requirements.txt\nCOPY . .\n"
    )
    found = verdict(text, builder, expected="/app/recipes/a/t.jinja")
    assert found.standing is Standing.COVERED


def test_an_address_is_one_file() -> None:
    text = "FROM img\nCOPY recipes /opt/recipes\nADD https://example.org/x.tar.gz /opt/\n"
    assert verdict(text).standing is Standing.COVERED
    over = f"{text}ADD https://example.org/t.jinja /opt/recipes/a/\n"
    assert verdict(over).outcome is Outcome.OVERWRITTEN


@pytest.mark.parametrize(
    ("builder", "written"),
    [("buildkit", True), ("buildah", True), ("docker-23", False), ("buildah-1.28", False)],
)
def test_a_heredoc_behind_a_blank_is_each_builders_own(builder: str, written: bool) -> None:
    text = "FROM img\nRUN cat << EOF > /etc/motd\nhi there\nEOF\nCOPY recipes /opt/recipes\n"
    if written:
        assert verdict(text, builder).standing is Standing.COVERED
    else:
        with pytest.raises(CoverageError):
            judged(text, builder)
    sums = "FROM img\nRUN echo $((1 << 3))\nCOPY recipes /opt/recipes\n"
    if written:
        with pytest.raises(CoverageError):
            judged(sums, builder)
    else:
        assert verdict(sums, builder).covered


@pytest.mark.parametrize("builder", [*DOCKER, "buildkit", "buildah"])
def test_the_same_file_by_another_context_and_equal_bytes_are_covered(builder: str) -> None:
    named = "FROM img\nCOPY --from=assets . /opt/recipes\n"
    assert verdict(named, builder, named={"assets": "recipes"}).standing is Standing.COVERED
    equal = "FROM img\nCOPY equal.jinja /opt/recipes/a/t.jinja\n"
    assert verdict(equal, builder).standing is Standing.COVERED
    packed_up = "FROM img\nADD recipes.tar /opt/\n"
    assert verdict(packed_up, builder).standing is Standing.COVERED


def test_platform_arguments_are_set_by_the_builder() -> None:
    text = "FROM img\nARG TARGETARCH\nCOPY native/$TARGETARCH/ /opt/native\n"
    wanted = {"path": "native/arm64/x.so", "expected": "/opt/native/x.so"}
    assert verdict(text, platform="linux/arm64", **wanted).standing is Standing.COVERED
    assert verdict(text, platform="linux/amd64", **wanted).outcome is Outcome.OVERWRITTEN
    unknown = verdict(text, **wanted)
    assert unknown.outcome is Outcome.UNKNOWN
    assert "$TARGETARCH" in unknown.reason


@pytest.mark.parametrize("builder", EVERY)
def test_lines_that_contradict_each_other_fail_whatever_the_base_is(builder: str) -> None:
    text = "FROM img\nCOPY requirements.txt /opt/recipes\nCOPY recipes /opt/recipes\n"
    found = judged(text, builder)
    if find_profile(builder).frontend.bare_arg_unsets:  # the classic builder replaces the file
        return
    assert found.verdicts[0].outcome is Outcome.BUILD_FAILS


def test_buildah_fails_on_an_ignored_source() -> None:
    text = "FROM img\nCOPY recipes /opt/recipes\nCOPY conf/secret.json /etc/s.json\n"
    found = verdict(text, "buildah", ignore="conf/secret.json\n")
    assert found.outcome is Outcome.BUILD_FAILS


@pytest.mark.parametrize("builder", EVERY)
def test_a_comment_behind_a_copy_is_sources_that_do_not_exist(builder: str) -> None:
    found = verdict("FROM img\nCOPY recipes /opt/recipes # all models\n", builder)
    assert found.outcome is Outcome.BUILD_FAILS


def test_what_docker_23_to_28_know() -> None:
    for name in DOCKER:
        with_parents = judged("FROM img\nCOPY --parents recipes/./a /opt/\n", name)
        assert with_parents.verdicts[0].outcome is Outcome.BUILD_FAILS, name
    assert find_profile("docker-27-containerd").frontend.merges_links
    assert not find_profile("docker-27").frontend.merges_links


def test_buildah_reads_no_escape_behind_another_directive() -> None:
    text = "# syntax=docker/dockerfile:1\n# escape=`\nFROM img\nCOPY recipes `\n  /opt/recipes\n"
    assert verdict(text).standing is Standing.COVERED
    with pytest.raises(CoverageError):
        judged(text, "buildah")


def test_one_builders_refusal_does_not_end_the_others() -> None:
    text = b"# syntax=docker/dockerfile:1\n# escape=`\nFROM img\nCOPY recipes `\n  /opt/recipes\n"

    def build(builder: object) -> Build:
        known = find_profile(str(builder.name))  # type: ignore[attr-defined]
        return Build(
            dockerfile=reads(known.frontend, text, "Dockerfile"),
            builder=known,
            main=FilteredContext(context=context(CONTENTS)),
        )

    asset = Asset(model="a", path="recipes/a/t.jinja", folder="recipes/a")
    found = judge_each([find_profile("buildah"), find_profile("buildkit")], build, [asset])
    assert [one.covered for one in found] == [False, True]
    assert found[0].refused


def test_a_name_that_is_not_utf8_cannot_be_sent_by_docker_28() -> None:
    more = {"recipes/a/\udcff": b"x"}
    text = "FROM img\nCOPY recipes /opt/recipes\n"
    assert verdict(text, "docker-28", more=more).outcome is Outcome.BUILD_FAILS
    assert verdict(text, "buildkit-20.10", more=more).standing is Standing.COVERED


def test_folders_that_become_one_are_said_even_without_an_expectation() -> None:
    known = find_profile("buildkit")
    build = Build(
        dockerfile=reads(known.frontend, b"FROM img\nCOPY recipes/a conf /app/\n", "Dockerfile"),
        builder=known,
        main=FilteredContext(context=context(CONTENTS)),
    )
    assets = [
        Asset(model="a", path="recipes/a/t.jinja", folder="recipes/a"),
        Asset(model="conf", path="conf/secret.json", folder="conf"),
    ]
    for found in judge(build, assets).verdicts:
        assert found.standing is Standing.NOTED
        assert found.notes[0].startswith("merged: ")


@pytest.mark.parametrize(("pointer", "tracked"), [(True, True), (False, False)])
def test_a_fact_about_the_file_is_told_behind_any_run(pointer: bool, tracked: bool) -> None:
    known = find_profile("buildkit")
    text = b"FROM img\nCOPY recipes /opt/recipes\nRUN ./x.sh /opt/recipes\n"
    build = Build(
        dockerfile=reads(known.frontend, text, "Dockerfile"),
        builder=known,
        main=FilteredContext(context=context(CONTENTS)),
    )
    asset = Asset(
        model="a", path="recipes/a/t.jinja", folder="recipes/a", pointer=pointer, tracked=tracked
    )
    (found,) = judge(build, [asset]).verdicts
    assert found.outcome is (Outcome.LFS_POINTER if pointer else Outcome.UNTRACKED)
