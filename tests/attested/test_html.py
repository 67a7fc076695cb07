"""The HTML report shows everything, asks nothing of any network, and runs no script."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from imagegate.cli import run
from imagegate.report.html import render_html
from tests.attested.cases import VERSION, Judged, with_failure

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workspaces import Built

# elements that HTML never closes
_VOID = {"meta", "link", "br"}


class _Page(HTMLParser):
    """Collects elements, attributes and text, and requires that elements nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def _report(judged: Judged) -> str:
    return render_html([(with_failure(judged.verdict), judged.evidence)], version=VERSION)


def test_the_page_refers_to_nothing_outside_and_has_no_script(judged: Judged) -> None:
    page = _Page(_report(judged))
    assert {tag for tag, _ in page.elements} & {
        "script",
        "img",
        "iframe",
        "object",
        "form",
    } == set()
    links = [a for _, attributes in page.elements for a in ("src", "href") if a in attributes]
    assert links == ["href"]  # the empty icon, without which a browser asks for one
    assert "url(" not in _report(judged)
    assert "@import" not in _report(judged)
    assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on")]


def test_text_out_of_an_image_stays_text(judged: Judged) -> None:
    report = _report(judged)
    assert "<script" not in report
    assert "<b>never" not in report
    assert "<script>alert(1)</script>" in _Page(report).text


def test_the_page_shows_layers_pins_and_assets(judged: Judged) -> None:
    text = re.sub(r"\s+", " ", _Page(_report(judged)).text)
    assert "RUN pip install torch" in text
    assert "imagegate: 3 assets, 0 links" in text
    # claimed by a variable, recorded by the wheel, real by the library's own words
    assert re.search(
        r"NCCL_VERSION 2\.30\.7 .*nvidia-nccl-cu13 2\.30\.7 .*2\.30\.7\+cuda13\.3", text
    )
    assert "0 of 2 moved" in text
    assert text.count("✓ in the image") == 3
    assert text.count("has none") == 1


def test_a_pin_that_moved_is_shown_with_both_sides(judged: Judged) -> None:
    facts = judged.evidence.facts
    native = tuple(
        replace(r, value="2.31.0+cuda13.3") if r.source == "version string" else r
        for r in facts.native
    )
    moved = replace(judged.evidence, facts=replace(facts, native=native))
    report = render_html([(judged.verdict, moved)], version=VERSION)
    assert "1 of 2 moved" in report
    assert "<del>2.30.7+cuda13.3</del>" in report
    assert "<ins>2.31.0+cuda13.3</ins>" in report


def test_verify_writes_the_page_and_the_same_in_a_second_run(built: Built, tmp_path: Path) -> None:
    for name in ("one.html", "two.html"):
        assert run(["verify", "-w", str(built.root), "--html", str(tmp_path / name)]) == 0
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
