"""From the list of runs to a judge call and back, without a mouse."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.view.opening import BOTH, Opened
from tests.view.places import PLACES, RUN

FOCUS = """() => {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  return {
    name: element.id || element.getAttribute("role") || element.tagName.toLowerCase(),
    text: element.textContent.trim(),
    outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== "none",
  };
}"""


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def arrive(opened: Opened, page: Page, part: str) -> None:
    page.wait_for_function("(part) => location.hash.includes(part)", arg=part)
    page.evaluate("() => new Promise((done) => setTimeout(done))")  # the page knows of its new address
    opened.ready(page)


@BOTH
def test_walk_from_runs_to_a_case_and_back(opened: Opened) -> None:
    page = opened(place="#/")
    for _ in range(10):  # down to the run that this is about
        press(page, "j")
        focus = page.evaluate(FOCUS)
        if "new-prompt" in focus["text"]:
            break
    assert "new-prompt" in focus["text"]
    assert focus["outline"], "the focus can be seen"
    press(page, "Enter")
    arrive(opened, page, f"#/run/{RUN}")
    page.get_by_role("columnheader", name="Change").wait_for()  # of the baseline
    press(page, "j", "j")
    row = page.evaluate(FOCUS)
    assert (row["name"], row["outline"]) == ("row", True)
    press(page, "Enter")
    arrive(opened, page, "/case/")
    case = page.inner_text("main h1")
    assert case in row["text"]
    press(page, "1")
    evaluator = page.locator("[data-evaluator]").first
    expect(evaluator.locator("summary").first).to_be_focused()
    expect(evaluator).to_have_attribute("open", "")
    press(page, "2")  # on through the evaluators
    expect(evaluator.locator("summary").first).not_to_be_focused()
    press(page, "j")
    page.wait_for_function("(case_) => document.querySelector('main h1').innerText !== case_", arg=case)
    page.go_back()
    expect(page.locator("main h1")).to_have_text(case)
    page.go_back()
    page.wait_for_function("() => !location.hash.includes('/case/')")
    opened.ready(page)
    # The focus is on the row that was opened. Its text may have changed: the baseline is loaded after the table.
    expect(page.locator('[role="row"]:focus')).to_contain_text(case)
    press(page, "Enter")
    arrive(opened, page, "/case/")
    press(page, "Escape")
    page.wait_for_function("() => !location.hash.includes('/case/')")
    opened.ready(page)
    assert page.evaluate("location.hash").startswith(f"#/run/{RUN}")
    press(page, "r")
    page.wait_for_function("() => location.hash === '#/'")


def test_dialog_lists_the_keys_of_the_page_and_the_skip_link_leads_to_the_content(opened: Opened) -> None:
    page = opened(place="#/")
    dialog = page.get_by_role("dialog", name="Keys")
    for name in ("runs", "run", "case", "compare", "judges", "review"):
        opened.go(page, PLACES[name][0])
        page.locator("main a").first.focus()
        before = page.evaluate(FOCUS)
        press(page, "?")
        expect(dialog).to_be_visible()
        assert dialog.locator("dl").count() == 2, f"{name} has keys"
        press(page, "j")  # keys of the page do nothing meanwhile
        press(page, "Escape")
        expect(dialog).to_be_hidden()
        assert page.evaluate(FOCUS) == before
    page.get_by_role("link", name="agentv", exact=True).focus()
    press(page, "Shift+Tab")
    assert page.evaluate(FOCUS)["text"] == "Skip to content"
    expect(page.get_by_text("Skip to content")).to_be_in_viewport()
    press(page, "Enter")
    assert page.evaluate(FOCUS)["name"] == "main"


def test_chosen_theme_is_kept_and_is_not_printed(opened: Opened) -> None:
    page = opened(place="#/")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    press(page, "t")
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    opened.ready(page)
    assert page.evaluate(background) == dark
    page.emulate_media(media="print")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.emulate_media(media="screen", color_scheme="dark")
    page.get_by_role("button", name="Light / dark").click()
    assert page.evaluate(background) == light
