"""Public reports of GPU images about indexes, tags, digests and builds: what the commands say.

Every test is named after its report, as in :mod:`tests.checks.test_gpu_reports`.
"""

from __future__ import annotations

import json
import shutil

import pytest

from tests.images import ImageBuilder, digest, write_layout
from tests.registry import FOREVER, LoopbackRegistry
from tests.wheels import installed, write_wheel
from tests.world import SITE, World, pin

GONE = "2c6da6c6f16ed15c91e412d896dba13701f25fe1861eaec9ddaa4db34d1d21c4"


# --- 14: an index that does not have what is asked for


def test_flashinfer_4781_the_index_has_no_cubins_of_this_version(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """PyPI has flashinfer-cubin up to 0.6.13 and no flashinfer-jit-cache; the rest lies elsewhere."""
    write_wheel(
        world.root.parent / "wheelhouse",
        "flashinfer-cubin",
        "0.6.13",
        {"flashinfer_cubin/__init__.py": ""},
    )
    asked = "rayish\nflashinfer-cubin==0.6.18\nflashinfer-jit-cache\n"
    (world.root / "images/demo/requirements.in").write_text(asked)
    before = {path.name: path.read_bytes() for path in world.lock.iterdir()}
    capsys.readouterr()

    assert world.run("lock", "demo", "--base", f"oci:{world.base_layout}") == 3

    said = capsys.readouterr().err
    assert "`flashinfer-cubin`: needed=flashinfer-cubin==0.6.18 newest=0.6.13" in said
    assert "`flashinfer-jit-cache`: needed=flashinfer-jit-cache newest=nothing" in said
    assert "`rayish`" not in said
    assert "--extra-index-url" in said
    assert {path.name: path.read_bytes() for path in world.lock.iterdir()} == before


# --- 28, 29: tags that move, digests that go


def vllm_image(version: str) -> ImageBuilder:
    builder = ImageBuilder(config={"Labels": {"ai.vllm.build.version": version}})
    files: dict[str, str | bytes] = {"vllm/_version.py": f"__version__ = '{version}'\n"}
    return builder.layer(dict(installed(SITE, "vllm", version, files)), "RUN uv pip install vllm")


def test_dynamo_14573_the_tag_was_pushed_again_and_the_digest_is_still_served(
    world: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    """`glm53-flash` led to 0.1.dev20051+g487ecf187, then to 0.28.1rc1.dev580+g385dce36b."""
    before = vllm_image("0.1.dev20051+g487ecf187").build()
    after = vllm_image("0.28.1rc1.dev580+g385dce36b").build()
    registry.add("vllm/vllm-openai", before, "glm53-flash")
    pin(world, f"{registry.netloc}/vllm/vllm-openai:glm53-flash@{before.digest}")
    assert world.run("drift", "demo") == 0
    registry.add("vllm/vllm-openai", after, "glm53-flash")
    capsys.readouterr()

    assert world.run("drift", "demo", "--format", "json") == 1

    (found,) = json.loads(capsys.readouterr().out)
    answers = {one["asks"]: (one["answer"], one["detail"]) for one in found["questions"]}
    assert answers["served"][0] == "holds"
    assert answers["tag"] == (
        "drifted",
        f"`glm53-flash` has moved: pinned={before.digest} found={after.digest}",
    )


def test_dynamo_14598_what_moved_with_the_tag_is_told_by_diff(
    registry: LoopbackRegistry, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    before = vllm_image("0.1.dev20051+g487ecf187").build()
    after = vllm_image("0.28.1rc1.dev580+g385dce36b").build()
    names = [registry.add("vllm/vllm-openai", image) for image in (before, after)]
    capsys.readouterr()

    assert world.run("diff", *(f"docker://{name}" for name in names)) == 1

    said = capsys.readouterr().out
    assert "vllm" in said
    assert "0.1.dev20051+g487ecf187" in said
    assert "0.28.1rc1.dev580+g385dce36b" in said


@pytest.mark.parametrize(
    "report", ["InferenceX#2855", "club-3090#258", "FujitsuPolycom/sparkring#75"]
)
def test_sparkring_75_the_pinned_digest_is_served_no_more(
    report: str, world: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    """The registry answers 404 MANIFEST_UNKNOWN, and 200 for its sibling."""
    assert report
    registry.add("gb10/serving", vllm_image("0.28.0").build(), "r34")
    pin(world, f"{registry.netloc}/gb10/serving:r34@sha256:{GONE}")
    capsys.readouterr()

    assert world.run("drift", "demo") == 1
    assert f"no longer serves sha256:{GONE}" in capsys.readouterr().out
    # without the base's bytes nothing can be locked: could not judge, and never a pass
    assert world.run("lock", "demo") == 3
    assert GONE in capsys.readouterr().err


def test_sparkring_75_a_registry_that_refuses_is_not_one_that_has_nothing(
    world: World, registry: LoopbackRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(world, f"{registry.netloc}/team/base:stable@{world.base.digest}")
    registry.fail("manifest.get", 403, times=FOREVER)
    registry.fail("manifest.head", 403, times=FOREVER)
    capsys.readouterr()

    assert world.run("drift", "demo", "--format", "json") == 3

    (found,) = json.loads(capsys.readouterr().out)
    assert {one["answer"] for one in found["questions"]} == {"unknown"}


def test_vllm_ascend_10238_a_promoted_digest_keeps_a_tag(
    homed: World, registry: LoopbackRegistry
) -> None:
    """quay.io removes digests that no tag names, after an hour."""
    assert homed.run("promote", "demo", "--to", f"{registry.netloc}/team/app") == 0

    assert homed.image().digest in registry.tags["team/app"].values()


# --- 30: a digest where a name is wanted


@pytest.mark.parametrize("report", ["MiaAI-Lab#161", "MiaAI-Lab#173", "MiaAI-Lab#190"])
def test_miaai_lab_161_a_digest_is_no_name_to_build_or_push_under(
    report: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recipes had one variable for the image to serve and the tag to build."""
    assert report
    serve = f"ghcr.io/lab/dspark@sha256:{GONE}"
    path = world.root / "images/demo/image.toml"
    text = path.read_text()
    capsys.readouterr()
    path.write_text(text.replace('repository = "localhost/demo"', f'repository = "{serve}"'))
    assert world.run("build", "demo") == 2
    assert "write the repository alone, without tag and digest" in capsys.readouterr().err
    path.write_text(text)
    assert world.run("promote", "demo", "--to", serve) == 2
    assert "digest" in capsys.readouterr().err


def test_miaai_lab_161_serving_name_and_build_name_are_two_things(
    homed: World, registry: LoopbackRegistry
) -> None:
    assert homed.run("promote", "demo", "--to", f"{registry.netloc}/team/app:v1") == 0

    lines = (homed.root / "profiles/demo.env").read_text().splitlines()
    profile = dict(line.split("=", 1) for line in lines)
    assert profile["IMAGE"] == f"{registry.netloc}/team/app@{profile['IMAGE_DIGEST']}"


def test_miaai_lab_190_a_base_by_tag_and_digest_is_locked_by_the_digest(
    world: World, registry: LoopbackRegistry
) -> None:
    pin(world, f"{registry.netloc}/team/base:stable@{world.base.digest}")

    assert world.run("lock", "demo") == 0

    base = json.loads((world.lock / "lock.json").read_text())["base"]
    assert base["digest"] == world.base.digest
    assert base["image"] == f"{registry.netloc}/team/base:stable@{world.base.digest}"


# --- 39: builds that are not pinned


def test_eugr_167_a_newer_release_does_not_change_what_is_built(world: World) -> None:
    """The requirement has no version; what the lock chose is what is installed."""
    assert (world.root / "images/demo/requirements.in").read_text() == "rayish\n"
    before = world.image().digest
    write_wheel(
        world.root.parent / "wheelhouse",
        "rayish",
        "2.61.0",
        {"rayish/__init__.py": "NEWER = True\n"},
    )
    shutil.rmtree(world.layout)

    assert world.run("build", "demo") == 0

    assert world.image().digest == before


def test_eugr_167_what_an_unpinned_step_installed_is_not_what_was_locked(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same Dockerfile a week later: its layer has the newer release."""
    newer = installed(SITE, "rayish", "2.61.0", {"rayish/__init__.py": "NEWER = True\n"})
    layers = zip(world.base.tars, ("ADD system", "RUN pip install the pins"), strict=True)
    builder = ImageBuilder(config=json.loads(world.base.config)["config"])
    for content, step in layers:
        builder.layer(content, step)
    image = builder.layer(dict(newer), "RUN pip install rayish").build()
    folder = world.root.parent / "later"
    shutil.rmtree(folder, ignore_errors=True)
    write_layout(folder, image)
    capsys.readouterr()

    assert world.run("verify", "demo", "--image", f"oci:{folder}", "--format", "json") == 1

    report = json.loads(capsys.readouterr().out)
    codes = {f["code"] for check in report["checks"] for f in check["findings"]}
    assert any(code.startswith("python.locked/") for code in codes)
    assert digest(image.manifest) == report["image"]["digest"]
