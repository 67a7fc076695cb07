"""Public reports, each rebuilt in small and named after its issue.

Where a report was closed as "works as documented", the documented behaviour is what is asserted;
the builders' own behaviour was measured with real builds.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from imagegate.coverage.building.build import Build, Evaluation, FilteredContext
from imagegate.coverage.building.evaluate import evaluate
from imagegate.coverage.building.profiles import PROFILES, find_profile
from imagegate.coverage.outcome import Asset, AssetVerdict, Outcome
from imagegate.coverage.reading.dockerfile import parse_dockerfile
from imagegate.coverage.sending.ignorefile import NO_IGNORE_FILE, read_ignore_file
from imagegate.coverage.sending.walk import ContextFilter
from imagegate.coverage.tree import Context, build_tree, file, link, lookup, walk
from imagegate.coverage.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.coverage.tree import Node

ALL = tuple(PROFILES)
MODERN = ("buildkit", "classic")


SIZE = 200


def _own_bytes(path: str) -> io.BytesIO:
    """Every file has a content of its own."""
    return io.BytesIO(path.ljust(SIZE).encode())


def a_build(
    dockerfile: str,
    files: Sequence[str],
    *,
    ignore: str | None = None,
    links: dict[str, str] | None = None,
    builder: str = "buildkit",
    named: dict[str, tuple[Sequence[str], str]] | None = None,
) -> Build:
    profile = find_profile(builder)

    def filtered(
        paths: Sequence[str], lines: str | None, more: dict[str, str] | None, name: str
    ) -> FilteredContext:
        entries = {path: file(size=SIZE) for path in paths}
        entries |= {path: link(target) for path, target in (more or {}).items()}
        rules = NO_IGNORE_FILE
        if lines is not None:
            rules = read_ignore_file(lines.encode(), ".dockerignore", profile.client.reader)
        context = Context(root=build_tree(entries), open=_own_bytes, name=name)
        return FilteredContext(context=context, ignore=rules)

    return Build(
        dockerfile=parse_dockerfile(dockerfile.encode(), "Dockerfile"),
        dockerfile_path="Dockerfile",
        builder=profile,
        main=filtered(files, ignore, links, ""),
        named={
            name: filtered(paths, lines, None, name)
            for name, (paths, lines) in (named or {}).items()
        },
    )


def image_of(build: Build) -> set[str]:
    done = evaluate(build)
    assert not done.failures
    return {path for path, node in walk(done.image) if not node.children}


def failure_of(build: Build) -> str:
    done: Evaluation = evaluate(build)
    assert done.failures
    return done.failures[0].message


def verdict_on(
    build: Build, path: str, *, model: str, folder: str, expected: str | None = None
) -> AssetVerdict:
    asset = Asset(model=model, path=path, folder=folder, expected=expected)
    return judge(build, [asset]).verdicts[0]


def kept(ignore: str, path: str, builder: str = "buildkit", *, others: Sequence[str] = ()) -> bool:
    profile = find_profile(builder)
    rules = ContextFilter(
        read_ignore_file(ignore.encode(), ".dockerignore", profile.client.reader), profile.client
    )
    root: Node = rules.send(build_tree({name: file() for name in (path, *others)}))
    return lookup(root, path) is not None


# -- files that nothing copies


def test_vllm_project_vllm_8758_chat_templates_are_in_no_image() -> None:
    build = a_build(
        "FROM scratch\nCOPY vllm /v/\n", ["vllm/a.py", "examples/template_chatml.jinja"]
    )
    said = verdict_on(build, "examples/template_chatml.jinja", model="examples", folder="examples")
    assert said.outcome is Outcome.NOT_COPIED


@pytest.mark.parametrize(
    ("report", "new"),
    [
        ("zeroclaw-labs/zeroclaw#6304", "crates/new/Cargo.toml"),
        ("sochdb/sochdb#103", "sochdb-query/Cargo.toml"),
        ("sochdb/sochdb#104", "sochdb-index/Cargo.toml"),
        ("jdx/tak#16", "crates/tak-cli/Cargo.toml"),
        ("mitre/hipcheck#331", "sdk/Cargo.toml"),
        ("Kpa-clawbot/CoreScope#1308", "internal/new/new.go"),
        ("fmaclen/canutin#321", "packages/new/package.json"),
    ],
)
def test_a_new_package_without_its_copy_line_is_missing(report: str, new: str) -> None:
    folder, _, _ = new.rpartition("/")
    build = a_build("FROM scratch\nCOPY old/a /o/old/a\n", ["old/a", new])
    said = verdict_on(build, new, model=folder.rpartition("/")[2], folder=folder)
    assert said.outcome is Outcome.NOT_COPIED, report


def test_dashpay_platform_3418_a_member_is_missing_in_each_parents_list() -> None:
    dockerfile = (
        "FROM scratch AS a\nCOPY --parents pkg/one /x/\nFROM scratch AS b\n"
        "COPY --parents pkg/one /x/\nFROM scratch\nCOPY --from=a /x /x\nCOPY --from=b /x /y\n"
    )
    build = a_build(dockerfile, ["pkg/one/Cargo.toml", "pkg/two/Cargo.toml"])
    assert image_of(build) == {"x/pkg/one/Cargo.toml", "y/pkg/one/Cargo.toml"}
    said = verdict_on(build, "pkg/two/Cargo.toml", model="two", folder="pkg/two")
    assert said.outcome is Outcome.NOT_COPIED


@pytest.mark.parametrize("report", ["causify-ai/helpers#197", "sclorg/s2i-base-container#227"])
def test_a_link_whose_target_is_not_in_the_context_cannot_be_copied(report: str) -> None:
    build = a_build("FROM scratch\nCOPY cfg /o/cfg\n", ["x"], links={"cfg": "../outside/cfg"})
    assert "not found" in failure_of(build), report


def test_moby_buildkit_4900_a_missing_parents_source_is_an_error_and_a_glob_is_silent() -> None:
    assert failure_of(a_build("FROM scratch\nCOPY --parents no/such /o/\n", ["a"]))
    assert image_of(a_build("FROM scratch\nCOPY a /\nCOPY --parents no*/x /o/\n", ["a"])) == {
        "a",
        "o",
    }


# -- ignore files


def test_evenfire_ai_evenfire_745_an_allow_list_forgets_a_package() -> None:
    build = a_build(
        "FROM scratch\nCOPY packages/llm-providers /o/\n",
        ["packages/a/x", "packages/llm-providers/y"],
        ignore="**\n!packages/a/**\n",
    )
    assert "not found" in failure_of(build)
    said = verdict_on(
        build,
        "packages/llm-providers/y",
        model="llm-providers",
        folder="packages/llm-providers",
        expected="/o/y",
    )
    assert said.outcome is Outcome.IGNORED
    assert said.place is not None
    assert (said.place.path, said.place.line) == (".dockerignore", 1)


def test_qwen38_flash_next_6_an_allow_list_forgets_a_script() -> None:
    build = a_build(
        "FROM scratch\nCOPY scripts/check_custom_all_reduce.py /s/\n",
        ["scripts/check_custom_all_reduce.py", "scripts/run.sh"],
        ignore="*\n!scripts/run.sh\n",
    )
    assert "not found" in failure_of(build)


def test_discogsography_355_prompts_are_dropped_silently() -> None:
    files = ["api/app.py", "api/prompts/system.md"]
    build = a_build("FROM scratch\nCOPY api /api\n", files, ignore="**/*.md\n")
    assert image_of(build) == {"api/app.py", "api/prompts"}
    said = verdict_on(build, "api/prompts/system.md", model="prompts", folder="api/prompts")
    assert said.outcome is Outcome.IGNORED


@pytest.mark.parametrize("report", ["jasonxtn/Argus#31", "VoltCyclone/PCILeechFWGenerator#6"])
def test_a_requirements_file_that_is_ignored_fails_its_copy(report: str) -> None:
    build = a_build(
        "FROM scratch\nCOPY requirements.txt /\n", ["requirements.txt", "a"], ignore="*.txt\n"
    )
    assert "not found" in failure_of(build), report


def test_spring_boot_hola_docker_1_the_target_folder_hides_the_jar() -> None:
    build = a_build(
        "FROM scratch\nCOPY a /a\nCOPY target/app.jar /app.jar\n",
        ["a", "target/app.jar"],
        ignore="target/\n",
    )
    assert "not found" in failure_of(build)


def test_django_studio_415_a_plain_name_matches_at_the_root_only() -> None:
    assert not kept("README.md\n", "README.md")
    assert kept("README.md\n", "docs/README.md")


@pytest.mark.parametrize(
    "report",
    [
        "containers/buildah#6615",
        "docker/for-linux#585",
        "docker/cli#2847",
        "docker/cli#2919",
        "moby/moby#40318",
        "moby/moby#30018",
    ],
)
@pytest.mark.parametrize("builder", ALL)
def test_a_wildcard_exception_behind_a_star_works_in_new_buildkit_only(
    report: str, builder: str
) -> None:
    found = kept("*\n!recipes/*/template.jinja\n", "recipes/k/template.jinja", builder)
    assert found is (builder == "buildkit"), report


def test_docker_buildx_850_a_later_line_drops_what_an_exception_kept() -> None:
    ignore = "**\n!util/docker/web\nutil/docker/web/foo\n"
    others = ["util/docker/web/bar"]
    assert not kept(ignore, "util/docker/web/foo", others=others)
    assert kept(ignore, "util/docker/web/bar", others=["util/docker/web/foo"])


@pytest.mark.parametrize("builder", MODERN)
def test_moby_41433_only_the_exception_is_kept(builder: str) -> None:
    ignore = "**/c\n!a/b/c/include.txt\n"
    assert kept(ignore, "a/b/c/include.txt", builder, others=["a/b/c/exclude.txt"])
    assert not kept(ignore, "a/b/c/exclude.txt", builder, others=["a/b/c/include.txt"])


def test_moby_45284_a_slash_at_the_end_has_no_meaning() -> None:
    ignore = "ignored/*\n!ignored/*/\n"
    assert kept(ignore, "ignored/file")
    assert kept(ignore, "ignored/folder/file")


@pytest.mark.parametrize(("builder", "dropped"), [("classic", True), ("classic-20.10", False)])
def test_docker_cli_2461_a_plus_in_a_name(builder: str, *, dropped: bool) -> None:
    assert kept("a+b\n", "a+b", builder) is not dropped


@pytest.mark.parametrize("report", ["aws/aws-cdk#20712", "aws/aws-cdk#4450"])
@pytest.mark.parametrize("builder", ALL)
def test_a_script_behind_a_star_is_kept(report: str, builder: str) -> None:
    assert kept("*\n!docker/startup.sh\n", "docker/startup.sh", builder), report


@pytest.mark.parametrize(
    "report",
    [
        "GoogleContainerTools/kaniko#595",
        "GoogleContainerTools/kaniko#986",
        "GoogleContainerTools/kaniko#1280",
    ],
)
@pytest.mark.parametrize("builder", ALL)
def test_an_ignore_file_does_not_filter_copies_from_a_stage(report: str, builder: str) -> None:
    build = a_build(
        "FROM scratch AS one\nCOPY src /out/dist\nFROM scratch\nCOPY --from=one /out /o\n",
        ["src/x"],
        ignore="dist\nout\n",
        builder=builder,
    )
    assert image_of(build) == {"o/dist/x"}, report


@pytest.mark.parametrize(
    "report",
    [
        "GoogleContainerTools/kaniko#1451",
        "okteto/okteto#2098",
        "pulumi/pulumi-docker#863",
        "apocas/dockerode#774",
    ],
)
def test_an_ignore_file_of_the_dockerfiles_own_wins(report: str) -> None:
    read = find_profile("buildkit").client.ignore_files("docker/app.Dockerfile")
    assert read == ("docker/app.Dockerfile.dockerignore", ".dockerignore"), report
    assert find_profile("classic").client.ignore_files("docker/app.Dockerfile") == (
        ".dockerignore",
    )


@pytest.mark.parametrize("builder", ALL)
def test_testcontainers_dotnet_604_bin_matches_nothing_but_bin(builder: str) -> None:
    assert kept("bin/\n", "src/cabin/x", builder)
    assert kept("bin/\n", "src/bin/x", builder)
    assert not kept("bin/\n", "bin/x", builder)


@pytest.mark.parametrize("builder", ALL)
def test_testcontainers_dotnet_1122_a_folder_and_two_stars_match_below_it_only(
    builder: str,
) -> None:
    assert kept("x/**\n", "xy", builder)
    assert kept("x/**\n", "a/x/y", builder)
    assert not kept("x/**\n", "x/y", builder)


@pytest.mark.parametrize(
    ("ignore", "path", "is_kept"),
    [
        ("a**/*.txt\n", "a/dir/dir/file.txt", False),
        ("a/../secret\n", "secret", False),
        (" # x\n", "# x", False),
    ],
)
def test_akernel_16_git_rules_are_not_docker_rules(
    ignore: str, path: str, *, is_kept: bool
) -> None:
    assert kept(ignore, path) is is_kept


@pytest.mark.parametrize("report", ["docker/cli#2827", "docker/buildx#2353"])
def test_without_an_ignore_file_as_for_a_git_context_everything_is_sent(report: str) -> None:
    build = a_build("FROM scratch\nCOPY . /o/\n", ["a", "secret"])
    assert image_of(build) == {"o/a", "o/secret"}, report


@pytest.mark.parametrize(
    ("report", "ignore"),
    [
        ("moby/buildkit#5884", "*\n!src\n"),
        ("moby/buildkit#6512", "**\n!src/**\n"),
        ("moby/buildkit#6926", "*\n!src/a.py\n"),
        ("moby/moby#52125", ".*\n"),
    ],
)
def test_copy_of_everything_is_no_finding_while_the_assets_are_kept(
    report: str, ignore: str
) -> None:
    build = a_build("FROM scratch\nCOPY . /app\n", ["src/a.py", ".git/x"], ignore=ignore)
    said = verdict_on(build, "src/a.py", model="src", folder="src", expected="/app/src/a.py")
    assert said.covered, report


def test_moby_buildkit_7125_an_exception_anywhere_does_not_silence_the_finding() -> None:
    build = a_build(
        "FROM scratch\nCOPY src /s\nCOPY recipes/k /r/k\n",
        ["src/a", "recipes/k/t"],
        ignore="*\n!src\n",
    )
    said = verdict_on(build, "recipes/k/t", model="k", folder="recipes/k")
    assert said.outcome is Outcome.IGNORED


# -- destinations


def test_openedai_images_flux_1_a_folder_copies_its_contents() -> None:
    build = a_build(
        "FROM scratch\nCOPY config/lib config/x /app/config/\n", ["config/lib/x.json", "config/x/y"]
    )
    said = verdict_on(
        build,
        "config/lib/x.json",
        model="lib",
        folder="config/lib",
        expected="/app/config/lib/x.json",
    )
    assert said.outcome is Outcome.ELSEWHERE
    assert said.found == ("/app/config/x.json",)


@pytest.mark.parametrize("report", ["dongweiming/wechat-admin#57", "spinnaker/rosco#200"])
def test_two_folders_into_one_merge(report: str) -> None:
    build = a_build("FROM scratch\nCOPY dir1 dir2 /web/\n", ["dir1/a", "dir1/same", "dir2/same"])
    assert image_of(build) == {"web/a", "web/same"}, report
    said = verdict_on(build, "dir1/same", model="dir1", folder="dir1", expected="/web/dir1/same")
    assert said.outcome is Outcome.OVERWRITTEN


def test_docker_birthday_3_52_a_file_takes_the_place_of_the_folder() -> None:
    build = a_build(
        "FROM scratch\nCOPY templates/index.html /usr/src/app/templates\n", ["templates/index.html"]
    )
    said = verdict_on(
        build,
        "templates/index.html",
        model="templates",
        folder="templates",
        expected="/usr/src/app/templates/index.html",
    )
    assert said.outcome is Outcome.ELSEWHERE
    assert said.found == ("/usr/src/app/templates",)


@pytest.mark.parametrize(
    "report",
    [
        "clicon/clixon#640",
        "Omnition/synthetic-load-generator#16",
        "beacon-biosignals/julia_pod#24",
        "moby/moby#15858",
    ],
)
@pytest.mark.parametrize("builder", ALL)
def test_a_glob_of_folders_is_flattened(report: str, builder: str) -> None:
    files = ["dir/one/t", "dir/two/t"]
    build = a_build("FROM scratch\nCOPY dir/* /dest/\n", files, builder=builder)
    assert image_of(build) == {"dest/t"}, report
    said = [verdict_on(build, path, model=path[4:7], folder=path[:7]).outcome for path in files]
    assert Outcome.OVERWRITTEN in said


# -- stages


@pytest.mark.parametrize(
    "report",
    [
        "graphile/starter#76",
        "Dyneteq/reconya#93",
        "alphagov/notifications-api#4028",
        "Shelf-nu/shelf.nu#1981",
    ],
)
def test_a_file_that_stays_in_the_build_stage_is_not_in_the_image(report: str) -> None:
    build = a_build(
        "FROM scratch AS build\nCOPY . /b\nFROM scratch\nCOPY --from=build /b/dist /app\n",
        ["dist/a", "templates/t"],
    )
    said = verdict_on(build, "templates/t", model="templates", folder="templates")
    assert said.outcome is Outcome.OTHER_STAGE, report
    assert "`build`" in said.reason


# -- globs, excludes


@pytest.mark.parametrize(
    "report",
    ["sat-heritage/docker-images#50", "moby/buildkit#2933", "moby/buildkit#1266"],
)
def test_a_glob_without_a_match_covers_nothing_and_fails_or_not_by_builder(report: str) -> None:
    dockerfile = "FROM scratch\nCOPY a /\nCOPY no*such /o/\n"
    assert image_of(a_build(dockerfile, ["a"])) == {"a"}, report
    assert failure_of(a_build(dockerfile, ["a"], builder="classic")), report
    hidden = "FROM scratch\nCOPY a /\nCOPY dir/*.x /o/\n"
    assert "no such file" in failure_of(a_build(hidden, ["a", "dir/f.x"], ignore="dir\n"))


def test_moby_buildkit_5489_exclude_does_not_touch_a_file_that_is_a_source() -> None:
    build = a_build("FROM scratch\nCOPY --exclude=a * /o/\n", ["a", "b"])
    assert image_of(build) == {"o/a", "o/b"}


def test_moby_buildkit_5509_exclude_is_anchored_at_the_source() -> None:
    build = a_build("FROM scratch\nCOPY --exclude=*.1 dir /o/\n", ["dir/a.1", "dir/sub/b.1"])
    assert image_of(build) == {"o/sub/b.1"}


@pytest.mark.parametrize(
    "report",
    [
        "immanuwell/dockerfile-roast#55",
        "immanuwell/dockerfile-roast#56",
        "immanuwell/dockerfile-roast#16",
        "immanuwell/dockerfile-roast#19",
        "immanuwell/dockerfile-roast#59",
    ],
)
def test_sources_that_the_ignore_file_keeps_are_no_finding(report: str) -> None:
    build = a_build(
        "FROM scratch AS one\nCOPY ./src/ /s/\nFROM scratch\nCOPY --from=one /s /s\n",
        ["src/a", "tests/t"],
        ignore="# only what is needed\n*\n!src/\n",
    )
    said = verdict_on(build, "src/a", model="src", folder="src", expected="/s/a")
    assert said.covered, report


def test_a_named_context_has_an_ignore_file_of_its_own() -> None:
    build = a_build(
        "FROM scratch\nCOPY --from=other . /o/\n",
        ["x"],
        ignore="kept\n",
        named={"other": (["kept", "gone"], "gone\n")},
    )
    assert image_of(build) == {"o/kept"}
