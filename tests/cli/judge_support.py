"""A project with judge scripts, and helpers to run `agentv judge` and read its output while it runs."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pytest

from tests.conftest import AGENTV, Project

CONFIG = """\
targets:
  assistant: {provider: mock, response: The capital of France is Paris.}
  strict:
    provider: mock
    rules: [{match: Paris, response: "yes"}]
    response: "no\\nnot that I know"
    token_usage: {input: 40, output: 1}
    cost_usd: 0.001
  keyed: {provider: openai, model: m, api_key: '${{ JUDGE_KEY }}'}
  broken: {provider: mock, status: 500, max_retries: 0}
defaults: {target: assistant, judge_target: strict}
"""

SUITE = """\
evalcases:
  - id: france
    input: What is the capital of France?
    metadata: {source: an atlas}
    evaluators:
      - name: asks
        type: code_judge
        script: [python, judges/asks.py]
        judge: {max_calls: 3}
        config: {word: Paris}
        env: {COLOUR: blue}
        timeout_seconds: 60
      - {name: plain, type: code_judge, script: [python, judges/plain.py]}
      - {type: contains, value: Paris}
  - id: italy
    input: What is the capital of Italy?
    evaluators: [{type: contains, value: Rome}]
"""

ASKS = """\
import os
from agentv_eval import code_judge

@code_judge
def asks(input, judge):
    print("colour", os.environ.get("COLOUR"))
    reply = judge.invoke(question=f"Is this right?\\n{input.candidate_answer}")
    return {
        "score": 0.75,
        "hits": ["named it"],
        "misses": ["said nothing else"],
        "reasoning": f"the judge said {reply.raw_text}",
        "details": {"word": (input.config or {}).get("word")},
    }
"""

PLAIN = """\
import json, sys
case = json.load(sys.stdin)
print(json.dumps({"score": 1 if "Paris" in case["candidate_answer"] else 0}))
"""


@pytest.fixture
def judges(project: Project) -> Project:
    """A project with a suite and two judge scripts in `evals`, and the configuration in its root."""
    project.write("agentv.config.yaml", CONFIG)
    project.write("evals/suite.yaml", SUITE)
    project.write("evals/judges/asks.py", ASKS)
    project.write("evals/judges/plain.py", PLAIN)
    return project


def judged(project: Project, *arguments: str, stdin: str | None = None, **env: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON output of `agentv judge run --json`."""
    done = project.run("judge", "run", "--json", *arguments, stdin=stdin, env=env)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@contextmanager
def started(project: Project, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A running command that handles signals even if the test runner ignores them."""
    process = subprocess.Popen(
        [*AGENTV, "judge", *arguments],
        cwd=project.root,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no thread is running
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(stream: IO[str] | None, wanted: str) -> str:
    """The output up to the line that contains this text."""
    assert stream is not None
    seen = ""
    for line in stream:
        seen += line
        if wanted in line:
            return seen
    raise AssertionError(f"{wanted!r} was not printed, but:\n{seen}")
