"""Text that attacks the page is shown letter for letter, on every page and from both deliveries, and nothing runs.

`Opened` fails a test whose pages log errors, open dialogs, violate their policy or request anything from elsewhere.
"""

from __future__ import annotations

import csv
import io
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from agentv.view.addresses import page_address as place
from tests.view.bookshop import Bookshop
from tests.view.hostile import AFTER, ALL, BEFORE, DAMAGED, EVERYTHING, LONG_LINE, write_hostile_runs
from tests.view.opening import AGENTV, Files, Opened, Server, environment

RUNS = {run: run for run in (BEFORE, AFTER, DAMAGED)}
SECONDS = 20
"""No page of these runs takes longer."""
HARM = (Path(__file__).parent / "harm.js").read_text(encoding="utf-8")
HARMLESS: dict[str, Any] = {
    "attacked": None,
    "foreign": [],
    "links": [],
    "mains": 1,
    "title": True,
    "failed": None,
    "unmarked": [],
}


@pytest.fixture(scope="module")
def hostile_project(tmp_path_factory: pytest.TempPathFactory) -> Bookshop:
    root = tmp_path_factory.mktemp("hostile") / "project"
    write_hostile_runs(root)
    return Bookshop(root, RUNS)


@pytest.fixture(scope="module", params=["server", "file"])
def source(
    request: pytest.FixtureRequest, hostile_project: Bookshop, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server | Files]:
    if request.param == "file":
        yield Files(hostile_project.root, tmp_path_factory.mktemp("files"))
        return
    with Server(hostile_project.root) as server:
        yield server


@pytest.fixture
def hostile(browser: Browser, source: Server | Files, hostile_project: Bookshop) -> Iterator[Opened]:
    with Opened(browser, source, hostile_project) as pages:
        yield pages


def check(page: Page, what: str) -> None:
    harm = page.evaluate(HARM)
    assert harm == HARMLESS, what


def case_place(row: dict[str, Any], run: str = AFTER) -> str:
    return place("run", run, "case", row["suite"], row["eval_id"], row["target"], str(row["attempt"]))


PAGES = [
    "#/",
    place("run", AFTER),
    place("run", AFTER) + "?f=suite%3D%22%3Cscript%3E%22&q=%3Cimg%20src%3Dx%3E&s=%3Cb%3E&vs=%3Cb%3E",
    place("run", AFTER) + "?f=%22%3E%3Csvg%20onload%3DglobalThis.attacked%3D1%3E",
    place("compare", BEFORE, AFTER),
    place("compare", BEFORE, AFTER) + "?pair=0",
    place("run", AFTER, "judges"),
    place("run", AFTER, "review"),
    place("run", "<img src=x onerror=globalThis.attacked=1>"),
    place("<script>globalThis.attacked=1</script>"),
]


def test_nothing_runs_on_any_page(hostile: Opened) -> None:
    page = hostile(AFTER, baseline=BEFORE)
    for to in PAGES:
        hostile.go(page, to)
        page.wait_for_timeout(200)  # what a page does when it is idle
        harm = page.evaluate(HARM)
        if to.startswith(("#/run/%3C", "#/%3C")):
            assert harm["failed"] is None or "<img" in harm["failed"]
            harm["failed"] = None
        assert harm == HARMLESS, to
    # The browser logs replies for runs that do not exist.
    hostile.problems = [problem for problem in hostile.problems if "status of 404" not in problem]


def test_every_case_is_shown_letter_for_letter(hostile: Opened, hostile_project: Bookshop) -> None:
    page = hostile(AFTER, baseline=BEFORE)
    wrong = []
    for row in hostile_project.rows(AFTER):
        if row["eval_id"].startswith("named-"):
            continue  # see the next test
        hostile.go(page, case_place(row))
        check(page, row["eval_id"])
        text = page.evaluate("() => document.querySelector('main').textContent")
        if row["eval_id"] == EVERYTHING:
            wrong += [f"everything: {name}" for name, attack in ALL.items() if attack not in text]
        elif text.count(row["eval_id"]) < 3:  # its id, its question and its answer
            wrong.append(repr(row["eval_id"]))
    assert wrong == []


def test_hostile_names_of_suites_and_targets_are_shown(hostile: Opened, hostile_project: Bookshop) -> None:
    page = hostile(AFTER, baseline=BEFORE)
    wrong = []
    rows = hostile_project.rows(AFTER)
    for row in rows[::3]:
        if row["eval_id"].startswith("named-"):
            hostile.go(page, case_place(row))
            check(page, row["eval_id"])
            text = page.evaluate("() => document.querySelector('main').textContent")
            if row["error"]["message"] not in text or row["suite"] not in text:
                wrong.append(row["eval_id"])
    assert wrong == []


def test_every_pair_is_harmless(hostile: Opened) -> None:
    page = hostile(AFTER, baseline=BEFORE, place=place("compare", BEFORE, AFTER))
    for pair in range(0, len(ALL), 3):
        hostile.go(page, f"{place('compare', BEFORE, AFTER)}?pair={pair}")
        check(page, f"pair {pair}")


def test_everything_can_be_opened_on_a_case(hostile: Opened, hostile_project: Bookshop) -> None:
    row = next(row for row in hostile_project.rows(AFTER) if row["eval_id"] == EVERYTHING)
    page = hostile(AFTER, baseline=BEFORE, place=case_place(row))
    for _ in range(3):  # what was folded may contain more of it
        page.evaluate("() => document.querySelectorAll('main details:not([open])').forEach((one) => (one.open = true))")
        page.wait_for_timeout(100)
    check(page, "everything open")
    text = page.evaluate("() => document.querySelector('main').textContent")
    assert [name for name, attack in ALL.items() if text.count(attack) < 5] == []


def test_damaged_run_is_shown_in_time(hostile: Opened, hostile_project: Bookshop) -> None:
    hostile.source.address(DAMAGED, None)  # the file is written
    started = monotonic()
    page = hostile(DAMAGED, baseline=None)
    check(page, "run")
    assert "8 lines of results.jsonl could not be read" in page.inner_text("main")
    long = {**hostile_project.rows(BEFORE)[0], "eval_id": "long-line"}
    hostile.go(page, case_place(long, DAMAGED))
    check(page, "long line")
    shown = page.evaluate("() => document.querySelector('main').textContent.length")
    assert shown < LONG_LINE, "a long text is folded"
    hostile.go(page, case_place({**long, "eval_id": "huge-value"}, DAMAGED))
    check(page, "huge value")
    for part in ("judges", "review"):
        hostile.go(page, place("run", DAMAGED, part))
        check(page, part)
    assert monotonic() - started < SECONDS


def test_table_of_a_hostile_run_has_no_formulas(hostile_project: Bookshop) -> None:
    command = [*AGENTV, "convert", AFTER, "--to", "csv", "--out", "-"]
    done = subprocess.run(command, cwd=hostile_project.root, env=environment(), capture_output=True, check=True)
    cells = [cell for line in csv.reader(io.StringIO(done.stdout.decode(), newline="")) for cell in line]
    assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))] == []
    assert any("=HYPERLINK" in cell for cell in cells)


def test_file_of_a_hostile_run_has_no_hostile_markup(hostile_project: Bookshop, tmp_path: Path) -> None:
    path = Files(hostile_project.root, tmp_path).path(DAMAGED, AFTER)
    text = path.read_text(encoding="utf-8")
    assert "attacked" not in text
    assert "attacker" not in text
