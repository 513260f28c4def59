"""The viewer with a run of 100,000 rows of 3.5 kB: from the local server, and as one HTML file.

Times are taken in the page, until what was asked for is painted (see `browsing.py`). The measure for opening a run is
`JSON.parse` of its columns as JSON in the same browser.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from http.client import HTTPConnection
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from playwright.sync_api import Browser, Page
from tests.view.opening import Server

from agentv.view import assets
from agentv.view.library import Library
from benchmarks.browsing import browser, memory, open_page, percentile, profile, timed
from benchmarks.large_run import RUN_ID, Shape, write_large_run
from benchmarks.measure import FailedError, agentv, median, run
from benchmarks.options import Options
from benchmarks.report import Figure, Report

NAME = "viewer"
RUN = f"#/run/{RUN_ID}"
LISTED = "() => document.querySelectorAll('main [role=gridcell]').length > 20"
_PARSE = """([text, turns]) => {
  const took = [];
  for (let turn = 0; turn < turns; turn++) {
    const started = performance.now();
    const rows = JSON.parse(text);
    took.push(performance.now() - started);
    if (!rows.count) throw new Error("the columns are empty");
  }
  return took;
}"""
_SCROLL = """async (places) => {
  // From the scroll event, before the table draws, until the new rows have their style and layout (drawn), and until
  // the frame with them was painted.
  const frame = document.querySelector(".grid-frame");
  const drawn = [], painted = [];
  let started = 0;
  const begin = () => (started ||= performance.now());
  const end = () => {
    frame.querySelector(".grid-body").lastElementChild.getBoundingClientRect();
    drawn.push(performance.now() - started);
  };
  addEventListener("scroll", begin, { capture: true });
  frame.addEventListener("scroll", end);
  for (const place of places) {
    started = 0;
    const before = frame.scrollTop;
    frame.scrollTop = place < 0 ? before - place : place * (frame.scrollHeight - frame.clientHeight);
    if (frame.scrollTop === before) continue;
    const ended = await bench.painted();
    if (started) painted.push(ended - started);
    await new Promise((done) => setTimeout(done));
  }
  removeEventListener("scroll", begin, { capture: true });
  frame.removeEventListener("scroll", end);
  return { drawn, painted };
}"""
_GO = "(to) => { location.hash = to.hash; }"
_SORTED = """(to) => {
  const head = document.querySelector(`[role=columnheader][data-column="${to.text.replace("-", "")}"]`);
  return head?.getAttribute("aria-sort") === (to.text.startsWith("-") ? "descending" : "ascending");
}"""
_SORTS = ("score", "-score", "id", "-id")
_FILTER = "(to) => { bench.before = document.querySelector('[role=grid]').ariaRowCount; location.hash = to.hash; }"
_FILTERED = "() => document.querySelector('[role=grid]').ariaRowCount !== bench.before"
_FILTERS = ("score<0.5", "metadata.lang=fr and verdict=fail", "tag=billing", "id~42")
_NEXT = "() => { document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'j', bubbles: true })); }"
_OPENED = "(before) => document.title !== before && !document.querySelector('main').hasAttribute('aria-busy')"
_READ_MS = 400
"""How long a reader looks at a case before the next one: long enough for loading it ahead."""
Place = dict[str, str]
"""`hash` is an address, `text` is what its page shows."""
_SHOWN = "(to) => location.hash === to.hash && document.querySelector('main').textContent.includes(to.text)"


def measure(options: Options) -> Report:
    rows = options.pick(100_000, 300)
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary, browser() as launched:
        project = Path(temporary)
        options.say(f"writing a run of {rows:,} rows ...")
        sizes = write_large_run(project / ".agentv" / "runs" / RUN_ID, Shape(rows=rows))
        cases = _cases(project, options.pick(40, 3))
        served = _server(launched, project, cases, options)
        written = _file(launched, project, cases, options)
    code = len(gzip.compress((assets.script() + assets.style()).encode("utf-8"), 9, mtime=0)) / 1000
    figures = [
        *_opening(served),
        *_working(served, "server"),
        *_writing(written),
        *_working(written, "file"),
        Figure("our code, compressed", code, "kB", goal=60),
    ]
    figures.insert(3, Figure("server: columns as JSON", served["characters"] / 1e6, "MB"))
    figures.insert(4, Figure("server: columns as sent", served["bytes"] / 1e6, "MB"))
    details = {"rows": rows, "megabytes": sizes, "server": served, "file": written}
    notes = [
        "scrolling: from the scroll event until the rows have style and layout (drawn) and until the frame was painted;"
        " half of the steps are jumps, half 3 rows",
        "JSON.parse of the columns: as JSON, with a list for each column; pages get the same columns as bytes",
        "opening a case, filtering and sorting: from the change of the address until the result was painted",
        "next case: the key j, 0.4 s after the case before was opened; the server has loaded it ahead",
        "the file is measured when it was read to its end; its table is there before",
    ]
    return Report(NAME, figures, details=details, notes=notes)


def _opening(served: dict[str, Any]) -> list[Figure]:
    parse, ready = median(served["parse_ms"]), median(served["ready_ms"])
    return [
        Figure("server: ready / JSON.parse of the columns", ready / parse, goal=3.0),
        Figure("server: ready", ready, "ms"),
        Figure("server: JSON.parse of the columns", parse, "ms"),
        Figure("server: ready, just started, with the cache", median(served["restarted_ms"]), "ms"),
        Figure("server: ready, just started, first time (no cache)", served["first_ms"], "ms"),
        Figure("server: agentv view, until it prints the link", median(served["start_s"]), "s"),
        Figure("server: agentv view, until the first reply", median(served["reply_s"]), "s"),
        Figure("server: JavaScript heap", served["memory"]["heap"], "MB"),
    ]


def _writing(written: dict[str, Any]) -> list[Figure]:
    return [
        Figure("file: size", written["megabytes"], "MB"),
        Figure("file: time to write", written["write_s"], "s"),
        Figure("file: CPU time to write", written["write_cpu_s"], "s", goal=60),
        Figure("file: peak memory of the writer", written["writer_mb"], "MB"),
        Figure("file: ready", median(written["ready_ms"]), "ms", goal=2_000),
        Figure("file: read to its end", median(written["loaded_ms"]), "ms"),
        Figure("file: JavaScript heap", written["memory"]["heap"], "MB"),
        Figure("file: memory of the renderer", written["memory"]["renderer"], "MB"),
    ]


def _working(measured: dict[str, Any], where: str) -> list[Figure]:
    scrolls, cases = measured["scroll_ms"], measured["case_ms"]
    return [
        *(
            Figure(
                f"{where}: scroll, drawn, p{p}", percentile(scrolls["drawn"], p / 100), "ms", 16.0 if p == 95 else None
            )
            for p in (50, 95, 99)
        ),
        *(Figure(f"{where}: scroll, painted, p{p}", percentile(scrolls["painted"], p / 100), "ms") for p in (50, 95)),
        *(
            Figure(f"{where}: open a case, p{p}", percentile(cases, p / 100), "ms", 50.0 if p == 95 else None)
            for p in (50, 95)
        ),
        *(Figure(f"{where}: next case, p{p}", percentile(measured["next_ms"], p / 100), "ms") for p in (50, 95)),
        Figure(f"{where}: filter", median(measured["filter_ms"]), "ms"),
        Figure(f"{where}: sort", median(measured["sort_ms"]), "ms"),
    ]


def _server(launched: Browser, project: Path, cases: Sequence[Place], options: Options) -> dict[str, Any]:
    """Figures of `agentv view`."""
    turns = options.pick(3, 1)
    figures: dict[str, Any] = {"ready_ms": [], "restarted_ms": [], "start_s": [], "reply_s": []}
    for turn in range(turns + 1):
        options.say(f"server: started, {turn + 1} of {turns + 1}")
        with _started(project, figures) as server:
            took = _ready(launched, server)
        if turn == 0:
            figures["first_ms"] = took
        else:
            figures["restarted_ms"].append(took)
    with Server(project) as server:
        _ready(launched, server)
        options.say("server: JSON.parse")
        page, _ = _opened(launched, server, "#/", "() => document.querySelector('main h1')")
        columns = Library(project).column_data(RUN_ID)
        text = json.dumps(columns, ensure_ascii=False, separators=(",", ":"))
        figures["parse_ms"] = page.evaluate(_PARSE, [text, options.pick(9, 2)])
        figures["characters"], figures["bytes"] = len(text), len(Library(project).columns(RUN_ID)[0])
        page.context.close()
        for turn in range(options.pick(5, 1)):
            options.say(f"server: ready, {turn + 1}")
            figures["ready_ms"].append(_ready(launched, server))
        page, _ = _opened(launched, server, RUN, LISTED)
        options.say("server: scrolling, opening, filtering, sorting")
        figures |= _work(page, cases, options)
        page.context.close()
    return figures


def _file(launched: Browser, project: Path, cases: Sequence[Place], options: Options) -> dict[str, Any]:
    """Figures of `agentv report --format html`."""
    options.say("file: writing")
    report = project / "report.html"
    used = run(agentv("report", RUN_ID, "--format", "html", "--with", "all", "-o", report.name), cwd=project)
    figures: dict[str, Any] = {
        "write_s": used.wall,
        "write_cpu_s": used.cpu,
        "writer_mb": used.peak_mb,
        "megabytes": report.stat().st_size / 1e6,
        "ready_ms": [],
        "loaded_ms": [],
    }
    for turn in range(options.pick(5, 1)):
        options.say(f"file: ready, {turn + 1}")
        page, ready = open_page(profile(launched, offline=True), report.as_uri() + RUN, LISTED)
        figures["ready_ms"].append(ready)
        figures["loaded_ms"].append(_loaded(page))
        page.context.close()
    page, _ = open_page(profile(launched, offline=True), report.as_uri() + RUN, LISTED)
    _loaded(page)
    options.say("file: scrolling, opening, filtering, sorting")
    figures |= _work(page, cases, options)
    page.context.close()
    return figures


def _loaded(page: Page) -> float:
    """Milliseconds until the browser has read the whole file: from then on, every case opens without waiting."""
    page.wait_for_load_state("load")
    return float(page.evaluate("() => performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"))


def _work(page: Page, cases: Sequence[Place], options: Options) -> dict[str, Any]:
    """What a reader does with an open run."""
    figures: dict[str, Any] = {"memory": asdict(memory(page))}
    choose = random.Random(3)
    places = [choose.random() if n % 2 else -96 for n in range(options.pick(400, 10))]
    figures["scroll_ms"] = page.evaluate(_SCROLL, places)
    turns = options.pick(2, 1)
    sorts = [{"hash": f"{RUN}?s={column}", "text": column} for column in _SORTS * turns]
    figures["sort_ms"] = [timed(page, _GO, _SORTED, to) for to in sorts]
    filters = [{"hash": f"{RUN}?f={quote(text)}"} for text in _FILTERS * turns]
    figures["filter_ms"] = [timed(page, _FILTER, _FILTERED, to) for to in filters]
    figures["case_ms"] = [timed(page, _GO, _SHOWN, case) for case in cases]
    figures["next_ms"] = []
    for _ in cases:
        page.wait_for_timeout(_READ_MS)
        figures["next_ms"].append(timed(page, _NEXT, _OPENED, page.title()))
    return figures


def _cases(project: Path, count: int) -> list[Place]:
    """Rows anywhere in the run: the address of each, and the end of its answer."""
    with (project / ".agentv" / "runs" / RUN_ID / "results.jsonl").open("rb") as lines:
        starts = [0, *accumulate(map(len, lines))]
        chosen = random.Random(5).sample(range(len(starts) - 1), 2 * count)
        rows = []
        for number in chosen:
            lines.seek(starts[number])
            rows.append(json.loads(lines.readline()))
    return [
        {
            "hash": f"{RUN}/case/{row['suite']}/{row['eval_id']}/{row['target']}/{row['attempt']}",
            "text": row["candidate_answer"][-60:],
        }
        for row in rows
        if row["error"] is None
    ][:count]


@contextlib.contextmanager
def _started(project: Path, figures: dict[str, Any]) -> Iterator[Server]:
    """A server of its own; how long it took to print its link and to reply."""
    started = time.perf_counter()
    with Server(project) as server:
        figures["start_s"].append(time.perf_counter() - started)
        parts = urlsplit(server.link)
        connection = HTTPConnection(parts.netloc)
        connection.request("GET", f"{parts.path}?{parts.query}")
        if (status := connection.getresponse().status) != 303:
            raise FailedError(f"the link of `agentv view` must redirect, got status {status}")
        figures["reply_s"].append(time.perf_counter() - started)
        connection.close()
        yield server


def _opened(launched: Browser, server: Server, place: str, holds: str) -> tuple[Page, float]:
    context = profile(launched)
    server.log_in(context)
    return open_page(context, f"{server.origin}/{place}", holds)


def _ready(launched: Browser, server: Server) -> float:
    """Milliseconds until the page of the run shows rows, in a fresh profile."""
    page, took = _opened(launched, server, RUN, LISTED)
    page.context.close()
    return took
