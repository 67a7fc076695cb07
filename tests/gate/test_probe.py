"""``probe.agrees``: what an image says of itself against what was read out of its bytes."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from datetime import date

import pytest

from imagegate.catalog.freeze import freeze
from imagegate.checks.image.evidence import Evidence, LoadedLibrary, Observation
from imagegate.checks.image.probe import PROBE
from imagegate.facts import LoaderFile
from imagegate.usecases.gate import judge
from imagegate.usecases.ports import Silent
from imagegate.usecases.verify import open_judged
from imagegate.workspace import Workspace
from tests.calls import calling
from tests.judging import COMPOSED
from tests.world import NCCL, SITE, World

# what `ncclGetVersion` gives for 2.30.7 (nccl.h, NCCL_VERSION)
NCCL_2_30_7 = 23007


@pytest.fixture
def evidence(built_once: World) -> Evidence:
    workspace = Workspace(built_once.root)
    state = workspace.state("demo")
    source = open_judged(calling(workspace), state, None)
    return judge(
        state, workspace.lock("demo"), source, Silent(), copying=COMPOSED, today=date(2026, 11, 29)
    )[1]


def honest(evidence: Evidence) -> Observation:
    pins = evidence.facts.distributions
    return Observation(
        path=("usr/lib/python312.zip", SITE),
        freeze=freeze(pins, "3.12"),
        distributions=tuple((pin.name, pin.version) for pin in pins),
        nccl=((NCCL, NCCL_2_30_7),),
    )


def codes(evidence: Evidence, observation: Observation | None) -> tuple[bool, list[str]]:
    report = PROBE.judge(replace(evidence, observation=observation))
    return report.passed, [finding.code for finding in report.findings]


def test_an_image_that_says_what_its_bytes_say_agrees(evidence: Evidence) -> None:
    report = PROBE.judge(replace(evidence, observation=honest(evidence)))

    assert report.passed
    assert report.findings == ()
    assert f"{NCCL}: ncclGetVersion {NCCL_2_30_7}" in report.compared


def test_without_an_observation_nothing_passes(evidence: Evidence) -> None:
    assert codes(evidence, None) == (False, ["probe.agrees/not-run"])


def test_another_version_in_pip_freeze_is_a_finding(evidence: Evidence) -> None:
    seen = honest(evidence)
    assert seen.freeze is not None
    moved = replace(seen, freeze=seen.freeze.replace("aiohttp==3.13.3", "aiohttp==3.14.5"))

    assert codes(evidence, moved) == (False, ["probe.agrees/freeze"] * 2)


def test_a_distribution_that_shadows_another_is_a_finding(evidence: Evidence) -> None:
    """PYTHONPATH puts another torch first; `pip freeze` and the bytes need not show it."""
    seen = honest(evidence)
    shadowed = replace(seen, distributions=(("torch", "2.9.0"), *seen.distributions))

    assert codes(evidence, shadowed) == (False, ["probe.agrees/metadata"])


def test_a_distribution_that_python_does_not_find_is_a_finding(evidence: Evidence) -> None:
    seen = honest(evidence)
    lost = tuple(pin for pin in seen.distributions if pin[0] != "torch")

    assert codes(evidence, replace(seen, distributions=lost)) == (
        False,
        ["probe.agrees/metadata"],
    )


@pytest.mark.parametrize("code", [22907, 23070, 2307])
def test_another_nccl_than_its_version_string_is_a_finding(evidence: Evidence, code: int) -> None:
    moved = replace(honest(evidence), nccl=((NCCL, code),))

    assert codes(evidence, moved) == (False, ["probe.agrees/nccl"])


def test_an_nccl_that_cannot_be_loaded_is_said_and_not_covered(evidence: Evidence) -> None:
    report = PROBE.judge(replace(evidence, observation=replace(honest(evidence), nccl=())))

    assert [finding.code for finding in report.findings] == ["probe.agrees/nccl-unknown"]
    assert not any("ncclGetVersion" in line for line in report.compared)


@pytest.fixture
def searched(evidence: Evidence) -> Evidence:
    """The image with the wheel's folder in ld.so.conf, so that the name alone finds NCCL."""
    configuration = (
        LoaderFile(path="etc/ld.so.cache", lines=("present",)),
        LoaderFile(path="etc/ld.so.conf", lines=(f"/{posixpath.dirname(NCCL)}",)),
    )
    return replace(evidence, facts=replace(evidence.facts, loader=configuration))


def loading(evidence: Evidence, path: str, *, with_torch: bool | None) -> Observation:
    loaded = LoadedLibrary(path=path, code=NCCL_2_30_7, with_torch=with_torch)
    return replace(honest(evidence), loaded_nccl=loaded)


def test_the_nccl_that_is_loaded_by_name_is_the_one_that_the_bytes_say(searched: Evidence) -> None:
    observation = loading(searched, NCCL, with_torch=True)

    report = PROBE.judge(replace(searched, observation=observation))

    assert report.findings == ()
    assert f"NCCL by its name: /{NCCL}, ncclGetVersion {NCCL_2_30_7}" in report.compared


@pytest.mark.parametrize("with_torch", [True, None])
def test_another_nccl_that_is_loaded_by_name_is_a_finding(
    searched: Evidence, with_torch: bool | None
) -> None:
    """A start-up hook has loaded its own copy under the name before anybody asks."""
    moved = loading(searched, "opt/other/libnccl.so.2", with_torch=with_torch)

    assert codes(searched, moved) == (False, ["probe.agrees/nccl-loaded"])


def test_an_nccl_that_no_reading_knows_of_is_a_finding(evidence: Evidence) -> None:
    moved = loading(evidence, NCCL, with_torch=None)

    assert codes(evidence, moved) == (False, ["probe.agrees/nccl-loaded"])


def test_where_torch_does_not_start_nothing_is_said_of_what_it_loads(searched: Evidence) -> None:
    unknown = loading(searched, "opt/other/libnccl.so.2", with_torch=False)

    report = PROBE.judge(replace(searched, observation=unknown))

    assert [finding.code for finding in report.findings] == ["probe.agrees/nccl-loaded-unknown"]
    assert not any("NCCL by its name" in line for line in report.compared)


def test_a_name_that_nothing_answers_to_is_said(searched: Evidence) -> None:
    passed, found = codes(searched, honest(searched))

    assert (passed, found) == (True, ["probe.agrees/nccl-loaded-unknown"])


def test_a_site_that_python_does_not_look_at_is_said_and_not_compared(evidence: Evidence) -> None:
    aside = replace(evidence.facts.distributions[0], name="aside", site="opt/venv/site-packages")
    facts = replace(evidence.facts, distributions=(*evidence.facts.distributions, aside))

    passed, found = codes(replace(evidence, facts=facts), honest(evidence))

    assert (passed, found) == (True, ["probe.agrees/not-on-path"])


def test_a_python_that_looks_into_no_site_at_all_does_not_pass(evidence: Evidence) -> None:
    seen = replace(honest(evidence), path=("usr/lib/python312.zip",), freeze="", distributions=())

    passed, found = codes(evidence, seen)

    assert "probe.agrees/nothing-compared" in found
    assert not passed
