"""Fixtures: a project in a temporary directory, and the real `agentv` command run in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import settings

from tests import forked
from tests.view.browsers import NO_BROWSER, chromium

# The same few examples every time, so that no change fails by chance. `AGENTV_HYPOTHESIS=default` generates new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=40)
settings.load_profile(os.environ.get("AGENTV_HYPOTHESIS", "repeatable"))

AGENTV = (sys.executable, "-m", "agentv")
TIMEOUT = 100
OF_CI = ("CI", "GITHUB_WORKSPACE", "FORCE_COLOR", "COLUMNS")
"""Variables of the surrounding environment that change the output; they are removed for the tests."""


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes parameters by their argument, so that all pytest-xdist workers collect the same test names."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run tests that need a browser last, or leave them out if there is none, before they make the runs they look at.

    Playwright's event loop runs in its worker until the end: a test with a loop of its own must not come after it.
    """
    in_browser = [item for item in items if "browser" in getattr(item, "fixturenames", ())]
    others = [item for item in items if "browser" not in getattr(item, "fixturenames", ())]
    if chromium() is None:
        config.hook.pytest_deselected(items=in_browser)
        items[:] = others
    else:
        items[:] = others + in_browser


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if chromium() is None:
        terminalreporter.write_line(f"Browser tests were skipped: {NO_BROWSER}.", yellow=True)


@contextmanager
def signals_heard() -> Iterator[None]:
    """Start programs with default signal handlers, even if the tests run under `nohup` or in the background."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class Project:
    """A project directory in which tests write files and run `agentv`."""

    root: Path

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in OF_CI}
        return {**inherited, "NO_COLOR": "1", **(extra or {})}

    def run(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        done = forked.run(arguments, cwd or self.root, self.environment(env), stdin or "", TIMEOUT)
        return done or subprocess.run(
            [*AGENTV, *arguments],
            cwd=cwd or self.root,
            env=self.environment(env),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
            input=stdin or "",
        )

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        with signals_heard():
            return subprocess.Popen(
                [*AGENTV, *arguments],
                cwd=self.root,
                env=self.environment(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

    def run_dirs(self) -> list[Path]:
        return sorted((self.root / ".agentv" / "runs").glob("*"))

    def rows(self, run: Path | None = None) -> list[dict[str, Any]]:
        path = (run or self.run_dirs()[-1]) / "results.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def manifest(self, run: Path | None = None) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(((run or self.run_dirs()[-1]) / "run.json").read_text(encoding="utf-8"))
        return data


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project with its own repository root."""
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    return Project(root)


@pytest.fixture
def capitals(project: Project) -> Project:
    """Three cases: one passes, one is borderline, one fails."""
    project.write(
        "agentv.config.yaml",
        """\
        targets:
          scripted:
            provider: mock
            rules:
              - {match: France, response: The capital is Paris.}
              - {match: Italy, response: Rome, token_usage: {input: 5, output: 1}, cost_usd: 0.001}
            response: I do not know.
        """,
    )
    project.write(
        "capitals.yaml",
        """\
        evalcases:
          - id: france
            input: What is the capital of France?
            evaluators:
              - {type: contains, value: Paris}
          - id: italy
            input: What is the capital of Italy?
            evaluators:
              - {name: names-rome, type: contains, value: Rome, weight: 7}
              - {name: whole-sentence, type: ends_with, value: ., weight: 3}
          - id: spain
            input: What is the capital of Spain?
            evaluators:
              - {type: contains, value: Madrid}
        """,
    )
    return project
