"""The list of runs: the numbers of `agentv runs` and `agentv trend`, filters, selection, and runs in progress."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Route, expect

from tests.view.bookshop import RUNS, Bookshop
from tests.view.held import HeldProject, wait_until
from tests.view.opening import BOTH, Opened, Server, printed


def rows(page: Page) -> list[dict[str, str]]:
    """The table as text, by the heads of its columns, from the top."""
    heads = [head.get_attribute("data-column") or "" for head in page.get_by_role("columnheader").all()]
    found = []
    for row in page.locator(".runs .grid-body .grid-row").all():
        texts = dict(zip(heads, row.get_by_role("gridcell").all_inner_texts(), strict=True))
        found.append((int(row.get_attribute("aria-rowindex") or 0), texts))
    return [texts for _, texts in sorted(found, key=lambda pair: pair[0])]


def names(page: Page) -> list[str]:
    return [row["run"].split()[0] for row in rows(page)]


def at(page: Page, place: str) -> None:
    page.wait_for_function("(place) => location.hash === place", arg=place)


def select(page: Page, name: str) -> None:
    page.get_by_role("row", name=name).get_by_role("checkbox").click()


# -- what is listed


@BOTH
def test_numbers_are_those_of_agentv_runs_and_names_are_links(opened: Opened) -> None:
    page = opened(place="#/")
    link = page.locator(".runs .grid-body a", has_text="new-prompt")
    assert link.get_attribute("href") == f"#/run/{RUNS['new-prompt']}"
    expected = printed(opened.project.root, "runs")
    if opened.kind == "file":
        expected = [run for run in expected if run["name"] in {"new-prompt", "baseline"}]
    shown = rows(page)
    assert [row["run"].split()[0] for row in shown] == [run["name"] for run in expected]
    for row, run in zip(shown, expected, strict=True):
        assert row["status"] == run["status"]
        assert row["passed"].strip() == f"{run['passed']}/{run['total']}"
        assert row["mean"].startswith(f"{int(run['mean_score'] * 100) / 100:.2f} ±")
        assert row["errors"] == str(run["errors"])
        assert row["cost"].lstrip("≥") == f"${run['cost_usd']:.4f}"
        assert row["cost"].startswith("≥") == (not run["cost_complete"])
        assert row["calls"] == str(run["judge_calls"])
        assert row["time"] == f"{run['duration_seconds']:.1f} s"
        assert row["what"] == f"{', '.join(run['suites'])} · {', '.join(run['targets'])}"
        assert row["version"] == run["agentv"]
        assert ("scripted" in row["run"]) == run["scripted"]
        assert (run["note"] or "") in row["run"]
    latest = expected[0]
    lead = page.locator(".lead").inner_text()
    assert lead.startswith(f"{len(expected)} runs. The latest, {latest['name']}, ")
    assert f"{latest['passed']} of {latest['total']} cases passed" in lead


def test_all_columns_fit_into_a_window_of_1280_pixels(opened: Opened) -> None:
    page = opened(place="#/")
    frame = page.locator(".grid-frame")
    assert frame.evaluate("(frame) => frame.scrollWidth - frame.clientWidth") == 0


@BOTH
def test_trend_is_broken_where_the_measurement_changed(opened: Opened) -> None:
    page = opened("baseline", baseline="first", place="#/")
    figure = page.locator(".trends figure").first
    assert figure.locator("figcaption").inner_text() == "support, target assistant"
    reasons = figure.locator(".breaks li").all_inner_texts()
    assert reasons[0] == "11-05: judges/precision.py changed"
    expected = next(line for line in printed(opened.project.root, "trend")["lines"] if line["suite"] == "support")[
        "points"
    ]
    if opened.kind == "file":
        assert len(reasons) == 1
        expected = expected[:2]
    else:
        assert reasons[1].startswith("11-12: configuration of target 'assistant' changed")
        assert figure.locator(".curve").count() == len(expected) - 1 - len(reasons)
    points = figure.locator("svg a")
    assert [point.get_attribute("href") for point in points.all()] == [f"#/run/{p['run_id']}" for p in expected]
    figure.locator("summary").click()
    expect(figure.locator("tbody tr")).to_have_count(len(expected))
    means = [row.locator("td").first.inner_text() for row in figure.locator("tbody tr").all()]
    assert means == [f"{int(point['mean_score'] * 100) / 100:.2f}" for point in expected]
    points.first.click()
    at(page, f"#/run/{expected[0]['run_id']}")


def test_degrading_suite_is_first_and_has_a_warning(later: Opened) -> None:
    page = later(place="#/")
    first = page.locator(".trend-lines > *").first
    assert "Degrading: the latest run is significantly worse." in first.inner_text()
    line = next(line for line in printed(later.project.root, "trend")["lines"] if line["degrading"])
    assert first.locator("figcaption").inner_text() == f"{line['suite']}, target {line['target']}"
    for test in line["tests"]:
        assert f"Latest against {test['against']}: {test['mean_delta']:+.3f}" in first.inner_text()
    assert "small-budget is left out: it is not finished (out of budget)." in first.inner_text()
    assert page.locator(".trends figure").count() == 2
    page.locator(".trends > details > summary").click()
    expect(page.locator(".trends figure").nth(2)).to_be_visible()


# -- finding and comparing


@BOTH
def test_filter_and_order_are_in_the_address(opened: Opened) -> None:
    page = opened(place="#/?q=prec&s=mean")
    assert page.get_by_label("Filter runs").input_value() == "prec"
    assert names(page) == ["baseline"]
    page.keyboard.press("/")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("SUPPORT finished")
    at(page, "#/?q=SUPPORT%20finished&s=mean")
    expected = sorted(
        (
            run
            for run in printed(opened.project.root, "runs")
            if run["status"] == "finished" and "support" in run["suites"]
        ),
        key=lambda run: run["mean_score"],
    )
    of_file = {"baseline", "new-prompt"}
    wanted = [run["name"] for run in expected if opened.kind == "server" or run["name"] in of_file]
    assert names(page) == wanted
    page.get_by_role("columnheader", name="Mean").get_by_role("button").click()
    at(page, "#/?q=SUPPORT%20finished&s=-mean")
    assert names(page) == wanted[::-1]
    page.get_by_label("Filter runs").fill("no such run")
    expect(page.locator(".grid-note")).to_have_text("No run matches.")


def test_two_selected_runs_are_compared_with_the_older_as_baseline(
    browser: Browser, served: Server, rich_project: Bookshop
) -> None:
    with Opened(browser, served, rich_project) as opened:
        page = opened(place="#/")
        bar = page.locator(".compare-bar")
        assert bar.inner_text() == "Select two runs to compare them"
        select(page, "new-prompt")
        assert bar.inner_text().startswith("Select two runs to compare them (1 selected)")
        select(page, "baseline")
        link = bar.get_by_role("link")
        assert link.inner_text() == "Compare new-prompt with baseline"
        assert link.get_attribute("href") == f"#/compare/{RUNS['baseline']}/{RUNS['new-prompt']}"
        select(page, "first")
        assert "(3 selected)" in bar.inner_text()
        select(page, "new-prompt")
        link.click()
        expect(page.locator("h1")).to_have_text("baseline against first")


def test_runs_are_selected_and_opened_by_keyboard(browser: Browser, served: Server, rich_project: Bookshop) -> None:
    with Opened(browser, served, rich_project) as opened:
        page = opened(place="#/")
        order = names(page)
        for key in ("j", "j", "j", "x", "j", "x"):
            page.keyboard.press(key)
        assert page.locator(".grid-body input:checked").count() == 2
        page.keyboard.press("c")
        at(page, f"#/compare/{RUNS[order[3]]}/{RUNS[order[2]]}")
        expect(page.locator("h1")).to_have_text(f"{order[2]} against {order[3]}", timeout=20_000)
        opened.go(page, "#/")
        for key in ("j", "j", "k", "Enter"):
            page.keyboard.press(key)
        at(page, f"#/run/{RUNS[order[0]]}")
        opened.go(page, "#/")
        page.keyboard.press("?")
        assert {"j", "k", "Enter", "x", "c", "/"} <= set(page.locator("dialog.keys dt").all_inner_texts())


def test_page_that_loads_slowly_is_not_shown_after_going_back(
    browser: Browser, served: Server, rich_project: Bookshop
) -> None:
    with Opened(browser, served, rich_project) as opened:
        page = opened(place="#/")

        def slowly(route: Route) -> None:
            time.sleep(0.5)
            route.continue_()

        page.route("**/api/compare/**", slowly)
        with page.expect_response("**/api/compare/**"):
            page.evaluate("(to) => { location.hash = to; }", f"#/compare/{RUNS['first']}/{RUNS['longer-context']}")
            page.evaluate("location.hash = '#/'")
        page.wait_for_timeout(500)
        assert page.locator("h1").inner_text() == "Runs"
        assert not page.locator("main").get_attribute("aria-busy")


@BOTH
def test_file_compares_its_two_runs(opened: Opened) -> None:
    page = opened(place="#/")
    if opened.kind == "server":
        assert page.get_by_role("checkbox").count() == 7
        return
    assert page.get_by_role("checkbox").count() == 0
    page.get_by_role("link", name="Compare new-prompt with baseline").click()
    at(page, f"#/compare/{RUNS['baseline']}/{RUNS['new-prompt']}")
    expect(page.locator(".headline")).to_be_visible()


# -- unusual runs


def test_project_without_runs_says_how_to_make_one(browser: Browser, tmp_path: Path) -> None:
    with Server(tmp_path) as server, Opened(browser, server, Bookshop(tmp_path, {})) as opened:
        page = opened(place="#/")
        assert "There are no runs yet" in page.locator("main").inner_text()
        assert page.get_by_text("agentv eval evals/").is_visible()
        assert page.get_by_role("grid").is_hidden()


def test_broken_run_is_listed_with_its_problem(browser: Browser, own_project: Bookshop) -> None:
    (own_project.directory("first") / "run.json").write_text("{")
    with Server(own_project.root) as server, Opened(browser, server, own_project) as opened:
        page = opened(place="#/?q=broken")
        (row,) = rows(page)
        assert row["status"] == "broken"
        problem = next(run["problem"] for run in printed(own_project.root, "runs") if run["status"] == "broken")
        assert problem in row["run"]
        assert (row["passed"], row["mean"], row["cost"], row["time"]) == ("\u2013",) * 4


def test_running_run_shows_its_progress_and_its_end(browser: Browser, tmp_path: Path) -> None:
    project = HeldProject(tmp_path / "held")
    with Server(project.root) as server, Opened(browser, server, Bookshop(project.root, {})) as opened:
        page = opened(place="#/")
        assert "There are no runs yet" in page.locator("main").inner_text()
        with project.running("--workers", "1") as process:
            expect(page.locator(".status.running")).to_have_text("running 0/4", timeout=40_000)
            project.let("one", "two")
            wait_until(lambda: project.rows() == 2)
            expect(page.locator(".status.running")).to_have_text("running 2/4")
            project.let("three", "four")
            process.wait(timeout=60)
            expect(page.locator(".status.finished")).to_have_text("finished", timeout=40_000)
        (row,) = rows(page)
        assert row["passed"].strip() == "3/4"


def test_thousands_of_runs_are_listed_and_filtered(browser: Browser, own_project: Bookshop) -> None:
    source = own_project.directory("new-prompt") / "run.json"
    manifest: dict[str, Any] = json.loads(source.read_text())
    for number in range(3000):
        directory = own_project.root / ".agentv" / "runs" / f"20250101-{number:06}-000000000"
        directory.mkdir()
        named = {**manifest, "run_id": directory.name, "name": f"nightly-{number}", "configuration": {}}
        (directory / "run.json").write_text(json.dumps(named))
    with Server(own_project.root) as server, Opened(browser, server, own_project) as opened:
        page = opened(place="#/")
        assert "3,007 runs." in page.locator(".lead").inner_text()
        assert page.get_by_role("grid").get_attribute("aria-rowcount") == "3008"
        assert page.locator(".grid-body .grid-row").count() < 80
        began = time.monotonic()
        page.get_by_label("Filter runs").fill("nightly-1234")
        expect(page.locator(".filter-bar .muted").first).to_have_text("1 of 3,007 runs")
        assert time.monotonic() - began < 5
        assert names(page) == ["nightly-1234"]
