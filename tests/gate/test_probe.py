"""``probe.agrees``: what an image says of itself against what was read out of its bytes."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from imagegate.catalog.freeze import freeze
from imagegate.checks.evidence import Evidence, Observation
from imagegate.checks.probe import PROBE
from imagegate.usecases.gate import judge
from imagegate.usecases.ports import Silent
from imagegate.usecases.verify import open_judged
from imagegate.workspace import Workspace
from tests.world import NCCL, SITE, World

# what `ncclGetVersion` gives for 2.30.7 (nccl.h, NCCL_VERSION)
NCCL_2_30_7 = 23007


@pytest.fixture
def evidence(built_once: World) -> Evidence:
    workspace = Workspace(built_once.root)
    state = workspace.state("demo")
    source = open_judged(workspace, state, None)
    return judge(state, workspace.lock("demo"), source, Silent(), today=date(2026, 11, 29))[1]


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
