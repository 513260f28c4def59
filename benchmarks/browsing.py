"""A browser for benchmarks. Times are taken inside the page, so that they do not contain the driver of the browser.

A page is ready when a condition holds and the frame that shows it was painted. The condition is checked whenever the
document changes, and every 20 ms.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Error, Page, sync_playwright
from tests.view.browsers import WHOLE, chromium

from benchmarks.measure import FailedError

SECONDS = 60
"""A page that takes longer is reported as too slow."""
_TIMING = """
window.bench = {
  painted: () => new Promise((done) => requestAnimationFrame(() => {
    const after = new MessageChannel();
    after.port1.onmessage = () => done(performance.now());
    after.port2.postMessage(0);
  })),
  until: (holds) => new Promise((done) => {
    let over = false;
    const check = () => {
      if (over || !holds()) return;
      over = true;
      observer.disconnect();
      clearInterval(timer);
      bench.painted().then(done);
    };
    const observer = new MutationObserver(check);
    const timer = setInterval(check, 20);
    observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    check();
  }),
};
"""
_READY = "bench.until(() => ({holds})({argument})).then((at) => {{ bench.ready = at; }});"
_TIMED = """() => {{
  bench.took = null;
  const started = performance.now();
  Promise.resolve(({act})({argument})).then(() => bench.until(() => ({holds})({argument})))
    .then((at) => {{ bench.took = at - started; }});
}}"""


class TooSlowError(FailedError):
    """A page was not ready in time."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What a page uses, in MB."""

    heap: float
    """Live JavaScript objects, after a garbage collection."""
    renderer: float
    """Resident memory of the process that shows the page."""


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Chromium. Raises FailedError if there is none."""
    program = chromium(WHOLE)
    if program is None:
        raise FailedError("no chromium found. Install it (`apt-get install chromium`), or set AGENTV_CHROMIUM.")
    arguments = ["--no-sandbox", "--force-color-profile=srgb", "--js-flags=--expose-gc"]
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield launched
        finally:
            launched.close()


def profile(launched: Browser, **options: Any) -> BrowserContext:
    """A fresh profile, with nothing in its cache."""
    context = launched.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce", **options)
    context.set_default_timeout(SECONDS * 1000)
    context.add_init_script(_TIMING)
    return context


def open_page(context: BrowserContext, address: str, holds: str, argument: Any = None) -> tuple[Page, float]:
    """Open an address. Returns the page, and the milliseconds from the start of the navigation until it was ready.

    `holds` is a JavaScript function that is called with the argument.
    """
    page = context.new_page()
    page.add_init_script(_READY.format(holds=holds, argument=json.dumps(argument)))
    with _in_time(address):
        page.goto(address, wait_until="commit")
        return page, _number(page, "bench.ready")


def timed(page: Page, act: str, holds: str, argument: Any = None) -> float:
    """Call a JavaScript function in the page. Returns the milliseconds until the condition holds and was painted."""
    with _in_time(act):
        page.evaluate(_TIMED.format(act=act, holds=holds, argument=json.dumps(argument)))
        return _number(page, "bench.took")


def _number(page: Page, name: str) -> float:
    return float(page.wait_for_function(f"() => {name}").json_value())


@contextlib.contextmanager
def _in_time(what: str) -> Iterator[None]:
    try:
        yield
    except Error as error:
        raise TooSlowError(f"not ready after {SECONDS} s: {what[:200]}: {error.message[:300]}") from error


def memory(page: Page) -> Memory:
    """The memory that the page uses."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    launched = page.context.browser
    assert launched
    whole = launched.new_browser_cdp_session()
    processes = whole.send("SystemInfo.getProcessInfo")["processInfo"]
    whole.detach()
    sizes = [_resident(process["id"]) for process in processes if process["type"] == "renderer"]
    return Memory(heap / 1e6, max(sizes, default=0.0))


def _resident(process: int) -> float:
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    kilobytes = next((line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")), "0")
    return int(kilobytes) / 1000


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]
