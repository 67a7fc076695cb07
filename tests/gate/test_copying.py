"""A recipe's own Dockerfile is judged from its text: no asset is lost on the way unsaid."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.gate.test_sabotage import failures, findings, rebuilt, verdict
from tests.world import World

TARGET = "usr/share/demo/recipes"
BOTH = (
    "FROM {{ base }}\n"
    f"COPY recipes/alpha/ /{TARGET}/alpha/\n"
    f"COPY recipes/beta/ /{TARGET}/beta/\n"
)
ALPHA, BETA = "recipes/alpha/template.jinja", "recipes/beta/template.jinja"

LOST: dict[str, tuple[str, str | None, dict[str, set[str]]]] = {
    # name: Dockerfile.j2, Dockerfile.dockerignore, subjects by code
    "a COPY line is forgotten": (
        f"FROM {{{{ base }}}}\nCOPY recipes/alpha/ /{TARGET}/alpha/\n",
        None,
        {"copy.coverage/not-copied": {BETA}},
    ),
    "a glob flattens the folders (moby/moby#15858)": (
        f"FROM {{{{ base }}}}\nCOPY recipes/* /{TARGET}/\n",
        None,
        {"copy.coverage/overwritten": {ALPHA}, "copy.coverage/elsewhere": {BETA}},
    ),
    "the contents land one level up (matatonic/openedai-images-flux#1)": (
        f"FROM {{{{ base }}}}\nCOPY recipes/alpha /{TARGET}/\nCOPY recipes/beta/ /{TARGET}/beta/\n",
        None,
        {"copy.coverage/elsewhere": {ALPHA}},
    ),
    "a folder of the base takes the file in": (
        # the base has the folder /opt/tool, which only its lock knows
        f"FROM {{{{ base }}}}\nCOPY recipes/alpha/ /{TARGET}/alpha/\nCOPY {BETA} /opt/tool\n",
        None,
        {"copy.coverage/elsewhere": {BETA}},
    ),
    "it is copied in the builder and not in the runtime stage (graphile/starter#76)": (
        f"{BOTH}FROM {{{{ base }}}}\nCOPY recipes/alpha/ /{TARGET}/alpha/\n",
        None,
        {"copy.coverage/other-stage": {BETA}},
    ),
    "a later COPY writes over it": (
        f"{BOTH}COPY {ALPHA} /{TARGET}/beta/template.jinja\n",
        None,
        {"copy.coverage/overwritten": {BETA}},
    ),
    "the ignore file drops it (evenfire-ai/evenfire#745)": (
        BOTH,
        "**\n!recipes/alpha\n",
        {
            "copy.context/ignored": {BETA},
            "copy.coverage/ignored": {BETA},
            "copy.coverage/build-fails": {ALPHA},
        },
    ),
    "the ignore file drops it and a glob says nothing": (
        f"FROM {{{{ base }}}}\nCOPY recipes/ /{TARGET}/\n",
        "**/*.jinja\n!recipes/\n",
        {"copy.context/ignored": {ALPHA, BETA}, "copy.coverage/ignored": {ALPHA, BETA}},
    ),
    "the ignore file lets it through empty": (
        # facts on BuildKit since 0.13: the walk keeps it and the file opener does not
        f"FROM {{{{ base }}}}\nCOPY recipes/ /{TARGET}/\n",
        "recipes/beta\n!recipes/beta/template.jinja\nrecipes/beta\n",
        {"copy.context/empty": {BETA}, "copy.coverage/empty": {BETA}},
    ),
}


def write(world: World, template: str, ignore: str | None = None) -> None:
    recipe = world.root / "images/demo"
    (recipe / "Dockerfile.j2").write_text(template)
    if ignore is not None:
        (recipe / "Dockerfile.dockerignore").write_text(ignore)


def judged(world: World, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = world.run("verify", "demo", "--format", "json")
    return code, json.loads(capsys.readouterr().out)


def compared(report: dict[str, Any], check: str) -> list[str]:
    (found,) = (one for one in report["checks"] if one["id"] == check)
    lines: list[str] = found["compared"]
    return lines


@pytest.mark.parametrize("name", LOST)
def test_an_asset_that_the_dockerfile_loses_fails_the_gate(
    name: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    template, ignore, expected = LOST[name]
    write(world, template, ignore)

    code, report = judged(world, capsys)

    assert code == 1
    found = {key: {f["subject"] for f in findings(report, key)} for key in failures(report)}
    assert found == expected


@pytest.mark.parametrize("name", LOST)
def test_the_commit_hook_hears_of_it_without_an_image(
    name: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    template, ignore, expected = LOST[name]
    write(world, template, ignore)
    capsys.readouterr()

    assert world.run("verify", "--static") == 1

    said = capsys.readouterr().out
    for key, subjects in expected.items():
        for subject in subjects:
            assert f"{key} {subject}" in said


@pytest.mark.parametrize(
    "template", [BOTH, '{% include "Dockerfile.j2" %}\n', BOTH + "RUN mkdir -p /srv/x\n"]
)
def test_a_dockerfile_that_brings_every_asset_passes(
    template: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    write(world, template)

    code, report = judged(world, capsys)

    assert code == 0
    assert len(compared(report, "copy.context")) == 3, "the builder and each of two assets"
    assert len(compared(report, "copy.coverage")) == 3
    assert world.run("verify", "--static") == 0


def test_without_a_dockerfile_there_is_nothing_to_judge_and_that_is_said(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    assert world.run("verify", "demo") == 0

    said = capsys.readouterr().out
    for check in ("copy.context ", "copy.coverage"):
        (line,) = (line for line in said.splitlines() if f"  {check}" in line)
        assert "no Dockerfile takes part" in line
        assert "compared" not in line


def test_a_command_that_removes_an_asset_is_never_covered(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    write(world, f"{BOTH}RUN rm -rf /{TARGET}/beta\n")
    capsys.readouterr()

    assert world.run("verify", "--static") == 1
    said = capsys.readouterr().out
    assert f"copy.coverage/unknown {BETA}" in said
    assert ALPHA not in said


def test_what_the_text_leaves_open_only_the_bytes_settle(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(world, f"{BOTH}RUN rm -rf /{TARGET}/beta\n")

    code, report = judged(world, capsys)
    assert code == 0
    (open_,) = findings(report, "copy.coverage/unknown")
    assert (open_["subject"], open_["severity"]) == (BETA, "note")

    gone = rebuilt(world.image(), [{f"{TARGET}/beta/.wh.template.jinja": b""}])
    code, report = verdict(world, gone, tmp_path / "gone", capsys)
    assert code == 1
    assert {"copy.coverage/unknown", "copy.present/absent"} <= failures(report).keys()


def test_a_command_through_a_link_reaches_what_the_link_leads_to(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = world.root / "images/demo"
    (recipe / "extra").mkdir()
    (recipe / "extra/short").symlink_to(f"/{TARGET}")
    write(world, f"{BOTH}COPY extra/ /srv/\nRUN rm /srv/short/beta/template.jinja\n", "")
    capsys.readouterr()

    assert world.run("verify", "--static") == 1
    said = capsys.readouterr().out
    assert f"copy.coverage/unknown {BETA}" in said


def test_the_finding_proposes_the_lines(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        world,
        f"FROM {{{{ base }}}}\nCOPY recipes/alpha/ /{TARGET}/alpha/\n",
        "**\n!recipes/alpha\n",
    )

    _, report = judged(world, capsys)

    (found,) = findings(report, "copy.coverage/ignored")
    assert "`!recipes/beta` to `images/demo/Dockerfile.dockerignore`" in found["hint"]
    assert f"`COPY recipes/beta/ /{TARGET}/beta/` to `images/demo/Dockerfile.j2`" in found["hint"]


@pytest.mark.parametrize(
    ("template", "ignore", "where"),
    [
        ("FROM {{ base }}\nCOPIE a /a\n", None, "images/demo/Dockerfile.j2:2"),
        (BOTH, "**\n!\n", "images/demo/Dockerfile.dockerignore:2"),
    ],
)
def test_a_broken_file_is_no_verdict(
    template: str,
    ignore: str | None,
    where: str,
    world: World,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(world, template, ignore)

    assert world.run("verify", "demo") == 2
    assert where in capsys.readouterr().err
    assert world.run("verify", "--static") == 2


def test_the_recorded_engine_decides_the_builder(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The classic builder knows no `--parents`; facts on builders' flags."""
    write(world, f"FROM {{{{ base }}}}\nCOPY --parents recipes/./*/template.jinja /{TARGET}/\n")
    code, _ = judged(world, capsys)
    assert code == 0

    record = world.root / "build/demo.build.json"
    document = json.loads(record.read_text())
    document["engine"] = {"name": "docker", "builder": "classic", "version": "20.10.24+dfsg1"}
    record.write_text(json.dumps(document))

    code, report = judged(world, capsys)
    assert code == 1
    assert compared(report, "copy.context")[0] == (
        "`images/demo/Dockerfile.j2` with classic builder of Docker 20.10 "
        "(recorded: classic 20.10.24+dfsg1); lines are those of the rendered file"
    )
    assert len(findings(report, "copy.coverage/build-fails")) == 2


