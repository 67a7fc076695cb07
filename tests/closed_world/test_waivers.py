"""The waiver that a report prints accepts what it was printed for, whatever the finding is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from imagegate.report.text import render_text
from imagegate.report.waiver import waiver_of
from imagegate.verdict import NOT_WAIVABLE, Severity
from tests.closed_world.rows import Row, all_rows
from tests.judging import Case

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.verdict import Finding

FAILING = [
    pytest.param(row, id=row.name)
    for row in all_rows()
    if row.fails and row.refused is None and isinstance(row.case, Case)
]


def pasted(findings: list[Finding], base: str) -> str:
    """What a person pastes: each printed waiver once, with a reason and a day."""
    printed = dict.fromkeys("\n".join(waiver_of(one, base)) for one in findings)
    return (
        "\n".join(printed)
        .replace('reason = ""', 'reason = "known"')
        .replace('expires = ""', "expires = 2026-12-31")
    )


@pytest.mark.parametrize("row", FAILING)
def test_each_printed_waiver_is_accepted(row: Row, tmp_path: Path) -> None:
    assert isinstance(row.case, Case)
    before = row.case.judge(tmp_path / "before")
    printed = [one for one in before.failures if one.about is not None]
    details = render_text(before, details=True)
    # what cannot be waived is said to be so, as often as it is found
    assert details.count("cannot be waived: mend it") == len(before.failures) - len(printed)
    if not printed:
        return
    recipe = f"{row.case.recipe}\n{pasted(printed, before.waivable_on)}"
    after = replace(row.case, recipe=recipe).judge(tmp_path / "after")
    waived = {(f.code, f.subject, f.about) for f in after.findings if f.accepted is not None}
    assert {(f.code, f.subject, f.about) for f in printed} <= waived
    assert not [f for f in after.failures if f.check == "waivers.match"]
    assert after.passed is (len(printed) == len(before.failures))


def test_what_cannot_be_waived_has_no_digest_to_name(tmp_path: Path) -> None:
    for param in FAILING[::7]:
        (row,) = param.values
        assert isinstance(row, Row)
        for finding in row.judge(tmp_path / str(id(row))).failures:
            assert finding.check not in NOT_WAIVABLE or finding.about is None
            assert finding.severity is Severity.FAIL
