"""The HTML report in a real browser: headless Chromium, wide, narrow, dark and printed."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from selenium import webdriver

from imagegate.report.html import render_html
from tests.attested.cases import VERSION, Judged, with_failure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=str(shutil.which("chromedriver")))
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture
def page(judged: Judged, tmp_path: Path, browser: webdriver.Chrome) -> Path:
    path = tmp_path / "report.html"
    judged_image = (with_failure(judged.verdict), judged.evidence)
    path.write_text(render_html([judged_image], version=VERSION))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    return path


def _log(browser: webdriver.Chrome, kind: str) -> list[dict[str, Any]]:
    return list(browser.get_log(kind))  # type: ignore[no-untyped-call]


def _messages(browser: webdriver.Chrome) -> list[dict[str, Any]]:
    return [json.loads(entry["message"])["message"] for entry in _log(browser, "performance")]


def _resize(browser: webdriver.Chrome, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def test_opening_the_report_asks_for_one_file_and_says_no_error(
    browser: webdriver.Chrome, page: Path
) -> None:
    _log(browser, "performance")
    browser.get(page.as_uri())
    requested = [
        message["params"]["request"]["url"]
        for message in _messages(browser)
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in requested if not url.startswith("data:")] == [page.as_uri()]
    assert _log(browser, "browser") == []


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_sticks_out_of_the_page_at_any_width(
    browser: webdriver.Chrome, page: Path, width: int
) -> None:
    _resize(browser, width)
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    outside = browser.execute_script(
        "return [...document.querySelectorAll('main *')]"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll')"
        " && !e.closest('thead')).map(e => e.outerHTML.slice(0, 80))"
    )
    assert outside == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_that_wcag_asks_for(
    browser: webdriver.Chrome, page: Path, scheme: str
) -> None:
    _resize(browser, 1280)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(page.as_uri())
    # WCAG 2.2, 1.4.3: at least 4.5 to 1
    low = browser.execute_script(
        """
        const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        const parse = c => c.match(/[\\d.]+/g).map(Number);
        const light = ([r, g, b]) => 0.2126*channel(r) + 0.7152*channel(g) + 0.0722*channel(b);
        const ground = e => { for (; e; e = e.parentElement) {
          const c = parse(getComputedStyle(e).backgroundColor);
          if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
        return [...document.querySelectorAll('body *')]
          .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
          .map(e => { const a = light(parse(getComputedStyle(e).color)), b = light(ground(e));
            return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.outerHTML.slice(0, 60)]; })
          .filter(([ratio]) => ratio < 4.5);
        """
    )
    assert low == []


def test_print_shows_what_is_folded_on_the_screen(browser: webdriver.Chrome, page: Path) -> None:
    browser.get(page.as_uri())
    height = "return document.querySelector('td details ul').getBoundingClientRect().height"
    shown = "return document.querySelector('td details ul').checkVisibility()"
    assert not browser.execute_script(shown) or browser.execute_script(height) == 0
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.execute_script(height) > 0


def test_the_languages_and_headings_that_a_screen_reader_needs_are_there(
    browser: webdriver.Chrome, page: Path
) -> None:
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.lang") == "en"
    levels = browser.execute_script(
        "return [...document.querySelectorAll('h1,h2,h3')].map(e => +e.tagName[1])"
    )
    assert levels[:3] == [1, 2, 3]
    assert "FAILED" in browser.title