def test_the_packaged_dockerfile_of_a_recorded_engine_is_judged_too(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    record = world.root / "build/demo.build.json"
    document = json.loads(record.read_text())
    for builder, version in (("podman", "4.3.1"), ("classic", "20.10.24"), ("buildx", "28.0.1")):
        document["engine"] = {"name": "any", "builder": builder, "version": version}
        record.write_text(json.dumps(document))
        code, report = judged(world, capsys)
        assert code == 0, builder
        assert len(compared(report, "copy.coverage")) == 3, builder


FAKE_DOCKER = """\
#!/bin/sh
echo "$@" >> {log}
case "$1" in
version) echo '{{"Client": {{"Version": "20.10.24"}}, "Server": {{"Version": "20.10.24", "Os": "linux", "Arch": "arm64"}}}}' ;;
*) exit 1 ;;
esac
"""


def test_a_build_that_is_sure_to_lose_an_asset_does_not_run(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = tmp_path / "calls"
    program = tmp_path / "bin/docker"
    program.parent.mkdir()
    program.write_text(FAKE_DOCKER.format(log=log))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    template, _, _ = LOST["a COPY line is forgotten"]
    write(world, template)
    before = (world.root / "build/demo/index.json").read_bytes()

    assert world.run("build", "demo", "--engine", "docker") == 1

    said = capsys.readouterr().err
    assert f"copy.coverage/not-copied {BETA}" in said
    assert not any(call.startswith("build ") for call in log.read_text().splitlines())
    assert (world.root / "build/demo/index.json").read_bytes() == before

    write(world, BOTH)
    assert world.run("build", "demo", "--engine", "docker") == 3, "this docker cannot build"
    assert any(call.startswith("build ") for call in log.read_text().splitlines())
