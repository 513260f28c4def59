"""Labelling answers: blind, by keyboard, and without losing a label."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from agentv.record.human_labels import answer_sha256
from tests.view.bookshop import Bookshop
from tests.view.opening import Files, Opened, Server

EVERYTHING = """() => [...document.querySelectorAll("main, #announcements, title")]
  .map((element) => element.outerHTML).join("")"""
HIDDEN = ("passed", "failed", "borderline", "The verdict", "judges say", "needs 0")
"""Words of verdicts that are nowhere in the page before an answer is labelled."""


class Review:
    """The review page of one run, in a project that can be written."""

    def __init__(self, opened: Opened, run: str, page: Page) -> None:
        self.opened, self.page = opened, page
        self.directory = opened.project.directory(run)
        self.rows = opened.project.rows(run)

    @property
    def shown(self) -> str:
        """The id of the case that is shown."""
        return self.page.locator(".review-body h2.mono").inner_text()

    @property
    def progress(self) -> str:
        return self.page.locator(".head .muted").first.inner_text()

    def press(self, *keys: str) -> None:
        """Press keys one after the other; a label is followed by the next answer."""
        for key in keys:
            before, is_last = self.shown, self.page.get_by_role("button", name="Next answer").is_disabled()
            self.page.keyboard.press(key)
            if key in "pfujk" and not (is_last and key != "k"):
                expect(self.page.locator(".review-body h2.mono")).not_to_have_text(before)

    def confirmed(self) -> None:
        """Wait until the server has confirmed all labels, which is after they are in the file."""
        self.page.wait_for_function("() => dispatchEvent(new Event('beforeunload', { cancelable: true }))")

    def reload(self) -> None:
        """Load the page again. Before its labels are confirmed, the page would ask."""
        self.confirmed()
        self.page.reload()
        self.opened.ready(self.page)

    def lines(self, at_least: int = 0) -> list[dict[str, Any]]:
        """The labels in labels.jsonl, or of the file; waits until there are some."""
        for _ in range(100):
            found = self._lines()
            if len(found) >= at_least:
                return found
            self.page.wait_for_timeout(50)
        pytest.fail(f"{len(found)} labels, expected {at_least}")

    def _lines(self) -> list[dict[str, Any]]:
        if self.opened.kind == "server":
            path = self.directory / "labels.jsonl"
            text = path.read_text() if path.exists() else ""
        else:
            button = self.page.get_by_role("button", name=re.compile("Download labels.jsonl"))
            if not button.count():
                return []
            with self.page.expect_download() as saved:
                button.click()
            assert saved.value.suggested_filename == "labels.jsonl"
            text = saved.value.path().read_text()
        return [label for label in map(json.loads, text.splitlines()) if label["by"] != "ada"]

    @property
    def row(self) -> dict[str, Any]:
        """The row that is shown."""
        shown = self.shown
        return next(row for row in self.rows if row["eval_id"] == shown)


@pytest.fixture(params=["server", "file"])
def review(request: pytest.FixtureRequest, browser: Browser, own_project: Bookshop) -> Iterator[Any]:
    """Opens the review page of a run, as Grace."""
    with delivered(request.param, browser, own_project) as opened:
        yield lambda run="new-prompt": start(opened, run)


def start(opened: Opened, run: str = "new-prompt", name: str = "Grace") -> Review:
    page = opened(run, "/review", baseline=None)
    page.get_by_label("Your name").fill(name)
    page.get_by_label("Your name").press("Escape")
    return Review(opened, run, page)


@contextmanager
def delivered(kind: str, browser: Browser, project: Bookshop) -> Iterator[Opened]:
    if kind == "file":
        with Opened(browser, Files(project.root, project.root), project) as opened:
            yield opened
        return
    with Server(project.root) as server, Opened(browser, server, project) as opened:
        yield opened


def test_answers_are_labelled_blind_and_with_the_keyboard_alone(review: Any) -> None:
    page = review()
    rows = []
    for _ in range(8):  # nothing says how an answer was judged before it is labelled
        row = page.row
        rows.append(row)
        document = page.page.evaluate(EVERYTHING)
        assert [word for word in HIDDEN if word in document] == []
        reasons = [one["reasoning"] for one in row["evaluator_results"] if one["reasoning"]]
        assert [reason for reason in reasons if reason in document] == []
        scores = {f"{one['score']:.2f}" for one in (row, *row["evaluator_results"])}
        assert [score for score in scores if score in document] == []
        assert page.page.locator(".verdict, .score, .evaluator, .judged").count() == 0
        assert not re.search(r"\bada\b", document), "the label of another person"
        page.press("j")
    assert len({row["eval_id"] for row in rows}) == 8
    assert rows != page.rows[:8], "the order is random"
    page.page.evaluate("history.replaceState(null, '', location.hash.replace(/[?].*/, ''))")
    page.reload()
    assert page.row == rows[0], "and the same every time"
    page.press(*"pfupf")
    assert page.progress == "5 of 26 labelled"
    lines = page.lines(5)
    assert [line["label"] for line in lines] == ["pass", "fail", "unsure", "pass", "fail"]
    for row, line in zip(rows, lines, strict=False):
        assert all(line[name] == row[name] for name in ("eval_id", "suite", "target", "attempt"))
        assert line["by"] == "Grace"
        assert line["answer_sha256"] == hashlib.sha256(row["candidate_answer"].encode()).hexdigest()
        assert set(line) >= {"note", "at"}
        assert "current" not in line


def test_verdicts_are_shown_after_the_label(review: Any) -> None:
    page = review()
    while (row := page.row)["verdict"] != "pass":
        page.press("j")
    page.press("p")
    expect(page.page.locator(".review-done")).to_have_text(f"{row['eval_id']}: pass. The verdict is the same.")
    page.press("k")
    judged = page.page.locator(".judged")
    expect(judged).to_contain_text("You say pass. The verdict is the same.")
    assert judged.locator(".evaluator").count() == len(row["evaluator_results"])
    page.press("f", "k")
    expect(judged).to_contain_text("You say fail. The verdict is different.")
    page.lines(2)
    page.page.keyboard.press("0")
    expect(page.page.locator(".head .muted").first).to_have_text("0 of 26 labelled")
    assert [line["label"] for line in page.lines(3)] == ["pass", "fail", None]
    expect(judged).to_have_count(0)


def test_notes_are_saved_with_the_label_and_later(review: Any) -> None:
    page = review()
    first = page.shown
    note = page.page.get_by_label("Note")
    page.page.keyboard.press("i")
    page.page.keyboard.type("Too short: jj pp")
    page.page.keyboard.press("Escape")
    page.press("j")  # a draft stays while the reader looks at other answers
    expect(note).to_have_value("")
    page.press("k")
    expect(note).to_have_value("Too short: jj pp")
    assert page.lines() == []
    page.press("f")
    (line,) = page.lines(1)
    assert (line["eval_id"], line["label"], line["note"]) == (first, "fail", "Too short: jj pp")
    page.press("k")
    expect(note).to_have_value("Too short: jj pp")
    page.page.keyboard.press("i")
    page.page.keyboard.press("Control+End")
    page.page.keyboard.type("!")
    page.page.keyboard.press("Escape")
    assert [(one["label"], one["note"]) for one in page.lines(2)][-1] == ("fail", "Too short: jj pp!")


# -- only from the server


def serve(project: Bookshop, browser: Browser) -> Any:
    return delivered("server", browser, project)


def test_name_is_that_of_the_user_unless_it_is_changed(
    own_project: Bookshop, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTV_USER", "Grace H.")
    with serve(own_project, browser) as opened:
        page = Review(opened, "new-prompt", opened("new-prompt", "/review"))
        name = page.page.get_by_label("Your name")
        expect(name).to_have_value("Grace H.")
        page.press("p")
        assert page.lines(1)[0]["by"] == "Grace H."
        name.fill("")
        name.press("Escape")
        page.page.keyboard.press("p")
        expect(name).to_be_focused()
        name.fill("  Ada\t L. ")
        name.press("Escape")
        page.press("p")
        assert page.lines(2)[1]["by"] == "Ada L."
        page.reload()
        expect(name).to_have_value("Ada L.")


def test_rows_without_an_answer_and_repeated_answers_are_left_out(own_project: Bookshop, browser: Browser) -> None:
    with serve(own_project, browser) as opened:
        page = start(opened, "summaries")
        different = {(row["eval_id"], row["candidate_answer"]) for row in page.rows}
        assert page.progress == f"0 of {len(different)} labelled"
        left = len(page.rows) - len(different)
        expect(page.page.locator(".review")).to_contain_text(f"{left} rows not shown: no answer, or the same answer")
        page = start(opened, "two-models")
        errors = [row for row in page.rows if row["error"] and not row["candidate_answer"]]
        assert errors
        expect(page.page.locator(".review")).to_contain_text("not shown: no answer")
        assert "small" not in page.page.locator(".review-body").inner_text()  # the target is hidden like verdicts
        page.press("p", "k")
        expect(page.page.locator(".judged")).to_contain_text(re.compile(r"(assistant|small), attempt 1"))


def test_label_is_not_lost_if_it_cannot_be_saved(own_project: Bookshop, browser: Browser) -> None:
    with serve(own_project, browser) as opened:
        page = Review(opened, "new-prompt", opened("new-prompt", "/review"))
        ids = []
        labels = re.compile(r".*/labels$")

        def refuse(route: Route) -> None:
            if route.request.method == "POST":
                route.fulfill(status=500, content_type="application/json", body='{"error": "the disk is full"}')
            else:
                route.continue_()

        page.page.route(labels, refuse)
        for key in "pf":
            ids.append(page.shown)
            page.press(key)
        problem = page.page.get_by_role("alert")
        expect(problem).to_contain_text("2 labels not saved: the disk is full")
        expect(page.page.locator(".head .muted").first).to_have_text("2 of 26 labelled")
        assert page.lines() == []
        page.page.unroute(labels)
        problem.get_by_role("button", name="Retry").click()
        expect(problem).to_have_count(0)
        assert [(line["eval_id"], line["label"]) for line in page.lines(2)] == list(
            zip(ids, ["pass", "fail"], strict=True)
        )
        opened.problems = [one for one in opened.problems if "Failed to load resource" not in one]


def test_labels_survive_a_killed_server(own_project: Bookshop, browser: Browser) -> None:
    with Server(own_project.root) as server, Opened(browser, server, own_project) as opened:
        page = Review(opened, "new-prompt", opened("new-prompt", "/review"))
        page.press("p")
        saved = page.lines(1)
        page.confirmed()
        server._process.kill()
        server._process.wait(20)
        page.page.keyboard.press("f")  # the next answer cannot be loaded, but this label is kept in the page
        expect(page.page.get_by_role("alert")).to_contain_text("1 label not saved")
        assert page.lines() == saved
        opened.problems.clear()
    with Server(own_project.root) as server, Opened(browser, server, own_project) as opened:
        page = Review(opened, "new-prompt", opened("new-prompt", "/review"))
        assert page.progress == "1 of 26 labelled"
        page.press("u")
        assert [line["label"] for line in page.lines(2)] == ["pass", "unsure"]


def test_labels_of_others_are_shown_after_the_own_label(own_project: Bookshop, browser: Browser) -> None:
    with serve(own_project, browser) as opened:
        one, two = start(opened, name="Grace"), start(opened, name="Ben")
        one.press("p")
        one.lines(1)
        two.press("f")
        two.lines(2)
        one.page.evaluate("localStorage.setItem('agentv-reviewer', 'Grace')")  # the tabs have the same storage
        one.reload()
        one.press("k")
        expect(one.page.locator(".judged")).to_contain_text("Ben: fail")
        assert one.progress == "1 of 26 labelled"


def test_label_of_another_answer_is_not_used(own_project: Bookshop, browser: Browser) -> None:
    with serve(own_project, browser) as opened:
        page = start(opened)
        answer = page.row["candidate_answer"]
        page.press("p")
        (line,) = page.lines(1)
        path = page.directory / "results.jsonl"
        path.write_text(path.read_text().replace(json.dumps(answer), json.dumps("An answer that was given later.")))
        assert line["answer_sha256"] != answer_sha256("An answer that was given later.")
        page.reload()
        page.press("k")
        expect(page.page.locator(".review")).to_contain_text("An answer that was given later.")
        assert page.progress == "0 of 26 labelled"
        page.press("f")
        assert page.lines(2)[-1]["answer_sha256"] == answer_sha256("An answer that was given later.")


def test_answer_that_changed_while_it_was_read_cannot_be_labelled(own_project: Bookshop, browser: Browser) -> None:
    with serve(own_project, browser) as opened:
        page = Review(opened, "new-prompt", opened("new-prompt", "/review"))
        path = page.directory / "results.jsonl"
        text = path.read_text().replace(json.dumps(page.row["candidate_answer"]), json.dumps("Something else."))
        path.unlink()
        path.write_text(text)
        page.press("p")
        expect(page.page.get_by_role("alert")).to_contain_text("The answer has changed since it was shown.")
        assert page.lines() == []
        opened.problems = [one for one in opened.problems if "Failed to load resource" not in one]


# -- only from the file


def test_labels_of_the_file_are_not_lost_and_can_be_added_to_the_run(own_project: Bookshop, browser: Browser) -> None:
    with delivered("file", browser, own_project) as opened:
        page = opened("new-prompt", "/review", baseline=None)
        leaving = "() => !dispatchEvent(new Event('beforeunload', { cancelable: true }))"
        assert page.evaluate(leaving) is False
        expect(page.locator(".review")).to_contain_text("agentv view saves them directly.")
        page.get_by_label("Your name").fill("Grace")
        page.get_by_label("Your name").press("Escape")
        page.keyboard.press("f")
        button = page.get_by_role("button", name="Download labels.jsonl (1 line)")
        button.wait_for()
        assert page.evaluate(leaving) is True
        with page.expect_download() as saved:
            button.click()
        assert page.evaluate(leaving) is False
        path = own_project.directory("new-prompt") / "labels.jsonl"
        with path.open("a") as file:
            file.write(saved.value.path().read_text())
    with serve(own_project, browser) as opened:
        review = start(opened)
        assert review.progress == "1 of 26 labelled"
