"""Kill `agentv eval` with SIGKILL while targets and judges are called, resume it, and count calls that were repeated.

    python -m benchmarks.kill_calls --kills 200 --cases 12 --workers 3 [--kinds llm,script,talk,...] [--seed S]

The target and the judge are servers on loopback that count the calls for each case. A call may be repeated only if its
reply was not on disk at a kill, and a kill may cost at most as many target calls as there are workers. Exits with code
1 if more calls were repeated, if a row or a line of `--out` is missing or duplicated, if the judge calls of a row were
not counted, or if `answers.jsonl` is left behind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.testing.model_server import FakeModelServer

KINDS = ("llm", "script", "warm", "lines", "check", "talk")
SPEEDS = {"fast": 0.002, "slow": 0.12}
"""Seconds of a judge call."""
TARGET_SECONDS = {"check": 0.15}
"""Seconds of a target call by kind; 0.03 by default. An answer that is checked immediately is recorded with its row."""
CALLS = 3
"""Judge calls of a script."""
TURNS = 3
"""Turns of a conversation."""
JUDGE_CALLS = {"llm": 1, "check": None, "talk": 1}
"""Judge calls of a row by kind, if not those of a script."""
FINISH_SECONDS = 120
VERDICT = json.dumps({"score": 1, "hits": [], "misses": [], "reasoning": "fine"})
ID = re.compile(r"case-\d{4}(?:-call-\d)?")
SCRIPT = f"""\
from agentv_eval import create_judge_proxy_client, define_code_judge

def judge(payload):
    client = create_judge_proxy_client()
    for number in range({CALLS}):
        client.invoke(question=f"{{payload.eval_id}}-call-{{number}}")
    return {{"score": 1}}

