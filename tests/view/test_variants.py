"""Conversations and prompts: pages of a run whose rows are turns, and of one with a row for each prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from agentv.view.library import Library
from tests.view.bookshop import Bookshop
from tests.view.opening import Files, Opened, Server, agentv, printed
from tests.view.restaurant import AFTER, BOOKING, RUNS, make_restaurant
from tests.view.test_case_page import card, evaluator, text
from tests.view.test_everywhere import CONTROLS, FOLDED, LINKS, settled, violations

PLAIN, SHORT = (f"{RUNS['after']} [{prompt}]" for prompt in ("plain", "one-word"))
BY_PROMPT = f"#/compare/{quote(PLAIN)}/{quote(SHORT)}"


@pytest.fixture(scope="module")
def restaurant(tmp_path_factory: pytest.TempPathFactory) -> Bookshop:
    return make_restaurant(tmp_path_factory.mktemp("restaurant") / "project")


@pytest.fixture(scope="module")
def sources(restaurant: Bookshop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server | Files]]:
    with Server(restaurant.root) as server:
        yield {"server": server, "file": Files(restaurant.root, tmp_path_factory.mktemp("files"))}


@pytest.fixture(params=["server", "file"])
def shown(
    request: pytest.FixtureRequest, browser: Browser, restaurant: Bookshop, sources: dict[str, Server | Files]
) -> Iterator[Opened]:
    """Opens a page of the run `after`, whose baseline is `before`, in both deliveries."""
    with Opened(browser, sources[request.param], restaurant) as pages:
        yield pages


def open_at(shown: Opened, place: str) -> Page:
    page = shown("after", baseline="before", place=place)
    settled(page)
    return page


def turn(page: Page, number: int) -> Locator:
    return page.locator(".turn").nth(number - 1)


def cells(page: Page, column: str) -> list[str]:
    return page.locator(f'[role=gridcell][data-column="{column}"]').all_inner_texts()


def case_place(eval_id: str, variant: str, attempt: int = 1) -> str:
    return f"{AFTER}/case/menu/{eval_id}/{quote(variant)}/{attempt}"


# -- conversations


def test_case_page_shows_each_turn_with_its_score_and_how_turns_become_one(shown: Opened) -> None:
    page = open_at(shown, BOOKING)
    talk = card(page, "Conversation")
    assert text(talk).startswith("Conversation 3 turns system Copy You are the host of a restaurant. Turn 1 pass 1.00")
    assert "user Copy Please book a table for two at 7 pm. assistant Copy A table for two" in text(turn(page, 1))
    assert "Turn 2 not scored 120 ms" in text(turn(page, 2))
    assert "Turn 3 fail 0.56 120 ms" in text(turn(page, 3))
    kind = turn(page, 3).locator("h4 .muted", has_text="llm_judge")
    assert kind.evaluate("(kind) => getComputedStyle(kind).fontWeight") == "400"
    assert turn(page, 3).locator(".score").first.get_attribute("title") == "0.56, needs 0.80"
    assert turn(page, 3).locator("[data-evaluator]").evaluate_all(
        "all => all.map((one) => [one.querySelector('h4').textContent, one.dataset.evaluator, one.open])"
    ) == [
        ["equals", "turn 3/equals", False],
        ["icontains", "turn 3/icontains", True],
        ["polite llm_judge", "turn 3/polite", True],
    ]
    assert "Setup" in text(evaluator(page, "turn 3/polite"))  # the record of this turn was found
    turn(page, 3).get_by_text("Expected", exact=True).click()
    assert "Reference answer Copy Changed to four people at 7 pm." in text(turn(page, 3))

    score = card(page, "How the score was made")
    assert "0.5 x 0.78 + 0.5 x 1.00 = 0.89, needs 0.80" in text(score)
    assert "turns: (1.00 + 0.56) / 2 = 0.78, the mean of 2 turns" in text(score)
    evaluator(page, "turns").get_by_role("link", name="turn 3").click()
    expect(turn(page, 3)).to_be_focused()
    assert page.get_by_role("heading", name="Trajectory").count() == 0

    call = open_at(shown, f"{BOOKING}?evaluator={quote('turn 3/polite')}&call=1")
    assert "Is this polite? Changed to four people" in text(evaluator(call, "turn 3/polite"))
    assert text(
        card(open_at(shown, BOOKING.replace("change-a-booking", "worst-turn")), "How the score was made")
    ).count("turns: 0.00, the lowest score of 2 turns (turn 2)")


def test_case_page_names_the_model_that_played_the_user(shown: Opened) -> None:
    page = open_at(shown, BOOKING.replace("change-a-booking", "lost-umbrella"))
    assert "user, played by guest Copy I lost my umbrella. assistant Copy What colour is it?" in text(turn(page, 1))
    page.get_by_text("The user is played by guest").click()
    talk = text(card(page, "Conversation"))
    assert "You left a red umbrella here" in talk
    assert "Stops when Copy the umbrella is found It ended the conversation before the limit of 4 turns." in talk


@pytest.mark.parametrize("shown", ["file"], indirect=True)
def test_conversation_is_accessible_narrow_and_printed(shown: Opened) -> None:
    page = open_at(shown, BOOKING)
    assert page.evaluate(LINKS) == []
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, runOnly=["color-contrast"]) == []
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    settled(page)
    assert page.evaluate(CONTROLS) == []
    assert page.evaluate(FOLDED) == []


def test_review_shows_the_conversation_and_neither_scores_nor_names(shown: Opened) -> None:
    page = open_at(shown, f"{AFTER}/review")
    assert "18 rows not shown" in text(page)  # the second attempts
    seen = []
    for _ in range(18):
        seen.append(text(page.locator(".review-body")))
        page.keyboard.press("j")
        settled(page)
    talks = [one for one in seen if "Make it four, please. assistant Copy Changed to four" in one]
    assert len(talks) == 4
    assert not any(word in one for one in seen for word in ("pass", "not scored", "prompt", "host 1", "waiter 1"))


def test_turn_without_an_answer_says_so(tmp_path: Path, browser: Browser) -> None:
    down = {"provider": "mock", "rules": [{"match": "red", "error": "down"}], "response": "What colour?"}
    guest = {"provider": "mock", "rules": [{"match": "colour", "response": "It is red."}], "response": "My umbrella?"}
    user = {"target": "guest", "persona": "You lost an umbrella.", "max_turns": 4}
    case = {"id": "c", "user": user, "evaluators": [{"type": "contains", "value": "red"}]}
    (tmp_path / "agentv.config.yaml").write_text(json.dumps({"targets": {"desk": down, "guest": guest}}))
    (tmp_path / "talk.yaml").write_text(json.dumps({"evalcases": [case]}))
    done = agentv(tmp_path, "eval", "talk.yaml", "--target", "desk", "--quiet")
    assert done.returncode == 3, done.stderr
    (run,) = (path.name for path in (tmp_path / ".agentv" / "runs").iterdir())
    with Server(tmp_path) as server, browser.new_context() as context:
        server.log_in(context)
        page = context.new_page()
        page.goto(f"{server.origin}/#/run/{run}/case/talk/c/desk/1")
        expect(turn(page, 2)).to_contain_text("No answer was recorded.")
        assert "What colour?" in text(turn(page, 1))
        page.get_by_text("The user is played by").click()
        expect(page.get_by_text("An error ended the conversation.")).to_be_visible()


# -- prompts


def test_run_page_has_prompts_and_targets_as_facets_columns_and_filters(shown: Opened) -> None:
    page = open_at(shown, AFTER)
    facts = text(page.locator("dl.facts").first)
    assert "Target host, waiter Prompt plain, one-word (compare with plain) Suite" in facts
    facets = {text(one.locator("h2")): one for one in page.locator(".facet").all()}
    assert text(facets["Target"]) == "Target host 9 waiter 9"
    assert text(facets["Prompt"]) == "Prompt plain 6 one-word 6"
    assert "Of 18 cases that both runs scored, 0 got better and 6 got worse." in text(page)
    facets["Prompt"].get_by_role("button", name="one-word").click()
    facets["Target"].get_by_role("button", name="waiter").click()
    expect(page.locator(".count")).to_have_text("3 of 18 results")
    rows = [text(row) for row in page.locator("[role=row]:has([role=gridcell])").all()]
    assert [("waiter one-word 0.23" in row, "was pass -0.667" in row) for row in rows] == [(True, True)] * 3
    variant = open_at(shown, AFTER + "?f=" + quote('target="host [plain]"'))
    expect(variant.locator(".count")).to_have_text("3 of 18 results")


def test_case_page_links_to_the_same_case_with_other_prompts(shown: Opened) -> None:
    page = open_at(shown, case_place("wine", "waiter [plain]", 2))
    facts = page.locator("dl.facts").first
    assert "Target waiter Prompt plain Attempt 2 of 2" in text(facts)
    assert "Other prompts one-word fail 0.23 Other targets host fail 0.23 Time" in text(facts)
    assert "What is the dish of France?" in text(card(page, "Question prompt plain"))
    facts.get_by_role("link", name="one-word fail 0.23").click()
    shown.ready(page)
    assert "Answer in one word. What is the dish of France?" in text(card(page, "Question prompt one-word"))
    page.locator(".history svg a").first.click()  # the same variant in the run before
    shown.ready(page)
    assert page.evaluate("decodeURIComponent(location.hash)").endswith(
        f"{RUNS['before']}/case/menu/wine/waiter [one-word]/1"
    )
    assert "pass 0.90" in text(page)


def test_compare_page_compares_two_prompts_of_a_run(shown: Opened, restaurant: Bookshop) -> None:
    page = open_at(shown, AFTER)
    page.get_by_role("link", name="compare with plain").click()
    shown.ready(page)
    settled(page)
    assert page.evaluate("location.hash") == BY_PROMPT
    assert page.inner_text("main h1") == "after: one-word against plain"
    command = printed(restaurant.root, "compare", RUNS["after"], "--by", "prompt")
    assert command["summary"]["newly_passed"] == 3
    assert "Mean score 0.233 0.567 +0.333" in text(page)
    assert "of agentv compare --by prompt" in text(page)
    assert "target: host" in text(page)
    assert page.get_by_text("What changed between the runs").count() == 0
    page.locator("[role=gridcell] a").first.click()
    expect(page.get_by_role("heading", name="Answers")).to_be_visible()
    assert "Question prompt plain" in text(page)
    assert "Answer in one word." in text(page)
    assert "edited between the runs" not in text(page)
    assert violations(page) == []


def test_comparisons_of_prompts_have_the_numbers_of_the_command(restaurant: Bookshop) -> None:
    library = Library(restaurant.root)
    data = library.compare(PLAIN, SHORT)
    command = printed(restaurant.root, "compare", RUNS["after"], "--by", "prompt")
    assert data["summary"] == command["summary"]
    assert {(group["by"], group["name"]) for group in data["groups"]} == {("target", "host"), ("target", "waiter")}
    assert set(data["pairs"]["target1"]) == {"host", "waiter"}
    whole = library.compare(RUNS["before"], RUNS["after"])
    assert {group["name"] for group in whole["groups"] if group["by"] == "prompt"} == {"plain", "one-word"}
    assert {group["name"] for group in whole["groups"] if group["by"] == "target"} == {"host", "waiter"}
    changes = [change["text"] for change in whole["changes"]]
    assert changes == ["configuration of target 'waiter' changed: rules"]
