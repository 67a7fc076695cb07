"""All images at a glance: sixty fit a screen, who differs stands out, one that is broken hides none."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from imagegate.oci.digest import Digest
from imagegate.report.overview import (
    PINS,
    Live,
    Overview,
    Row,
    State,
    render_json,
    render_page,
    render_text,
)
from tests.attested.test_html_in_browser import _resize, browser  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from pathlib import Path

    from selenium import webdriver

    from tests.world import World

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
BASES = tuple(Digest.of(name.encode()) for name in ("gb10", "gb10 next", "h100"))
USUAL = dict(
    zip(PINS, ("2.30.7+cuda13.3", "0.6.18", "2.13.0+cu130", "13.0", "0.29.0"), strict=True)
)


def _row(number: int, state: State = State.LIVE, **pins: str) -> Row:
    live = Live(
        image=f"registry.example/team/served-{number}@{Digest.of(b'%d' % number)}",
        lock=str(Digest.of(b"lock")),
        result="PASSED",
        published_at=AT - timedelta(days=number),
        added=80_000_000 + number,
    )
    return Row(
        name=f"serving-model-{number:02}",
        state=state,
        problem="`locks/x` is damaged" if state is State.BROKEN else "",
        base=BASES[number % 3],
        platform="linux/arm64",
        pins={**USUAL, **pins},
        live=live if state in (State.LIVE, State.BEHIND) else None,
    )


@pytest.fixture
def sixty() -> Overview:
    rows = [_row(number) for number in range(54)]
    rows += [_row(number, State.UNPUBLISHED) for number in range(54, 57)]
    rows += [_row(57, nccl="2.29.2+cuda13.0"), _row(58, State.STALE), _row(59, State.BROKEN)]
    return Overview(rows=tuple(rows), at=AT)


def test_sixty_images_fit_a_screen_and_each_is_named(sixty: Overview) -> None:
    lines = render_text(sixty).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 120
    assert lines[0] == (
        "60 images on 3 bases: 1 cannot be read, 1 lock is stale, 3 not published, 55 live"
    )
    text = "\n".join(lines)
    assert all(row.name in text for row in sixty.rows)
    assert "serving-model-59: `locks/x` is damaged" in text


def test_what_differs_from_most_images_is_marked(sixty: Overview) -> None:
    marked = [line for line in render_text(sixty).splitlines() if "*" in line]
    assert len(marked) == 2  # the group, and what the mark means
    assert "nccl 2.29.2+cuda13.0*" in marked[0]
    document = json.loads(render_json(sixty))
    assert [one["name"] for one in document["images"] if one["stands_out"]] == ["serving-model-57"]
    page = render_page(sixty, version="1")
    assert re.findall(r'class="pin out">([^<]*)<', page) == ["2.29.2+cuda13.0"]


def test_nothing_stands_out_where_no_version_is_the_usual_one() -> None:
    two = Overview(rows=(_row(1), _row(2, nccl="2.29.2")), at=AT)
    assert two.usual("nccl") == ""
    assert "*" not in render_text(two)


def test_the_page_escapes_what_others_wrote() -> None:
    row = _row(1, torch="<script>alert(1)</script>\u202e")
    page = render_page(Overview(rows=(row,), at=AT), version="1")
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_workspace_as_it_goes_from_locked_to_published_to_stale(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    def look() -> dict[str, str]:
        capsys.readouterr()
        assert world.run("overview", "--format", "json") == 0
        images = json.loads(capsys.readouterr().out)["images"]
        return {one["name"]: one["state"] for one in images}

    assert look() == {"demo": "not published"}
    assert world.run("promote", "demo") == 0
    assert look() == {"demo": "live"}
    assert world.run("overview", "--format", "json") == 0
    live = json.loads(capsys.readouterr().out)["images"][0]
    assert live["live"]["result"] == "PASSED"
    assert live["live"]["added"] > 0
    assert live["pins"]["nccl"] == "2.30.7+cuda13.3"

    recipe = world.root / "images/demo/recipes/alpha/template.jinja"
    recipe.write_text("another\n")
    assert look() == {"demo": "lock is stale"}
    assert world.run("lock", "demo") == 0
    assert look() == {"demo": "live from an older lock"}

    broken = world.root / "images/broken"
    broken.mkdir()
    (broken / "image.toml").write_text("schema = 2\n")
    assert look() == {"broken": "cannot be read", "demo": "live from an older lock"}
    (world.root / "images/demo/image.toml").unlink()
    assert look() == {"broken": "cannot be read", "demo": "live without a recipe"}


@pytest.mark.peers
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_in_a_browser(
    sixty: Overview,
    tmp_path: Path,
    browser: webdriver.Chrome,  # noqa: F811 - the fixture
    width: int,
) -> None:
    page = tmp_path / "images.html"
    page.write_text(render_page(sixty, version="1"), encoding="utf-8")
    _resize(browser, width)
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    shown = browser.execute_script(
        "return [...document.querySelectorAll('tbody th')].map(e => e.textContent)"
    )
    assert shown == [row.name for row in sixty.rows]
    height = browser.execute_script("return document.documentElement.scrollHeight")
    if width == 1280:
        # sixty rows on a display of 1080 lines, less the browser's own bars
        assert height <= 1250
    marked = browser.execute_script(
        "return [...document.querySelectorAll('.out')].map(e => getComputedStyle(e).fontWeight)"
    )
    assert marked == ["700"]
