"""Many images in one run: all are judged, each is told, the worst code is the exit code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from imagegate.report.several import Unjudged
from imagegate.usecases.several import choose, each
from tests.world import World


@pytest.fixture
def many(world: World, capsys: pytest.CaptureFixture[str]) -> World:
    """Six recipes: two that pass, one that fails, one not built, one broken, one without a lock."""
    assert world.run("lock", "demo") == 0
    assert world.run("build", "demo") == 0
    for name in ("good", "bad", "unbuilt", "broken", "unlocked"):
        shutil.copytree(world.root / "images/demo", world.root / "images" / name)
        if name != "unlocked":
            assert world.run("lock", name) == 0
        if name in ("good", "bad", "broken"):
            assert world.run("build", name) == 0
    path = world.root / "images/bad/image.toml"
    path.write_text(path.read_text() + '\n[pins]\nnccl = "2.1"\n')
    (world.root / "build/broken/index.json").write_text("{")
    capsys.readouterr()
    return world


EXPECTED = {
    "bad": "FAILED",
    "broken": "NOT JUDGED",
    "demo": "PASSED",
    "good": "PASSED",
    "unbuilt": "NOT JUDGED",
    "unlocked": "NOT JUDGED",
}


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_every_recipe_is_told_in_every_form(
    many: World, jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {}
    forms = ("text", "json", "markdown", "sarif", "junit", "github")
    for form in forms if jobs == "1" else ("json",):
        # 3: a lock or a build is missing
        assert many.run("verify", "--format", form, "--jobs", jobs) == 3, form
        told[form] = capsys.readouterr().out
        assert all(name in told[form] for name in EXPECTED), form

    document = json.loads(told["json"])
    assert {one["subject"]: one["result"] for one in document["results"]} == EXPECTED
    assert document["exit_code"] == 3
    if jobs != "1":
        return

    suites = ET.fromstring(told["junit"])
    errors = {suite.get("name", "").removeprefix("imagegate."): suite for suite in suites}
    assert {name for name, suite in errors.items() if suite.get("errors") == "1"} == {
        name for name, word in EXPECTED.items() if word == "NOT JUDGED"
    }
    assert all(
        suite.find("testcase/error") is not None for suite in suites if suite.get("errors") == "1"
    )

    runs = json.loads(told["sarif"])["runs"]
    assert [run["properties"]["verdict"] for run in runs] == list(EXPECTED.values())
    unjudged = [run for run in runs if not run["invocations"][0]["executionSuccessful"]]
    notes = [run["invocations"][0]["toolExecutionNotifications"][0] for run in unjudged]
    assert len(notes) == 3
    assert all(note["level"] == "error" for note in notes)

    closing = told["text"].splitlines()[-7:]
    assert closing[0] == "6 images: 1 FAILED, 3 NOT JUDGED, 2 PASSED"
    assert [line.split()[0] for line in closing[1:]] == [
        *("NOT", "NOT", "NOT", "FAILED", "PASSED", "PASSED")
    ]
    assert told["github"].count("::error ") >= 4


def test_patterns_choose_and_one_that_fits_nothing_is_refused(
    many: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert many.run("verify", "g*", "dem?", "good") == 0
    out = capsys.readouterr().out
    assert "2 images: 2 PASSED" in out
    assert many.run("verify", "x*") == 2
    assert "no recipe fits `x*`" in capsys.readouterr().err
    assert many.run("verify", "goood") == 2
    assert "did you mean `good`" in capsys.readouterr().err


def test_one_recipe_keeps_its_document(many: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert many.run("verify", "good", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "imagegate-verdict-2"
    assert many.run("verify", "unbuilt", "--format", "json") == 2
    document = json.loads(capsys.readouterr().out)
    assert document["results"][0]["error"]["exit_code"] == 2


def test_a_page_is_of_all_images_or_not_written(
    many: World, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    assert many.run("verify", "good", "unbuilt", "--html", str(page)) == 2
    assert not page.exists()
    assert "1 of 2 images were not judged" in capsys.readouterr().err
    assert many.run("verify", "good", "demo", "--html", str(page)) == 0
    assert page.exists()


def test_more_images_than_sarif_takes_runs_are_one_run() -> None:
    """GitHub takes 20 runs a file (code scanning, "SARIF support")."""
    from imagegate.report.formats import Format, render

    results = [
        Unjudged(subject=f"r{number:02}", message="gone", hint="", exit_code=3, file="images/x")
        for number in range(60)
    ]
    document = json.loads(render(results, Format.SARIF, version="1.0.0", details=False))
    (run,) = document["runs"]
    assert len(run["properties"]["images"]) == 60
    assert len(run["invocations"][0]["toolExecutionNotifications"]) == 60
    schemas = list(Path(__file__).parents[1].rglob("sarif-schema-2.1.0.json"))
    assert schemas, "the schema of OASIS that the other tests use"
    jsonschema.Draft7Validator(json.loads(schemas[0].read_text())).validate(document)


def test_a_jobs_summary_stays_below_its_limit() -> None:
    """GitHub refuses more than 1 MiB of a step."""
    from imagegate.report.formats import Format, render

    results = [
        Unjudged(subject=f"r{n}", message="x" * 5000, hint="", exit_code=3, file="images/x")
        for n in range(400)
    ]
    text = render(results, Format.MARKDOWN, version="1.0.0", details=False)
    assert len(text.encode()) < 1 << 20
    assert "reports are left out" in text
    assert all(f"| r{n} |" in text for n in range(400))


def test_an_unexpected_error_of_one_hides_no_other() -> None:
    def one(name: str) -> str:
        if name == "b":
            raise ZeroDivisionError("of our own")
        if name == "c":
            raise PermissionError(13, "Permission denied", "/somewhere")
        return name

    done = each(["a", "b", "c", "d"], one, file_of=str)
    assert [d if isinstance(d, str) else d.exit_code for d in done] == ["a", 3, 3, "d"]
    assert isinstance(done[1], Unjudged)
    assert "unexpected ZeroDivisionError" in done[1].message


def killed(name: str) -> str:
    import os
    import signal

    if name == "b":
        os.kill(os.getpid(), signal.SIGKILL)
    return name


def test_a_killed_process_is_told_of() -> None:
    done = each(["a", "b", "c"], killed, file_of=str, jobs=2)
    assert any(isinstance(one, Unjudged) and "was killed" in one.message for one in done)
    assert len(done) == 3


def test_names_are_meant_once_and_in_order() -> None:
    assert choose((), ["b", "a"], "recipe") == ("b", "a")
    assert choose(("z*", "a"), ["a", "z1", "z2"], "recipe") == ("a", "z1", "z2")