define_code_judge(judge)
"""
EVALUATORS = {
    "llm": "{name: judge, type: llm_judge}",
    "script": "{name: judge, type: code_judge, script: [python, judge.py], judge: true}",
    "warm": "{name: judge, type: code_judge, script: [python, judge.py], judge: true, warm: true}",
    "lines": "{name: judge, type: code_judge, script: [python, judge.py], judge: true, protocol: jsonl}",
    "check": "{name: check, type: contains, value: Paris}",
    "talk": "{name: judge, type: llm_judge}",
}


@dataclass
class Calls:
    """The calls of one server, by id."""

    seen: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    """Calls whose replies were not on disk at a kill."""
    since_kill: set[str] = field(default_factory=set)

    def answer(self, body: Any, reply: str) -> str:
        text = json.dumps(body["messages"])
        call = last_of(ID.findall(text))
        self.seen[call] += 1
        self.since_kill.add(call)
        return reply

    def note_kill(self, on_disk: set[str]) -> int:
        """Note the calls whose replies are not on disk; returns their number."""
        lost = self.since_kill - on_disk
        self.since_kill.clear()
        self.lost.update(lost)
        return len(lost)

    def excess(self) -> dict[str, int]:
        """Calls that were repeated although their reply was on disk."""
        return {call: count for call, count in self.seen.items() if count > 1 + self.lost[call]}


@dataclass
class Tally:
    kills: int = 0
    runs: int = 0
    target_calls: int = 0
    judge_calls: int = 0
    lost_target_calls: int = 0
    lost_judge_calls: int = 0
    harms: list[str] = field(default_factory=list)

    def harm(self, happened: object, text: str) -> None:
        if happened:
            self.harms.append(text)


@dataclass
class Bench:
    """Runs and kills suites, in a new directory for each run."""

    root: Path
    cases: int
    workers: int
    rng: random.Random
    tally: Tally = field(default_factory=Tally)

    @property
    def ids(self) -> list[str]:
        return [f"case-{n:04}" for n in range(self.cases)]

    async def finish_one_run(self, kind: str, speed: str, most_kills: int) -> None:
        """Kill and resume a run until it has finished; after `most_kills` kills, let it finish."""
        self.tally.runs += 1
        name = f"run-{self.tally.runs:04}-{kind}-{speed}"
        project = self.root / name
        project.mkdir()
        asked, judged = Calls(), Calls()
        delay = TARGET_SECONDS.get(kind, 0.03)
        target = FakeModelServer(lambda body: asked.answer(body, "Paris"), delay=delay, keep_requests=False)
        judge = FakeModelServer(lambda body: judged.answer(body, VERDICT), delay=SPEEDS[speed], keep_requests=False)
        async with target, judge:
            self._write(project, kind, target.url, judge.url)
            kills = 0
            while True:
                code, errors = await self._attempt(project, [target, judge], may_kill=kills < most_kills)
                if code != -signal.SIGKILL:
                    break
                kills += 1
                await until(lambda: not target.in_flight and not judge.in_flight)
                rows = ids_in(project / "run" / "results.jsonl", kind)
                lost = asked.note_kill(rows | ids_in(project / "run" / "answers.jsonl", kind))
                self.tally.harm(lost > self.workers, f"{name}: a kill cost {lost} target calls")
                self.tally.lost_target_calls += lost
                replies = set(replies_in(project / "run" / "judge_calls.jsonl"))
                cases = {call[:9] for call in rows}
                in_rows = {call for call in judged.seen if call[:9] in cases}
                self.tally.lost_judge_calls += judged.note_kill(replies | in_rows)
            self.tally.kills += kills
            self.tally.harm(code, f"{name}: exit code {code}: {errors.strip()[-500:]}")
            self.tally.target_calls += asked.seen.total()
            self.tally.judge_calls += judged.seen.total()
            self._check(project, asked, judged, JUDGE_CALLS.get(kind, CALLS))

    def _write(self, project: Path, kind: str, target: str, judge: str) -> None:
        server = "provider: openai, model: fake, api_key: none, max_retries: 0"
        (project / "agentv.config.yaml").write_text(
            f"targets:\n  asked: {{{server}, base_url: '{target}', judge_target: judge}}\n"
            f"  judge: {{{server}, base_url: '{judge}'}}\ndefaults: {{target: asked}}\n"
        )
        (project / "judge.py").write_text(SCRIPT)
        listed = "".join(f"  - {{id: {case}, {asked_in(case, kind)}, expected_outcome: Paris}}\n" for case in self.ids)
        (project / "suite.yaml").write_text(f"execution:\n  evaluators: [{EVALUATORS[kind]}]\nevalcases:\n{listed}")

    async def _attempt(self, project: Path, servers: list[FakeModelServer], *, may_kill: bool) -> tuple[int, str]:
        """Run one process until it exits or is killed."""
        command = [sys.executable, "-m", "agentv.cli", "eval", "--quiet"]
        if (project / "run" / "run.json").exists():
            command += ["--resume", "run"]
        else:
            command += ["suite.yaml", "--run-dir", "run", "--out", "rows.jsonl", "--workers", str(self.workers)]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=project, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        output = asyncio.create_task(process.communicate())
        try:
            async with asyncio.timeout(FINISH_SECONDS):
                if may_kill:
                    await self._moment(process, servers)
                    if process.returncode is None:
                        process.kill()
                _, errors = await asyncio.shield(output)
        except TimeoutError:
            process.kill()
            await output
            return 1, f"it did not exit within {FINISH_SECONDS} s"
        return process.returncode or 0, errors.decode(errors="replace")

    async def _moment(self, process: asyncio.subprocess.Process, servers: list[FakeModelServer]) -> None:
        """A few kills happen at any time, even during start-up; most happen a moment after one of the next calls."""
        seconds = self.rng.random() * 0.6
        if self.rng.random() > 0.1:
            goal = sum(server.calls for server in servers) + self.rng.randrange(1, 4 * self.workers)
            await until(lambda: process.returncode is not None or sum(server.calls for server in servers) >= goal)
            seconds = self.rng.random() * 0.1
        ends_at = time.monotonic() + seconds
        await until(lambda: process.returncode is not None or time.monotonic() >= ends_at)

    def _check(self, project: Path, asked: Calls, judged: Calls, calls: int | None) -> None:
        name, run = project.name, project / "run"
        wanted = self.ids
        rows = [json.loads(line) for line in (run / "results.jsonl").read_bytes().splitlines()]
        found = sorted(row["eval_id"] for row in rows)
        self.tally.harm(found != wanted, f"{name}: the rows must be {wanted}, got {found}")
        self.tally.harm(any(row["error"] for row in rows), f"{name}: a row has an error")
        same = (project / "rows.jsonl").read_bytes() == (run / "results.jsonl").read_bytes()
        self.tally.harm(not same, f"{name}: --out is not a copy of the results")
        self.tally.harm((run / "answers.jsonl").exists(), f"{name}: answers.jsonl was left behind")
        for what, server in (("target", asked), ("judge", judged)):
            self.tally.harm(server.excess(), f"{name}: {what} calls repeated without need: {server.excess()}")
        for row in rows:
            result = row["evaluator_results"][0]
            ledger = result.get("judge_proxy") or result.get("judge") or {}
            counted = ledger.get("call_count")
            self.tally.harm(counted != calls, f"{name}: {row['eval_id']} has {counted} judge calls, not {calls}")


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - some of the conditions are about another process
        await asyncio.sleep(0.001)


def whole_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The complete lines of a file; a torn line at its end is not on disk."""
    data = path.read_bytes() if path.exists() else b""
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        yield json.loads(line)


