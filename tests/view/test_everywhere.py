"""What holds on every page: it is accessible in light and dark, narrow and printed, and its address shows it again.

Each is checked in one delivery: the file has a foot that the server does not have, and otherwise the same pages.
"""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.view.bookshop import RUNS
from tests.view.opening import Opened
from tests.view.places import PLACES, RUN, SUMMARIES

EVERYWHERE = {**PLACES, **{f"summaries-{name}": (to, "faithful") for name, to in SUMMARIES.items()}}
"""Name -> address, and some text of the page."""
NAMES = [pytest.param(name, marks=() if name in PLACES else pytest.mark.soak) for name in EVERYWHERE]
"""The pages of a second run are in `make soak` only."""
PRINTED = ("run", "case", "compare", "compare-pair", "judges")
WIDE = """() => [...document.querySelectorAll("body *")]
  .filter((element) => element.getBoundingClientRect().right > 401)
  .slice(0, 8).map((element) => `${element.tagName}.${element.getAttribute("class")}`)"""
CONTROLS = """() => [...document.querySelectorAll("button, input, textarea")]
  .filter((one) => one.checkVisibility() && !one.closest("th, [role=columnheader]"))
  .map((one) => `${one.tagName}.${one.className} ${one.textContent}`)"""
FOLDED = """() => [...document.querySelectorAll("main details:not([open])")]
  .filter((one) => one.checkVisibility()).map((one) => one.textContent)"""
LINKS = """() => [...document.querySelectorAll("a")]
  .filter((a) => a.checkVisibility())
  .filter((a) => !a.getAttribute("href")?.startsWith("#") || !(a.textContent.trim() || a.ariaLabel))
  .map((a) => a.outerHTML)"""
UNFOLD = """() => {
  const folds = document.querySelectorAll("details:not([open]) > summary");
  folds.forEach((summary) => summary.click());
  return folds.length;
}"""
SHOWN = "() => document.querySelector('main').innerText"


def open_place(opened: Opened, to: str) -> Page:
    """Open a page, from the file that has it."""
    run, baseline = ("summaries", None) if RUNS["summaries"] in to else ("new-prompt", "baseline")
    return opened(run, baseline=baseline, place=to)


def settled(page: Page) -> str:
    """The text of the page, when it does not change any more."""
    before, now = None, page.evaluate(SHOWN)
    for _ in range(40):
        if now == before and "Loading…" not in now:
            break
        page.wait_for_timeout(50)
        before, now = now, page.evaluate(SHOWN)
    return str(now)


def violations(page: Page, **options: Any) -> list[str]:
    found = Axe().run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
    return [f"{rule['id']}: {node['target']} {node['failureSummary']}" for rule in found for node in rule["nodes"][:3]]


@pytest.mark.parametrize("opened", ["file"], indirect=True)
@pytest.mark.parametrize("name", [name for name in NAMES if name.values != ("run-filtered",)])
def test_page_is_accessible_and_fits_a_narrow_window(opened: Opened, name: str) -> None:
    to, text = EVERYWHERE[name]
    page = open_place(opened, to)
    page.get_by_text(text).first.wait_for(state="attached")
    settled(page)
    assert page.title().endswith(" · agentv")
    assert page.locator("main h1").count() == 1
    assert page.evaluate(LINKS) == []
    for _ in range(4):  # folds within folds
        if page.evaluate(UNFOLD):
            settled(page)
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, runOnly=["color-contrast"]) == []
    page.set_viewport_size({"width": 400, "height": 800})
    settled(page)
    if page.evaluate("document.documentElement.scrollWidth") > 400:
        pytest.fail(f"too wide: {page.evaluate(WIDE)}")


@pytest.mark.parametrize("opened", ["server"], indirect=True)
@pytest.mark.parametrize("name", NAMES)
def test_address_shows_the_same_page_again(opened: Opened, name: str) -> None:
    to, _ = EVERYWHERE[name]
    page = open_place(opened, to)
    direct = settled(page)
    address = page.evaluate("location.hash")
    page.reload()
    opened.ready(page)
    assert settled(page) == direct
    assert page.evaluate("location.hash") == address
    opened.go(page, "#/" if to != "#/" else f"#/run/{RUN}")
    settled(page)
    opened.go(page, to)
    assert settled(page) == direct
    page.go_back()
    settled(page)
    page.go_forward()
    opened.ready(page)
    assert settled(page) == direct


@pytest.mark.parametrize("opened", ["server"], indirect=True)
@pytest.mark.parametrize("name", PRINTED)
def test_printed_page_has_no_navigation_and_no_folded_text(opened: Opened, name: str) -> None:
    page = open_place(opened, EVERYWHERE[name][0])
    settled(page)
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    settled(page)
    assert page.locator("header.top").is_hidden()
    assert page.evaluate(CONTROLS) == []
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(FOLDED) == []
    assert page.pdf().startswith(b"%PDF")
