"""Pins, denied versions and waivers: what a recipe says of how its image is judged."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import pytest

from imagegate.catalog import REVISION
from imagegate.checks.image import CHECKS
from imagegate.errors import LockError, RecipeError
from imagegate.lock import decode_base
from imagegate.lock.sealed import seal
from imagegate.recipe import parse_recipe
from imagegate.report.document import render_json
from imagegate.report.text import render_text
from imagegate.report.waiver import waiver_of
from imagegate.verdict import NOT_WAIVABLE
from tests.elf import library
from tests.images import File
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


SOME = "sha256:" + "1" * 64


def waiver(
    about: str = SOME,
    *,
    check: str = "config.moves/env",
    subject: str = "PYTHONPATH",
    expires: str = "2026-06-30",
    base: str = "BASE_DIGEST",
) -> str:
    return f"""
        [[waivers]]
        check = "{check}"
        subject = "{subject}"
        about = "{about}"
        reason = "the overlay is reviewed"
        expires = {expires}
        base = "{base}"
    """


def about(case: Case, folder: Path, code: str = "config.moves/env") -> str:
    """The digest that the report gives for the one finding of a code."""
    return str(found(case.judge(folder / "unwaived"), code).about)


MOVED = Case(added=[{"x": "y"}], config={"Env": ["PYTHONPATH=/w"]})


def test_a_waived_finding_passes_and_is_shown_with_reason_and_days(tmp_path: Path) -> None:
    recipe = waiver(about(MOVED, tmp_path))
    verdict = replace(MOVED, recipe=recipe).judge(tmp_path / "w", today=date(2026, 6, 20))
    assert verdict.passed
    text = render_text(verdict)
    assert "waived until 2026-06-30 (10 days left): the overlay is reviewed" in text
    assert "PASSED    case: 0 failures, 1 waived" in text
    assert b'"days_left": 10' in render_json(verdict)


def test_a_waiver_counts_on_its_last_day_and_not_after(tmp_path: Path) -> None:
    waived = replace(MOVED, recipe=waiver(about(MOVED, tmp_path)))
    assert waived.judge(tmp_path / "a", today=date(2026, 6, 30)).passed
    after = waived.judge(tmp_path / "b", today=date(2026, 7, 1))
    assert failed(after) == {"config.moves/env", "waivers.match/expired"}


def test_a_waiver_of_another_base_accepts_nothing(tmp_path: Path) -> None:
    other = "sha256:" + "0" * 64
    recipe = waiver(about(MOVED, tmp_path), base=other)
    verdict = replace(MOVED, recipe=recipe).judge(tmp_path / "w")
    assert failed(verdict) == {"config.moves/env", "waivers.match/other-base"}


def test_a_waiver_of_another_digest_accepts_nothing_and_is_a_finding(tmp_path: Path) -> None:
    verdict = replace(MOVED, recipe=waiver(SOME)).judge(tmp_path)
    assert failed(verdict) == {"config.moves/env", "waivers.match/matches-nothing"}


TOKEN = "hf_" + "aKqTzWmXnRvByLpCsDjFgHuEiOoPlMnBvC"
ANOTHER = "hf_" + "bJrSzWmXnRvByLpCsDjFgHuEiOoPlMnBvD"
PASSWORD = "pip install --index-url https://u:{}@packages.example/simple x"


# field/hostile-input.md, 2: what a waiver of image A's finding accepted in image B
@pytest.mark.parametrize(
    ("code", "accepted", "another"),
    [
        pytest.param(
            "config.moves/env",
            MOVED,
            replace(MOVED, config={"Env": ["PYTHONPATH=/other"]}),
            id="value",
        ),
        pytest.param(
            "files.moves/overwritten",
            Case(base={"etc/a": "one"}, added=[{"etc/a": "two"}]),
            Case(base={"etc/a": "one"}, added=[{"etc/a": "three"}]),
            id="content",
        ),
        pytest.param(
            "files.moves/setuid",
            Case(added=[{"usr/bin/su": File(b"\x7fone", mode=0o4755)}]),
            Case(added=[{"usr/bin/su": File(b"\x7ftwo", mode=0o4755)}]),
            id="setuid binary",
        ),
        pytest.param(
            "secrets.leaked/setting",
            Case(added=[{"x": "y"}], config={"Labels": {"token": TOKEN}}),
            Case(added=[{"x": "y"}], config={"Labels": {"token": ANOTHER}}),
            id="token in the config",
        ),
        pytest.param(
            "secrets.leaked/file",
            Case(added=[{"root/.netrc-token": TOKEN}]),
            Case(added=[{"root/.netrc-token": ANOTHER}]),
            id="token in a file",
        ),
        pytest.param(
            "secrets.leaked/history",
            Case(added=[{"x": "y"}], steps=[PASSWORD.format("s3cretOne1")]),
            Case(added=[{"x": "y"}], steps=[PASSWORD.format("s3cretTwo2")]),
            id="password in a step",
        ),
        pytest.param(
            "secrets.leaked/buried",
            Case(added=[{"root/t": TOKEN}, {"root/.wh.t": ""}]),
            Case(added=[{"root/t": ANOTHER}, {"root/.wh.t": ""}]),
            id="token that a later layer deletes",
        ),
    ],
)
def test_a_waiver_accepts_this_finding_and_not_one_that_reads_alike(
    tmp_path: Path, code: str, accepted: Case, another: Case
) -> None:
    finding = found(accepted.judge(tmp_path / "a"), code)
    base = Case.images(accepted)[0].digest
    recipe = waiver(str(finding.about), check=code, subject=finding.subject, base=base)

    def failing(case: Case, folder: str) -> set[str]:
        return failed(replace(case, recipe=recipe).judge(tmp_path / folder))

    assert code not in failing(accepted, "b")
    assert {code, "waivers.match/matches-nothing"} <= failing(another, "c")


def test_a_digest_does_not_let_a_short_secret_be_guessed(tmp_path: Path) -> None:
    """The same secret in another image has another digest: it is keyed with the image's config."""
    one = Case(added=[{"x": "y"}], config={"Labels": {"token": TOKEN}})
    two = Case(added=[{"x": "y"}], config={"Labels": {"token": TOKEN, "more": "1"}})
    code = "secrets.leaked/setting"
    assert about(one, tmp_path / "a", code) != about(two, tmp_path / "b", code)


