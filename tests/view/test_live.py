"""A page that is open while its run is written, killed, resumed and finished, in a real browser."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.view.held import CASES, RUN, HeldProject
from tests.view.opening import Server

SECONDS = 30_000


@pytest.fixture
def project(tmp_path: Path) -> HeldProject:
    return HeldProject(tmp_path / "project")


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    made.set_default_timeout(SECONDS)
    yield made
    made.close()


def opened(context: BrowserContext, link: str) -> tuple[Page, list[str]]:
    """A page, and everything that went wrong in it."""
    page, problems = context.new_page(), []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto(link)
    return page, problems


def cases(page: Page) -> list[str]:
    """The ids of the cases in the table."""
    return page.get_by_role("grid", name="Cases").get_by_role("link").all_inner_texts()


def expect_cases(page: Page, *names: str) -> None:
    expect(page.get_by_role("grid", name="Cases").get_by_role("link")).to_have_count(len(names), timeout=SECONDS)
    assert sorted(cases(page)) == sorted(names)


def test_open_page_follows_a_run_that_is_killed_and_resumed(project: HeldProject, context: BrowserContext) -> None:
    with project.running() as process, Server(project.root, RUN) as server:
        page, problems = opened(context, server.link)
        assert page.url == f"{server.origin}/#/run/{RUN}"
        progress = page.get_by_label("Progress", exact=True)
        expect(progress).to_contain_text("Running", timeout=SECONDS)
        expect(progress).to_contain_text("0 of 4 rows")
        expect(page.locator(".lead").first).to_contain_text("No case has finished yet.")

        project.let("one")
        expect(progress).to_contain_text("1 of 4 rows", timeout=SECONDS)
        expect_cases(page, "one")
        project.let("two")
        expect_cases(page, "one", "two")
        expect(page.locator("header .lead").first).to_contain_text("2 of 2 cases passed")

        process.send_signal(signal.SIGKILL)
        process.wait()
        expect(progress).to_contain_text("This run was interrupted", timeout=SECONDS)
        expect(page.locator(".badge").first).to_have_text("interrupted")
        expect_cases(page, "one", "two")

        with project.running(resume=True) as resumed:
            expect(progress).to_contain_text("Running", timeout=SECONDS)
            project.let("three")
            expect_cases(page, "one", "two", "three")
            project.let("four")
            assert resumed.wait(60) == 1
        expect(page.locator(".badge").first).to_have_text("finished", timeout=SECONDS)
        expect(progress).to_be_hidden()
        expect_cases(page, *CASES)
        expect(page.locator("header .lead").first).to_contain_text("3 of 4 cases passed")
        assert problems == []


def test_rows_that_are_retried_replace_the_old_ones_on_an_open_page(
    project: HeldProject, context: BrowserContext
) -> None:
    target = project.root / "target.py"
    working = target.read_text()
    target.write_text(working + "sys.exit(sys.argv[1] == 'two')\n")
    project.let(*CASES)
    with project.running() as process:
        process.communicate(timeout=60)
    with Server(project.root, RUN) as server:
        page, problems = opened(context, server.link)
        expect_cases(page, *CASES)
        expect(page.locator("header .lead").first).to_contain_text("1 errored")
        target.write_text(working)
        with project.running(retry=True) as process:
            process.communicate(timeout=60)
        expect(page.locator("header .lead").first).to_contain_text("3 of 4 cases passed", timeout=SECONDS)
        expect(page.locator("header .lead").first).not_to_contain_text("errored")
        expect_cases(page, *CASES)
        assert problems == []


def test_page_says_that_its_server_has_stopped(project: HeldProject, context: BrowserContext) -> None:
    project.let(*CASES)
    with project.running() as process:
        process.communicate(timeout=60)
    with Server(project.root, RUN) as server:
        port = server.origin.rpartition(":")[2]
        page, _ = opened(context, server.link)
        expect_cases(page, *CASES)
        notice = page.get_by_role("alert")
        expect(notice).to_be_hidden()
    stopped = "The server of this page is not running. Start it again with `agentv view`."
    expect(notice).to_have_text(stopped, timeout=SECONDS)
    page.evaluate("location.hash = '#/compare/a/b'")
    expect(page.locator("main")).to_contain_text(stopped)
    with Server(project.root, RUN, "--port", port) as again:
        page.goto(f"{again.origin}/#/")
        expect(page.locator("body")).to_contain_text("Open the link that `agentv view` printed in the terminal.")
        page.goto(again.link)
        expect_cases(page, *CASES)


def test_only_visible_pages_are_connected(project: HeldProject, context: BrowserContext) -> None:
    with project.running(), Server(project.root, RUN) as server:
        requests: list[str] = []
        page, _ = opened(context, server.link)
        page.on("request", lambda request: requests.append(request.url))
        project.let("one")
        expect_cases(page, "one")
        with page.expect_event("requestfailed", lambda request: request.url.endswith("/events")):
            _set_hidden(page, True)
        requests.clear()
        project.let("two")
        page.wait_for_timeout(1500)
        assert requests == []
        _set_hidden(page, False)
        expect_cases(page, "one", "two")


def _set_hidden(page: Page, hidden: bool) -> None:
    page.evaluate(
        """(hidden) => {
            Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_many_tabs_of_one_run_are_all_served(project: HeldProject, context: BrowserContext) -> None:
    """A browser has six connections to a server; headless pages are all visible, so this is the worst case."""
    with project.running(), Server(project.root, RUN) as server:
        project.let("one")
        pages = [opened(context, server.link)[0] for _ in range(5)]
        for page in pages:
            expect_cases(page, "one")
        project.let("two")
        for page in pages:
            expect_cases(page, "one", "two")
