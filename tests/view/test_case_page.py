"""The page of a case: everything that was recorded about it, why it has its score, and the way to other cases."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, Route, expect

from tests.view.bookshop import RUNS, Bookshop
from tests.view.odd_cases import LONG, STEPS, TARGET, write_odd_run
from tests.view.odd_cases import RUN as ODD
from tests.view.opening import AGENTV, BOTH, Files, Opened, Server, environment

SHIPPING = "/case/support/shipping-cost/assistant/1"
REFUND = "/case/agent/refund-1033/assistant/1"


def text(place: Page | Locator) -> str:
    """What is shown, with single spaces."""
    whole = place.inner_text() if isinstance(place, Locator) else place.inner_text("main")
    return " ".join(whole.split())


def card(page: Page, title: str) -> Locator:
    return page.locator("main .card").filter(has=page.get_by_role("heading", name=title, exact=True))


def evaluator(page: Page, name: str) -> Locator:
    return page.locator(f'.evaluator[data-evaluator="{name}"]')


def opened_folds(page: Page) -> list[str]:
    return list(page.locator(".evaluator[open]").evaluate_all("all => all.map((one) => one.dataset.evaluator)"))


def copied(page: Page, press: Locator | str) -> str:
    """What is copied by a button or a key. The clipboard of a file is not granted, so the copy itself is observed."""
    page.evaluate(
        """() => {
          window.copied = null;
          navigator.clipboard.writeText = async (text) => void (window.copied = text);
        }"""
    )
    if isinstance(press, str):
        page.keyboard.press(press)
    else:
        press.click()
    page.wait_for_function("() => window.copied !== null")
    return str(page.evaluate("window.copied"))


# -- a case that failed


def test_failed_case_shows_what_was_asked_and_why_it_failed(opened: Opened) -> None:
    page = opened("new-prompt", SHIPPING)
    shown = text(page)
    assert page.inner_text("main h1") == "shipping-cost"
    assert page.locator(".verdict-line .verdict.fail").inner_text() == "fail"
    assert page.locator(".verdict-line .figure").inner_text() == "0.34"
    assert page.locator(".verdict-line .score").get_attribute("title") == "0.34, needs 0.80"
    assert "Failed with 0.34, needs 0.80. Points lost: helpful 0.36, rubric 0.20, precision 0.10." in shown
    assert "Suite support Target assistant Time 568 ms Tokens 264 tokens (232 in, 32 out)" in shown
    assert "Cost of the target $0.0008 Cost of the judges $0.0020 (5 calls)" in shown
    assert "Defined in evals/support.yaml:115 Tags help-desk shipping billing language de difficulty easy" in shown
    assert page.title() == "shipping-cost · agentv"
    trail = page.locator("nav .trail a").evaluate_all("all => all.map((a) => [a.textContent, a.getAttribute('href')])")
    assert trail == [["Runs", "#/"], ["new-prompt", f"#/run/{RUNS['new-prompt']}"]]

    assert "What is the shipping cost?" in text(card(page, "Question"))
    assert "Tells the customer: 3.90, free from 40." in text(card(page, "Expected"))
    assert "Reference answer" in text(card(page, "Expected"))
    assert "Shipping is always free." in text(card(page, "Answer"))
    context = card(page, "Context").locator("ol.context > li")
    assert [text(one) for one in context.all()][1] == "What is the shipping cost? 3.90, free from 40."

    names = page.locator(".evaluators > .evaluator").evaluate_all("all => all.map((one) => one.dataset.evaluator)")
    assert names == ["helpful", "rubric", "precision", "style"]  # by points lost
    assert opened_folds(page) == ["helpful", "rubric", "precision"]
    helpful = text(evaluator(page, "helpful"))
    assert "helpful llm_judge fail 0.10 needs 0.80 weight 2 · lost 0.36 · 340 ms · 1 judge call" in helpful
    assert "The answer contradicts the reference: 3.90, free from 40." in helpful
    assert "Misses not met: names 3.90 not met: says free from 40" in helpful
    assert "needs 0.60" in text(evaluator(page, "precision").locator("summary").first)
    rubric = evaluator(page, "rubric")
    assert "Checks: 0 of 2 met" in text(rubric)
    checks = [text(check) for check in rubric.locator(".finding").all()]
    assert checks[0] == "not met: names 3.90 first, weight 2 The answer does not do this: names 3.90."
    assert checks[1].startswith("not met: says free from 40 second")
    assert "Misses" not in text(rubric)  # they repeat the checks


@pytest.mark.parametrize("opened", ["server"], indirect=True)
def test_history_is_not_loaded_while_another_case_is_opened(opened: Opened) -> None:
    page = opened("new-prompt")
    histories: list[str] = []
    page.on("request", lambda request: histories.append(request.url) if "/history/" in request.url else None)
    go_on = """([from, to]) => {
      const next = new MutationObserver(() => {
        next.disconnect();
        location.hash = to;
      });
      next.observe(document.querySelector("main"), { childList: true });
      location.hash = from;
    }"""
    held: list[Route] = []
    requests: list[Route] = []

    def hold_the_second(route: Route) -> None:
        requests.append(route)
        if len(requests) == 1:
            route.continue_()
        else:
            held.append(route)

    opened.context.route("**/rows/*", hold_the_second)
    page.evaluate(go_on, [opened.place("new-prompt", SHIPPING), opened.place("new-prompt", REFUND)])
    expect(page.locator("main h1")).to_have_text("shipping-cost")
    page.wait_for_timeout(500)
    assert histories == []
    for route in held:
        route.continue_()
    expect(page.locator("main h1")).to_have_text("refund-1033")
    expect(page.locator(".history")).not_to_contain_text("Loading")
    assert len(histories) == 1


def test_score_is_explained_by_points(opened: Opened) -> None:
    page = opened("new-prompt", SHIPPING)
    score = card(page, "How the score was made")
    assert "0.2 x 0.00 + 0.4 x 0.10 + 0.2 x 0.50 + 0.2 x 1.00 = 0.34, needs 0.80" in text(score)
    lines = [text(line) for line in score.locator("tbody tr").all()]
    assert lines == [
        "rubric 1 0.00 0.00 of 0.20",
        "helpful 2 0.10 0.04 of 0.40",
        "precision 1 0.50 0.10 of 0.20",
        "style 1 1.00 0.20 of 0.20",
    ]
    assert text(score.locator("tfoot")) == "Score 0.34 needs 0.80"
    # Each bar begins where the one above ends, and the last one is as long as all of them.
    edges = score.locator("tbody .points").evaluate_all(
        """all => all.map((bar) => {
          const box = bar.getBoundingClientRect();
          const gained = Number(bar.style.getPropertyValue("--gained")) / Number(bar.style.getPropertyValue("--share"));
          return [box.left, box.left + box.width * gained];
        })"""
    )
    for (_, end), (start, _) in pairwise(edges):
        assert abs(end - start) < 1
    total = score.locator("tfoot .points").bounding_box()
    assert total
    assert abs(edges[-1][1] - total["x"] - 0.34 * total["width"]) < 1.5


def test_points_of_weights_that_are_not_decimal_are_rounded_like_the_weights(opened: Opened) -> None:
    score = card(opened(path=REFUND), "How the score was made")
    assert "0.67 x 1.00 + 0.33 x 1.00 = 1.00" in text(score)
    lines = [text(line) for line in score.locator("tbody tr").all()]
    assert lines == ["tools 1 1.00 0.67 of 0.67", "fast 0.5 1.00 0.33 of 0.33"]


@BOTH
def test_judge_calls_and_evaluators_have_addresses(opened: Opened) -> None:
    page = opened("new-prompt", f"{SHIPPING}?evaluator=precision&call=2")
    calls = evaluator(page, "precision").locator(".call")
    assert calls.count() == 3
    assert calls.evaluate_all("all => all.map((one) => one.open)") == [False, True, False]
    expect(calls.nth(1)).to_be_in_viewport()
    expect(calls.nth(1).locator("summary").first).to_be_focused()
    shown = text(calls.nth(1))
    head = "Call 2 careful-judge (scripted-1) ok waited 70 ms 370 ms · 460 tokens (412 in, 48 out) · $0.0004"
    assert head in shown
    assert "System prompt Copy You judge retrieved passages." in shown
    assert "Passage: What is the shipping cost? 3.90, free from 40." in shown
    assert "Reply Copy yes" in shown
    assert "careful-judge · 3 calls of at most 10 · 1,380 tokens (1,236 in, 144 out) · $0.0012" in text(
        evaluator(page, "precision")
    )
    assert copied(page, calls.nth(1).get_by_role("button", name="Copy Prompt")).startswith("Does this help to answer")
    link = calls.nth(1).get_by_role("link", name="Link to this call").get_attribute("href")
    assert link
    assert link.endswith(f"{SHIPPING}?evaluator=precision&call=2")

    # Other addresses of the page open more of it, and do not load it again.
    page.evaluate("document.querySelector('main section').dataset.kept = 'yes'")
    opened.go(page, opened.place("new-prompt", f"{SHIPPING}?evaluator=polite"))  # a member of style
    style, polite = evaluator(page, "style"), evaluator(page, "polite")
    assert style.get_attribute("open") is not None
    expect(polite.locator("summary").first).to_be_focused()
    expect(polite).to_be_in_viewport()
    assert "contains pass 1.00 needs 0.80 weight 0.5" in text(polite)
    assert "met: does not contain 'terrible'" in text(polite)
    assert style.locator(":scope > .fold-body > div > .findings").count() == 0  # shown with the members
    polite.get_by_text("Setup").click()
    expect(polite).to_contain_text('"negate": true')
    opened.go(page, opened.place("new-prompt", f"{SHIPPING}?call=1"))  # counted over the row
    rubric = evaluator(page, "rubric")
    expect(rubric.locator(".call[open]")).to_have_count(1)
    reply = rubric.locator(".call .text-block").filter(has=page.get_by_text("Reply", exact=True))
    assert '"satisfied"' in text(reply)
    rubric.get_by_text("Whole reply as JSON").click()
    expect(rubric).to_contain_text('"rawText"')
    assert page.locator("[data-kept]").count() == 1


def test_trajectory_shows_messages_and_tool_calls(opened: Opened) -> None:
    page = opened("new-prompt", f"{REFUND}?step=4")
    trajectory = card(page, "Trajectory")
    step = trajectory.locator(".step").nth(3)
    expect(step).to_be_focused()
    expect(step).to_be_in_viewport()
    assert "3 tool calls: find_order, check_policy, refund" in text(trajectory)
    steps = [text(step) for step in trajectory.locator(".step").all()]
    assert len(steps) == 5
    assert steps[0] == "1 assistant Let me look."
    assert steps[2].startswith("3 check_policy +230 ms 10:30:0")
    assert "input" in steps[2]
    assert steps[2].endswith('"status":"shipped"}')
    trajectory.get_by_role("link", name="Link to step 3").click()
    expect(trajectory.locator(".step").nth(2)).to_be_focused()
    assert page.url.endswith(f"{REFUND}?step=3")


@BOTH
def test_times_history_and_commands(opened: Opened) -> None:
    page = opened("new-prompt", SHIPPING)
    time = card(page, "Time")
    labels = [label.strip() for label in time.locator(".row-name").all_text_contents()]
    assert labels[:3] == ["target assistant", "rubric", "judge call 1"]
    time.locator("summary").click()
    expect(time.locator("table")).to_be_visible()
    rows = [text(row) for row in time.locator("tbody tr").all()]
    assert rows[0] == "target assistant 0 ms 568 ms"
    assert any(row.startswith("short \N{EN DASH}") for row in rows)
    time.locator('a[title^="judge call 3:"]').click()
    expect(evaluator(page, "precision").locator(".call[open]")).to_have_count(1)

    commands = [text(line) for line in card(page, "Commands").locator("li").all()]
    again = "agentv eval evals/support.yaml --case shipping-cost"
    assert commands[0] == f"run it again {again} Copy"
    assert commands[1].startswith(f"judge this answer again {again} --outputs")
    assert commands[2].startswith("print it in the terminal agentv show")
    assert copied(page, page.get_by_role("button", name="Copy: run it again")) == again
    assert copied(page, "c") == again
    case = json.loads(copied(page, page.get_by_role("button", name="Copy case as JSON")))
    assert case["row"] == next(row for row in opened.project.rows("new-prompt") if row["eval_id"] == "shipping-cost")

    history = card(page, "History")
    expect(history.locator("figure")).to_be_visible()
    history.locator("summary").click()
    expect(history.locator("table")).to_be_visible()
    rows = [text(row) for row in history.locator("tbody tr").all()]
    names = [row.split(",")[0] for row in rows]
    if opened.kind == "server":
        assert names[:4] == ["first", "baseline", "longer-context", "new-prompt"]
        assert "precision.py changed" in rows[1]
    else:  # only runs of the file
        assert names == ["baseline", "new-prompt"]
    runs = "none of the 4" if opened.kind == "server" else "neither of the 2"
    assert f"It passed in {runs} runs up to this one." in text(history)
    other = history.get_by_role("link", name=re.compile("^baseline,"))
    assert other.get_attribute("href") == f"#/run/{RUNS['baseline']}{SHIPPING}"
    other.click()
    expect(page.locator("nav .trail")).to_contain_text("baseline")
    assert page.inner_text("main h1") == "shipping-cost"


# -- other cases of the bookshop, from the server


@pytest.fixture
def shop(rich_project: Bookshop, served: Server, browser: Browser) -> Iterator[Opened]:
    with Opened(browser, served, rich_project) as pages:
        yield pages


def test_errors_are_not_shown_as_failures(shop: Opened) -> None:
    page = shop("two-models", "/case/support/wrong-book/small/1")
    shown = text(page)
    assert page.locator(".verdict-line .verdict.error").inner_text() == "error"
    assert page.locator(".verdict-line .figure").count() == 0
    assert "Error, not a failure: the target gave no answer that could be judged." in shown
    box = page.get_by_role("group", name="Error")
    assert "Error of the target" in text(box)
    assert "the output of the batch has no line for case 'wrong-book'" in text(box)
    assert "Write one JSON object per line for every case" in text(box)
    assert "Time – Tokens – Cost of the target –" in shown  # noqa: RUF001
    assert "no score: target error" in text(card(page, "How the score was made"))
    assert "Points lost" not in shown
    page.get_by_role("link", name="assistant pass 1.00").click()
    expect(page.locator(".verdict-line .verdict.pass")).to_be_visible()

    shop.go(page, shop.place("two-models", "/case/support/rare-book/small/1"))
    assert "helpful, rubric could not judge the answer" in text(page)
    assert opened_folds(page)[:2] == ["helpful", "rubric"]
    helpful = evaluator(page, "helpful")
    assert "Error: this evaluator could not judge" in text(helpful)
    assert "content policy: the reply was refused" in text(helpful)
    assert "1 failed" in text(helpful)
    assert "cost unknown" in text(helpful)
    assert helpful.locator(".call .verdict.error").inner_text() == "failed (judge_failed)"
    helpful.locator(".call > summary").click()
    expect(helpful.locator(".call .note.is-error")).to_contain_text("content policy")
    total = card(page, "How the score was made").locator("tfoot")
    assert "not counted" in text(total)
    rubric = evaluator(page, "rubric")
    assert rubric.locator(".call").count() == 3
    assert '"raw_reply":"no"' in text(rubric)


def test_attempts_are_links_and_arrow_keys_follow_them(shop: Opened) -> None:
    page = shop("summaries", "/case/summaries/summary-dune/assistant/2")
    assert "Attempt 2 of 4" in text(page)
    dots = page.locator(".facts .dots a")
    assert dots.count() == 4
    assert page.locator('.dots [aria-current="true"]').inner_text().strip().endswith("attempt 2: borderline")
    assert dots.nth(0).get_attribute("tabindex") is None
    page.keyboard.press("ArrowRight")
    expect(page.locator(".facts")).to_contain_text("3 of 4")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".facts")).to_contain_text("2 of 4")
    command = card(page, "Commands").locator("code").last.inner_text()
    dots.nth(0).click()
    expect(page.locator(".facts")).to_contain_text("1 of 4")
    assert page.url.endswith("/summary-dune/assistant/1")
    _, *arguments = shlex.split(command)  # the command works
    done = subprocess.run(
        [*AGENTV, *arguments, "--no-pager"],
        cwd=shop.project.root,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "summary-dune  borderline 0.80" in done.stdout


def test_question_and_answer_are_side_by_side_unless_the_window_is_narrow(shop: Opened) -> None:
    page = shop("new-prompt", SHIPPING)
    question, answer = card(page, "Question").bounding_box(), card(page, "Answer").bounding_box()
    assert question
    assert answer
    assert question["y"] == answer["y"]
    page.set_viewport_size({"width": 400, "height": 800})
    question, answer = card(page, "Question").bounding_box(), card(page, "Answer").bounding_box()
    assert question
    assert answer
    assert answer["y"] > question["y"] + question["height"]


def test_history_says_since_when_a_case_passes(shop: Opened) -> None:
    page = shop("new-prompt", f"/case/support/{_first_passing(shop.project)}/assistant/1")
    history = card(page, "History")
    expect(history).to_contain_text("Passes since this run; longer-context was the last run in which it did not pass.")
    expect(history).to_contain_text("What changed:")


def _first_passing(project: Bookshop) -> str:
    """A case that passes in new-prompt for the first time."""
    passed = {
        name: {row["eval_id"] for row in project.rows(name) if row["verdict"] == "pass" and row["suite"] == "support"}
        for name in ("first", "baseline", "longer-context", "new-prompt")
    }
    new = passed.pop("new-prompt")
    return str(min(new.difference(*passed.values())))


# -- from case to case


def test_keys_go_to_other_cases_and_evaluators(opened: Opened) -> None:
    page = opened("new-prompt", "/case/agent/complaint/assistant/1")  # the worst one
    expect(page.locator(".case-nav")).to_contain_text("1 of 26")
    assert page.locator(".case-nav a").all_inner_texts() == ["Next →", "Next failing"]
    page.keyboard.press("k")
    expect(page.locator("#announcements")).to_have_text("There are no more")
    page.keyboard.press("j")
    expect(page.locator("main h1")).to_have_text("shipping-cost")
    expect(page.locator(".case-nav")).to_contain_text("2 of 26")
    page.keyboard.press("4")
    expect(evaluator(page, "style")).to_have_attribute("open", "")
    expect(evaluator(page, "style").locator("summary").first).to_be_focused()
    expect(card(page, "History").locator("figure")).to_be_visible()  # it is loaded later, with a fold for its table
    page.keyboard.press("e")
    assert page.locator("main details:not([open])").count() == 0
    page.keyboard.press("e")
    assert page.locator("main details[open]").count() == 0
    page.keyboard.press("?")
    keys = text(page.locator("dialog.keys"))
    for words in ("j next case", "n next case that did not pass", "1 evaluator helpful", "4 evaluator style"):
        assert words in keys
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    expect(page.locator(".case-nav")).to_contain_text("1 of 26")
    page.keyboard.press("n")
    expect(page.locator(".case-nav")).to_contain_text("2 of 26")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !location.hash.includes('/case/')")
    assert page.evaluate("location.hash") == f"#/run/{RUNS['new-prompt']}"


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("f=suite%3Dagent&s=-duration", ["complaint", "reserve", "in-stock"]),
        ("q=check_policy&in=all", ["refund-1033"]),
    ],
)
def test_other_cases_are_those_of_the_run_page(shop: Opened, query: str, names: list[str]) -> None:
    page = shop("new-prompt", f"?{query}")
    cells = page.locator('[role="row"] a[href*="/case/"]')
    cells.first.wait_for()
    if "in=all" in query:
        expect(page.locator("main")).to_contain_text("found in the record")
    hrefs = cells.evaluate_all("all => all.map((a) => a.getAttribute('href'))")
    listed = list(dict.fromkeys(href.split("/case/")[1].split("/")[1] for href in hrefs))
    assert listed[: len(names)] == names
    cells.first.click()
    for place, name in enumerate(listed[:2], 1):
        expect(page.locator("main h1")).to_have_text(name)
        expect(page.locator(".case-nav")).to_contain_text(f"{place} of {len(listed)}")
        page.keyboard.press("j")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !location.hash.includes('/case/')")
    assert page.evaluate("location.hash").endswith(f"?{query}")


# -- cases that a bookshop does not have, from the file


@pytest.fixture(scope="module")
def odd_project(tmp_path_factory: pytest.TempPathFactory) -> Bookshop:
    return write_odd_run(tmp_path_factory.mktemp("odd") / "project")


@pytest.fixture
def odd(browser: Browser, odd_project: Bookshop) -> Iterator[Opened]:
    with Opened(browser, Files(odd_project.root, odd_project.root), odd_project) as pages:
        yield pages


def odd_place(name: str, query: str = "") -> str:
    return f"#/run/{ODD}/case/odd/{name}/{TARGET}/1{query}"


def test_answer_of_5_mb_is_folded_and_complete(odd: Opened) -> None:
    page = odd("odd", baseline=None, place=odd_place("long-answer"))
    answer = card(page, "Answer")
    assert len(answer.inner_text()) < 10_000
    answer.get_by_text(re.compile(r"more (lines|characters)$")).click()
    page.wait_for_function(
        "(length) => document.querySelector('.answer .letters').textContent.length >= length", arg=LONG
    )
    assert answer.locator(".letters").evaluate("(letters) => letters.textContent.slice(-8)") == "It ends."
    assert page.evaluate("() => document.querySelectorAll('main *').length") < 5000

    odd.go(page, odd_place("deep-answer", "?evaluator=check"))
    page.keyboard.press("e")
    expect(evaluator(page, "check")).to_contain_text(",4999]")  # deep and wide JSON
    assert page.evaluate("() => document.querySelectorAll('main *').length") < 5000


def test_600_steps_do_not_stop_the_page(odd: Opened) -> None:
    page = odd("odd", baseline=None, place=odd_place("many-steps", "?step=590"))
    expect(page.locator(".step").nth(589)).to_be_in_viewport()
    expect(page.locator(".step").nth(589)).to_be_focused()
    assert "600 tool calls: search x200, read x200, write x200" in text(card(page, "Trajectory"))
    expect(page.locator(".step")).to_have_count(STEPS)
    later = page.locator(".step").nth(300).text_content() or ""
    assert "same call as step 1" in later
    assert "+1.0 s" in later
    odd.go(page, odd_place("many-steps", "?step=6"))
    step = page.locator(".step").nth(5)
    expect(step).to_be_in_viewport()
    step.get_by_text("20 more lines").click()
    expect(step).to_contain_text("line 39 of step 6")
    # No frame takes long while the page scrolls through everything.
    slowest = page.evaluate(
        """async () => {
          let slowest = 0;
          for (let y = 0; y < document.documentElement.scrollHeight; y += 20_000) {
            const began = performance.now();
            window.scrollTo(0, y);
            document.body.getBoundingClientRect();
            slowest = Math.max(slowest, performance.now() - began);
            await new Promise(requestAnimationFrame);
          }
          return slowest;
        }"""
    )
    assert slowest < 500


def test_required_and_nested_evaluators_are_explained(odd: Opened) -> None:
    page = odd("odd", baseline=None, place=odd_place("required"))
    assert "Failed: the score is 0 because a required evaluator did not pass: gate." in text(page)
    score = card(page, "How the score was made")
    assert "gate is required and did not pass: the score is 0" in text(score)
    assert evaluator(page, "gate").locator(".badge.bad").inner_text() == "required"
    odd.go(page, odd_place("nested"))
    assert opened_folds(page) == ["outer", "inner", "leaf"]
    assert "not met: never says 'please'" in text(evaluator(page, "leaf"))


def test_unusual_judge_calls_are_explained(odd: Opened) -> None:
    page = odd("odd", baseline=None, place=odd_place("refused"))
    gate = text(evaluator(page, "gate"))
    assert "2 calls refused: the limit of this evaluator is 3." in gate
    assert "3 calls of at most 3 · cost unknown · 1 failed · 3 from the record when the run was resumed" in gate
    odd.go(page, odd_place("without-prompts", "?call=1"))
    gate = text(evaluator(page, "gate"))
    assert "The prompt and the reply were not recorded. Run again with --judge-io all to record them." in gate
    assert "the reply was not valid JSON and was repaired" in gate
    odd.go(page, odd_place("judged-twice", "?call=1"))
    call = evaluator(page, "gate").locator(".call")
    assert call.count() == 1
    shown = text(call)
    assert "2 retries from the cache replayed from the record waited 80 ms" in shown
    assert "Prompt · system" in shown
    assert '{"temperature":0.5}' in shown
    assert '{"score": 1}' in shown
    page.get_by_text("Judge calls of earlier executions").click()
    earlier = page.locator(".call").filter(has_text="gate 1")
    assert "failed" in text(earlier)


def test_unusual_messages_are_shown(odd: Opened) -> None:
    page = odd("odd", baseline=None, place=odd_place("parts"))
    question = text(card(page, "Question"))
    assert "user (ada)" in question
    assert "Read this." in question
    assert "file docs/prices.md" in question
    assert '"url":"pixel.png"' in question
    assert "lookup" in text(card(page, "Expected"))
    assert "a long text of two lines" in text(card(page, "Context"))
    odd.go(page, odd_place("without-case"))
    assert "The question is not in this record" in text(card(page, "Question"))
    odd.go(page, odd_place("cut-off"))
    shown = text(page)
    assert "The answer ended at the token limit (finish reason length)." in shown
    assert "Warning: the cost is out of range" in shown
    assert "Replayed from 20261101-000000-1" in shown
    odd.go(page, odd_place("nothing"))
    assert 'has no case "nothing" of suite "odd"' in text(page)


def test_case_that_the_file_leaves_out_shows_what_is_known(
    rich_project: Bookshop, browser: Browser, tmp_path: Path
) -> None:
    class Failures(Files):
        def path(self, run: str, baseline: str | None = None, *more: str) -> Path:
            return super().path(run, baseline, "--with", "failures", *more)

    with Opened(browser, Failures(rich_project.root, tmp_path), rich_project) as pages:
        page = pages("new-prompt", "/case/support/return-a-book/assistant/1", baseline=None)
        shown = text(page)
        assert "This file does not contain the answer and the judge calls of this case." in shown
        assert f"agentv report {RUNS['new-prompt']} --format html --with all" in shown
        assert page.locator(".verdict-line .verdict.pass").first.inner_text() == "pass"
        assert "How long do I have to return a book?" in shown
        pages.go(page, pages.place("new-prompt", SHIPPING))
        expect(card(page, "Answer")).to_contain_text("Shipping is always free.")


# -- speed


def detail_requests(page: Page) -> list[str]:
    """The numbers of the rows whose details are requested from now on."""
    rows: list[str] = []

    def requested(request: Request) -> None:
        if "/rows/" in request.url:
            rows.append(request.url.rpartition("/")[2])

    page.on("request", requested)
    return rows


@pytest.mark.parametrize("opened", ["server"], indirect=True)
def test_next_case_opens_without_a_request_after_the_page_was_read(opened: Opened) -> None:
    page = opened()
    rows = detail_requests(page)
    with page.expect_response(lambda reply: "/history/" in reply.url):  # it follows the requests of the next cases
        opened.go(page, opened.place("new-prompt", SHIPPING))
    following = page.get_by_role("link", name="Next →").get_attribute("href")
    assert len(rows) > 1, "the next cases are loaded ahead"
    before = list(rows)
    with page.expect_response(lambda reply: "/history/" in reply.url):
        page.keyboard.press("j")
    assert page.evaluate("location.hash") == following
    assert not set(before) & set(rows[len(before) :])


@pytest.mark.parametrize("opened", ["server"], indirect=True)
def test_case_is_requested_once_when_its_row_is_pointed_at_and_clicked(opened: Opened) -> None:
    page = opened()
    rows = detail_requests(page)
    row = page.locator(".grid-body [role=row]").nth(2)
    with page.expect_response(lambda reply: "/rows/" in reply.url):
        row.hover()
    pointed = list(rows)
    row.click()
    page.wait_for_selector("main > .case")
    assert pointed == rows[:1]
    assert rows.count(pointed[0]) == 1


def test_first_frame_of_a_case_skips_cards_below_the_screen(opened: Opened) -> None:
    page = opened()
    page.evaluate(
        """() => new MutationObserver(() => {
          const shown = document.querySelector("main > .case > .card:last-child");
          if (shown) window.first ??= getComputedStyle(shown).contentVisibility;
        }).observe(document.querySelector("main"), { childList: true })"""
    )
    opened.go(page, opened.place("new-prompt", SHIPPING))
    page.wait_for_function("() => !document.querySelector('.first-frame')")
    last = page.locator("main > .case > .card").last
    assert page.evaluate("window.first") == "auto"
    assert last.evaluate("(card) => getComputedStyle(card).contentVisibility") == "visible"