def asked_in(case: str, kind: str) -> str:
    """The input of a case. Each turn of a conversation has the id of its call."""
    if kind != "talk":
        return f"input: The capital of France? ({case})"
    return f"turns: [{', '.join(f'{{input: Again? {case}-call-{turn}}}' for turn in range(TURNS))}]"


def last_of(calls: list[str]) -> str:
    """The id of the last call: that of its case is shorter, and a conversation contains those of earlier turns."""
    return max(reversed(calls), key=len)


def ids_in(path: Path, kind: str) -> set[str]:
    """The target calls whose answers are in the file."""
    if kind != "talk":
        return {line["eval_id"] for line in whole_lines(path)}
    turns = ((line, line.get("turn", 1) - 1 + n) for line in whole_lines(path) for n in range(len(line["turns"])))
    return {f"{line['eval_id']}-call-{number}" for line, number in turns}


def replies_in(path: Path) -> Iterator[str]:
    for line in whole_lines(path):
        if line["status"] == "ok" and (calls := ID.findall(json.dumps([line.get("question"), line.get("messages")]))):
            yield last_of(calls)


async def soak(options: argparse.Namespace, root: Path) -> Tally:
    bench = Bench(root, options.cases, options.workers, random.Random(options.seed))
    turn = 0
    combinations = [(kind, speed) for speed in SPEEDS for kind in options.kinds.split(",")]
    while bench.tally.kills < options.kills and not bench.tally.harms:
        kind, speed = combinations[turn % len(combinations)]
        turn += 1
        await bench.finish_one_run(kind, speed, min(options.kills_per_run, options.kills - bench.tally.kills))
        if sys.stderr.isatty():
            print(f"\r{bench.tally.kills} kills, {bench.tally.runs} runs", end="", file=sys.stderr, flush=True)
    return bench.tally


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill_calls")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--kills-per-run", type=int, default=8)
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of judges, separated by commas")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, help="a new directory for the runs, kept afterwards")
    options = parser.parse_args()
    print(f"{options.kills} kills, {options.cases} cases, {options.workers} workers, --seed {options.seed}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agentv-calls-") as temporary:
        root = (options.keep or Path(temporary)).absolute()
        root.mkdir(parents=True, exist_ok=True)
        tally = asyncio.run(soak(options, root))
    print(f"{tally.kills} kills in {tally.runs} runs, {time.monotonic() - started:.0f} s")
    print(f"target calls: {tally.target_calls}, of which {tally.lost_target_calls} were in flight at a kill")
    print(f"judge calls: {tally.judge_calls}, of which {tally.lost_judge_calls} were in flight at a kill")
    print(f"problems: {len(tally.harms)}")
    for harm in tally.harms[:20]:
        print(f"  {harm}")
    return 1 if tally.harms else 0


if __name__ == "__main__":
    sys.exit(main())
