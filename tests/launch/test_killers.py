"""When killers fire. The rows were run with earlyoom 1.7 (Debian 12) and 1.9.0, ``--dryrun``."""

from __future__ import annotations

import pytest

from imagegate.launch.killers import (
    Memory,
    earlyoom_acts,
    earlyoom_fires,
    earlyoom_thresholds,
    ray_fires,
    ray_is_off,
    uses_anonymous,
)
from tests.launch.hosts import evidence, fails, findings, host, notes

MIB = 1024
TOTAL = 124608 * MIB


def moment(available: int, anonymous: int, swap: int | None = 16384) -> Memory:
    free = 0 if swap is None else swap
    return Memory(total=TOTAL, available=available * MIB, anonymous=anonymous * MIB,
                  swap_total=0 if swap is None else 16384 * MIB, swap_free=free * MIB)  # fmt: skip


SEED = ["-m", "4,2", "-s", "100,100"]


@pytest.mark.parametrize(
    ("arguments", "memory", "old", "new"),
    [
        ([], moment(2000, 20000), "", ""),
        ([], moment(2000, 20000, None), "KILL", "TERM"),
        (SEED, moment(3700, 20000), "TERM", ""),
        (SEED, moment(1240, 20000), "KILL", ""),
        (SEED, moment(3700, 90000), "TERM", "TERM"),
        (["-m", "4", "-s", "50"], moment(1240, 20000, 8000), "TERM", ""),
        (["-m", "4,0", "-s", "100"], moment(1240, 20000), "TERM", ""),
        (["-m", "4,0", "-s", "100,100"], moment(0, 20000), "KILL", "KILL"),
        (["-m", "4,", "-s", "100,100"], moment(1240, 20000), "TERM", ""),
        (["-m10", "-m4,2", "-s100,100"], moment(3700, 20000), "TERM", ""),
        (["-M", "4000000", "-s", "100"], moment(3700, 90000), "TERM", ""),
    ],
)
def test_earlyoom_acts_as_the_program_does(
    arguments: list[str], memory: Memory, old: str, new: str
) -> None:
    thresholds = earlyoom_thresholds(arguments, memory)
    assert thresholds.error == ""
    assert earlyoom_acts(thresholds, memory, anonymous=False) == old
    assert earlyoom_acts(thresholds, memory, anonymous=True) == new


@pytest.mark.parametrize(
    "arguments",
    [
        ["-m", "100"],
        ["-s", "101"],
        ["-s", "0"],
        ["-m", "4%"],
        ["-m", "4", "2"],
        ["-m"],
        ["-m", ",2"],
    ],
)
def test_earlyoom_ends_at_once_on_these(arguments: list[str]) -> None:
    assert earlyoom_thresholds(arguments, moment(4000, 0)).error


def test_the_figure_at_which_it_fires_now() -> None:
    thresholds = earlyoom_thresholds(SEED, moment(3700, 20480))
    old = earlyoom_fires(thresholds, moment(3700, 20480), anonymous=False)
    new = earlyoom_fires(thresholds, moment(3700, 20480), anonymous=True)
    assert old.term is not None
    assert new.term is not None
    assert new.kill is not None
    # 4 % of 124,608 MiB, and 4/96 and 2/98 of 20 GiB of anonymous memory
    assert round(old.term / MIB / 1024, 2) == 4.87
    assert (round(new.term / MIB / 1024, 2), round(new.kill / MIB / 1024, 2)) == (0.83, 0.41)
    # the law behind it: at the figure it acts, a little above it does not
    for anonymous, fires in ((False, old), (True, new)):
        assert fires.term is not None
        for factor, acts in ((0.999, True), (1.001, False)):
            at = Memory(total=TOTAL, available=fires.term * factor, anonymous=20480 * MIB,
                        swap_total=0, swap_free=0)  # fmt: skip
            assert bool(earlyoom_acts(thresholds, at, anonymous=anonymous)) is acts


def test_versions_and_rays_monitor() -> None:
    assert [uses_anonymous(v) for v in ("1.7", "1.8", "1.10", "2.0", None)] == [
        False,
        True,
        True,
        True,
        None,
    ]
    assert round(ray_fires(121.69, None), 2) == 6.08
    assert [ray_is_off(v) for v in ("0", "0.0", "250", None, "x")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def earlyoom(
    *arguments: str, version: str = "1.7", configured: list[str] | None = None
) -> dict[str, object]:
    return {
        "kind": "earlyoom",
        "pid": 5,
        "version": version,
        "arguments": list(arguments),
        "configured": configured,
    }


def judged(*killers: dict[str, object], **memory: object) -> object:
    return evidence(host(killers=list(killers), memory=memory), host("magnetar"))


@pytest.mark.parametrize(
    ("killers", "memory", "failing", "noted"),
    [
        ([earlyoom(*SEED)], {}, [], []),
        ([earlyoom()], {"swappiness": 0}, ["inert"], []),
        ([earlyoom()], {"swap_total_kib": 0, "swap_free_kib": 0}, [], []),
        ([earlyoom("-r", "3600", configured=SEED)], {}, ["not-restarted", "inert"], []),
        ([earlyoom("-m", "100")], {}, ["refused"], []),
        ([earlyoom(*SEED, version="1.9.0")], {}, [], ["percent-of-less"]),
        ([earlyoom(*SEED, version="")], {}, [], ["version-unknown"]),
        ([earlyoom(*SEED), {"kind": "ray", "pid": 7}], {}, [], ["ray-first"]),
        ([earlyoom(*SEED), {"kind": "ray", "pid": 7, "refresh_ms": "0"}], {}, [], []),
        ([{**earlyoom(*SEED), "pid": None}], {}, ["stopped"], []),
        ([], {}, [], ["none"]),
    ],
)
def test_a_hosts_killers(
    killers: list[dict[str, object]],
    memory: dict[str, object],
    failing: list[str],
    noted: list[str],
) -> None:
    given = evidence(host(killers=killers, memory=memory), host("magnetar"))
    assert (fails(given, "killers"), notes(given, "killers")) == (failing, noted)


def test_the_order_is_told_with_both_figures() -> None:
    given = evidence(host(killers=[earlyoom(*SEED), {"kind": "ray", "pid": 7}]), host("magnetar"))
    (said,) = findings(given, "killers")
    assert said.found == "it acts at 6.08 GiB > 4.87 GiB (earlyoom 1.7)"


def test_no_processes_seen_is_not_judged() -> None:
    assert fails(evidence(host(processes_seen=0, killers=[]), host("b")), "killers") == ["unseen"]
