"""Pins, denied versions and waivers: what a recipe says of how its image is judged."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import pytest

from imagegate.catalog import REVISION
from imagegate.checks import CHECKS
from imagegate.errors import LockError, RecipeError
from imagegate.lock import decode_lock
from imagegate.oci.digest import Digest
from imagegate.oci.documents import canonical_json
from imagegate.recipe import parse_recipe
from imagegate.report.document import render_json
from imagegate.report.text import render_text
from tests.elf import library
from tests.judging import SITE, Case, dist, failed, found

if TYPE_CHECKING:
    from pathlib import Path

NCCL = f"{SITE}/nvidia/nccl/lib/libnccl.so.2"
BASE = {NCCL: library(text=b"\0NCCL version 2.30.7+cuda13.3\0"), **dist("ray", "2.60.0")}


@pytest.mark.parametrize(
    ("pin", "holds"),
    [
        ('nccl = "2.30.7"', True),
        ('nccl = "2.30.7+cuda13.3"', True),
        ('nccl = "2.30.8"', False),
        ('ray = "2.60.0"', True),
        ('ray = "2.60"', True),
        ('ray = "2.61.0"', False),
    ],
)
def test_a_pin_is_compared_with_the_bytes_else_with_metadata(
    pin: str, holds: bool, tmp_path: Path
) -> None:
    verdict = Case(base=BASE, added=[{"x": "y"}], recipe=f"[pins]\n{pin}\n").judge(tmp_path)
    assert verdict.passed is holds


@pytest.mark.parametrize(
    ("wanted", "holds"), [("2.30.7", True), ("2.30.7-1+cuda13.3", True), ("2.30.8", False)]
)
def test_a_pin_of_a_debian_package_may_leave_out_epoch_and_revision(
    wanted: str, holds: bool, tmp_path: Path
) -> None:
    status = (
        "Package: libfoo\nStatus: install ok installed\nArchitecture: arm64\n"
        "Version: 1:2.30.7-1+cuda13.3\n"
    )
    case = Case(
        base={"var/lib/dpkg/status": status},
        added=[{"x": "y"}],
        recipe=f'[pins]\nlibfoo = "{wanted}"\n',
    )
    assert case.judge(tmp_path).passed is holds


def test_metadata_cannot_make_a_pin_true_that_the_bytes_deny(tmp_path: Path) -> None:
    base = {**BASE, **dist("nccl", "2.31.0")}
    verdict = Case(base=base, added=[{"x": "y"}], recipe='[pins]\nnccl = "2.31.0"\n').judge(
        tmp_path
    )
    assert found(verdict, "pins.declared/other-version").found == "2.30.7+cuda13.3"


def test_a_pin_of_nothing_is_a_failure(tmp_path: Path) -> None:
    verdict = Case(base=BASE, added=[{"x": "y"}], recipe='[pins]\ncudnn = "9.20"\n').judge(tmp_path)
    assert "pins.declared/not-found" in failed(verdict)


def test_a_version_that_the_recipe_denies(tmp_path: Path) -> None:
    recipe = '[[denied]]\nname = "ray"\nversions = ">=2.60,<2.61"\nreason = "loses actors"\n'
    verdict = Case(base=BASE, added=[{"x": "y"}], recipe=recipe).judge(tmp_path)
    assert "loses actors" in found(verdict, "pins.declared/denied").message


def waiver(expires: str = "2026-06-30", base: str = "BASE_DIGEST", to: str = "/w") -> str:
    return f"""
        [[waivers]]
        check = "config.moves/env"
        subject = "PYTHONPATH"
        from = "nothing"
        to = "{to}"
        reason = "the overlay is reviewed"
        expires = {expires}
        base = "{base}"
    """


MOVED = Case(added=[{"x": "y"}], config={"Env": ["PYTHONPATH=/w"]})


def test_a_waived_finding_passes_and_is_shown_with_reason_and_days(tmp_path: Path) -> None:
    verdict = replace(MOVED, recipe=waiver()).judge(tmp_path, today=date(2026, 6, 20))
    assert verdict.passed
    text = render_text(verdict)
    assert "waived until 2026-06-30 (10 days left): the overlay is reviewed" in text
    assert "PASSED    case: 0 failures, 1 waived" in text
    assert b'"days_left": 10' in render_json(verdict)


def test_a_waiver_counts_on_its_last_day_and_not_after(tmp_path: Path) -> None:
    last = replace(MOVED, recipe=waiver()).judge(tmp_path / "a", today=date(2026, 6, 30))
    assert last.passed
    after = replace(MOVED, recipe=waiver()).judge(tmp_path / "b", today=date(2026, 7, 1))
    assert failed(after) == {"config.moves/env", "waivers.match/expired"}


def test_a_waiver_of_another_base_accepts_nothing(tmp_path: Path) -> None:
    other = "sha256:" + "0" * 64
    verdict = replace(MOVED, recipe=waiver(base=other)).judge(tmp_path)
    assert failed(verdict) == {"config.moves/env", "waivers.match/other-base"}


def test_a_waiver_that_is_not_exact_accepts_nothing_and_is_a_finding(tmp_path: Path) -> None:
    verdict = replace(MOVED, recipe=waiver(to="/other")).judge(tmp_path)
    assert failed(verdict) == {"config.moves/env", "waivers.match/matches-nothing"}


def test_a_waiver_by_path_and_content(tmp_path: Path) -> None:
    import hashlib

    recipe = f"""
        [[waivers]]
        check = "files.moves/overwritten"
        subject = "etc/a"
        path = "/etc/a"
        sha256 = "{hashlib.sha256(b"two").hexdigest()}"
        reason = "a new default"
        expires = 2026-12-31
        base = "BASE_DIGEST"
    """
    case = Case(base={"etc/a": "one"}, added=[{"etc/a": "two"}], recipe=recipe)
    assert case.judge(tmp_path / "a").passed
    assert not replace(case, added=[{"etc/a": "three"}]).judge(tmp_path / "b").passed


def test_what_everything_rests_on_cannot_be_waived(tmp_path: Path) -> None:
    recipe = """
        [[waivers]]
        check = "base.digest/nothing-added"
        subject = "case"
        from = ""
        to = ""
        reason = "no"
        expires = 2026-12-31
        base = "BASE_DIGEST"
    """
    verdict = Case(added=[{"x": "y"}], recipe=recipe).judge(tmp_path)
    assert "waivers.match/not-waivable" in failed(verdict)


def test_a_skipped_check_is_named_and_the_verdict_does_not_pass(tmp_path: Path) -> None:
    verdict = replace(MOVED, skip=("config.moves",)).judge(tmp_path)
    assert (verdict.word, verdict.sound, verdict.passed) == ("PARTIAL", True, False)
    assert "skipped   config.moves; this verdict cannot be promoted" in render_text(verdict)
    assert b'"config.moves"\n  ]' in render_json(verdict)


def test_a_waiver_of_a_skipped_check_is_not_said_to_match_nothing(tmp_path: Path) -> None:
    verdict = replace(MOVED, recipe=waiver(), skip=("config.moves",)).judge(tmp_path)
    assert verdict.sound


MINIMAL = """
schema = 1
platform = "linux/arm64"
repository = "registry.example/image"
[base]
scratch = true
[python]
version = "3.12"
site = "/usr/lib/python3.12/site-packages"
glibc = "2.39"
"""


def test_pins_and_waivers_leave_the_digest_that_the_lock_depends_on() -> None:
    plain = parse_recipe("r", MINIMAL, "image.toml")
    judged = parse_recipe(
        "r",
        MINIMAL
        + '[pins]\nnccl = "2.30.7"\n[toolchain]\nheaders = ["nvrtc.h"]\n'
        + waiver(base="scratch"),
        "image.toml",
    )
    assert plain.digest == judged.digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('check = "config.moves"', "check"),
        ('to = "b"', "give either `from` and `to`, or `path` and `sha256`"),
        ('from = "a"\nto = "b"\npath = "/x"', "give either"),
        ('from = "a"\nto = "b"\nexpires = "soon"', "expires"),
        ('from = "a"\nto = "b"\nbase = "latest"', "base"),
    ],
)
def test_a_waiver_that_is_not_exact_is_refused_when_it_is_read(text: str, message: str) -> None:
    fields = {
        "check": '"config.moves/env"',
        "subject": '"X"',
        "reason": '"r"',
        "expires": "2026-01-01",
        "base": '"scratch"',
    }
    own = {line.split(" = ")[0] for line in text.splitlines()}
    rest = "\n".join(f"{name} = {value}" for name, value in fields.items() if name not in own)
    with pytest.raises(RecipeError, match=message):
        parse_recipe("r", f"{MINIMAL}\n[[waivers]]\n{rest}\n{text}\n", "image.toml")


def test_a_lock_with_the_facts_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    case = Case(base=BASE, added=[{"x": "y"}])
    base, _ = case.images()
    state = case.state(base)
    files = case.lock_files(tmp_path / "base", base, state)
    older = files["base.json"].replace(REVISION.encode(), b"another")
    assert older != files["base.json"]
    contents = json.loads(files["lock.json"])
    contents["files"]["base.json"] = str(Digest.of(older))
    del contents["digest"]
    sealed = {**contents, "digest": str(Digest.of(canonical_json(contents)))}
    edited = {**files, "base.json": older, "lock.json": canonical_json(sealed)}
    with pytest.raises(LockError, match=f"expected=catalog {REVISION} found=catalog another"):
        decode_lock("case", edited, "locks/case")


def test_every_check_says_what_it_asks_why_and_what_to_do() -> None:
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    assert all(check.question and check.why and check.fix for check in CHECKS)
