"""Kill `agentv eval` with SIGKILL repeatedly, resume it each time, and count damaged rows.

    python -m benchmarks.kill_resume --kills 1000 --cases 60 --workers 4 [--seed S] [--keep DIR]

Exits with code 1 if any row was lost, duplicated, corrupted, changed or torn, or if any run could not be finished.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

DELAY_MS = 15
FINISH_SECONDS = 120
HARMS = ("lost", "duplicated", "corrupt", "changed", "torn", "broken")

CONFIG = f"""\
targets:
  scripted:
    provider: mock
    response: Paris is the answer
    delay_ms: {DELAY_MS}
defaults:
  target: scripted
"""


@dataclass
class Tally:
    """The outcomes so far."""

    kills: int = 0
    runs: int = 0
    torn_before_resume: int = 0
    lost: int = 0
    duplicated: int = 0
    corrupt: int = 0
    changed: int = 0
    torn: int = 0
    broken: int = 0
    notes: list[str] = field(default_factory=list)

    def note(self, harm: str, count: int, text: str) -> None:
        if count:
            setattr(self, harm, getattr(self, harm) + count)
            self.notes.append(f"{harm}: {text}")

    @property
    def harmed(self) -> bool:
        return any(getattr(self, harm) for harm in HARMS)


class Bench:
    """Runs and kills one suite, in a new directory for each run."""

    def __init__(self, root: Path, cases: int, workers: int, rng: random.Random) -> None:
        self.root, self.cases, self.workers, self.rng = root, cases, workers, rng
        self.config = root / "agentv.config.yaml"
        self.config.write_text(CONFIG)
        self.suite = root / "suite.yaml"
        self.suite.write_text(suite_text(cases))
        self.tally = Tally()

    def command(self, run: Path) -> list[str]:
        """Start the run, or resume it if its run.json exists."""
        base = [sys.executable, "-m", "agentv.cli", "eval"]
        if (run / "run.json").exists():
            return [*base, "--resume", str(run), "--quiet"]
        options = ["--workers", str(self.workers), "--config", str(self.config), "--quiet"]
        return [*base, str(self.suite), "--run-dir", str(run), *options]

    def finish_one_run(self, run: Path, kills_left: int) -> None:
        """Kill and resume until the run is finished or the number of kills is reached; then let it finish."""
        self.tally.runs += 1
        before = b""
        while True:
            outcome, errors = self.attempt(run, may_kill=kills_left > 0)
            before = self.check_prefix(run, before)
            if outcome == -signal.SIGKILL:
                self.tally.kills += 1
                kills_left -= 1
                continue
            if outcome != 0:
                self.tally.note("broken", 1, f"{run.name}: exit code {outcome}: {errors.strip()[-500:]}")
            break
        self.check_finished(run)

    def attempt(self, run: Path, *, may_kill: bool) -> tuple[int, str]:
        """Run one process until it exits or is killed."""
        errors = run.with_suffix(".stderr")
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                self.command(run),
                cwd=self.root,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
        try:
            if may_kill and self.wait_for_the_moment(process, run / "results.jsonl"):
                process.kill()
            code = process.wait(FINISH_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = 1
            errors.write_text(f"it did not exit within {FINISH_SECONDS} s")
        return code, errors.read_text(errors="replace")

    def wait_for_the_moment(self, process: subprocess.Popen[bytes], results: Path) -> bool:
        """Some kills happen at any time, even during start-up; most happen while rows are being written."""
        until = time.monotonic() + FINISH_SECONDS
        if self.rng.random() < 0.2:
            until = time.monotonic() + self.rng.random() * 0.6
        else:
            goal = size_of(results) + self.rng.randrange(1, 15_000)
            while process.poll() is None and time.monotonic() < until and size_of(results) < goal:
                time.sleep(0.0005)
            until = time.monotonic() + self.rng.random() * DELAY_MS / 1000
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.0002)
        return process.poll() is None

    def check_prefix(self, run: Path, before: bytes) -> bytes:
        """Check that lines that were complete before the kill have not changed."""
        now = read(run / "results.jsonl")
        whole = now[: now.rfind(b"\n") + 1]
        self.tally.torn_before_resume += whole != now
        self.tally.note("changed", not whole.startswith(before), f"{run.name}: rows differ from before the kill")
        return whole

    def check_finished(self, run: Path) -> None:
        """Check that there is exactly one valid row per case."""
        data = read(run / "results.jsonl")
        self.tally.note("torn", not data.endswith(b"\n"), f"{run.name}: the last line has no newline")
        ids: list[str] = []
        for number, line in enumerate(data.splitlines(), 1):
            try:
                ids.append(json.loads(line)["eval_id"])
            except (ValueError, KeyError, TypeError) as error:
                self.tally.note("corrupt", 1, f"{run.name}: line {number}: {error}")
        set_aside = read(run / "results.corrupt.jsonl").count(b"\n")
        self.tally.note("corrupt", set_aside, f"{run.name}: {set_aside} lines were set aside")
        missing = {case_id(n) for n in range(self.cases)} - set(ids)
        self.tally.note("lost", len(missing), f"{run.name}: {sorted(missing)[:5]}")
        self.tally.note("duplicated", len(ids) - len(set(ids)), f"{run.name}: {len(ids)} rows, {len(set(ids))} cases")


def case_id(number: int) -> str:
    return f"case-{number:04}"


def suite_text(cases: int) -> str:
    check = "execution:\n  evaluators:\n    - {name: says-paris, type: contains, value: Paris}\n"
    listed = (
        f"  - id: {case_id(n)}\n    input: The capital of France? ({n})\n    expected_outcome: Paris\n"
        for n in range(cases)
    )
    return f"description: killed and resumed\n{check}evalcases:\n{''.join(listed)}"


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill_resume")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, help="a new directory for the runs, kept afterwards")
    options = parser.parse_args()
    print(
        f"{options.kills} kills, {options.cases} cases, {options.workers} workers, --seed {options.seed}",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="agentv-kills-") as temporary:
        root = options.keep or Path(temporary)
        root.mkdir(parents=True, exist_ok=True)
        bench = Bench(root.absolute(), options.cases, options.workers, random.Random(options.seed))
        started = time.monotonic()
        while bench.tally.kills < options.kills and not bench.tally.harmed:
            run = root.absolute() / f"run-{bench.tally.runs + 1:04}"
            bench.finish_one_run(run, options.kills - bench.tally.kills)
            if sys.stderr.isatty():
                print(
                    f"\r{bench.tally.kills} kills, {bench.tally.runs} runs",
                    end="",
                    file=sys.stderr,
                    flush=True,
                )
        seconds = time.monotonic() - started
    return report(bench.tally, seconds)


def report(tally: Tally, seconds: float) -> int:
    print(f"{tally.kills} kills in {tally.runs} runs, {seconds:.0f} s")
    print(f"torn lines removed on resume: {tally.torn_before_resume}")
    print(" / ".join(HARMS) + ": " + " / ".join(str(getattr(tally, harm)) for harm in HARMS))
    for note in tally.notes[:20]:
        print(f"  {note}")
    return 1 if tally.harmed else 0


if __name__ == "__main__":
    sys.exit(main())
