"""Opens pages of the viewer in a browser, and collects everything that a page must not do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request

from tests import forked
from tests.view.bookshop import Bookshop

BOTH = pytest.mark.parametrize("opened", ["server", "file"], indirect=True)
"""For tests of what depends on the delivery: what a page may load, and what it can ask for."""

AGENTV = (sys.executable, "-m", "agentv")
_WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));
"""
_READY = "() => document.querySelector('main > *') && !document.querySelector('main').hasAttribute('aria-busy')"
_GO = """(to) => new Promise((done) => {
  if (location.hash === to) return done();
  addEventListener("hashchange", () => setTimeout(done), { once: true });
  location.hash = to;
})"""


def environment() -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


def agentv(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    done = forked.run(arguments, root, {**os.environ, "NO_COLOR": "1"}, "", 100)
    assert done is not None
    return done


def printed(root: Path, *arguments: str) -> Any:
    """The JSON that an agentv command prints."""
    done = agentv(root, *arguments, "--json")
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


class Server:
    """`agentv view` in a project. `link` is what it prints first."""

    def __init__(self, root: Path, *arguments: str) -> None:
        self.root = root
        self._command = [*AGENTV, "view", *arguments, "--no-open"]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            cwd=self.root,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout
        self.link = self._process.stdout.readline().strip()
        assert self.link.startswith("http://127.0.0.1:"), self.link
        parts = urlsplit(self.link)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=20)

    def log_in(self, context: BrowserContext) -> None:
        """Give the browser profile the cookie."""
        context.request.get(self.link)

    def address(self, run: str, baseline: str | None) -> str:
        return f"{self.origin}/"


class Files:
    """HTML files of runs: `agentv report RUN --format html`. Each is written once."""

    def __init__(self, root: Path, to: Path) -> None:
        self.root = root
        self._to = to

    def log_in(self, context: BrowserContext) -> None:
        context.set_offline(True)

    def address(self, run: str, baseline: str | None) -> str:
        return self.path(run, baseline).as_uri()

    def path(self, run: str, baseline: str | None = None, *more: str) -> Path:
        path = self._to / f"{run}-{baseline}{'-'.join(('', *more)).replace('/', '-')}.html"
        if not path.exists():
            against = ("--baseline", baseline) if baseline else ()
            done = agentv(
                self.root, "report", run, "--format", "html", *against, "--with", "all", *more, "-o", str(path)
            )
            assert done.returncode == 0, done.stderr
        return path


class Opened:
    """Opens pages of one delivery in one browser profile. Leaving it fails if a page did something forbidden."""

    def __init__(self, browser: Browser, source: Server | Files, project: Bookshop, **options: Any) -> None:
        self.kind = "server" if isinstance(source, Server) else "file"
        self.source = source
        self.project = project
        self.problems: list[str] = []
        self._browser = browser
        self._options = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce", **options}

    def __enter__(self) -> Self:
        self.context = self._browser.new_context(**self._options)
        self.context.set_default_timeout(20_000)
        self.context.add_init_script(_WATCH)
        self.source.log_in(self.context)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for page in self.context.pages:
            if not page.is_closed() and page.url != "about:blank":
                self.problems += [f"content security policy: {one}" for one in page.evaluate("window.violations ?? []")]
        self.context.close()
        if kind is None:
            assert self.problems == []

    def __call__(
        self, run: str = "new-prompt", path: str = "", *, baseline: str | None = "baseline", place: str | None = None
    ) -> Page:
        """Open a page of a run: `path` follows its address, such as `/judges`. Or open any `place`, such as `#/`."""
        return self.watched(
            self.source.address(run, baseline) + (place if place is not None else self.place(run, path))
        )

    def watched(self, address: str) -> Page:
        """Open a whole address."""
        page = self.context.new_page()
        self._watch(page)
        page.goto(address)
        return self.ready(page)

    def place(self, run: str, path: str = "") -> str:
        """The address within the viewer of a page of a run."""
        return f"#/run/{self.project.runs[run]}{path}"

    def go(self, page: Page, place: str) -> Page:
        """Go to another page of the viewer, as a link does."""
        page.evaluate(_GO, place)
        return self.ready(page)

    def ready(self, page: Page) -> Page:
        page.wait_for_function(_READY)
        return page

    def _watch(self, page: Page) -> None:
        own = self.source.origin if isinstance(self.source, Server) else "file://"

        def requested(request: Request) -> None:
            if not request.url.startswith((own, "about:blank")):
                self.problems.append(f"request to {request.url[:200]}")
            elif self.kind == "file" and (request.resource_type != "document" or request.frame != page.main_frame):
                self.problems.append(f"the file requested {request.url[:200]}")

        def logged(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:
                self.problems.append(f"console {message.type}: {message.text[:500]}")

        def asked(dialog: Dialog) -> None:
            self.problems.append(f"dialog: {dialog.message[:200]}")
            dialog.dismiss()

        page.on("request", requested)
        page.on("console", logged)
        page.on("dialog", asked)
        page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
