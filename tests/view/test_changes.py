"""What a page shows while something changes: rows are replaced, a key is held, text is typed while a page opens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from agentv.results import CaseResult
from tests.report.rows import result, row
from tests.view.bookshop import Bookshop
from tests.view.opening import Opened, Server
from tests.view.records import WrittenRun

ID = "20261101-090000-000000001"
NAMES = ("one", "two", "three")


def answered(name: str, score: float = 1.0, **fields: object) -> CaseResult:
    return row(name, score, run_id=ID, candidate_answer=f"the answer to {name}", **fields)


@pytest.fixture
def run(tmp_path: Path) -> WrittenRun:
    return WrittenRun(tmp_path, ID, map(answered, NAMES))


@pytest.fixture
def pages(run: WrittenRun, tmp_path: Path, browser: Browser) -> Iterator[Opened]:
    with Server(tmp_path) as server, Opened(browser, server, Bookshop(tmp_path, {"run": ID})) as opened:
        yield opened


def shows_case(page: Page, name: str) -> None:
    expect(page.locator("main h1")).to_have_text(name)
    expect(page.locator("main")).to_contain_text(f"the answer to {name}")


def listed(page: Page) -> list[str]:
    return sorted(page.get_by_role("grid", name="Cases").get_by_role("link").all_inner_texts())


def count(page: Page, text: str) -> None:
    expect(page.locator(".count")).to_have_text(text)


def test_rows_that_were_replaced_keep_their_names(run: WrittenRun, pages: Opened) -> None:
    page = pages("run", "/case/geography/one/assistant/1")
    shows_case(page, "one")
    run.write_rows(map(answered, reversed(NAMES)))  # as `--retry-errors` does
    for name in ("two", "three", "one"):
        pages.go(page, f"#/run/{ID}/case/geography/{name}/assistant/1")
        shows_case(page, name)
    run.append(answered("four"))
    pages.go(page, f"#/run/{ID}/case/geography/four/assistant/1")
    shows_case(page, "four")


def test_search_in_the_record_finds_the_same_case_after_rows_were_replaced(run: WrittenRun, pages: Opened) -> None:
    page = pages("run", "?q=answer%20to%20three&in=all")
    count(page, "1 of 3 cases")
    assert listed(page) == ["three"]
    run.write_rows(map(answered, ("four", *reversed(NAMES))))
    count(page, "1 of 4 cases")
    assert listed(page) == ["three"]


def test_rows_after_a_damaged_first_line_are_cases_of_their_own(run: WrittenRun, pages: Opened) -> None:
    run.directory.results.write_bytes(b"{damaged\n")
    page = pages("run")
    expect(page.locator(".lead").first).to_have_text("This run has no rows.")
    run.append(*map(answered, NAMES))
    count(page, "3 cases")
    assert listed(page) == sorted(NAMES)


def test_strings_that_do_not_arrive_are_loaded_again(pages: Opened) -> None:
    page = pages(place="#/")

    def cut(route: Route) -> None:
        reply = route.fetch()
        route.fulfill(response=reply, body=reply.body()[:-8])

    pages.context.route("**/columns*", cut)
    pages.go(page, f"#/run/{ID}")
    expect(page.get_by_role("alert")).to_contain_text("The server of this page is not running")
    count(page, "3 cases")
    pages.context.unroute("**/columns*")
    pages.go(page, "#/")
    pages.go(page, f"#/run/{ID}")
    count(page, "3 cases")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_held_keys_labels_and_typed_text(run: WrittenRun, pages: Opened) -> None:
    page = pages("run", "/review")
    page.get_by_role("button", name="Pass").wait_for()
    hold = "key => dispatchEvent(new KeyboardEvent('keydown', {key, repeat: true, bubbles: true}))"
    for _ in range(5):
        page.evaluate(hold, "p")
    assert not (run.path / "labels.jsonl").exists()

    pages.go(page, f"#/run/{ID}")
    box = page.get_by_label("Filter", exact=True)
    box.fill("id=two")
    count(page, "1 of 3 cases")
    box.press("Escape")
    expect(box).to_have_value("id=two")
    box.fill("")
    count(page, "3 cases")

    page.get_by_label("Search text").press_sequentially("two")
    page.evaluate("to => { location.hash = to; }", f"#/run/{ID}/case/geography/one/assistant/1")
    shows_case(page, "one")
    page.wait_for_timeout(400)  # longer than the pause after which typed text is searched
    shows_case(page, "one")


def test_odd_names_are_distinguished(run: WrittenRun, pages: Opened) -> None:
    comma = (result("a,b", 0.5), result("c", 1.0))
    run.write_rows(
        [
            answered("a/b", suite="s", evaluator_results=comma, metadata={"langs": ["de", "fr"]}),
            answered("b", suite="s/a", evaluator_results=comma, metadata={"langs": ["en"]}),
            *(answered("late", suite="s", attempt=attempt, evaluator_results=comma) for attempt in (2, 3)),
        ]
    )
    page = pages("run", "/case/s/a%2Fb/assistant/1")
    shows_case(page, "a/b")
    pages.go(page, f"#/run/{ID}/case/s%2Fa/b/assistant/1")
    shows_case(page, "b")
    pages.go(page, f"#/run/{ID}/case/s/late/assistant/3")
    expect(page.locator(".dot")).to_have_count(2)
    assert page.locator(".dot").evaluate_all("all => all.map((one) => one.title)") == [
        "attempt 2: pass",
        "attempt 3: pass",
    ]

    pages.go(page, f"#/run/{ID}")
    count(page, "3 cases")
    expect(page.get_by_role("columnheader", name="a,b")).to_have_count(1)
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("Tokens").check()
    expect(page.get_by_role("columnheader", name="Tokens")).to_have_count(1)
    expect(page.get_by_role("columnheader", name="a,b")).to_have_count(1)
    page.get_by_role("button", name='["de","fr"]').click()
    count(page, "1 of 3 cases")
    page.get_by_label("Filter", exact=True).fill("metadata.constructor=")
    page.emulate_media(media="print")
    pages.go(page, f"#/run/{ID}")
    count(page, "3 cases")
    printed = page.locator(".count").evaluate("one => getComputedStyle(one, '::after').content")
    assert printed == '" "'


def test_other_cases_of_a_comparison_are_those_of_the_run_page_after_a_reload(
    run: WrittenRun, tmp_path: Path, pages: Opened
) -> None:
    before = "20261030-090000-000000001"
    WrittenRun(tmp_path, before, [row(name, 0.0, run_id=before) for name in NAMES])
    page = pages("run", f"/case/geography/two/assistant/1?f=newly_passed&vs={before}")
    expect(page.locator(".case-nav")).to_contain_text("2 of 3")
    page.keyboard.press("j")
    shows_case(page, "three")
