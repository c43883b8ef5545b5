"""The web site as somebody uses it who opened it from the disk: search, width, what is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.support.browser import driven, hard_to_use_now

WIDTH = 1280

TOO_WIDE = """
const right = document.documentElement.clientWidth;
const cut = element => element.scrollWidth > element.clientWidth + 1
  && getComputedStyle(element).display !== "inline";
const beyond = element => element.getBoundingClientRect().right > right;
return [...document.querySelectorAll(".rst-content table, .rst-content td, .wy-table-responsive")]
  .filter(element => beyond(element) || cut(element))
  .map(element => element.innerText.slice(0, 60));
"""
LOADED = """
return [...document.querySelectorAll("link[href], script[src], img[src]")]
  .map(element => element.href ?? element.src);
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[webdriver.Chrome]:
    with driven(WIDTH, 900) as driver:
        yield driver


def is_ready(browser: webdriver.Chrome) -> bool:
    return browser.execute_script("return document.readyState") == "complete"


def look_for(browser: webdriver.Chrome, site: Path, words: str) -> None:
    """From the first page, by the box beside it."""
    browser.get((site / "index.html").as_uri())
    browser.find_element(By.NAME, "q").send_keys(words + Keys.ENTER)
    WebDriverWait(browser, 30).until(
        lambda b: (
            "search.html" in b.current_url and is_ready(b) and b.find_element(By.ID, "found").text
        )
    )


def found_pages(browser: webdriver.Chrome, site: Path) -> list[str]:
    links = browser.find_elements(By.CSS_SELECTOR, "#results h2 a")
    return [link.get_attribute("href").removeprefix(f"{site.as_uri()}/") for link in links]


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    ("words", "page", "section"),
    [
        ("PMBPTR", "reference/registers.html", "PMBPTR_EL1"),
        ("pmscr", "reference/registers.html", "PMSCR_EL1"),
        ("PMSCR_EL1", "reference/registers.html", "PMSCR_EL1"),
        ("--smp", "reference/cli.html", "Options of run and record"),
        ("Trusted Firmware", "how-to/boot.html", "Trusted Firmware-A"),
        ("write_snapshot", "reference/api.html", "write_snapshot"),
    ],
)
def test_the_search_finds_parts_of_words(
    chromium: webdriver.Chrome, site: Path, words: str, page: str, section: str
) -> None:
    look_for(chromium, site, words)
    assert found_pages(chromium, site)[0] == page
    first = chromium.find_element(By.CSS_SELECTOR, "#results dt a")
    assert first.text == section
    marked = chromium.find_elements(By.CSS_SELECTOR, "#results mark")
    assert {mark.text.lower() for mark in marked} == set(words.lower().split())
    first.click()
    WebDriverWait(chromium, 30).until(is_ready)
    address, _, anchor = chromium.current_url.partition("#")
    assert address == (site / page).as_uri()
    assert section in chromium.find_element(By.ID, anchor).text
    assert chromium.get_log("browser") == []


def test_the_search_says_where_nothing_is_found_and_follows_typing(
    chromium: webdriver.Chrome, site: Path
) -> None:
    look_for(chromium, site, "qqxyzzy")
    said = chromium.find_element(By.ID, "found")
    assert said.text == "Nothing has this."
    assert found_pages(chromium, site) == []
    box = chromium.find_element(By.ID, "query")
    box.send_keys(" PMBPTR")
    assert said.text == "Nothing has all of these."
    box.send_keys(Keys.BACKSPACE * len("qqxyzzy PMBPTR") + "PMBPTR")
    assert said.text == f"On {len(found_pages(chromium, site))} pages:"
    assert found_pages(chromium, site)[0] == "reference/registers.html"


def test_markup_that_is_searched_for_is_text(chromium: webdriver.Chrome, site: Path) -> None:
    look_for(chromium, site, "<img src=x onerror=document.title=1>")
    assert chromium.find_element(By.ID, "query").get_attribute("value").startswith("<img")
    assert chromium.find_elements(By.CSS_SELECTOR, "#results img") == []


@pytest.mark.sweep
def test_every_page_is_as_wide_as_the_window_and_loads_from_the_site_alone(
    chromium: webdriver.Chrome, site: Path
) -> None:
    pages = sorted(set(site.rglob("*.html")) - {site / "404.html"})  # that is for servers alone
    assert len(pages) > 70
    wrong = {}
    for page in pages:
        chromium.get(page.as_uri())
        wide = chromium.execute_script(TOO_WIDE)
        loaded = chromium.execute_script(LOADED)
        elsewhere = [address for address in loaded if not address.startswith(f"{site.as_uri()}/")]
        said = [entry["message"] for entry in chromium.get_log("browser")]
        whole = chromium.execute_script("return document.documentElement.scrollWidth")
        if wide or elsewhere or said or whole > WIDTH:
            wrong[str(page.relative_to(site))] = (wide, elsewhere, said, whole)
        assert loaded != []
    assert wrong == {}


@pytest.mark.sweep
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_can_be_read_in_both_colour_schemes(
    chromium: webdriver.Chrome, site: Path, scheme: str
) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        for page in ("index.html", "reference/cli.html", "reference/api.html", "search.html?q=smp"):
            chromium.get(f"{site.as_uri()}/{page}")
            assert hard_to_use_now(chromium) == [], page
    finally:
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
