"""Kill writers at random moments and print the damage as one JSON object.

    python -m tests.record.kill_loop rows DIRECTORY KILLS SEED
    python -m tests.record.kill_loop manifest DIRECTORY KILLS SEED

Writers are forked, so that each kill takes only milliseconds.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from agentv.record.recovery import recover
from agentv.record.rows import encode_row
from agentv.record.run_dir import RunDirectory
from tests.record.children import answer_of, say, write
from tests.record.rows import make_row

CASES = 40


def run_and_kill(work: Callable[[], None], words: int, delay: float) -> tuple[list[str], bool]:
    """Fork, wait for the given number of words and a delay, then kill. Returns its output and whether it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        try:
            work()
        finally:
            os._exit(0)
    os.close(writing)
    output = b""
    while output.count(b"\n") < words and (chunk := os.read(reading, 65536)):
        output += chunk
    until = time.perf_counter() + delay
    while time.perf_counter() < until:
        pass
    os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as rest:
        output += rest.read()
    _, status = os.waitpid(child, 0)
    return output.decode().split(), os.WIFSIGNALED(status)


def kill_row_writers(directory: Path, kills: int, rng: random.Random) -> dict[str, int]:
    harms = ["lost", "changed", "corrupt", "duplicates", "torn_after_heal"]
    counts = dict.fromkeys(["kills", "runs", "torn", *harms], 0)
    while counts["kills"] < kills:
        run = RunDirectory.create(directory / f"run-{counts['runs']}", {})
        counts["runs"] += 1
        kill_until_finished(run, counts, rng)
        check_finished(run, counts)
    return counts


def kill_until_finished(run: RunDirectory, counts: dict[str, int], rng: random.Random) -> None:
    acknowledged: set[str] = set()
    before, killed = b"", True
    while killed:
        words, delay = rng.randrange(CASES // 3), rng.random() * 0.004
        output, killed = run_and_kill(lambda: asyncio.run(write(run, CASES)), words, delay)
        counts["kills"] += killed
        acknowledged |= set(output)
        now = run.results.read_bytes()
        whole = now[: now.rfind(b"\n") + 1]
        counts["torn"] += whole != now
        counts["changed"] += not whole.startswith(before)
        counts["lost"] += len(acknowledged - dict(whole_rows(whole)).keys())
        before = whole


def whole_rows(data: bytes) -> list[tuple[str, bytes]]:
    return [(json.loads(line)["eval_id"], line) for line in data.splitlines(keepends=True)]


def check_finished(run: RunDirectory, counts: dict[str, int]) -> None:
    """Assert that every case is recorded once, byte for byte."""
    recovery = recover(run)
    counts["corrupt"] += len(recovery.corrupt)
    counts["duplicates"] += len(recovery.duplicates)
    counts["torn_after_heal"] += recovery.torn_bytes > 0
    expected = {f"case-{n}": encode_row(make_row(f"case-{n}", answer_of(n))) for n in range(CASES)}
    rows = whole_rows(run.results.read_bytes())
    counts["duplicates"] += len(rows) - len(dict(rows))
    counts["lost"] += len(expected.keys() - dict(rows).keys())
    counts["changed"] += sum(expected[name] != line for name, line in rows)


def rewrite_manifest(run: RunDirectory) -> None:
    for number in itertools.count(run.read_manifest()["number"] + 1):
        run.write_manifest({"number": number, "filler": "x" * (number * 3701 % 90_000), "end": number})
        say(str(number))


def kill_manifest_writers(directory: Path, kills: int, rng: random.Random) -> dict[str, int]:
    run = RunDirectory.create(directory / "run", {"number": 0, "end": 0})
    counts = dict.fromkeys(["kills", "unreadable", "neither_old_nor_new", "left_over"], 0)
    while counts["kills"] < kills:
        last = run.read_manifest()["number"]
        output, killed = run_and_kill(lambda: rewrite_manifest(run), rng.randrange(6), rng.random() * 0.004)
        counts["kills"] += killed
        acknowledged = int(output[-1]) if output else last
        try:
            data = json.loads(run.manifest.read_bytes())
        except ValueError:
            counts["unreadable"] += 1
            return counts
        counts["neither_old_nor_new"] += not acknowledged <= data["number"] == data["end"] <= acknowledged + 1
    known = {"run.json", ".run.json.tmp", "results.jsonl", "run.lock"}
    counts["left_over"] = len({path.name for path in run.path.iterdir()} - known)
    return counts


if __name__ == "__main__":
    what, where, kills, seed = sys.argv[1:]
    loop = {"rows": kill_row_writers, "manifest": kill_manifest_writers}[what]
    print(json.dumps(loop(Path(where), int(kills), random.Random(int(seed)))))
