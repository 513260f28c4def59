"""A project whose target answers a case when the test lets it, so that a run can be watched while it is written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import AGENTV, OF_CI

CASES = ("one", "two", "three", "four")
RUN = "20261116-120000-0000held"
_TARGET = """\
import sys, time
from pathlib import Path

gate = Path("gates", sys.argv[1])
for _ in range(6000):
    if gate.exists():
        break
    time.sleep(0.02)
print(f"the answer to {sys.argv[1]}")
"""


class HeldProject:
    """Every case waits until its gate is opened. The answer to `four` does not pass."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "gates").mkdir(parents=True)
        (root / "target.py").write_text(_TARGET)
        target = {"provider": "cli", "command": ["python", "target.py", "{PROMPT}"]}
        (root / "agentv.config.yaml").write_text(json.dumps({"targets": {"app": target}}))
        answers = {name: f"the answer to {name}" if name != "four" else "something else" for name in CASES}
        cases = [
            {"id": name, "input": name, "evaluators": [{"type": "equals", "value": answer}]}
            for name, answer in answers.items()
        ]
        (root / "suite.yaml").write_text(json.dumps({"evalcases": cases}))
        self.run = root / ".agentv" / "runs" / RUN

    def let(self, *names: str) -> None:
        """Let these cases be answered."""
        for name in names:
            (self.root / "gates" / name).touch()

    def rows(self) -> int:
        try:
            return (self.run / "results.jsonl").read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    @contextmanager
    def running(self, *options: str, resume: bool = False, retry: bool = False) -> Iterator[subprocess.Popen[str]]:
        """A run in progress. It is killed at the end, unless it has finished."""
        which = ["suite.yaml", "--run-dir", str(self.run)]
        which = ["--resume", RUN] if resume else ["--retry-errors", RUN] if retry else which
        environment = {name: value for name, value in os.environ.items() if name not in OF_CI}
        process = subprocess.Popen(
            [*AGENTV, "eval", *which, *options],
            cwd=self.root,
            env={**environment, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_until(lambda: (self.run / "results.jsonl").exists() or process.poll() is not None)
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(0.02)
