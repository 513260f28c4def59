"""The compare page: the numbers of `agentv compare`, filters, groups, and one case in both runs."""

from __future__ import annotations

import json
import math
import re
import subprocess
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from agentv.view.library import Library
from tests.view.bookshop import RUNS, Bookshop
from tests.view.opening import AGENTV, BOTH, Files, Opened, environment, printed

BASELINE, CANDIDATE = RUNS["baseline"], RUNS["new-prompt"]
PLACE = f"#/compare/{BASELINE}/{CANDIDATE}"


@pytest.fixture(scope="module")
def expected(rich_project: Bookshop) -> dict[str, Any]:
    """What `agentv compare --json` prints."""
    found: dict[str, Any] = printed(rich_project.root, "compare", "baseline", "new-prompt")
    return found


@pytest.fixture(scope="module")
def data(rich_project: Bookshop) -> dict[str, Any]:
    """The comparison with its groups, which `agentv compare` does not print."""
    return Library(rich_project.root).compare(BASELINE, CANDIDATE)


def p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def delta(value: float) -> str:
    return f"{value:+.3f}" if value else "0.000"


def cells(page: Page, table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in row.locator("th, td").all_inner_texts()] for row in page.locator(f"{table} tr").all()
    ]


def listed(page: Page) -> list[str]:
    """The ids in the table of cases, from the top."""
    rows = page.locator(".pairs .grid-body .grid-row")
    places = [(int(row.get_attribute("aria-rowindex") or 0), row.locator("a").inner_text()) for row in rows.all()]
    return [name for _, name in sorted(places)]


def at(page: Page, place: str) -> None:
    """Wait until the page has this address."""
    page.wait_for_function("(place) => location.hash === place", arg=place)


def case_number(data: dict[str, Any], eval_id: str) -> int:
    place: int = data["pairs"]["eval_id"].index(eval_id)
    return place


# -- the overview


