"""``imagegate drift``: the tag, the digest, index or manifest; what was not asked is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.images import ImageBuilder
from tests.registry import FOREVER, LoopbackRegistry
from tests.world import World, pin

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
ARM = {"os": "linux", "architecture": "arm64"}


def drift(world: World, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, list[str]]]:
    capsys.readouterr()
    code = world.run("drift", "demo", "--format", "json")
    (found,) = json.loads(capsys.readouterr().out)
    return code, {one["asks"]: [one["answer"], one["detail"]] for one in found["questions"]}


def tagged(registry: LoopbackRegistry, world: World) -> str:
    return f"{registry.netloc}/team/base:stable@{world.base.digest}"


def test_a_tag_that_leads_to_the_pinned_manifest_holds(
    world: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(world, tagged(registry, world))

    assert drift(world, capsys) == (
        0,
        {
            "served": ["holds", "served as platform manifest"],
            "tag": ["holds", "`stable` leads to it"],
        },
    )


def test_a_moved_tag_is_a_finding_with_both_digests(
    world: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(world, tagged(registry, world))
    other = ImageBuilder().layer({"other": "x"}).build()
    registry.add("team/base", other, "stable")

    code, found = drift(world, capsys)

    assert code == 1
    assert found["served"][0] == "holds"
    assert found["tag"] == [
        "drifted",
        f"`stable` has moved: pinned={world.base.digest} found={other.digest}",
    ]


def test_a_tag_and_a_digest_that_are_gone_are_findings(
    world: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(world, tagged(registry, world))
    registry.manifests.clear()
    registry.tags.clear()

    code, found = drift(world, capsys)

    assert code == 1
    assert [answer for answer, _ in found.values()] == ["drifted", "drifted"]
    assert f"no longer serves {world.base.digest}" in found["served"][1]


def test_a_platform_manifest_is_held_by_the_tag_of_its_index(
    world: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pin may be the index's digest or the platform's (bazelbuild/rules_docker#714)."""
    index = {
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [world.base.descriptor(platform=ARM)],
    }
    through = registry.add_manifest("team/base", index, OCI_INDEX, "stable").partition("@")[2]
    pin(world, tagged(registry, world))

    code, found = drift(world, capsys)

    assert code == 0
    assert found["tag"] == ["holds", f"`stable` leads to it through the index {through}"]

    pin(world, f"{registry.netloc}/team/base:stable@{through}")
    code, found = drift(world, capsys)
    assert (code, found["served"]) == (
        0,
        ["holds", f"served as index; linux/arm64 is {world.base.digest}"],
    )
    del registry.manifests["team/base"][world.base.digest]
    code, found = drift(world, capsys)
    assert (code, found["served"][0]) == (1, "drifted")


def test_a_recipe_without_a_tag_says_that_no_tag_was_asked_for(
    world: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(world, f"{registry.netloc}/team/base@{world.base.digest}")

    code, found = drift(world, capsys)

    assert code == 0
    assert found["tag"][0] == "not asked"


def test_a_registry_that_refuses_is_unknown_and_no_pass(
    world: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(world, tagged(registry, world))
    registry.fail("manifest.get", 403, times=FOREVER)

    code, found = drift(world, capsys)

    assert code == 3
    assert [answer for answer, _ in found.values()] == ["unknown", "unknown"]


def test_a_base_that_is_composed_here_is_not_asked_for(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    path = world.root / "images/demo/image.toml"
    path.write_text(path.read_text().replace("[base]\n", '[base]\nrecipe = "under"\n'))

    code, found = drift(world, capsys)

    assert code == 0
    assert found["base"][0] == "not asked"
    assert "`under`" in found["base"][1]


def test_the_text_names_recipe_base_and_each_question(
    world: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(world, tagged(registry, world))
    capsys.readouterr()

    assert world.run("drift") == 0

    assert capsys.readouterr().out.splitlines() == [
        f"demo  {tagged(registry, world)}",
        "  served  holds      served as platform manifest",
        "  tag     holds      `stable` leads to it",
    ]


def test_in_a_workflow_the_recipe_is_annotated_and_the_summary_has_the_answers(
    world: World,
    registry: LoopbackRegistry,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pin(world, tagged(registry, world))
    other = ImageBuilder().layer({"other": "x"}).build()
    registry.add("team/base", other, "stable")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    capsys.readouterr()

    assert world.run("drift", "demo", "--format", "github") == 1

    served, moved = capsys.readouterr().out.splitlines()
    # docs.github.com, "Workflow commands": ::error file={name},line={line},title={title}::{message}
    where = "file=images/demo/image.toml,line=1,title=drift%3A"
    assert served.startswith(f"::notice {where} served::")
    assert moved.startswith(f"::error {where} tag::")
    assert f"found={other.digest}" in moved
    summary = (tmp_path / "summary.md").read_text()
    assert "| tag | drifted |" in summary
    assert other.digest in summary
