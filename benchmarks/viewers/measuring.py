"""Opens the list of a viewer and some of its samples, and measures both."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from playwright.sync_api import Browser, BrowserContext, Page

from benchmarks.browsing import memory, open_page, profile, timed
from benchmarks.large_run import Shape, write_large_run
from benchmarks.peers.running import Installed, NotRunError
from benchmarks.viewers.tools import Ready, Viewer, samples_in

SAMPLES = 8
"""Samples that are opened in each turn."""
_STARTING = 60


def write_samples(directory: Path, count: int) -> None:
    """A run of agentv, and the same results as samples for the other tools. Errored rows are left out there."""
    write_large_run(directory, Shape(rows=count, targets=("model",)))
    with (directory / "cases.jsonl").open(encoding="utf-8") as lines:
        cases = {case["eval_id"]: case for case in map(json.loads, lines)}
    samples = []
    with (directory / "results.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["error"] is None:
                case = cases[row["eval_id"]]
                samples.append(
                    {
                        "id": row["eval_id"],
                        "question": case["input_messages"][-1]["content"],
                        "expected": case["expected_outcome"],
                        "answer": row["candidate_answer"],
                        "score": row["score"],
                        "reasoning": row["evaluator_results"][0]["reasoning"],
                    }
                )
    (directory / "samples.json").write_text(json.dumps(samples), encoding="utf-8")


def compressed(files: list[bytes]) -> int:
    """Bytes of files that are compressed one by one."""
    return sum(len(gzip.compress(file, 9, mtime=0)) for file in files)


def measure(
    launched: Browser,
    viewer: Viewer,
    installed: Installed,
    directory: Path,
    to: Path,
    turns: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """The figures of one viewer with the samples in the directory."""
    started = time.perf_counter()
    ready = viewer.prepare(installed.commands, to, directory)
    prepared = time.perf_counter() - started
    listed: list[float] = []
    opened: list[float] = []
    elsewhere: set[str] = set()
    figures: dict[str, Any] = {"prepared_s": prepared, "written_bytes": ready.written_bytes}
    with _serving(ready, to) as link:
        for turn in range(turns):
            say(f"{viewer.key}: turn {turn + 1} of {turns}")
            context = profile(launched)
            try:
                address = _log_in(context, ready, link)
                _note_hosts(context, address, elsewhere)
                page, took = open_page(context, address, viewer.listed)
                listed.append(took)
                figures["memory"] = asdict(memory(page))
                opened += _open_samples(page, viewer, directory)
            finally:
                context.close()
    return {**figures, "list_ms": listed, "sample_ms": opened, "elsewhere": sorted(elsewhere)}


def _open_samples(page: Page, viewer: Viewer, directory: Path) -> list[float]:
    shown = page.evaluate("document.body.textContent")
    able = [one for one in samples_in(directory) if not viewer.passed_only or one["score"] >= 0.8]
    chosen = [one for one in able if one["id"] in shown][:SAMPLES]
    if not chosen:
        raise NotRunError("the list shows no sample")
    took = []
    for one in chosen:
        took.append(timed(page, viewer.open, viewer.opened, one))
        timed(page, viewer.close, viewer.listed)
    return took


def _log_in(context: BrowserContext, ready: Ready, link: str | None) -> str:
    """The address to open. agentv prints a link that sets a cookie."""
    if link is None:
        return ready.address
    context.request.get(link)
    parts = urlsplit(link)
    return f"{parts.scheme}://{parts.netloc}/{ready.address}"


def _note_hosts(context: BrowserContext, address: str, elsewhere: set[str]) -> None:
    own = urlsplit(address).netloc

    def requested(request: Any) -> None:
        host = urlsplit(request.url).netloc
        if host not in {own, ""}:
            elsewhere.add(host)

    context.on("request", requested)


@contextlib.contextmanager
def _serving(ready: Ready, to: Path) -> Iterator[str | None]:
    """Run the server of a viewer. Gives the link that agentv prints, and None for others."""
    if ready.command is None:
        yield None
        return
    ours = "://" not in ready.address
    output = subprocess.PIPE if ours else subprocess.DEVNULL
    process = subprocess.Popen(
        ready.command,
        cwd=to,
        env=os.environ,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        if ours:
            assert process.stdout
            yield process.stdout.readline().strip()
        else:
            _wait_for(ready.address)
            yield None
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def _wait_for(address: str) -> None:
    parts = urlsplit(address)
    until = time.monotonic() + _STARTING
    while time.monotonic() < until:
        try:
            with urlopen(f"{parts.scheme}://{parts.netloc}/", timeout=5):
                return
        except HTTPError:
            return
        except (URLError, OSError):
            time.sleep(0.2)
    raise NotRunError(f"its server did not answer within {_STARTING} s")