@BOTH
def test_numbers_are_those_of_agentv_compare(opened: Opened, expected: dict[str, Any], data: dict[str, Any]) -> None:
    page = opened(place=PLACE)
    terminal = subprocess.run(
        [*AGENTV, "compare", "baseline", "new-prompt"],
        cwd=opened.project.root,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert page.locator(".headline").inner_text().lower() in terminal.stdout
    summary = expected["summary"]
    assert page.locator(".exit-code").inner_text() == str(terminal.returncode)
    mean, passed, rate, interval = cells(page, ".conclusion .numbers tbody")
    assert mean == ["Mean score", f"{summary['mean1']:.3f}", f"{summary['mean2']:.3f}", delta(summary["mean_delta"])]
    assert passed == ["Passed", f"{summary['passed1']}/26", f"{summary['passed2']}/26", "+8"]
    rates = [summary["pass_rate1"], summary["pass_rate2"]]
    assert rate[1:3] == [f"{each['rate']:.0%}" for each in rates]
    assert interval[1:3] == [" to ".join(f"{end:.0%}" for end in each["interval"]) for each in rates]
    tests = page.locator(".conclusion .tests li").all_inner_texts()
    assert tests[0].startswith(f"{summary['wins']} better, {summary['losses']} worse by 0.1 or more, ")
    assert tests[0].endswith(f"{summary['ties']} tied; sign test {p_value(summary['sign_test_p'])}")
    flips = f"{summary['newly_passed']} newly pass, {summary['newly_failed']} no longer pass"
    assert tests[1] == f"{flips}; exact McNemar test {p_value(summary['mcnemar_p'])}"
    assert tests[2].startswith(f"normalised gain {summary['normalised_gain']:+.2f}, ")
    low, high = summary["interval"]
    assert f"95% interval {low:+.3f} to {high:+.3f}." in page.locator(".conclusion figure").inner_text()
    notes = page.locator(".conclusion .note li").all_inner_texts()
    assert [note.removeprefix("Note: ") for note in notes] == expected["notes"]

    changes = page.locator(".changes").inner_text()
    assert page.locator(".ruler").count() == 0
    assert "configuration of target 'assistant' changed: command" in changes
    assert "Answer in one or two sentences." in changes

    card = page.locator(".groups")
    groups = data["groups"]
    assert f"{len(groups)} groups were tested" in card.inner_text()
    assert "No group is significant after the correction." in card.inner_text()
    assert min(group["p"] for group in groups) < 0.05 <= min(group["p_holm"] for group in groups)
    card.locator("summary").click()
    expect(card.locator("table")).to_be_visible()
    rows = cells(page, ".groups .sheet tbody")
    assert [row[0] for row in rows] == [f"{g['by'].removeprefix('metadata.')}: {g['name']}" for g in groups]
    assert [row[1] for row in rows] == [delta(group["mean_delta"]) for group in groups]
    assert [row[3:] for row in rows] == [[str(group["cases"]), p_value(group["p_holm"])] for group in groups]


def test_cases_are_sorted_and_filtered(opened: Opened, expected: dict[str, Any], data: dict[str, Any]) -> None:
    page = opened(place=PLACE)
    pairs = expected["matched"]
    assert listed(page) == [pair["eval_id"] for pair in sorted(pairs, key=lambda pair: -abs(pair["delta"]))]
    page.get_by_role("columnheader", name="Candidate").get_by_role("button").click()
    at(page, f"{PLACE}?s=candidate")
    assert page.locator('[aria-sort="ascending"]').get_attribute("data-column") == "candidate"
    assert listed(page) == [pair["eval_id"] for pair in sorted(pairs, key=lambda pair: pair["score2"])]

    page.get_by_role("link", name="8 newly pass").click()
    at(page, f"{PLACE}?f=newly-passed")
    flipped = {pair["eval_id"] for pair in pairs if pair["passed2"] and not pair["passed1"]}
    expect(page.locator(".pairs .grid-body .grid-row")).to_have_count(8)
    assert set(listed(page)) == flipped
    opened.go(page, f"{PLACE}?f=newly-failed")
    expect(page.locator(".pairs .grid-note")).to_have_text("No case matches.")
    opened.go(page, f"{PLACE}?f=better&q=E-BOOK")
    assert set(listed(page)) == {
        pair["eval_id"]
        for pair in pairs
        if pair["outcome"] == "win" and ("e-book" in pair["eval_id"] or "e-book" in pair["reason"].lower())
    }

    opened.go(page, PLACE)
    page.locator('.groups a[title^="language: de"]').click()
    at(page, f"{PLACE}?g=metadata.language%3Ade")
    german = {row["eval_id"] for row in opened.project.rows("new-prompt") if row["metadata"].get("language") == "de"}
    expect(page.locator(".pairs .grid-body .grid-row")).to_have_count(len(german))
    assert set(listed(page)) == german
    page.get_by_role("link", name="language: de ✕").click()
    expect(page.locator(".pairs .grid-body .grid-row")).not_to_have_count(len(german))

    page.get_by_role("link", name="in-stock").first.click()
    expect(page.locator(".pair-head")).to_be_visible()
    assert page.locator(".conclusion").is_hidden()
    assert page.evaluate("location.hash") == f"{PLACE}?pair={case_number(data, 'in-stock')}"
    page.go_back()
    expect(page.locator(".conclusion")).to_be_visible()


def test_filtered_comparison_can_be_opened_by_its_address(later: Opened, data: dict[str, Any]) -> None:
    page = later(place=f"{PLACE}?g=tag%3Ashipping&f=newly-passed&q=e")
    pairs = data["pairs"]
    columns = Library(later.project.root).column_data(CANDIDATE)
    shipping = columns["tags"].index("shipping")
    assert (
        set(listed(page))
        == {
            eval_id
            for i, eval_id in enumerate(pairs["eval_id"])
            if pairs["passed2"][i]
            and not pairs["passed1"][i]
            and shipping in columns["tag_sets"][columns["tag_set"][pairs["row2"][i]]]
        }
        != set()
    )
    assert page.get_by_label("Filter cases by text").input_value() == "e"
    assert page.locator('.pairs [aria-current="true"]').all_inner_texts() == ["Newly pass 8", "tag: shipping ✕"]


def test_changed_measurement_is_a_warning_with_hashes(later: Opened) -> None:
    page = later(place=f"#/compare/{RUNS['first']}/{BASELINE}")
    box = page.locator(".ruler")
    assert "The measurement changed" in box.inner_text()
    assert "judges/precision.py changed" in box.inner_text()
    digests = [
        json.loads((later.project.directory(name) / "run.json").read_text())["digests"]
        for name in ("first", "baseline")
    ]
    hashes = [next(d for path, d in each.items() if path.endswith("precision.py"))[:12] for each in digests]
    assert box.locator(".below").all_inner_texts() == [f"SHA-256 before {hashes[0]}", f"SHA-256 after {hashes[1]}"]
    assert page.locator(".headline").inner_text().lower() == "no difference: all 20 cases scored the same"
    page.get_by_text("Only in the candidate: 6 cases").click()
    names = page.locator(".case-list li a").all_inner_texts()
    assert sorted(names) == sorted({row["eval_id"] for row in later.project.rows("baseline")} & set(names))
    assert len(names) == 6


# -- one case in both runs


def test_case_shows_what_differs(opened: Opened, data: dict[str, Any]) -> None:
    page = opened(place=f"{PLACE}?pair={case_number(data, 'e-book-format')}")
    answers = [
        next(row["candidate_answer"] for row in opened.project.rows(name) if row["eval_id"] == "e-book-format")
        for name in ("baseline", "new-prompt")
    ]
    assert answers[0] != answers[1]
    sides = page.locator(".diff pre")
    assert [side.text_content() for side in sides.all()] == answers
    assert sides.nth(0).locator("ins").count() == sides.nth(1).locator("del").count() == 0
    assert sides.nth(0).locator("del").count() + sides.nth(1).locator("ins").count() > 0

    opened.go(page, f"{PLACE}?pair={case_number(data, 'cancel-order')}")
    pair = page.locator(".evaluator-pair", has_text="helpful")
    expect(pair).to_contain_text("+0.400")
    assert pair.locator(".evaluator[open]").count() == 2
    reasons = pair.locator(".evaluator > .fold-body").all_inner_texts()
    assert "it never says: where" in reasons[0]
    assert "Everything the customer needs is there." in reasons[1]
    pair.locator(".call > summary").nth(1).click()
    expect(pair.locator(".call > .fold-body").last).to_contain_text("You can cancel in your account")
    assert page.locator(".evaluator-pair", has_text="precision").locator(".evaluator[open]").count() == 0
    links = [link.get_attribute("href") for link in page.locator(".pair-scores a").all()]
    assert links == [f"#/run/{run}/case/support/cancel-order/assistant/1" for run in (BASELINE, CANDIDATE)]

    opened.go(page, f"{PLACE}?pair={case_number(data, 'in-stock')}")
    card = page.get_by_role("region", name="Trajectories")
    expect(card).to_contain_text("4 steps: 3 same, 1 only in the candidate.")
    added = card.locator(".step-pair.two")
    assert added.count() == 1
    assert added.locator(".step-head strong").inner_text() == "stock"


def test_keyboard_moves_through_the_cases(later: Opened, expected: dict[str, Any]) -> None:
    page = later(place=f"{PLACE}?f=better")
    ids = listed(page)
    for key in ("j", "j", "Enter"):
        page.keyboard.press(key)
    head = page.locator(".pair-head h2")
    expect(head).to_contain_text(ids[1])
    assert page.locator(".pair-steps").inner_text().endswith("2 of 11")
    page.keyboard.press("j")
    expect(head).to_contain_text(ids[2])
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(head).to_contain_text(ids[0])
    page.keyboard.press("Escape")
    expect(page.locator(".grid-row:focus a")).to_have_text(ids[0])
    page.get_by_role("link", name="All 26").click()
    page.keyboard.press("/")
    page.keyboard.type("refund")
    at(page, f"{PLACE}?q=refund")
    assert set(listed(page)) == {
        pair["eval_id"] for pair in expected["matched"] if "refund" in pair["eval_id"] + pair["reason"]
    }
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert {"j", "k", "Enter", "/", "s"} <= set(page.locator("dialog.keys dt").all_inner_texts())


# -- which runs


def test_runs_can_be_swapped_and_picked(later: Opened) -> None:
    page = later(place=PLACE)
    page.keyboard.press("s")
    at(page, f"#/compare/{CANDIDATE}/{BASELINE}")
    expect(page.locator(".headline")).to_have_text(re.compile("worse over 26 cases: mean score -0.121"))
    assert page.locator(".exit-code").inner_text() == "1"
    page.get_by_label("Candidate").select_option("longer-context")
    at(page, f"#/compare/{CANDIDATE}/{RUNS['longer-context']}")
    expect(page.locator("h1")).to_have_text("longer-context against new-prompt")
    page.get_by_label("Baseline").select_option("first")
    at(page, f"#/compare/{RUNS['first']}/{RUNS['longer-context']}")

    later.go(page, f"#/compare/{CANDIDATE}/{CANDIDATE}")
    expect(page.locator(".lead")).to_contain_text("cannot be compared with itself")
    later.go(page, f"#/compare/{CANDIDATE}/{RUNS['summaries']}")
    expect(page.locator(".lead")).to_contain_text("have no cases in common")
    page.get_by_label("Candidate").select_option("longer-context")
    expect(page.locator(".headline")).to_be_visible()
    later.problems = [one for one in later.problems if "status of 422" not in one]


def test_file_says_which_comparison_it_does_not_have(browser: Browser, written: Files, rich_project: Bookshop) -> None:
    with Opened(browser, written, rich_project) as opened:
        page = opened(place=f"#/compare/{CANDIDATE}/{BASELINE}")
        assert "This file does not contain this comparison." in page.locator("main").inner_text()


# -- other runs: unclear and worse, errors, several attempts


def compared(opened: Opened, baseline: str, candidate: str, query: str = "") -> Page:
    runs = opened.project.runs
    return opened(place=f"#/compare/{runs[baseline]}/{runs[candidate]}{query}")


def test_unclear_comparison_says_how_many_more_cases_would_tell(later: Opened) -> None:
    page = compared(later, "new-prompt", "mixed")
    summary = printed(later.project.root, "compare", "new-prompt", "mixed")["summary"]
    assert summary["conclusion"] == "unclear"
    share = (summary["interval"][1] - summary["mean_delta"]) / summary["mean_delta"]
    more = math.ceil(summary["matched"] * (share**2 - 1))
    assert f"it would take about {more} more cases like these" in page.locator(".more-cases").inner_text()


def test_comparison_of_several_targets_lists_flips_and_errors(later: Opened) -> None:
    page = compared(later, "two-models", "mixed", "?f=newly-failed")
    expected = printed(later.project.root, "compare", "two-models", "mixed")
    assert page.locator(".exit-code").inner_text() == str(expected["exit_code"])
    assert expected["summary"]["cases"] < expected["summary"]["matched"]
    lost = sorted(pair["eval_id"] for pair in expected["matched"] if pair["passed1"] and not pair["passed2"])
    assert len(lost) == expected["summary"]["newly_failed"] > 5
    assert sorted(listed(page)) == lost
    errors = page.locator("details", has_text="Errored in one of the runs or in both")
    assert sorted(errors.locator(".strong").all_inner_texts()) == ["rare-book", "wrong-book"]
    assert "the output of the batch has no line for case 'wrong-book'" in errors.inner_text()
    errors.get_by_role("link", name="baseline").last.click()
    expect(page.locator("h1")).to_contain_text("wrong-book")


def test_case_with_several_attempts_shows_each_of_them(later: Opened) -> None:
    page = compared(later, "summaries", "again")
    expected = {
        pair["eval_id"]: pair for pair in printed(later.project.root, "compare", "summaries", "again")["matched"]
    }
    assert "each case counts once, with its mean score" in page.locator(".conclusion .note").inner_text()
    name = next(name for name, pair in expected.items() if pair["score1"] != pair["score2"] and "emma" in name)
    page.locator(".pairs").get_by_role("link", name=name).click()
    head = page.locator(".pair-head")
    expect(head).to_contain_text(f"{expected[name]['delta']:+.3f}")
    assert head.locator(".dots").first.locator("a").count() == 4
    head.get_by_role("link", name="attempt 3:").last.click()
    expect(page.locator("h1")).to_contain_text(name)
    assert page.evaluate("location.hash").endswith(f"/case/summaries/{name}/assistant/3")
