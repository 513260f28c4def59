"""The page of the judges, from the server and from the file."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Browser, Locator, Page, expect

from agentv.view.library import Library
from tests.view.bookshop import Bookshop
from tests.view.opening import BOTH, Opened, Server

UNKNOWN = "\N{EN DASH}"


def judges(opened: Opened, run: str = "new-prompt", baseline: str | None = "baseline") -> tuple[Page, dict[str, Any]]:
    """The page, and the data that it must show."""
    library = Library(opened.project.root)
    return opened(run, "/judges", baseline=baseline), library.judges(opened.project.runs[run])


def card(page: Page, title: str) -> Locator:
    return page.locator("section.card").filter(has=page.get_by_role("heading", name=title, exact=True, level=2))


def cells(row: Locator) -> list[str]:
    return [re.sub(r"\s+", " ", text.strip()) for text in row.locator("th, td").all_inner_texts()]


def row_of(area: Locator, name: str) -> dict[str, str]:
    """The cells of the row whose first cell begins with a name, by the heads of their columns."""
    head = area.locator("thead th, thead td").all_inner_texts()
    row = area.locator("tbody tr").filter(has=area.page.locator("th", has_text=re.compile(rf"^\W*{name}\b"))).first
    return dict(zip(head, cells(row), strict=True))


@BOTH
def test_judges_have_cost_scores_and_agreement(opened: Opened) -> None:
    page, data = judges(opened)
    (target,) = data["targets"]
    assert page.locator(".lead").inner_text() == (
        f"Judge calls: {target['calls']}, all answered; $0.0400. Verdicts agree with 8 of 9 labels."
    )
    shown = row_of(card(page, "Judge calls"), "careful-judge")
    assert shown["Judge target"] == "careful-judge scripted-1"
    assert (shown["Calls"], shown["Answered"], shown["Failed"]) == ("100", "100", "0")
    assert (shown["Tokens in"], shown["Tokens out"], shown["Cost"]) == ("41,200", "4,800", "$0.0400")
    assert shown["Median time"] == f"{target['p50_ms']:.0f} ms"
    assert "Timeouts" not in shown, "a column that is 0 for all targets"

    area = card(page, "Evaluators")
    for evaluator in data["evaluators"]:
        shown = row_of(area, evaluator["name"].rpartition(" / ")[2])
        assert shown["Rows"] == str(evaluator["rows"]), evaluator["name"]
        assert shown["Passed"].startswith(f"{evaluator['passed']} ("), evaluator["name"]
    assert row_of(area, "short")["Cost"] == UNKNOWN
    link = area.locator("tr").filter(has_text="precision").get_by_role("link").first
    assert link.get_attribute("href") == f"{opened.place('new-prompt')}?f=evaluator.precision%3E%3D0"

    commands = card(page, "Noise").locator("code").all_inner_texts()
    assert commands == [
        f"agentv eval evals/support.yaml --outputs {opened.project.runs['new-prompt']} --repeat 5",
    ]

    area = card(page, "Agreement between evaluators")
    pairs = {(pair["one"], pair["other"]): pair for pair in data["agreement"]}
    pair = pairs["rubric", "precision"]
    shown = row_of(area, "precision")
    assert shown["rubric"].startswith(f"{pair['kappa']:.2f} poor")
    assert f"{pair['agree']} of {pair['rows']}" in shown["rubric"]
    assert row_of(area, "helpful")["rubric"].startswith("1.00 very good")
    assert row_of(area, "fast")["tools"].startswith("0.57 moderate")

    area = card(page, "Agreement with people")
    shown = row_of(area, "the verdict of the row")
    assert (shown["Labels"], shown["Agree"], shown["Kappa"]) == ("9", "8 (89%)", "0.61 good")
    assert (shown["Wrongly passed"], shown["Wrongly failed"]) == ("1", "0")
    assert shown["95% interval"] == "57% to 98%"
    (row,) = data["labels"]["rows"]
    assert area.locator("li a").first.inner_text() == opened.project.rows("new-prompt")[row]["eval_id"]
    assert "1 label not used: “unsure”." in page.locator("main").inner_text()

    area = card(page, "Length of the answers")
    assert row_of(area, "rubric")["Meaning"] == "longer answers score higher"
    assert row_of(area, "precision")["Meaning"] == "no clear relation"
    assert "Student's t approximation" in area.inner_text()


def test_page_leads_to_rows_and_to_the_review(opened: Opened) -> None:
    page, data = judges(opened)
    charts = card(page, "Evaluators").locator("figure.chart")
    assert charts.count() == sum(evaluator["judge"] for evaluator in data["evaluators"])
    page.get_by_text("Scores of 5 other evaluators").click()
    expect(charts).to_have_count(len(data["evaluators"]))
    card(page, "Evaluators").get_by_role("button", name="0.50 to below 0.55: 7 rows").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('?f=')")
    assert page.evaluate("decodeURIComponent(location.hash.split('?f=')[1])") == (
        "evaluator.precision>=0.5 and evaluator.precision<0.55"
    )
    opened.go(page, opened.place("new-prompt", "/judges"))
    page.keyboard.press("l")
    expect(page.get_by_role("heading", level=1)).to_have_text("Review")
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", level=1)).not_to_have_text("Review")


def test_noise_is_explained_with_the_cases_that_flipped(opened: Opened) -> None:
    page, data = judges(opened, "summaries", None)
    noise = data["evaluators"][0]["noise"]
    percent = f"{100 * noise['flipped'] / noise['answers']:.0f}%"
    assert page.locator(".lead").inner_text() == (
        "Judge calls: 24, all answered; cost unknown. "
        f"The judge “faithful” changes its verdict on {percent} of identical answers."
    )
    link = card(page, "Agreement with people").get_by_role("link", name="Label some answers")
    assert link.get_attribute("href") == opened.place("summaries", "/review")
    shown = row_of(card(page, "Length of the answers"), "faithful")
    assert (shown["p-value"], shown["Meaning"]) == (UNKNOWN, "too few cases to tell")

    area = card(page, "Noise")
    shown = row_of(area, "faithful")
    assert shown["Answers judged again"] == str(noise["answers"])
    assert shown["Verdict changed"] == f"{noise['flipped']} ({percent})"
    assert shown["SD of scores"] == f"{noise['sd']:.3f}"
    assert shown["Near the pass line"] == f"{noise['near']} of 24"
    assert "names-author" not in area.inner_text(), "a check without a model has no noise"
    area.get_by_text("2 more").click()
    links = area.get_by_role("listitem").filter(has_text="passed").get_by_role("link")
    expect(links).to_have_count(noise["flipped"])
    first = noise["flips"][0]
    row = opened.project.rows("summaries")[first["row"]]
    assert links.first.inner_text() == row["eval_id"]
    links.first.click()
    opened.ready(page)
    expect(page.get_by_role("heading", level=1)).to_have_text(row["eval_id"])
    assert f"/{row['eval_id']}/assistant/{row['attempt']}" in page.evaluate("location.hash")
    assert area.count() == 0


def test_unknown_cost_is_aligned_like_a_number(opened: Opened) -> None:
    page = opened("summaries", "/judges", baseline=None)
    cost = page.locator("td", has_text=re.compile("^unknown$")).first
    assert cost.evaluate("(cell) => getComputedStyle(cell).textAlign") == "right"


def test_run_without_judges_says_so(browser: Browser, own_project: Bookshop) -> None:
    directory = own_project.directory("baseline")
    rows = [line for line in (directory / "results.jsonl").read_text().splitlines() if '"suite":"agent"' in line]
    assert rows
    (directory / "results.jsonl").write_text("".join(f"{row}\n" for row in rows))
    (directory / "judge_calls.jsonl").unlink()
    with Server(own_project.root) as server, Opened(browser, server, own_project) as opened:
        page = opened("baseline", "/judges", baseline=None)
        assert page.locator(".lead").inner_text() == (
            "No judge was called in this run: its scores come from checks that need no judge."
        )
        assert card(page, "Judge calls").inner_text().endswith("No judge calls in this run.")
        assert card(page, "Noise").count() == 0
        assert card(page, "Evaluators").locator("figure.chart").count() == 2
