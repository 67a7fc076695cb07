"""Each row of the table gives its right answer, and the same image without it passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from imagegate.report.text import render_text
from tests.closed_world.rows import Row, all_rows, on_base

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.verdict import ImageVerdict

ROWS = tuple(all_rows())
NAMED = [pytest.param(row, id=row.name) for row in ROWS]


def codes(verdict: ImageVerdict, severity: str) -> list[str]:
    return [f.code for f in verdict.findings if f.severity.value == severity]


def has(found: list[str], wanted: str) -> bool:
    if wanted == "*":
        return bool(found)
    if wanted.endswith("/*"):
        return any(code.startswith(wanted[:-1]) for code in found)
    return wanted in found


def test_no_form_stands_twice() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)


def test_the_base_with_the_recipes_asset_alone_passes(tmp_path: Path) -> None:
    verdict = on_base().judge(tmp_path)
    assert verdict.passed, render_text(verdict)


@pytest.mark.parametrize("row", NAMED)
def test_the_right_answer(row: Row, tmp_path: Path) -> None:
    if row.refused is not None:
        error, text = row.refused
        with pytest.raises(error) as raised:
            row.judge(tmp_path)
        assert text in str(raised.value)
        return
    verdict = row.judge(tmp_path)
    said = render_text(verdict)
    assert verdict.passed is not bool(row.fails), said
    failing = codes(verdict, "fail")
    assert [code for code in row.fails if not has(failing, code)] == [], said
    assert [code for code in row.notes if not has(codes(verdict, "note"), code)] == [], said
    if row.failing is not None:
        assert len(failing) == row.failing, said
    for finding in verdict.findings:
        assert finding.locked == "" == finding.found or finding.locked != finding.found, finding


@pytest.mark.parametrize("row", [pytest.param(r, id=r.name) for r in ROWS if r.control is not None])
def test_without_what_is_wrong_it_passes(row: Row, tmp_path: Path) -> None:
    assert row.control is not None
    verdict = row.control.judge(tmp_path)
    assert verdict.passed, render_text(verdict)
