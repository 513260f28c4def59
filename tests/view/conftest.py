"""A browser, a project with real runs, and pages of it, from the local server and from a single file.

A page that logs an error, throws, violates its content security policy, opens a dialog or requests anything from
elsewhere fails the test that opened it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.view.bookshop import RUNS, Bookshop
from tests.view.browsers import open_browser
from tests.view.later import add_runs
from tests.view.opening import Files, Opened, Server

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "src" / "agentv" / "view" / "static"
MODULES = "http://127.0.0.1:9"
"""Where `module_page` pretends to be. Nothing is requested from there."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, started once per worker."""
    with open_browser() as launched:
        yield launched


@pytest.fixture(scope="session")
def rich_project(tmp_path_factory: pytest.TempPathFactory) -> Bookshop:
    """Seven real runs of a bookshop's assistant, made once for all workers. Do not write into it: see `own_project`.

    `AGENTV_TEST_BOOKSHOP` is a directory in which they are kept for the next time.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    root = Path(os.environ.get("AGENTV_TEST_BOOKSHOP") or shared / "bookshop") / "project"
    root.parent.mkdir(exist_ok=True)
    with (root.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (done := root.parent / "done").exists():
            subprocess.run([sys.executable, "-m", "tests.view.bookshop", str(root)], cwd=ROOT, check=True)
            done.touch()
    return Bookshop(root, RUNS)


@pytest.fixture
def own_project(rich_project: Bookshop, tmp_path: Path) -> Bookshop:
    """A copy of `rich_project` that the test may change."""
    shutil.copytree(rich_project.root, tmp_path / "project")
    return Bookshop(tmp_path / "project", rich_project.runs)


@pytest.fixture(scope="session")
def later_project(rich_project: Bookshop, tmp_path_factory: pytest.TempPathFactory) -> Bookshop:
    """`rich_project` with three more runs: see `tests/view/later.py`. Do not write into it."""
    return add_runs(rich_project, tmp_path_factory.mktemp("later") / "project")


@pytest.fixture(scope="session")
def served(rich_project: Bookshop) -> Iterator[Server]:
    """`agentv view` of the project."""
    with Server(rich_project.root) as server:
        yield server


@pytest.fixture(scope="session")
def written(rich_project: Bookshop, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """HTML files of the project's runs, written when they are first used."""
    return Files(rich_project.root, tmp_path_factory.mktemp("files"))


@pytest.fixture(params=["server", pytest.param("file", marks=pytest.mark.soak)])
def opened(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Opened]:
    """Opens pages of the project, in a fresh browser profile: `opened("new-prompt", "/judges")`.

    From the server, and in `make soak` from the file, too; with `BOTH`, always from both. Every page of the file is
    opened in `test_everywhere.py`. From the file, the network is off, and the only request is that of the file.
    """
    source: Server | Files = request.getfixturevalue("served" if request.param == "server" else "written")
    with Opened(browser, source, request.getfixturevalue("rich_project")) as pages:
        yield pages


@pytest.fixture
def module_page(browser: Browser) -> Iterator[Page]:
    """An empty page that can import the modules of the viewer: `import("/format.js")`."""
    context = browser.new_context(timezone_id="UTC")

    def serve(route: Route) -> None:
        name = route.request.url.removeprefix(f"{MODULES}/")
        if name:
            route.fulfill(body=(STATIC / name).read_bytes(), content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html><title>modules</title><svg></svg>", content_type="text/html")

    context.route(f"{MODULES}/**", serve)
    page = context.new_page()
    page.goto(f"{MODULES}/")
    yield page
    context.close()


@pytest.fixture(scope="session")
def later_served(later_project: Bookshop) -> Iterator[Server]:
    with Server(later_project.root) as server:
        yield server


@pytest.fixture
def later(browser: Browser, later_served: Server, later_project: Bookshop) -> Iterator[Opened]:
    """Opens pages of `later_project`, from the server."""
    with Opened(browser, later_served, later_project) as pages:
        yield pages
