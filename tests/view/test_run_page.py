"""The page of a run: its numbers, filters, facets and table agree with the rows. It works by keyboard, keeps its state
in the address, and follows a run that is being written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.view.bookshop import RUNS, Bookshop
from tests.view.held import CASES, RUN, HeldProject, wait_until
from tests.view.opening import BOTH, Opened, Server

Row = dict[str, Any]


def rows_of(opened: Opened, run: str = "new-prompt") -> list[Row]:
    return opened.project.rows(run)


def listed(page: Page) -> list[str]:
    """The ids in the table, from the top."""
    found = page.evaluate(
        """() => [...document.querySelectorAll(".grid-body .grid-row")]
          .map((row) => [Number(row.getAttribute("aria-rowindex")), row.querySelector("a").textContent])"""
    )
    return [name for _, name in sorted(found)]


def to(expression: str = "", **query: str) -> str:
    pairs = {"f": expression, **query}
    return "?" + "&".join(f"{name}={quote(value)}" for name, value in pairs.items() if value)


def query_of(page: Page) -> dict[str, str]:
    found: dict[str, str] = page.evaluate(
        "() => Object.fromEntries(new URLSearchParams(location.hash.split('?')[1] ?? ''))"
    )
    return found


def shows(page: Page, count: str) -> None:
    expect(page.locator(".count")).to_have_text(count)


def not_passed(rows: list[Row]) -> int:
    return sum(row["verdict"] != "pass" for row in rows)


@pytest.fixture
def from_server(browser: Browser, served: Server, rich_project: Bookshop) -> Iterator[Opened]:
    """For what cannot depend on the delivery."""
    with Opened(browser, served, rich_project) as pages:
        yield pages


# -- the head


def test_head_says_what_happened_and_typed_filters_are_kept_in_the_address(opened: Opened) -> None:
    page = opened("new-prompt")
    rows = rows_of(opened)
    verdicts = Counter(row["verdict"] for row in rows)
    expect(page.locator("header .lead")).to_have_text(
        f"{verdicts['pass']} of 26 cases passed (77%, 95% interval 58% to 89%), "
        f"{verdicts['borderline']} borderline, {verdicts['fail']} failed."
    )
    facts = page.locator(".run header .facts").inner_text()
    assert f"${sum(row['cost_usd'] for row in rows):.4f}" in facts
    assert "100 calls" in facts
    assert "scripted judge" in page.locator("main .note").inner_text()

    box = page.get_by_label("Filter", exact=True)
    page.keyboard.press("/")
    expect(box).to_be_focused()
    page.keyboard.type("verdict!=")
    expect(page.locator("datalist option")).to_have_count(5)
    assert page.locator("datalist option").first.get_attribute("value") == "verdict!=pass"
    page.keyboard.type("pass")
    shows(page, f"{not_passed(rows)} of 26 cases")
    assert query_of(page) == {"f": "verdict!=pass"}
    page.reload()
    opened.ready(page)
    shows(page, f"{not_passed(rows)} of 26 cases")
    assert box.input_value() == "verdict!=pass"

    box.fill("score<0.9 and metadata.language=de")
    chosen = {row["eval_id"] for row in rows if row["score"] < 0.9 and row["metadata"]["language"] == "de"}
    assert 0 < len(chosen) < len(rows)
    shows(page, f"{len(chosen)} of 26 cases")
    assert set(listed(page)) == chosen
    box.fill("score<0.9 and scor=1")
    box.press("Enter")
    expect(page.locator("#filter-problem")).to_contain_text("unknown name `scor`")
    expect(box).to_have_attribute("aria-invalid", "true")
    shows(page, f"{len(chosen)} of 26 cases")


def test_text_in_the_filter_is_not_lost_when_the_baseline_arrives(from_server: Opened) -> None:
    page = from_server("new-prompt", to(vs="none"))
    box = page.get_by_label("Filter", exact=True)
    box.focus()
    page.keyboard.type("scor")
    page.locator(".baseline select").evaluate(
        f"(one) => {{ one.value = '{RUNS['baseline']}'; one.dispatchEvent(new Event('change')); }}"
    )
    expect(page.get_by_role("region", name="Baseline")).to_contain_text("got better")
    assert box.input_value() == "scor"


def test_unknown_cost_is_not_zero_and_attempts_are_one_row_with_a_link_for_each(opened: Opened) -> None:
    page = opened("summaries", baseline=None)
    facts = page.locator(".run header .facts").inner_text()
    assert "unknown, 24 calls" in facts
    assert "24 attempts, pass if majority; pass@4" in facts
    rows = rows_of(opened, "summaries")
    shows(page, f"{len({row['eval_id'] for row in rows})} cases")
    row = page.locator(".grid-body .grid-row").filter(has_text="summary-dune")
    dots = row.locator(".dots a")
    expect(dots).to_have_count(4)
    page.keyboard.press("j")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("() => document.activeElement.tagName") == "A"
    dots.nth(1).click()
    opened.ready(page)
    assert page.evaluate("() => location.hash").endswith("/summary-dune/assistant/2")


def test_run_without_budget_left_says_so_and_how_to_resume(from_server: Opened) -> None:
    page = from_server("small-budget", baseline=None)
    expect(page.locator("header > .lead")).to_contain_text("14 not run")
    expect(page.locator(".live")).to_contain_text("6 of 20 rows (30%)")
    expect(page.locator(".live code")).to_contain_text(f"agentv eval --resume {RUNS['small-budget']}")


# -- search, facets, histogram and baseline


@BOTH
def test_search_finds_questions_and_reasons_in_the_page_and_answers_in_the_record(opened: Opened) -> None:
    rows = rows_of(opened)
    page = opened("new-prompt")
    page.keyboard.press("s")
    page.keyboard.type("REFUND")
    expect(page.locator(".count")).to_contain_text(" of 26 cases")
    assert {row["eval_id"] for row in rows if "refund" in row["eval_id"]} <= set(listed(page))
    assert query_of(page) == {"q": "REFUND"}
    word = "always free"
    answered = {row["eval_id"] for row in rows if word in row["candidate_answer"]}
    assert answered
    page.get_by_label("Search text").fill(word)
    shows(page, "0 of 26 cases")
    page.get_by_label("in answers, prompts and judge calls").check()
    expect(page.locator(".search-state")).to_contain_text("found in the record")
    assert answered <= set(listed(page))
    assert query_of(page) == {"q": word, "in": "all"}


def test_facets_and_histogram_count_the_chosen_cases_and_filter(from_server: Opened) -> None:
    rows = rows_of(from_server)
    page = from_server("new-prompt")
    facet = page.locator(".facet").filter(has=page.get_by_role("heading", name="language"))
    counts = Counter(row["metadata"]["language"] for row in rows)
    expect(facet.get_by_role("button", name="de")).to_have_text(f"de {counts['de']}")
    facet.get_by_role("button", name="de").click()
    shows(page, f"{counts['de']} of 26 cases")
    expect(facet.get_by_role("button", name="de")).to_have_attribute("aria-pressed", "true")
    expect(facet.get_by_role("button", name="de")).to_be_focused()
    expect(facet.get_by_role("button", name="fr")).to_have_text(f"fr {counts['fr']}")
    verdicts = page.locator(".facet").filter(has=page.get_by_role("heading", name="Verdict"))
    passed = sum(row["verdict"] == "pass" and row["metadata"]["language"] == "de" for row in rows)
    expect(verdicts.get_by_role("button", name="pass")).to_have_text(f"pass {passed}")
    facet.get_by_role("button", name="fr").click()
    shows(page, f"{counts['de'] + counts['fr']} of 26 cases")
    assert query_of(page) == {"f": "(metadata.language=de or metadata.language=fr)"}
    page.go_back()
    shows(page, f"{counts['de']} of 26 cases")
    facet.get_by_role("button", name="de").click()
    shows(page, "26 cases")

    bins = page.locator(".scores [role=button]")
    expect(bins).to_have_count(20)
    bins.nth(13).focus()
    page.keyboard.press("Enter")
    shows(page, f"{sum(0.65 <= row['score'] < 0.7 for row in rows)} of 26 cases")
    assert query_of(page) == {"f": "(score>=0.65 and score<0.7)"}
    expect(bins.nth(13)).to_be_focused()
    page.keyboard.press("Enter")
    shows(page, "26 cases")


def test_baseline_shows_changes_and_filters_by_them(opened: Opened) -> None:
    before = {(row["suite"], row["eval_id"]): row for row in rows_of(opened, "baseline")}
    page = opened("new-prompt", to(vs=RUNS["baseline"]))
    deltas = {
        row["eval_id"]: round(row["score"] - old["score"], 12)
        for row in rows_of(opened)
        if (old := before.get((row["suite"], row["eval_id"]))) and old["error"] is None
    }
    better = {name for name, delta in deltas.items() if delta > 0}
    worse = {name for name, delta in deltas.items() if delta < 0}
    card = page.get_by_role("region", name="Baseline")
    expect(card).to_contain_text(f"{len(better)} got better and {len(worse)} got worse")
    card.get_by_role("button", name="got better").click()
    shows(page, f"{len(better)} of 26 cases")
    assert set(listed(page)) == better
    assert query_of(page)["f"] == "delta>0"
    expect(card.get_by_role("link", name="Compare")).to_have_attribute(
        "href", f"#/compare/{RUNS['baseline']}/{RUNS['new-prompt']}"
    )
    card.get_by_label("Baseline").select_option("none")
    shows(page, "0 of 26 cases")
    assert page.get_by_role("columnheader", name="Change").count() == 0


def test_file_without_a_baseline_has_none(rich_project: Bookshop, written: Any, browser: Browser) -> None:
    with Opened(browser, written, rich_project) as pages:
        page = pages("new-prompt", "", baseline=None)
        shows(page, "26 cases")
        pages.go(page, pages.place("new-prompt", to(vs=RUNS["first"])))
        expect(page.get_by_role("region", name="Baseline")).to_contain_text("does not contain the run")


# -- the table


def test_rows_are_sorted_as_python_sorts_them(from_server: Opened) -> None:
    def helpful(row: Row) -> Any:
        return next((one["score"] for one in row["evaluator_results"] if one["name"] == "helpful"), None)

    values: dict[str, Callable[[Row], Any]] = {
        "id": lambda row: row["eval_id"],
        "duration": lambda row: row["duration_ms"],
        "score": lambda row: row["score"],
        "evaluator.helpful": helpful,
        "metadata.language": lambda row: row["metadata"]["language"],
    }
    rows = rows_of(from_server)
    page = from_server("new-prompt")
    page.set_viewport_size({"width": 1280, "height": 1800})
    for column, value in values.items():
        known = [row for row in rows if value(row) is not None]
        unknown = [row["eval_id"] for row in rows if value(row) is None]
        assert len({value(row) for row in known}) > 1
        for sort, descending in ((column, False), (f"-{column}", True)):
            from_server.go(page, from_server.place("new-prompt", to(s=sort)))
            expect(page.locator(".grid-body .grid-row")).to_have_count(26)
            expected = sorted(known, key=value, reverse=descending)  # equal values stay in the order of the record
            assert listed(page) == [row["eval_id"] for row in expected] + unknown, sort


def test_table_is_sorted_read_and_opened_with_roles_and_keys(opened: Opened) -> None:
    page = opened("new-prompt")
    grid = page.get_by_role("grid", name="Cases")
    expect(grid).to_have_attribute("aria-rowcount", "27")
    first = grid.get_by_role("row").nth(1)
    expect(first).to_have_attribute("aria-rowindex", "2")
    assert first.get_by_role("gridcell").count() == grid.get_by_role("columnheader").count()

    # Elements are used again: new ones would take most of the time of scrolling.
    bars = page.evaluate_handle("() => [...document.querySelectorAll('.grid-row .score')]")
    head = page.get_by_role("columnheader", name="Score")
    expect(page.get_by_role("columnheader", name="Verdict")).to_have_attribute("aria-sort", "ascending")
    for sort, direction in (("score", "ascending"), ("-score", "descending")):
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", direction)
        assert query_of(page) == {"s": sort}
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "none")
    assert query_of(page) == {}
    assert page.evaluate("(bars) => bars.length > 20 && bars.every((bar) => bar.isConnected)", bars)
    bar = first.locator(".score")
    bar.hover()
    expect(bar).to_have_attribute("title", f"{bar.text_content()}, needs 0.80")

    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("Tokens").check()
    expect(page.get_by_role("columnheader", name="Tokens")).to_be_visible()
    expect(page.get_by_label("Tokens")).to_be_focused()
    assert "tokens" in query_of(page)["cols"].split(",")
    page.get_by_label("Tokens").blur()

    ids = listed(page)
    focused = "() => document.activeElement.querySelector('a').textContent"
    for key, place in (("j", 0), ("j", 1), ("ArrowDown", 2), ("k", 1), ("Home", 0)):
        page.keyboard.press(key)
        assert page.evaluate(focused) == ids[place], key
    page.keyboard.press("End")
    assert page.evaluate("() => document.activeElement.getAttribute('aria-rowindex')") == "27"
    page.keyboard.press("PageUp")
    assert page.evaluate("() => Number(document.activeElement.getAttribute('aria-rowindex'))") < 27
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    opened.ready(page)
    expect(page.locator("main h1")).to_have_text(ids[0])


def test_going_back_returns_to_the_row_and_its_place(opened: Opened) -> None:
    page = opened("new-prompt", to("score<=1", s="id"))
    page.set_viewport_size({"width": 1280, "height": 420})
    for _ in range(18):
        page.keyboard.press("j")
    row = "() => document.activeElement.getAttribute('aria-rowindex')"
    place = """() => {
      const frame = document.querySelector(".grid-frame");
      return [Math.round(frame.scrollTop), Math.round(frame.getBoundingClientRect().top)];
    }"""
    before = page.evaluate(row)
    page.wait_for_timeout(300)  # until the page has kept where it was scrolled to
    top = page.evaluate(place)
    assert before == "19"
    assert top[0] > 0
    page.keyboard.press("Enter")
    opened.ready(page)
    expect(page.locator(".case-nav")).to_contain_text("18 of 26")
    page.go_back()
    page.locator(".grid-row:focus").wait_for()
    assert page.evaluate(row) == before
    assert page.evaluate(place) == top
    assert query_of(page) == {"f": "score<=1", "s": "id"}


def test_only_the_first_rows_are_printed(module_page: Page) -> None:
    module_page.evaluate(
        """async () => {
          const {Table} = await import("/table.js");
          const table = new Table({label: "Rows", noun: "case", key: String, find: Number, href: (i) => `#/${i}`,
            columns: [{id: "n", title: "Number", width: 5, cell: String}], onSort: () => {}});
          document.body.append(table.element);
          table.setRows(Uint32Array.from({length: 100_000}, (_, i) => i));
        }"""
    )
    assert 0 < module_page.locator(".grid-body .grid-row").count() < 100
    module_page.emulate_media(media="print")
    expect(module_page.locator(".grid-body .grid-row")).to_have_count(200)
    expect(module_page.locator(".grid-note")).to_have_text("200 cases printed, 99,800 not.")


# -- a run that is being written


def test_rows_arrive_without_moving_what_is_read(tmp_path: Path, browser: Browser) -> None:
    project = HeldProject(tmp_path / "project")
    one, two, three, _ = CASES
    with Server(project.root) as server, project.running("--workers", "1"):
        project.let(one)
        wait_until(lambda: project.rows() == 1)
        with Opened(browser, server, Bookshop(project.root, {"held": RUN})) as pages:
            page = pages("held")
            shows(page, "1 case")
            expect(page.locator(".live")).to_contain_text("1 of 4 rows (25%)")
            project.let(two)
            shows(page, "2 cases")
            assert sorted(listed(page)) == sorted([one, two])

            page.keyboard.press("j")
            current = "() => document.activeElement.querySelector('a').textContent"
            read = page.evaluate(current)
            project.let(three)
            page.get_by_role("button", name="1 new row: show").wait_for()
            expect(page.locator(".live")).to_contain_text("3 of 4 rows (75%)")
            assert page.evaluate(current) == read
            assert len(listed(page)) == 2
            page.get_by_role("button", name="1 new row: show").click()
            assert len(listed(page)) == 3