def test_the_printed_waiver_is_accepted_once_reason_and_day_are_filled_in(tmp_path: Path) -> None:
    verdict = MOVED.judge(tmp_path / "a")
    (finding,) = verdict.failures
    printed = "\n".join(waiver_of(finding, verdict.waivable_on))
    assert all(line.strip() in render_text(verdict, details=True) for line in printed.split("\n"))
    with pytest.raises(RecipeError, match="reason"):
        replace(MOVED, recipe=printed).judge(tmp_path / "b")
    filled = printed.replace('reason = ""', 'reason = "known"')
    filled = filled.replace('expires = ""', "expires = 2026-12-31")
    assert replace(MOVED, recipe=filled).judge(tmp_path / "c").passed


def test_waivers_of_the_old_form_are_refused_by_name(tmp_path: Path) -> None:
    old = """
        [[waivers]]
        check = "config.moves/env"
        subject = "PYTHONPATH"
        from = "nothing"
        to = "/w"
        reason = "r"
        expires = 2026-06-30
        base = "BASE_DIGEST"
    """
    with pytest.raises(
        RecipeError, match=r"to be given again: `config.moves/env` of `PYTHONPATH`; .*--details"
    ):
        replace(MOVED, recipe=old).judge(tmp_path)


def test_what_everything_rests_on_cannot_be_waived(tmp_path: Path) -> None:
    recipe = waiver(check="base.digest/nothing-added", subject="case")
    verdict = Case(added=[{"x": "y"}], recipe=recipe).judge(tmp_path)
    assert "waivers.match/not-waivable" in failed(verdict)
    missing = replace(Case(), recipe=waiver(check="base.digest/platform")).judge(tmp_path / "p")
    assert [f.about for f in missing.failures if f.check in NOT_WAIVABLE] != []
    assert {f.about for f in missing.failures if f.check in NOT_WAIVABLE} == {None}


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
        ('to = "b"', "unknown key"),
        ('about = "sha256:1"', "not a digest"),
        ('expires = "soon"', "expires"),
        ('base = "latest"', "base"),
    ],
)
def test_a_waiver_that_is_not_exact_is_refused_when_it_is_read(text: str, message: str) -> None:
    fields = {
        "check": '"config.moves/env"',
        "subject": '"X"',
        "about": f'"{SOME}"',
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
    files, _ = case.lock_files(tmp_path / "base", base, state)
    document = json.loads(files["base.json"])
    del document["digest"]
    with pytest.raises(LockError, match=rf"expected=revision .*{REVISION}.* found=.*another"):
        decode_base({**files, "base.json": seal({**document, "catalog": "another"})}, "locks/x")


def test_every_check_says_what_it_asks_why_and_what_to_do() -> None:
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    assert all(check.question and check.why and check.fix for check in CHECKS)
